# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.pipelining gives over tryst the bits that it gives over gloo, in losses, outputs and gradients.

One program runs twice, and only the name of the backend changes. The schedules run on all ranks as one pipeline; with
four ranks also pipelines of two ranks times two replicas, with DistributedDataParallel or FSDP2. Each sum is one of two
ranks at most, so the order of additions is the same.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    from torch.distributed import pipelining
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.pipelining import PipelineStage
except ImportError as error:
    print(f"skipped: PyTorch {torch.__version__} has no pipelining: {error}")
    sys.exit(77)

from ranks import check, over, run_jobs  # noqa: E402

WIDTH, STEPS = 24, 2


def one(rank, size):
    """The stages of a rank: one."""
    return [rank]


def loop(rank, size):
    """Two stages on each rank, in a loop over the ranks."""
    return [rank, rank + size]


def vee(rank, size):
    """Two stages on each rank, in a V: the first rank has the first and the last."""
    return [rank, 2 * size - 1 - rank]


SCHEDULES = {
    "ScheduleGPipe": one,
    "Schedule1F1B": one,
    "ScheduleLoopedBFS": loop,
    "ScheduleInterleaved1F1B": loop,
    "ScheduleInterleavedZeroBubble": loop,
    "ScheduleZBVZeroBubble": vee,
    "ScheduleDualPipeV": vee,
}
REPLICATED = [("ScheduleGPipe", "DDP"), ("Schedule1F1B", "DDP"), ("Schedule1F1B", "FSDP2"),
              ("ScheduleInterleaved1F1B", "FSDP2"), ("ScheduleZBVZeroBubble", "FSDP2")]


class Block(torch.nn.Module):
    def __init__(self, index):
        super().__init__()
        torch.manual_seed(index)
        self.up = torch.nn.Linear(WIDTH, 40)
        self.down = torch.nn.Linear(40, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


def replicated(block, how, mesh):
    """A stage whose gradients are averaged over the replicas of the pipeline."""
    if how == "DDP":
        # Without unused parameters, DDP reorders its buckets after the first backward pass. PyTorch 2.15 counts that of
        # the pipeline's inference of shapes as well: an assertion in the second step, over gloo, too.
        return DistributedDataParallel(block, process_group=mesh.get_group("data"), find_unused_parameters=True)
    return fully_shard(block, mesh=mesh["data"]) if how else block


def gradients(block):
    """The gradients of a stage: of FSDP2's this rank's part."""
    return [getattr(parameter.grad, "to_local", lambda: parameter.grad)().clone() for parameter in block.parameters()]


def train(name, how=None):
    """Run steps of a schedule; return losses and outputs (of the rank that has them) and the gradients of each step."""
    device = torch.get_default_device()
    mesh = init_device_mesh(device.type, (2, 2), mesh_dim_names=("data", "pipe")) if how else None
    group = mesh.get_group("pipe") if how else dist.group.WORLD
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    mine = SCHEDULES[name](rank, size)
    count, micro_batches = size * len(mine), 2 * size + 2 * (len(mine) == 1)
    blocks = [replicated(Block(index), how, mesh) for index in mine]
    stages = [PipelineStage(block, index, count, device, group=group) for block, index in zip(blocks, mine)]
    schedule = getattr(pipelining.schedules, name)(
        stages[0] if len(mine) == 1 else stages, micro_batches, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD([parameter for block in blocks for parameter in block.parameters()], lr=0.1)
    torch.manual_seed(100 + (mesh.get_local_rank("data") if how else 0))
    results = []
    for _ in range(STEPS):
        inputs, targets, losses = torch.randn(3 * micro_batches, WIDTH), torch.randn(3 * micro_batches, WIDTH), []
        last = {"target": targets, "losses": losses} if count - 1 in mine else {}
        output = schedule.step(*[inputs] if 0 in mine else [], **last)
        results += [loss.detach() for loss in losses]
        results += [output.detach()] if output is not None else []
        results += [gradient for block in blocks for gradient in gradients(block)]
        check(not last or len(losses) == micro_batches, f"{name}: {len(losses)} losses of {micro_batches}")
        optimizer.step()
        optimizer.zero_grad()
    return results


def program():
    results = {name: train(name) for name in SCHEDULES if hasattr(pipelining.schedules, name)}
    if dist.get_world_size() == 4:
        results.update({f"{name} with {how}": train(name, how) for name, how in REPLICATED})
    return results


def body():
    theirs = over("gloo", program)
    ours = over("tryst", program)
    for name, tensors in theirs.items():
        check(len(ours[name]) == len(tensors) and all(map(torch.equal, ours[name], tensors)), f"{name}: other bits")
        check(all(tensor.any() for tensor in tensors if tensor.numel()), f"{name}: a gradient is zero")


if __name__ == "__main__":
    run_jobs(body)
