# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes, for the tests: `run(body)` forks the script once for each rank, and each rank calls `body`
between init_process_group("tryst") and destroy_process_group, and ends as a script does. `run_jobs(body)` calls `body`
without a process group, for tests that run one program twice (`over`).

The number of ranks is the script's first argument. A run that takes longer than SECONDS is killed and fails.

An import of torch takes 2 s of a processor, so the script imports it once, and ranks are forks. Threads do not survive
a fork, so the script has one thread until the ranks exist: OMP_NUM_THREADS is 1 (test.sh), no process group is open, and
`start` counts. With FRESH, each rank starts the script anew.
"""

import datetime
import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import tryst_torch  # noqa: F401 (registers the backend)

SECONDS = int(os.environ.get("TEST_SECONDS", 240))
SHOW = False  # print also what ranks wrote that did not fail
FRESH = False
TIMEOUT = datetime.timedelta(seconds=60)
JOBS = itertools.count()  # of this process: each job has a store of its own


def gloo():
    """A process group of all ranks over gloo, which gives the results to compare with."""
    return dist.new_group(backend="gloo", timeout=TIMEOUT)


def check(condition, text):
    if not condition:
        raise AssertionError(f"rank {dist.get_rank() if dist.is_initialized() else '?'}: {text}")


def raises(pattern, function, *arguments, **named):
    """Call a function that must fail with a text that contains `pattern`; return the text."""
    try:
        function(*arguments, **named)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        check(pattern in str(error), f"the error lacks {pattern!r}: {error}")
        return str(error)
    raise AssertionError(f"no error where one with {pattern!r} is due")


def become(rank, size, folder):
    """Make this process a rank, with its output in a file."""
    os.environ.update(TEST_RANK=str(rank), TEST_SIZE=str(size), TEST_FOLDER=folder, GLOO_SOCKET_IFNAME="lo",
                      TORCH_TRYST_DUMP_FILE=f"{folder}/dump.%r", TORCH_FR_DUMP_TEMP_FILE=f"{folder}/fr.")
    output = os.open(f"{folder}/output.{rank}", os.O_WRONLY | os.O_CREAT, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    if FRESH:
        os.execv(sys.executable, [sys.executable, *sys.argv])


def start(size, folder):
    """Fork the ranks; return their process numbers. In a rank, return None."""
    if not FRESH:
        import torch._dynamo  # noqa: F401 (DDP imports it late, and so do waits that fail)
    check(len(os.listdir("/proc/self/task")) == 1, "a thread started before the ranks; is OMP_NUM_THREADS 1?")
    sys.stdout.flush()
    gc.freeze()  # no rank goes through torch's objects again, and so copies their pages, in collections and at its end
    children = []
    for rank in range(size):
        child = os.fork()
        if not child:
            become(rank, size, folder)
            return None
        children.append(child)
    return children


def wait(child, end):
    """Return the exit status of a child that ends until the time `end`; kill one that does not."""
    while time.monotonic() < end:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"still running after {SECONDS} s"


def finish(children, folder):
    """Wait for the ranks, print what the failed ones wrote, and return the exit status."""
    end = time.monotonic() + SECONDS
    failed = []
    for rank, child in enumerate(children):
        status = wait(child, end)
        if status:
            failed.append(rank)
            print(f"rank {rank}: {status}\n{open(f'{folder}/output.{rank}').read()}")
        elif SHOW:
            print(open(f"{folder}/output.{rank}").read(), end="")
    return 1 if failed else 0


def over(backend, program, *arguments):
    """Run a program as a job over a backend, one job for each backend; return what the program returns."""
    rank = int(os.environ["TEST_RANK"])
    torch.manual_seed(rank)
    dist.init_process_group(backend, init_method=f"file://{os.environ['TEST_FOLDER']}/store.{next(JOBS)}",
                            rank=rank, world_size=int(os.environ["TEST_SIZE"]), timeout=TIMEOUT)
    result = program(*arguments)
    if backend == "gloo":
        dist.barrier()  # gloo's ranks must not leave while others still connect
    dist.destroy_process_group()
    return result


def run(body, size=None):
    """Run `body` on the ranks, and end the process."""
    run_jobs(lambda: over("tryst", body), size)


def run_tests(tests):
    """Run the functions named test_… of `tests`, by name, on the ranks, with a barrier behind each; end the process."""
    def body():
        for name, test in sorted(tests.items()):
            if name.startswith("test_"):
                test()
                dist.barrier()

    run(body)


def run_rank(body):
    torch.set_num_threads(1)
    body()
    sys.exit(0)


def run_jobs(body, size=None):
    """Run `body` on the ranks without a process group, and end the process."""
    if "TEST_RANK" in os.environ:
        run_rank(body)
    folder = tempfile.mkdtemp()
    children = start(size or int(sys.argv[1]), folder)
    if children is None:
        run_rank(body)
    status = finish(children, folder)
    shutil.rmtree(folder)
    print("failed" if status else "passed", *map(os.path.basename, sys.argv))
    sys.exit(status)
