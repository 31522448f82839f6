# SPDX-License-Identifier: Apache-2.0
"""FSDP2 (`fully_shard`) trains over tryst as over gloo, and distributed checkpoints pass between the two.

One program runs twice, and only the name of the backend changes. Where the order of additions is the same (a sum of two
ranks, so also HSDP on 2 x 2 ranks), losses and parameters have the same bits. With four ranks they are within 1e-6 in
single precision. In bfloat16 one rounding of a parameter is 2^-8 of it, so there, and in float16, the bound is 1e-2.

Gradients that are divided by another number than that of the ranks are sums with a factor (PREMUL_SUM), which gloo does
not have: there each rank trains the whole model alone, with the data of all ranks, to compare.
"""

import os
import sys

import torch
import torch.distributed as dist

try:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
except ImportError as error:
    print(f"skipped: PyTorch {torch.__version__} has no FSDP2: {error}")
    sys.exit(77)

from ranks import check, over, run_jobs  # noqa: E402

STEPS, DIVISOR = 4, 3.0
CASES = {
    "float32": {},
    "float32 that keeps its parameters": dict(reshard_after_forward=False),
    "bfloat16": dict(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)),
    "bfloat16 gradients": dict(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16), reshard_after_forward=False),
    "accumulation": dict(micro_batches=3),
    "accumulation of sharded gradients": dict(micro_batches=2, sync_each=True),
    "float16 gradients": dict(mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float16)),
    "sums that are divided afterwards": dict(setting=("set_force_sum_reduction_for_comms", True)),
    "memory of the process group": dict(setting=("set_allocate_memory_from_process_group_for_comm", True)),
    "HSDP": dict(mesh=(2, 2)),
    "HSDP with accumulation": dict(mesh=(2, 2), micro_batches=2, reshard_after_forward=False),
    "HSDP in bfloat16": dict(mesh=(2, 2), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)),
}


class Block(torch.nn.Module):
    """Parameters whose first dimension does not divide by the number of ranks, and a small one."""

    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 67)
        self.down = torch.nn.Linear(67, width)
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x + self.scale * self.down(torch.relu(self.up(self.norm(x))))


def plain_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(*[Block(48) for _ in range(3)], torch.nn.Linear(48, 10))


def sharded_model(mesh=None, setting=None, **options):
    """The model, its blocks sharded each, on a mesh of all ranks in one dimension or two, with a setting of all blocks."""
    names = ("replicate", "shard")[-len(mesh or [1]):]
    mesh = init_device_mesh(torch.get_default_device().type, mesh or (dist.get_world_size(),), mesh_dim_names=names)
    model = plain_model()
    for block in list(model)[:-1]:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    for module in model.modules():
        if setting and isinstance(module, FSDPModule):
            getattr(module, setting[0])(setting[1])
    return model


def full(model):
    """The parameters of a sharded model, each on all ranks."""
    return {name: value.full_tensor().clone() for name, value in model.state_dict().items()}


def train(micro_batches=1, sync_each=False, **options):
    """Train from the same start, with the same data in each step; return this rank's losses, and the parameters."""
    model = sharded_model(**options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(100 + dist.get_rank())
    data = [(torch.randn(16, 48), torch.randint(0, 10, (16,))) for _ in range(micro_batches)]
    losses = []
    for _ in range(STEPS):
        for batch, (inputs, targets) in enumerate(data):
            model.set_requires_gradient_sync(sync_each or batch == micro_batches - 1)
            model.set_is_last_backward(batch == micro_batches - 1)
            loss = torch.nn.functional.cross_entropy(model(inputs).float(), targets)
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    check(losses[-1] < losses[micro_batches - 1], f"the losses do not fall: {losses}")
    return losses, full(model)


def divided():
    """Train with gradients that are divided by DIVISOR, with and without replicas; each rank the same alone."""
    size = dist.get_world_size()
    torch.manual_seed(7)
    data = [(torch.randn(16, 48), torch.randint(0, 10, (16,))) for _ in range(size)]
    alone = plain_model()
    setting = ("set_gradient_divide_factor", DIVISOR)
    models = [sharded_model(mesh, setting) for mesh in (None, (2, 2))[:1 + (size == 4)]]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (alone, *models)]
    for _ in range(STEPS):
        for inputs, targets in data:
            (torch.nn.functional.cross_entropy(alone(inputs), targets) / DIVISOR).backward()
        inputs, targets = data[dist.get_rank()]
        for model in models:
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for model in models:
        for name, value in full(model).items():
            worst = distance(value, alone.state_dict()[name])
            check(worst <= 1e-6, f"gradients divided by {DIVISOR}: {name} differs by {worst:.2g}")


def folder(backend):
    return f"{os.environ['TEST_FOLDER']}/checkpoint.{backend}"


def save(backend):
    """Save a sharded model, at once and in a thread of the checkpoint's own."""
    model = sharded_model()
    dcp.save({"model": model.state_dict()}, checkpoint_id=folder(backend))
    dcp.async_save({"model": model.state_dict()}, checkpoint_id=folder(backend) + ".async").result()


def load(backend):
    """Load what a job saved into a model with other parameters, sharded in another way where there are four ranks."""
    model = sharded_model(mesh=(2, 2) if dist.get_world_size() == 4 else None)
    results = []
    for name in (folder(backend), folder(backend) + ".async"):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        state = {"model": model.state_dict()}
        dcp.load(state, checkpoint_id=name)
        model.load_state_dict(state["model"])
        results.append(full(model))
    return results


def is_possible(options):
    """True if there are ranks for the mesh, and this PyTorch has the setting."""
    has_setting = "setting" not in options or hasattr(FSDPModule, options["setting"][0])
    return has_setting and (dist.get_world_size() == 4 or "mesh" not in options)


def program(backend):
    results = {name: train(**options) for name, options in CASES.items() if is_possible(options)}
    save(backend)
    return results


def program_and_load(backend):
    results = program(backend)
    divided()
    start = plain_model().state_dict()
    for saved in ("gloo", "tryst"):
        for state in load(saved):
            check(all(torch.equal(start[name], value) for name, value in state.items()), f"a checkpoint over {saved}")
    return results


def distance(one, other):
    """The largest difference, relative to the largest value."""
    return ((one - other).abs().max() / other.abs().max()).item()


def compare(ours, theirs, what, same_order):
    tensors = [(torch.tensor(ours[0]), torch.tensor(theirs[0]))]
    tensors += [(ours[1][name], value) for name, value in theirs[1].items()]
    bound = 0 if same_order else 1e-2 if "float16" in what else 1e-6
    worst = max(distance(one, other) for one, other in tensors)
    check(worst <= bound, f"{what}: losses or parameters differ by {worst:.2g}, {bound} is allowed")
    start = plain_model().state_dict()
    check(all(not torch.equal(start[name], value) for name, value in ours[1].items()), f"{what}: a parameter stays")


def body():
    theirs = over("gloo", program, "gloo")
    ours = over("tryst", program_and_load, "tryst")
    check("float32" in theirs, f"{list(theirs)} have no plain case")
    for name in theirs:
        compare(ours[name], theirs[name], name, os.environ["TEST_SIZE"] == "2" or "mesh" in CASES[name])


if __name__ == "__main__":
    run_jobs(body)
