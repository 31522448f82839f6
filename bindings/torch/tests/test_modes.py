# SPDX-License-Identifier: Apache-2.0
"""Calls in PyTorch's modes of a thread give the values of calls outside: inference_mode, no_grad, dispatch modes and more;
and so do calls with inference tensors outside of inference_mode."""

import contextlib

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from ranks import check, gloo, run


class Passing(TorchDispatchMode):
    """A dispatch mode without effects."""

    def __torch_dispatch__(self, function, _types, arguments=(), named=None):
        return function(*arguments, **(named or {}))


def mine():
    return torch.arange(4.0) + dist.get_rank()


def room(count=None):
    return torch.zeros(4) if count is None else [torch.zeros(4) for _ in range(count)]


def strided(tensor=None):
    """A tensor that is not contiguous."""
    place = torch.zeros(8)[::2]
    return place if tensor is None else place.copy_(tensor)


def neighbours():
    return (dist.get_rank() + 1) % dist.get_world_size(), (dist.get_rank() - 1) % dist.get_world_size()


def all_reduce():
    tensors = mine(), strided(mine())
    for tensor in tensors:
        dist.all_reduce(tensor)
    return tensors


def reduce():
    tensor = strided(mine())
    dist.reduce(tensor, 0)
    return [tensor] if dist.get_rank() == 0 else []


def broadcast():
    tensors = mine(), strided(mine())
    for tensor in tensors:
        dist.broadcast(tensor, 0)
    return tensors


def all_gather():
    tensors, flat = room(dist.get_world_size()), torch.zeros(8 * dist.get_world_size())[::2]
    dist.all_gather(tensors, mine())
    dist.all_gather_into_tensor(flat, mine())
    return *tensors, flat


def all_gather_async():
    tensors = room(dist.get_world_size())
    dist.all_gather(tensors, mine(), async_op=True).wait()
    return tensors


def all_gather_future():
    """The result of a future, and of a function chained to it that writes it."""
    tensors = room(dist.get_world_size())
    future = dist.all_gather(tensors, mine(), async_op=True).get_future()
    return future.then(lambda done: [tensor.clone().add_(1) for tensor in done.value()]).wait()


def all_gather_coalesced():
    lists = [[torch.zeros(4), torch.zeros(4)] for _ in range(dist.get_world_size())]
    dist.group.WORLD._get_backend(torch.device("cpu")).allgather_coalesced(lists, [mine(), mine() * 2]).wait()
    return [tensor for tensors in lists for tensor in tensors]


def all_reduce_coalesced():
    tensors = [mine(), mine() * 2]
    dist.group.WORLD._get_backend(torch.device("cpu")).allreduce_coalesced(tensors).wait()
    return tensors


def all_reduce_sparse():
    tensor = torch.eye(3).mul(dist.get_rank() + 1).to_sparse()
    dist.all_reduce(tensor)
    return [tensor.to_dense()]


def gather():
    tensors = room(dist.get_world_size()) if dist.get_rank() == 0 else None
    dist.gather(mine(), tensors, 0)
    return tensors or []


def scatter():
    tensor = strided()
    dist.scatter(tensor, [mine() + i for i in range(dist.get_world_size())] if dist.get_rank() == 0 else None, 0)
    return [tensor]


def reduce_scatter():
    tensor = strided()
    dist.reduce_scatter(tensor, [mine() + i for i in range(dist.get_world_size())])
    return [tensor]


def all_to_all():
    tensors, flat = room(dist.get_world_size()), torch.zeros(2 * dist.get_world_size())[::2]
    dist.all_to_all(tensors, [mine() + 10 * i for i in range(dist.get_world_size())])
    dist.all_to_all_single(flat, torch.arange(float(dist.get_world_size())))
    return *tensors, flat


def messages():
    following, previous = neighbours()
    tensor = strided()
    for work in (dist.isend(mine(), following), dist.irecv(tensor, previous)):
        work.wait()
    return [tensor]


def objects():
    everything = [None] * dist.get_world_size()
    dist.all_gather_object(everything, dist.get_rank())
    return [torch.tensor(everything)]


CALLS = [all_reduce, reduce, broadcast, all_gather, all_gather_async, all_gather_future, all_gather_coalesced,
         all_reduce_coalesced, all_reduce_sparse, gather, scatter, reduce_scatter, all_to_all, messages, objects]
MODES = {
    "inference_mode": torch.inference_mode,
    "no_grad": torch.no_grad,
    "inference_mode without inference_mode": lambda: nested(torch.inference_mode(), torch.inference_mode(False)),
    "a dispatch mode": Passing,
    "a dispatch mode in inference_mode": lambda: nested(torch.inference_mode(), Passing()),
    "hooks of saved tensors": lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    "autocast": lambda: torch.autocast("cpu"),
    "a profiler": lambda: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
}


@contextlib.contextmanager
def nested(*modes):
    with contextlib.ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        yield


def equal(call, ours, expected, where):
    check(len(ours) == len(expected), f"{call.__name__} {where}: {len(ours)} tensors")
    for one, other in zip(ours, expected):
        check(torch.equal(one, other), f"{call.__name__} {where}: {one}, and outside {other}")


def test_modes():
    for call in CALLS:
        expected = [tensor.clone() for tensor in call()]
        for name, mode in MODES.items():
            with mode():
                ours = call()
            equal(call, ours, expected, f"in {name}")


def test_mode_behind_call():
    """The modes are those of the call, not those of the wait."""
    size = dist.get_world_size()
    for first, second in (torch.inference_mode(), torch.enable_grad()), (torch.enable_grad(), torch.inference_mode()):
        with first:
            tensors, tensor = room(size), strided(mine())
            works = dist.all_gather(tensors, mine(), async_op=True), dist.all_reduce(tensor, async_op=True)
        with second:
            for work in works:
                work.wait()
        equal(dist.all_gather, tensors, [torch.arange(4.0) + rank for rank in range(size)], "waited for in another mode")


def test_inference_tensors_outside():
    """An inference tensor may be an input and an output outside of inference_mode, and a plain one inside."""
    size = dist.get_world_size()
    expected = [torch.arange(4.0) + rank for rank in range(size)]
    with torch.inference_mode():
        tensor, tensors, place = mine(), room(size), strided(mine())
        elements = torch.eye(3).to_sparse()
    dist.all_gather(tensors, tensor)
    equal(dist.all_gather, tensors, expected, "of inference tensors")
    dist.all_reduce(place)
    equal(dist.all_reduce, [place], [sum(expected)], "of an inference tensor")
    dist.all_reduce(elements)
    equal(dist.all_reduce, [elements.to_dense()], [torch.eye(3) * size], "of a sparse inference tensor")
    plain, tensors = mine(), room(size)
    with torch.inference_mode():
        dist.all_gather(tensors, plain)
    equal(dist.all_gather, tensors, expected, "of plain tensors in inference_mode")


def test_versions():
    """A copy to a plain tensor is an update that autograd sees, as over gloo, also in no_grad."""
    for group in None, gloo():
        leaf, tensors = torch.ones(4, requires_grad=True), room(dist.get_world_size())
        product = (leaf * tensors[0]).sum()
        dist.all_gather(tensors, mine(), group=group)
        try:
            product.backward()
            check(False, "a saved tensor has changed, and backward() did not see it")
        except RuntimeError as error:
            check("modified by an inplace operation" in str(error), error)


def body():
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            dist.barrier()


run(body)
