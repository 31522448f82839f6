# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes, for the tests: `run(body)` starts this script once for each rank, and each rank calls
`body` between init_process_group("tryst") and destroy_process_group. `run_jobs(body)` calls `body` without a process
group, for tests that run one program twice (`over`).

The number of ranks is the script's first argument. A run that takes longer than SECONDS is killed and fails.
"""

import datetime
import itertools
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import tryst_torch  # noqa: F401 (registers the backend)

SECONDS = 240
SHOW = False  # print also what ranks wrote that did not fail
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


def start(size, folder):
    """Start the ranks of this script, each with its output in a file."""
    children = []
    for rank in range(size):
        environment = dict(os.environ, TEST_RANK=str(rank), TEST_SIZE=str(size), TEST_FOLDER=folder,
                           OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
                           TORCH_TRYST_DUMP_FILE=f"{folder}/dump.%r", TORCH_FR_DUMP_TEMP_FILE=f"{folder}/fr.")
        output = open(f"{folder}/output.{rank}", "w")
        children.append(subprocess.Popen([sys.executable, *sys.argv], env=environment, stdout=output,
                                         stderr=subprocess.STDOUT))
    return children


def finish(children, folder):
    """Wait for the ranks, print what the failed ones wrote, and return the exit status."""
    end = time.monotonic() + SECONDS
    failed = []
    for rank, child in enumerate(children):
        try:
            status = child.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            status = f"still running after {SECONDS} s"
        if status:
            failed.append(rank)
            print(f"rank {rank}: {status}\n{open(f'{folder}/output.{rank}').read()}")
        elif SHOW:
            print(open(f"{folder}/output.{rank}").read(), end="")
    for child in children:
        child.kill()
        child.wait()
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


def run_jobs(body, size=None):
    """Run `body` on the ranks without a process group, and end the process."""
    if "TEST_RANK" in os.environ:
        torch.set_num_threads(1)
        body()
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder:
        status = finish(start(size or int(sys.argv[1]), folder), folder)
    print("failed" if status else "passed", *map(os.path.basename, sys.argv))
    sys.exit(status)
