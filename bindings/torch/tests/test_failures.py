# SPDX-License-Identifier: Apache-2.0
"""Failures are errors that name the rank: time-outs, differences, aborts, and tensors that are dropped meanwhile."""

import ctypes
import datetime
import gc
import time

import torch
import torch.distributed as dist

import tryst_torch
from ranks import check, raises, run_tests

SHORT = datetime.timedelta(seconds=2)


def test_wait_timeout():
    """A wait that ends cancels the operation on all ranks, and the error names a rank that has not joined."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank != size - 1:
        work = dist.all_reduce(torch.ones(4), async_op=True)
        begin = time.monotonic()
        text = raises("all_reduce", work.wait, datetime.timedelta(seconds=1))
        check(time.monotonic() - begin < 4, "a time-out of 1 s took 4 s")
        check("rank" in text, text)
        check(work.is_completed() and not work.is_success(), "a work that timed out")
    else:
        time.sleep(2.5)
        raises("all_reduce", dist.all_reduce, torch.ones(4))


def test_deadline():
    """The time-out of a process group is the deadline of its operations, also without a wait."""
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        work = dist.broadcast(torch.ones(300000), size - 1, group=group, async_op=True)
        received = dist.irecv(torch.ones(2), size - 1, group=group)
        time.sleep(2)
        check(work.is_completed() and received.is_completed(), "operations after their deadline")
        text = raises("broadcast", work.wait)
        check("rank" in text, text)
        text = raises("recv from rank", received.wait)
        check(f"rank {size - 1}" in text, text)
    dist.barrier()


def test_difference():
    """Counts that differ end the operation on both ranks, with both counts in the text."""
    if dist.get_rank() == 0:
        text = raises("send to rank 1", dist.send, torch.ones(3), 1)
        check("3" in text and "4" in text, text)
    elif dist.get_rank() == 1:
        raises("recv from rank 0", dist.recv, torch.ones(4), 0)
    text = raises("all_reduce", dist.all_reduce, torch.ones(4 + dist.get_rank()))
    check(text.count("x f32") >= 2, text)


def test_numbers():
    """A call that is refused here has no number: collectives have the same numbers on all ranks."""
    if dist.get_rank() == 0:
        raises("cannot start reduce_scatter_tensor", dist.reduce_scatter_tensor, torch.ones(3), torch.ones(7))
    dist.all_reduce(torch.ones(2))
    newest = tryst_torch.dump()["operations"][-1]
    numbers = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(numbers, torch.tensor([newest["number"]]))
    check(newest["kind"] == "all_reduce" and len(set(map(int, numbers))) == 1, f"numbers of one all-reduce: {numbers}")


def test_failed_future():
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if dist.get_rank() == 0:
        future = dist.all_reduce(torch.ones(4), group=group, async_op=True).get_future()
        raises("all_reduce", future.wait)
    dist.barrier()


def test_dropped():
    """Tensors and works that the program drops stay alive until the library no longer writes to them."""
    received = torch.zeros(2000000)
    if dist.get_rank() == 0:
        for _ in range(5):
            dist.isend(torch.full((2000000,), 3.0), 1)
        gc.collect()
    dist.barrier()
    if dist.get_rank() == 1:
        for _ in range(5):
            dist.recv(received, 0)
            check(bool((received == 3).all()), "a dropped tensor changed")
        dist.irecv(torch.zeros(5), 0, tag=99)
    gc.collect()
    dist.barrier()
    if dist.get_rank() == 0:
        dist.send(torch.ones(5), 1, tag=99)


def test_dropped_beside_lock():
    """Works and tensors that the program has dropped end without Python's lock: progress goes on while a thread has it."""
    rank = dist.get_rank()
    if rank == 0:
        for tag in range(50):
            dist.irecv(torch.ones(4), 1, tag=tag)
        kept = dist.irecv(torch.ones(4), 1, tag=50)
    dist.barrier()
    if rank == 0:
        ctypes.PyDLL(None).usleep(2000000)  # a call that holds Python's lock
        kept.wait()
    elif rank == 1:
        time.sleep(0.2)
        for tag in range(50):
            dist.isend(torch.ones(4), 0, tag=tag)
        time.sleep(0.1)
        begin = time.monotonic()
        dist.send(torch.ones(4), 0, tag=50)
        check(time.monotonic() - begin < 1, "a message waited for Python's lock of its receiver")


def test_monitored_barrier():
    """The ranks that do not come are named, all of them on request; the barrier works again later."""
    if torch.__version__.startswith("2.0."):
        return  # PyTorch 2.0 has it for gloo alone
    dist.monitored_barrier(timeout=SHORT)
    missing = list(range(1, dist.get_world_size()))
    if dist.get_rank() == 0:
        text = "Rank 1" if len(missing) == 1 else "Ranks " + ", ".join(map(str, missing))
        text = raises(text + " failed to pass monitoredBarrier", dist.monitored_barrier, timeout=SHORT, wait_all_ranks=True)
        check("\n" not in text, f"more than one sentence: {text}")
    dist.barrier()
    if dist.get_rank() > 0:
        begin = time.monotonic()
        raises("errors while waiting for send/recv from rank 0", dist.monitored_barrier, timeout=SHORT)
        check(time.monotonic() - begin < SHORT.total_seconds(), "a rank that comes late waits")
    dist.barrier()
    dist.monitored_barrier(timeout=SHORT)


def test_abort():
    """An abort ends this rank's operations at once; other process groups go on."""
    group = dist.new_group()
    backend = group._get_backend(torch.device("cpu"))
    if not hasattr(backend, "abort"):
        return  # PyTorch 2.0 has none
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(4), group=group, async_op=True)
        backend.abort()
        raises("all_reduce", work.wait)
        raises("aborted", dist.all_reduce, torch.ones(4), group=group)
    else:
        raises("all_reduce", dist.all_reduce, torch.ones(4), group=group)
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    check(tensor[0] == dist.get_world_size(), "another group after an abort")


run_tests(globals())
