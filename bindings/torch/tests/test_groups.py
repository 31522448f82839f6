# SPDX-License-Identifier: Apache-2.0
"""Process groups of some ranks, priorities, profiles, and a second job after the first."""

import os

import torch
import torch.distributed as dist

import tryst_torch
from ranks import TIMEOUT, check, run


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


def body():
    test_new_group()
    test_ranks_of_groups()
    test_many_groups()
    test_priority()
    test_profiler()
    test_again()


run(body)
