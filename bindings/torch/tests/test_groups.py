# SPDX-License-Identifier: Apache-2.0
"""Process groups of some ranks, priorities, profiles, forks; jobs that follow each other in one process, whatever ended
the one before."""

import datetime
import os
import threading
import time
import traceback

import torch
import torch.distributed as dist

import tryst_torch
from ranks import TIMEOUT, check, raises, run


def test_new_group():
    """Groups that overlap, with operations under way in each at the same time."""
    rank, size = dist.get_rank(), dist.get_world_size()
    everyone = dist.new_group(list(range(size)))
    ends = dist.new_group([0, size - 1])
    tensors = [torch.ones(1000) for _ in range(3)]
    works = [dist.all_reduce(tensors[0], group=everyone, async_op=True), dist.all_reduce(tensors[1], async_op=True)]
    if rank in (0, size - 1):
        works.append(dist.all_reduce(tensors[2], group=ends, async_op=True))
    for work in reversed(works):
        work.wait()
    check(tensors[0][0] == size and tensors[1][0] == size, "all-reduces of two groups")
    check(tensors[2][0] == (2 if rank in (0, size - 1) else 1), "an all-reduce of two ranks")


def test_ranks_of_groups():
    """Roots and peers of a group of the odd ranks, or of all where there are two."""
    rank, size = dist.get_rank(), dist.get_world_size()
    members = list(range(1, size, 2)) if size > 2 else [0, 1]
    group = dist.new_group(members)
    if rank not in members:
        return
    tensor = torch.full((3,), float(rank))
    dist.broadcast(tensor, members[-1], group=group)
    check(tensor[0] == members[-1], "a broadcast in a group")
    if rank == members[0]:
        dist.send(torch.ones(2), members[-1], group=group)
    elif rank == members[-1]:
        received = torch.zeros(2)
        dist.recv(received, members[0], group=group)
        check(received[0] == 1, "a message in a group")


def test_many_groups():
    for _ in range(20):
        group = dist.new_group()
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=group)
        dist.destroy_process_group(group)
        check(tensor[0] == dist.get_world_size(), "an all-reduce of one of many groups")


def test_priority():
    """A priority changes no result; blocks nest, and end."""
    big, small = torch.ones(4 << 20), torch.ones(256)
    with tryst_torch.priority(5):
        first = dist.all_reduce(big, async_op=True)
        with tryst_torch.priority(-1):
            check(tryst_torch._C.priority_get() == -1, "the inner priority")
            dist.all_reduce(small)
        check(tryst_torch._C.priority_get() == 5, "the outer priority")
    check(tryst_torch._C.priority_get() is None, "no priority")
    raises("not a valid priority: 2147483648", tryst_torch.priority(2**31).__enter__)
    with tryst_torch.priority(torch.tensor(3).numpy()):
        check(tryst_torch._C.priority_get() == 3, "a whole number of another type")
    first.wait()
    check(big[0] == small[0] == dist.get_world_size(), "all-reduces with priorities")


def test_profiler():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(10))
    names = [event.key for event in profile.key_averages()]
    check("tryst:all_reduce" in names, f"the profiler's names: {names}")


def test_again():
    """A job after the job, in the same processes and on the same store."""
    size = dist.get_world_size()
    dist.barrier()
    dist.destroy_process_group()
    store = dist.FileStore(os.environ["TEST_FOLDER"] + "/again", size)
    for job in range(2):
        # PyTorch 2.0 cannot open a second job under one prefix
        prefix = f"job {job}" if torch.__version__.startswith("2.0.") else "job"
        dist.init_process_group("tryst", store=dist.PrefixStore(prefix, store), rank=int(os.environ["TEST_RANK"]),
                                world_size=size, timeout=TIMEOUT)
        tensor = torch.ones(2)
        dist.all_reduce(tensor)
        check(tensor[0] == size, "an all-reduce of a second job")
        dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{os.environ['TEST_FOLDER']}/mixed",
                            rank=int(os.environ["TEST_RANK"]), world_size=size, timeout=TIMEOUT)
    group = dist.new_group([0, 1], backend="tryst")
    if dist.get_rank() < 2:
        dist.all_reduce(tensor, group=group)
        check(tensor[0] == 2 * size, "a group of a job over gloo")
    dist.barrier()  # gloo's ranks must not leave while others still connect


