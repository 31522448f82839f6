# SPDX-License-Identifier: Apache-2.0
"""Ranks that come late and ranks that leave early.

A rank enters the job, or its first operations, seconds after the others: every operation waits for it, and ends right soon
after it has come. A rank destroys its process groups while others still receive from it: what it had sent arrives, and what
it never sends ends with an error that names it, long before the time-out. test_hangs.py has ranks that give up or stop.
"""

import datetime
import os
import time

import torch
import torch.distributed as dist

from ranks import check, over, raises, run_jobs

COUNT = 200000  # elements: more than the library sends before the receiver asks
SOON = 8.0  # seconds: far below TIMEOUT, and bearable for a machine with a high load


def message(value, count=COUNT):
    return torch.full((count,), float(value))


def expect(tensor, value, what):
    check(bool((tensor == value).all()), f"{what}: {tensor[:3]} where {value} is due")


def ring():
    rank, size = dist.get_rank(), dist.get_world_size()
    return (rank + 1) % size, (rank - 1) % size


def exchange(late, seconds):
    """All reduce and pass messages around; rank `late` comes after `seconds`. Return when its peers were done."""
    rank, size = dist.get_rank(), dist.get_world_size()
    following, previous = ring()
    if rank == late:
        time.sleep(seconds)
    begin = time.monotonic()
    received, small, reduced = message(-1), message(-1, 4), message(rank)
    works = [dist.irecv(received, previous), dist.irecv(small, previous, tag=1), dist.all_reduce(reduced, async_op=True),
             dist.isend(message(rank), following), dist.isend(message(10 + rank, 4), following, tag=1)]
    for work in works:
        work.wait()
    expect(received, previous, "a message")
    expect(small, 10 + previous, "a small message")
    expect(reduced, size * (size - 1) // 2, "an all-reduce")
    return time.monotonic() - begin


def late_operations(seconds):
    """Each rank in turn submits its operations late."""
    for late in range(dist.get_world_size()):
        spent = exchange(late, seconds)
        limit = SOON if dist.get_rank() == late else seconds + SOON
        check(spent < limit, f"rank {late} came {seconds} s late; {spent:.1f} s")


def late_job(seconds):
    """The last rank enters the job late."""
    if int(os.environ["TEST_RANK"]) == int(os.environ["TEST_SIZE"]) - 1:
        time.sleep(seconds)
    begin = time.monotonic()
    over("tryst", lambda: exchange(-1, 0))
    check(time.monotonic() - begin < seconds + SOON, "a job with a rank that came late")


def leaves_group():
    """The last rank sends, and destroys the process group at once; its peers then receive."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    group = dist.new_group()
    if rank == last:
        for peer in range(last):
            dist.isend(message(7), peer, group=group)
        dist.destroy_process_group(group)
    else:
        time.sleep(0.2)
        tensor = message(-1)
        dist.recv(tensor, last, group=group)
        expect(tensor, 7, "a message of a process group that its sender destroyed")
        dist.destroy_process_group(group)
    dist.barrier()


def leaves_in_peace():
    """The last rank leaves the job, and nobody waits for it: the others go on in a process group of their own."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    stayers = dist.new_group(list(range(last)))
    dist.barrier()
    if rank == last:
        return
    for _ in range(10):
        time.sleep(0.02)
        tensor = message(1)
        dist.all_reduce(tensor, group=stayers)
        expect(tensor, last, "an all-reduce of those that stay")


def leaves_early():
    """The last rank leaves the job while the others wait for it: what they want of it fails with its number."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    early = dist.irecv(message(-1), last, tag=1) if rank != last else None
    dist.barrier()
    if rank == last:
        return
    begin = time.monotonic()
    raises(f"rank {last} has left", early.wait)
    raises(f"rank {last} has left", dist.recv, message(-1), last, tag=2)
    text = raises(f"rank {last} ", dist.all_reduce, message(1))  # "was lost", where another rank reports it
    seconds = time.monotonic() - begin
    check(seconds < SOON, f"the last error came after {seconds:.1f} s: {text}")


def never_sends():
    """Receives of which nobody sends end by the time-out, at both ends where the sender comes too late."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        begin = time.monotonic()
        text = raises("recv from rank", dist.recv, message(-1), last, group=group)
        check(f"rank {last}" in text and time.monotonic() - begin < SOON, text)
    dist.barrier()
    if rank == last:
        text = raises("send to rank 0", dist.send, message(1), 0, group=group)
        check("rank 0" in text, text)
    dist.barrier()
    if rank == 0:
        dist.send(message(3), last)
    elif rank == last:
        tensor = message(-1)
        dist.recv(tensor, 0)
        expect(tensor, 3, "a message after a receive without its send")


def body():
    late_job(5)
    over("tryst", late_operations, 1)
    over("tryst", never_sends)
    over("tryst", leaves_group)
    over("tryst", leaves_in_peace)
    over("tryst", leaves_early)


run_jobs(body)
