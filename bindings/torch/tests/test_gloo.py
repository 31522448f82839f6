# SPDX-License-Identifier: Apache-2.0
"""tryst in the place of gloo: every way to name gloo opens tryst; the call is refused where a process group is open."""

import datetime
import os

import torch
import torch.distributed as dist

import tryst_torch
from ranks import TIMEOUT, check, raises, run_jobs

PARTS = iter(range(1000))


def default_open(backend):
    dist.init_process_group(backend, init_method=f"file://{os.environ['TEST_FOLDER']}/{next(PARTS)}", timeout=TIMEOUT,
                            rank=int(os.environ["TEST_RANK"]), world_size=int(os.environ["TEST_SIZE"]))


def over(group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("cpu")).name()


def total(group=None):
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=group)
    return tensor[0].item()


def functions_check():
    """What torch.distributed allows for the name gloo alone, or does in another way there."""
    size = dist.get_world_size()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=20))
    everything = [None] * size
    dist.all_gather_object(everything, dist.get_rank())
    check(everything == list(range(size)), f"objects: {everything}")
    dist.new_group(backend="gloo", timeout=datetime.timedelta(days=10000)).monitored_barrier()  # as Lightning does
    _, groups = dist.new_subgroups(size)
    check(total(groups[0]) == size, "an all-reduce of a subgroup")
    group = dist.split_group(None, [list(range(size))])
    check(over(group) == "tryst" and total(group) == size, "a split group")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    model.register_comm_hook(tryst_torch.HookState(model), tryst_torch.ddp_hook)
    model(torch.ones(1, 2)).sum().backward()
    tensor = torch.ones(3)
    dist.reduce_scatter_tensor(torch.empty(3), torch.ones(3 * size))
    dist.send(tensor, 1) if dist.get_rank() == 0 else dist.get_rank() == 1 and dist.recv(tensor, 0)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    raises("on the CPU and on CUDA devices", backend.broadcast, [torch.ones(2, device="meta")])


def body():
    if not hasattr(dist.Backend, "_ensure_backend_registered"):
        raises("cannot replace gloo: PyTorch", tryst_torch.replace_gloo)
        return
    default_open("gloo")
    raises("a process group is open already", tryst_torch.replace_gloo)
    check(over() == "gloo", "a refused call changes nothing")
    dist.barrier()
    dist.destroy_process_group()
    tryst_torch.replace_gloo()
    for name in "gloo", "GLOO", None, "cpu:gloo":
        default_open(name)
        check(over() == "tryst" and total() == dist.get_world_size(), f"the backend {name}")
        if name == "gloo":
            check(dist.get_backend() == "gloo", "the name of the backend")
            functions_check()
        group = dist.new_group(backend="gloo")
        check(over(group) == "tryst" and total(group) == dist.get_world_size(), "a new group of gloo")
        tryst_torch.replace_gloo()  # does nothing
        dist.barrier()
        dist.destroy_process_group()
    default_open("tryst")
    group = dist.new_group(backend="gloo")
    check(over(group) == "tryst" and total(group) == dist.get_world_size(), "a group of gloo in a job over tryst")
    dist.destroy_process_group()


run_jobs(body)
