# SPDX-License-Identifier: Apache-2.0
"""A program that ends without destroy_process_group, with operations and functions of futures under way, ends with its
own exit status."""

import sys

import torch
import torch.distributed as dist

import ranks


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
