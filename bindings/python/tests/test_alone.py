# SPDX-License-Identifier: Apache-2.0
"""One process: ranks as threads that come together by an all-gather of their own, log lines, Ctrl-C, exits, forks.

    test_alone.py BUILD"""

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy

import tryst
from ranks import raises

RANKS = 3
WAITS = """
import numpy, tryst
group = tryst.open()
operation = group.recv(numpy.zeros(1), 0, name="never")
print("waits", flush=True)
"""


def check_threads():
    """RANKS contexts in one process; the GIL is free while one waits."""
    barrier, parts, lines, errors = threading.Barrier(RANKS), [b""] * RANKS, [], []

    def allgather(rank, mine):
        parts[rank] = mine
        barrier.wait(60)
        everything = list(parts)
        barrier.wait(60)
        return everything

    def rank_main(rank):
        with tryst.open(allgather=lambda mine: allgather(rank, mine), rank=rank, size=RANKS, timeout=60,
                        config={"log_level": "info"}, log=lambda level, line: lines.append((level, line)),
                        device_prefix=f"/job:threads/replica:0/task:{rank}") as group:
            for _ in range(100):
                assert group.allreduce(numpy.array([rank])).wait(60) == sum(range(RANKS))
            assert group.key_text(0, 1, "edge").startswith("/job:threads/")

    def guarded(rank):
        try:
            rank_main(rank)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors, errors
    assert lines and all(isinstance(level, int) and line for level, line in lines), lines


def check_refusals():
    raises(TypeError, "go with allgather", tryst.open, rank=1, size=2)
    raises(tryst.Error, "no_such", tryst.open, config={"no_such": 1})
    raises(ValueError, "2 of ", tryst.open, allgather=lambda mine: [mine], rank=0, size=2)
    raises(ZeroDivisionError, "", tryst.open, allgather=lambda mine: 1 / 0, rank=0, size=2)
    place = {"rank": 1, "size": 2, "bootstrap": "127.0.0.1:9", "token": "0" * 32}
    error = raises(tryst.GroupError, "BOOTSTRAP", tryst.open, config=place, timeout=0.2)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.status) == (type(error), str(error), error.status)


def check_closed():
    """After the close nothing crashes, and an array of `alloc` lives on."""
    group = tryst.open()
    shared, key = group.alloc(100), group.key(0, 0, "edge")
    shared[:] = 7
    operation = group.recv(numpy.zeros(1), 0, name="never")
    group.close()
    group.close()
    raises(tryst.ContextError, "CONTEXT", operation.wait)
    raises(tryst.Error, "", group.barrier)
    key.close()
    assert (shared == 7).all()
    del shared
    gc.collect()
    tryst.open().close()  # another group of the process


def script(text, *arguments):
    return subprocess.Popen([sys.executable, "-c", text, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, cwd="/")


def check_interrupt():
    child = script(WAITS + "operation.wait()")
    assert child.stdout.readline() == "waits\n", child.communicate()
    time.sleep(0.2)
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors and child.returncode, errors
    assert time.monotonic() - begin < 5


def check_exit():
    """An exit with an open group and operations under way, and one in a fork."""
    for end in "", "import sys; sys.exit(0)", "import os; pid = os.fork(); os.waitpid(pid, 0) if pid else None":
        child = script(WAITS + end)
        output, errors = child.communicate(timeout=60)
        assert (child.returncode, errors) == (0, "") and output.startswith("waits\n"), (child.returncode, errors)


os.environ.pop("TRYST_SIZE", None)
for check in check_threads, check_refusals, check_closed, check_interrupt, check_exit:
    check()
print("passed test_alone.py")
