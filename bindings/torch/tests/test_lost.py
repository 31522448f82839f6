# SPDX-License-Identifier: Apache-2.0
"""After the loss of a rank, shrink_group lets the ranks that are left go on in the same processes: collectives, new
process groups and messages. Two losses, one after the other, where there are ranks for it."""

import os
import time

import torch
import torch.distributed as dist

from ranks import check, raises, run


def total(group=None):
    tensor = torch.ones(3000)
    dist.all_reduce(tensor, group=group)
    return tensor[0].item()


def wait_for_all(size):
    """Wait until all ranks are here: one that has left a barrier may end before others have."""
    names = [f"{os.environ['TEST_FOLDER']}/here.{rank}.{size}" for rank in range(size)]
    open(names[dist.get_rank()], "w").close()
    while not all(map(os.path.exists, names)):
        time.sleep(0.01)


def refused(function, *arguments):
    """Call a function that is refused since a rank was lost; return the text."""
    try:
        function(*arguments)
    except dist.DistBackendError as error:  # as failures of operations are
        return str(error)
    raise AssertionError("no error after the loss of a rank")


def lose_last():
    """The last rank ends without a word; the others go on without it. False on the rank that ends."""
    rank, size = dist.get_rank(), dist.get_world_size()
    part, others = dist.new_group(), dist.new_group(list(range(size - 1)))
    pending = dist.irecv(torch.ones(2), size - 1) if rank != size - 1 else None
    alone = dist.all_reduce(torch.ones(3), group=others, async_op=True) if rank == 0 and size > 2 else None
    dist.barrier()
    wait_for_all(size)
    if rank == size - 1:
        os._exit(0)
    text = raises("all_reduce", total)
    check(f"rank {size - 1}" in text, text)
    raises("recv", pending.wait)
    if alone:
        text = raises("all_reduce", alone.wait)
        check(f"rank {size - 1}" in text and text.count('all-reduce "') == 1, f"an abort's reason: {text}")
    text = refused(total)
    check(text.startswith("cannot start all_reduce") and f"rank {size - 1}" in text, text)
    text = refused(dist.send, torch.ones(1), 1 - rank if rank < 2 < size else size - 1)
    check(text.startswith("cannot start send") and 'all-reduce "' not in text, text)
    raises("shrink the default process group", dist.shrink_group, [size - 1], group=part)
    dist.shrink_group([size - 1], shrink_flags=1)
    check(total() == size - 1 == dist.get_world_size() and dist.get_rank() == rank, "a sum without the lost rank")
    check(total(dist.new_group()) == size - 1, "a new group without the lost rank")
    if size > 2:
        tensor = torch.zeros(2)
        work = dist.isend(torch.full((2,), float(rank)), (rank + 1) % (size - 1))
        dist.recv(tensor, (rank - 1) % (size - 1))
        work.wait()
        check(tensor[0] == (rank - 1) % (size - 1), "a message without the lost rank")
    dist.barrier()


def body():
    if not hasattr(dist, "shrink_group") or not dist.group.WORLD._get_backend(torch.device("cpu")).supports_shrinking:
        return  # PyTorch before 2.15
    lose_last()
    if dist.get_world_size() > 2:
        lose_last()


run(body)