def open_again(name):
    """Open a further job of the same ranks."""
    dist.init_process_group("tryst", init_method=f"file://{os.environ['TEST_FOLDER']}/{name}",
                            rank=int(os.environ["TEST_RANK"]), world_size=int(os.environ["TEST_SIZE"]), timeout=TIMEOUT)


def total():
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    return tensor[0].item()


def test_missing_rank():
    """A rank that does not come to a job is named in one sentence, without the stack of a C++ exception."""
    text = raises("rank 1 of 2 has not come within 500 ms", tryst_torch._C.backend_open, dist.HashStore(), 0, 2, "alone",
                  [], datetime.timedelta(seconds=0.5))
    check("\n" not in text, text)


def test_forked():
    """A forked child has a job of its own, with futures; its parent's is refused there, and goes on."""
    total()
    dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()  # the finisher has a thread
    pending = dist.irecv(torch.ones(1), (dist.get_rank() + 1) % dist.get_world_size(), tag=8)
    child = os.fork()
    if not child:
        os._exit(forked())
    check(os.waitpid(child, 0)[1] == 0, "the status of a forked child")
    dist.isend(torch.ones(1), (dist.get_rank() - 1) % dist.get_world_size(), tag=8).wait()
    pending.wait()
    check(total() == dist.get_world_size(), "a job after a fork")


def forked():
    try:
        raises("fork", total)
        backend = tryst_torch._C.backend_open(dist.HashStore(), 0, 1, "child", [], TIMEOUT)
        tensor = torch.ones(2)
        future = backend.allreduce([tensor]).get_future().then(lambda done: done.value()[0] * 2)
        end = time.monotonic() + 20
        while not future.done() and time.monotonic() < end:
            time.sleep(0.01)
        check(future.done() and future.value()[0] == 2, "a future in a forked child")
        states = [one["state"] for one in tryst_torch.dump()["operations"]]
        check(states == ["completed"], f"operations of a forked child: {states}")
        begin = time.monotonic()
        tryst_torch._C.finisher_stop()
        check(time.monotonic() - begin < 5, "the end of a forked child")
        return 0
    except BaseException:
        traceback.print_exc()
        return 1


def test_polled():
    """is_completed makes progress where no thread of the library does."""
    dist.barrier()
    dist.destroy_process_group()
    os.environ["TRYST_PROGRESS_THREAD"] = "0"
    open_again("polled")
    del os.environ["TRYST_PROGRESS_THREAD"]
    work = dist.all_reduce(torch.ones(2), async_op=True)
    end = time.monotonic() + 30
    while not work.is_completed() and time.monotonic() < end:
        pass
    check(work.is_completed(), "an operation that is polled alone")
    dist.barrier()


def test_destroyed_meanwhile():
    """Threads that wait while another one destroys the job end with errors."""
    other = (dist.get_rank() + 1) % dist.get_world_size()
    for turn in range(5):
        errors = []
        works = [dist.irecv(torch.ones(4), other, tag=tag) for tag in range(16)]
        dist.barrier()
        threads = [threading.Thread(target=lambda work=work: errors.append(raises("recv", work.wait)), daemon=True)
                   for work in works]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        dist.destroy_process_group()
        end = time.monotonic() + 20
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0))
        check(len(errors) == len(threads), f"{len(errors)} of {len(threads)} threads have ended with an error")
        open_again(f"behind the end {turn}")


def body():
    test_new_group()
    test_ranks_of_groups()
    test_many_groups()
    test_priority()
    test_profiler()
    test_missing_rank()
    test_forked()
    test_polled()
    test_destroyed_meanwhile()
    test_again()


run(body)
