# SPDX-License-Identifier: Apache-2.0
"""Several jobs in one process, as wrappers of process groups open them beside the default one: each process group is one
of its own job's ranks, whatever was opened first."""

import os

import torch
import torch.distributed as dist

import tryst_torch
from ranks import TIMEOUT, check, raises, run_jobs

RANK = SIZE = 0  # of the default process group; set in the rank


def file_store(name):
    return dist.FileStore(f"{os.environ['TEST_FOLDER']}/{name}", -1)


def default_open(backend, store):
    dist.init_process_group(backend, store=store, rank=RANK, world_size=SIZE, timeout=TIMEOUT)


def backend_open(store, name, rank, size, ranks=()):
    """Open a process group without torch.distributed's functions, as wrappers do."""
    from torch._C._distributed_c10d import _DistributedBackendOptions
    options = _DistributedBackendOptions()
    options.store, options.group_rank, options.group_size, options.group_id = store, rank, size, name
    options.global_ranks_in_group, options.timeout = list(ranks), TIMEOUT
    return dist.Backend._plugins["TRYST"].creator_fn(options, None)


class Second:
    """A job of the last two ranks, in reverse order, over a store of its own; other ranks are not in it."""

    def __init__(self, store):
        self.store, self.rank = dist.PrefixStore("second", store), SIZE - 1 - RANK
        self.is_member = self.rank < 2
        self.backend = backend_open(self.store, "second", self.rank, 2) if self.is_member else None

    def check(self):
        if self.is_member:
            check(total(self.backend) == SIZE - 1 + SIZE, "an all-reduce of the second job")

    def check_part(self):
        """A process group of the second job's ranks in c10d's form is a part of it: nothing is sent when it opens, so one
        rank opens it before the other does."""
        if not self.is_member:
            return
        for turn in range(2):
            if turn == self.rank:
                store = dist.PrefixStore("cpu/", dist.PrefixStore("part/", self.store))
                part = backend_open(store, "part", 1 - self.rank, 2, [1, 0])
            self.check()
        check(total(part) == SIZE - 1 + SIZE, "an all-reduce of a part of the second job")


def total(backend):
    """The sum of the ranks, from 1, of those in a process group."""
    tensor = torch.full((3,), float(RANK + 1))
    backend.allreduce([tensor], dist.AllreduceOptions()).wait()
    return tensor[0].item()


def groups_check(backend=None):
    """Process groups of the default one have its ranks."""
    for ranks in [0, 1], list(range(SIZE)), [SIZE - 2, SIZE - 1], [SIZE - 1]:
        group = dist.new_group(ranks, backend=backend)
        if RANK not in ranks:
            continue
        check(dist.get_rank(group) == ranks.index(RANK), f"the rank in {ranks}")
        tensor = torch.full((3,), float(RANK + 1))
        dist.all_reduce(tensor, group=group)
        check(tensor[0] == sum(ranks) + len(ranks), f"an all-reduce of {ranks}: {tensor}")
        if len(ranks) > 1:
            tensor = torch.full((3,), float(RANK))
            dist.broadcast(tensor, ranks[-1], group=group)
            check(tensor[0] == ranks[-1], f"a broadcast in {ranks}: {tensor}")


def jobs_check(second, backend=None):
    second.check()
    groups_check(backend)
    second.check()
    groups_check(backend)
    dist.barrier()


def test_second_after():
    default_open("tryst", file_store("after"))
    second = Second(file_store("after second"))
    jobs_check(second)
    second.check_part()
    check(tryst_torch.dump()["rank"] == RANK, "the rank of a dump is that of the largest job")
    dist.destroy_process_group()
    second.check()


def test_second_before():
    second = Second(file_store("before second"))
    default_open("tryst", file_store("before"))
    expected = RANK if SIZE > 2 else second.rank
    check(tryst_torch.dump()["rank"] == expected, "the rank of a dump is that of the largest job, the oldest of equals")
    jobs_check(second)
    second.check_part()
    dist.destroy_process_group()


def test_one_store():
    """The second job over the store of the default one, and over the store that c10d has made of it."""
    for name in "root", "c10d":
        store = file_store(f"one {name}")
        default_open("tryst", store)
        inner = dist.distributed_c10d._world.pg_map[dist.group.WORLD][1]
        jobs_check(Second(store if name == "root" else inner))
        dist.destroy_process_group()


def test_beside_gloo():
    """The job's default process group is gloo's: process groups of tryst are not the second job's."""
    store = file_store("gloo")
    default_open("gloo", store)
    jobs_check(Second(store), "tryst")
    dist.destroy_process_group()


def test_wrappers_alone():
    """Two jobs without a default one; the second one's process groups have its ranks."""
    if SIZE > 2 and RANK < SIZE - 2:
        return
    store = file_store("alone")
    first = backend_open(dist.PrefixStore("first", store), "0", RANK - SIZE + 2, 2)
    second = Second(store)
    second.check_part()
    check(total(first) == SIZE - 1 + SIZE, "an all-reduce of the first job")
    second.check()


def test_default_again():
    """The default process group ends and opens again beside a second job."""
    store = file_store("again")
    second = Second(file_store("again second"))
    for turn in range(3):
        default_open("tryst", dist.PrefixStore(f"turn {turn}", store))
        jobs_check(second)
        dist.destroy_process_group()


def test_split_and_shrink():
    if not hasattr(dist, "shrink_group"):
        return  # before PyTorch 2.15
    default_open("tryst", file_store("parts"))
    second = Second(file_store("parts second"))
    group = dist.split_group(None, [list(range(SIZE))])
    tensor = torch.full((3,), float(RANK + 1))
    dist.all_reduce(tensor, group=group)
    check(tensor[0] == SIZE * (SIZE + 1) / 2, "an all-reduce of a split group")
    dist.barrier()
    if RANK < SIZE - 1:
        dist.shrink_group([SIZE - 1])
        group = dist.new_group(list(range(SIZE - 1)))
        tensor = torch.full((3,), float(RANK + 1))
        dist.all_reduce(tensor, group=group)
        check(tensor[0] == SIZE * (SIZE - 1) / 2, "an all-reduce after the default group was shrunk")
    second.check()
    dist.destroy_process_group()


def test_wrong_ranks():
    """A process group over the default one's store that has other numbers for its ranks is refused."""
    default_open("tryst", file_store("wrong"))
    store = dist.distributed_c10d._world.pg_map[dist.group.WORLD][1]
    store = dist.PrefixStore("cpu/", dist.PrefixStore("mine/", store))
    ranks = list(range(SIZE))[::-1]
    raises("give a store of its own to a process group of another job", backend_open, store, "mine", RANK, SIZE, ranks)
    dist.barrier()
    dist.destroy_process_group()


def body():
    global RANK, SIZE
    RANK, SIZE = int(os.environ["TEST_RANK"]), int(os.environ["TEST_SIZE"])
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()


run_jobs(body)
