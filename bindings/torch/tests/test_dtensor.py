# SPDX-License-Identifier: Apache-2.0
"""DTensor, functional collectives, tensor parallelism and ZeroRedundancyOptimizer give over tryst what they give over
gloo.

One program runs twice, and only the name of the backend changes. Redistributions move whole numbers, which add up to
the same bits in any order. The others have gloo's bits with two ranks, and are within 1e-6 with four.
"""

import itertools
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    from torch.distributed import _functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
except ImportError as error:
    print(f"skipped: PyTorch {torch.__version__} has no public DTensor: {error}")
    sys.exit(77)

from ranks import check, over, run_jobs  # noqa: E402

STEPS = 3
PLACEMENTS = (Replicate(), Shard(0), Shard(1), Partial())


def whole(*shape):
    """Whole numbers as floats: their sums are exact."""
    return torch.randint(-50, 50, shape).float()


def of_placement(mesh, placements, shape):
    """A tensor of this placement with random parts; replicas have the same part."""
    parts = list(shape)
    seed = 7
    for dimension, placement in enumerate(placements):
        if isinstance(placement, Shard):
            parts[placement.dim] //= mesh.size(dimension)
        if not isinstance(placement, Replicate):
            seed = seed * 10 + mesh.get_local_rank(dimension)
    torch.manual_seed(seed)
    return DTensor.from_local(whole(*parts), mesh, placements, run_check=False)


def redistributions():
    """Every placement to every other (only operations produce Partial), on meshes of one dimension and of two."""
    size = dist.get_world_size()
    meshes = [init_device_mesh("cpu", (size,))] + ([init_device_mesh("cpu", (2, 2))] if size == 4 else [])
    results = []
    for mesh in meshes:
        for source in itertools.product(PLACEMENTS, repeat=mesh.ndim):
            for target in itertools.product(PLACEMENTS[:3], repeat=mesh.ndim):
                tensor = of_placement(mesh, source, (8, 12))
                moved = tensor.redistribute(mesh, target)
                check(torch.equal(moved.full_tensor(), tensor.full_tensor()), f"{source} to {target} on {mesh.shape}")
                results.append(moved.to_local())
    return results


def unevenly_sharded():
    """Shards that do not divide: gathers and exchanges of unequal parts."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(3)
    tensor = whole(7, 5)
    rows = distribute_tensor(tensor, mesh, [Shard(0)])
    columns = rows.redistribute(placements=[Shard(1)])
    check(torch.equal(columns.full_tensor(), tensor), "uneven shards")
    return [rows.to_local(), columns.to_local(), (columns.t() @ rows).full_tensor()]


def functional_collectives():
    """Each with its result used before anyone waits: the tensor waits."""
    group, rank, size = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    torch.manual_seed(50 + rank)
    tensor = whole(4 * size, 3)
    splits = [1 + (rank + peer) % 2 for peer in range(size)]
    results = [
        functional.all_reduce(tensor, "sum", group), functional.all_reduce(tensor, "avg", group),
        functional.all_reduce(tensor, "max", group), functional.broadcast(tensor, size - 1, group),
        functional.all_gather_tensor(tensor, 0, group), functional.all_gather_tensor(tensor, 1, group),
        functional.reduce_scatter_tensor(tensor, "sum", 0, group),
        functional.all_to_all_single(tensor[:sum(splits)].contiguous(), splits, splits, group),
        *functional.all_reduce_coalesced([tensor, 2 * tensor], "sum", group),
        *functional.all_gather_into_tensor_coalesced([tensor, tensor + 1], group),
        *functional.reduce_scatter_tensor_coalesced([tensor, tensor - 1], "sum", [0, 0], group),
        functional.permute_tensor(tensor.flatten(), [(peer + 1) % size for peer in range(size)], group),
    ]
    return [result + 1 for result in results]


def gradients_through_collectives():
    group = dist.group.WORLD
    torch.manual_seed(60 + dist.get_rank())
    tensor = whole(2 * dist.get_world_size(), 3).requires_grad_()
    gathered = functional.all_gather_tensor_autograd(tensor, 0, group)
    scattered = functional.reduce_scatter_tensor_autograd(gathered * gathered, "sum", 0, group)
    (scattered * whole(*scattered.shape)).sum().backward()
    return [tensor.grad]


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 32)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))


def train(model, optimizer, data, targets, name):
    """Train STEPS steps; return the losses, which must fall."""
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(data), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    check(losses[-1] < losses[0], f"{name}: the losses do not fall: {losses}")
    return losses


def tensor_parallel(sequence):
    """A Megatron layer: columns, then rows; the norm on all ranks alike, or on parts of the sequence."""
    torch.manual_seed(1)
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    if sequence:
        plan = {"norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(output_layouts=Replicate())}
    layer = parallelize_module(Layer(), init_device_mesh("cpu", (dist.get_world_size(),)), plan)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, foreach=False)
    data, targets = torch.randn(4, 8, 32), torch.randn(4, 8, 32)
    if sequence:
        data = data.chunk(dist.get_world_size(), dim=1)[dist.get_rank()]
    results = train(layer, optimizer, data, targets, "tensor parallelism")
    return results + [parameter.full_tensor().detach() if isinstance(parameter, DTensor) else parameter.detach()
                      for parameter in layer.parameters()]


def zero_redundancy(views):
    """DDP whose optimizer state is divided over the ranks; updated parameters are broadcast from their owners."""
    torch.manual_seed(2)
    model = DistributedDataParallel(Layer(), bucket_cap_mb=0.005)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2, parameters_as_bucket_view=views)
    torch.manual_seed(80 + dist.get_rank())
    data, targets = torch.randn(16, 32), torch.randn(16, 32)
    results = train(model, optimizer, data, targets, "ZeroRedundancyOptimizer")
    optimizer.consolidate_state_dict(0)
    return results + [parameter.detach() for parameter in model.parameters()]


def program():
    return {
        "redistributions": redistributions(),
        "uneven shards": unevenly_sharded(),
        "functional collectives": functional_collectives(),
        "gradients through collectives": gradients_through_collectives(),
        "tensor parallel": tensor_parallel(False),
        "sequence parallel": tensor_parallel(True),
        "ZeroRedundancyOptimizer": zero_redundancy(False),
        "ZeroRedundancyOptimizer with views": zero_redundancy(True),
    }


def body():
    theirs = over("gloo", program)
    ours = over("tryst", program)
    for name, tensors in theirs.items():
        check(len(ours[name]) == len(tensors), f"{name}: {len(ours[name])} tensors for {len(tensors)}")
        is_exact = os.environ["TEST_SIZE"] == "2" or "parallel" not in name and "Zero" not in name
        for one, other in zip(ours[name], tensors):
            check(torch.equal(one, other) if is_exact else torch.allclose(one, other, 1e-6, 1e-6 * other.abs().max()),
                  f"{name}: {one} for {other}")



run_jobs(body)
