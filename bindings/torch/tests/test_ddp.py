# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel trains over tryst as over gloo: in single precision within 1e-6 of each loss, and, where the
order of additions is the same (2 ranks), bit by bit. Small buckets, so several all-reduces are under way at once.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ranks import check, gloo, run

STEPS = 20


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.BatchNorm1d(256), torch.nn.Linear(256, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, 10))


def train(group, hook=None, **options):
    """Train from the same start and data; return the losses of this rank."""
    replica = DistributedDataParallel(model(), process_group=group, bucket_cap_mb=0.05, **options)
    if hook:
        replica.register_comm_hook(group, hook)
    optimizer = torch.optim.Adam(replica.parameters(), lr=1e-3, foreach=False)
    torch.manual_seed(100 + dist.get_rank())
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(replica(torch.randn(16, 32)), torch.randint(0, 10, (16,)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare(ours, theirs, what):
    worst = max(abs(one - other) / other for one, other in zip(ours, theirs))
    check(worst <= 1e-6, f"{what}: losses differ by {worst:.2g}")
    check(dist.get_world_size() > 2 or ours == theirs, f"{what}: losses differ in their bits, {worst:.2g}")


def averaging_hook(group, bucket):
    """A communication hook of a user's: one average, and a function behind it."""
    work = dist.all_reduce(bucket.buffer(), dist.ReduceOp.AVG, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def body():
    reference = gloo()
    world = dist.group.WORLD
    theirs = train(reference)
    compare(train(world), theirs, "DDP")
    compare(train(world, hook=averaging_hook), theirs, "DDP with a hook")
    compare(train(world, gradient_as_bucket_view=True, static_graph=True), theirs, "DDP with a static graph")


if __name__ == "__main__":
    run(body)
