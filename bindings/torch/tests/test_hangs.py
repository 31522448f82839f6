# SPDX-License-Identifier: Apache-2.0
"""Ranks that give up, come late or stop for a while: the others go on, and so do they, in another process group.

test_messages.py has the orders of calls that hang elsewhere; test_killed.py the ranks that never come back.
"""

import datetime
import os
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

from ranks import check, raises, run_tests

SHORT = datetime.timedelta(milliseconds=300)


def test_gives_up_a_receive():
    """A receive ends by a short time-out before its sender begins; then both use another process group."""
    rank = dist.get_rank()
    first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
    if rank == 0:
        work = dist.irecv(torch.zeros(1000), 1, group=first)
        raises("recv from rank 1", work.wait, SHORT)
        dist.send(torch.full((1000,), 7.0), 1, group=second)
    elif rank == 1:
        tensor = torch.zeros(1000)
        dist.recv(tensor, 0, group=second)
        check(bool((tensor == 7).all()), "a message after a receive that was given up")
        raises("send to rank 0", dist.send, torch.ones(1000), 0, group=first)


def test_gives_up_collectives():
    """A rank cancels all-reduces of many sizes before the others begin them; then all use another process group."""
    rank, size = dist.get_rank(), dist.get_world_size()
    first, second = dist.new_group(), dist.new_group()
    begin = [torch.ones(10 ** power) for power in range(6)]
    if rank == 0:
        for work in reversed([dist.all_reduce(tensor, group=first, async_op=True) for tensor in begin]):
            raises("cancelled it", work.wait, SHORT)
    dist.broadcast(torch.zeros(1), 0, group=second)
    tensor = torch.ones(1000)
    late = [] if rank == 0 else [dist.all_reduce(tensor, group=first, async_op=True) for tensor in begin]
    dist.all_reduce(tensor, group=second)
    check(bool((tensor == size).all()), "an all-reduce after some that were given up")
    for work in late:
        raises("all_reduce", work.wait, datetime.timedelta(seconds=5))


def stop_self(seconds):
    """Stop all threads of this process; a child process continues them after the time."""
    script = f"import os, time, signal; time.sleep({seconds}); os.kill({os.getpid()}, signal.SIGCONT)"
    child = subprocess.Popen([sys.executable, "-S", "-c", script])
    os.kill(os.getpid(), signal.SIGSTOP)
    child.wait()


def test_stopped_rank():
    """A rank stops for a second in the middle of its operations, several times; no result changes, no rank is lost."""
    rank, size = dist.get_rank(), dist.get_world_size()
    following, previous = (rank + 1) % size, (rank - 1) % size
    for round in range(3):
        received = torch.zeros(300000)
        reduced = [torch.full((300000,), float(rank + value)) for value in range(4)]
        works = [dist.irecv(received, previous), dist.isend(torch.full((300000,), float(rank)), following)]
        works += [dist.all_reduce(tensor, async_op=True) for tensor in reduced]
        if rank == round % size:
            stop_self(1.0)
        for work in works:
            work.wait()
        total = sum(range(size))
        check(bool((received == previous).all()), f"round {round}: a message while a rank was stopped")
        for value, tensor in enumerate(reduced):
            check(bool((tensor == total + size * value).all()), f"round {round}: an all-reduce, a rank stopped")


def stopped_wait(process):
    """Wait until a process is stopped."""
    while open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
        time.sleep(0.01)


def test_stopped_before_it_joins():
    """The others give up while a rank is stopped; it then meets an error, and all use another process group."""
    rank, size = dist.get_rank(), dist.get_world_size()
    last = size - 1
    first, second, others = dist.new_group(), dist.new_group(), dist.new_group(list(range(last)))
    process = torch.tensor([os.getpid()])
    dist.broadcast(process, last)
    if rank == last:
        os.kill(os.getpid(), signal.SIGSTOP)
        raises("all_reduce", dist.all_reduce, torch.ones(1000), group=first)
    else:
        stopped_wait(int(process))
        begin = time.monotonic()
        raises("all_reduce", dist.all_reduce(torch.ones(1000), group=first, async_op=True).wait, SHORT)
        check(time.monotonic() - begin < 15, "a time-out of 0.3 s took 15 s")
        dist.barrier(group=others)
        if rank == 0:
            os.kill(int(process), signal.SIGCONT)
    tensor = torch.ones(1000)
    dist.all_reduce(tensor, group=second)
    check(bool((tensor == size).all()), "an all-reduce after a rank was stopped")


def test_crossed_threads():
    """Two threads of each rank use two process groups in opposite orders on neighbours, with messages in between."""
    rank, size = dist.get_rank(), dist.get_world_size()
    following, previous = (rank + 1) % size, (rank - 1) % size
    groups, failures = [dist.new_group(), dist.new_group()], []

    def work(group, tag):
        try:
            for value in range(20):
                sent = dist.isend(torch.full((50000,), float(value)), following, group=group, tag=tag)
                tensor, received = torch.ones(50000), torch.zeros(50000)
                dist.all_reduce(tensor, group=group)
                dist.recv(received, previous, group=group, tag=tag)
                sent.wait()
                check(bool((tensor == size).all()) and bool((received == value).all()), f"group {tag}, round {value}")
        except BaseException as error:  # noqa: B902 (the thread's failure is the test's)
            failures.append(error)

    order = [0, 1] if rank % 2 else [1, 0]
    threads = [threading.Thread(target=work, args=(groups[i], i)) for i in order]
    for thread in threads:
        thread.start()
        time.sleep(0.2)
    for thread in threads:
        thread.join()
    check(not failures, f"{failures}")


run_tests(globals())
