# SPDX-License-Identifier: Apache-2.0
"""A program that ends without destroy_process_group, with operations and functions of futures under way, ends with its
own exit status. A function for the end of the program may still call collectives."""

import atexit
import faulthandler
import os
import sys
import time
import traceback

import torch
import torch.distributed as dist


def wait_for_all():
    """Wait until all ranks are here: one that ends counts as died for those that are still in an operation."""
    names = [f"{os.environ['TEST_FOLDER']}/here.{rank}" for rank in range(dist.get_world_size())]
    open(names[dist.get_rank()], "w").close()
    while not all(map(os.path.exists, names)):
        time.sleep(0.01)


def gather(is_polled):
    """An operation with copies."""
    tensors = [torch.zeros(3) for _ in range(dist.get_world_size())]
    work = dist.all_gather(tensors, torch.full((3,), float(dist.get_rank())), async_op=True)
    while is_polled and not work.is_completed():
        pass
    work.wait()
    ranks.check([tensor[0].item() for tensor in tensors] == list(range(len(tensors))),
                f"an all-gather at the end: {tensors}")


def last():
    """Registered before tryst_torch is imported, so it runs when tryst_torch has stopped its threads."""
    if "TEST_RANK" not in os.environ:
        return
    faulthandler.dump_traceback_later(30, exit=True)
    try:
        gather(is_polled=False)
        gather(is_polled=True)
        wait_for_all()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    faulthandler.cancel_dump_traceback_later()


atexit.register(last)

import ranks  # noqa: E402


def double(done):
    return done.value()[0] * 2


def body():
    works = [dist.all_reduce(torch.ones(50000), async_op=True) for _ in range(50)]
    for work in works:
        work.get_future().then(double)
    dist.irecv(torch.ones(4), 0)
    sys.exit(0)


ranks.FRESH = True  # each rank ends an interpreter of its own
ranks.run(body)
