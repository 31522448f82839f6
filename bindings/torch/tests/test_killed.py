# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed under torchrun is named by all other ranks, within 2 s.

The parent starts torchrun over this script, once for each kind of work: all-reduces, and training with a CrossBarrier.
Each rank works again and again; the last one kills itself, and the others write what the error reads, and how long after
the kill it came, to files. torchrun, which ends all ranks when it notices the death of one, polls every 5 s here, so that
it does not end them first.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import tryst_torch

SECONDS = 120
LIMIT = 2.0  # seconds


def all_reduces():
    return lambda: dist.all_reduce(torch.ones(1000))


def training():
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tryst_torch.CrossBarrier(model, optimizer)

    def step():
        optimizer.zero_grad()
        model(torch.ones(4, 64)).sum().backward()
        optimizer.step()

    return step


WORK = {"all_reduces": all_reduces, "training": training}


def rank_main(folder, work):
    dist.init_process_group("tryst")
    rank, size = dist.get_rank(), dist.get_world_size()
    step = WORK[work]()
    for number in range(100000):
        if rank == size - 1 and number == 200:
            with open(f"{folder}/killed", "w") as file:
                file.write(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            step()
        except RuntimeError as error:
            with open(f"{folder}/rank.{rank}", "w") as file:
                file.write(f"{time.time()} {error}")
            signal.pause()  # torchrun ends this rank


def check(folder, size):
    with open(f"{folder}/killed") as file:
        killed = float(file.read())
    for rank in range(size - 1):
        with open(f"{folder}/rank.{rank}") as file:
            end, text = file.read().split(" ", 1)
        seconds = float(end) - killed
        print(f"rank {rank}, {seconds:.3f} s after the kill: {text}")
        if not re.search(rf"rank {size - 1} (died|was lost)", text) or seconds > LIMIT:
            return 1
    return 0


def kill(size, work):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}",
                   "--monitor-interval=5", os.path.abspath(__file__), str(size), folder, work]
        environment = dict(os.environ, OMP_NUM_THREADS="1", TORCHELASTIC_ERROR_FILE="")
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=SECONDS)
        return check(folder, size)


def main():
    if len(sys.argv) > 2:
        rank_main(*sys.argv[2:])
        return 0
    size = int(sys.argv[1])
    status = 0
    for work in WORK:
        print(f"{work}:")
        status |= kill(size, work)
    print("failed" if status else "passed", "test_killed.py", size)
    return status


sys.exit(main())
