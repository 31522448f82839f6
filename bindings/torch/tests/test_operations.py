# SPDX-License-Identifier: Apache-2.0
"""Each operation with several dtypes gives the bits that gloo gives, in the same processes.

The values are small whole numbers, so all sums and products are exact in each dtype, whatever the order of additions.
Where gloo lacks a dtype, gloo computes in one that it has.
"""

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from ranks import check, gloo, raises, run

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
MOVED = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
REDUCTIONS = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]


def values(shape, dtype, low=0, high=3):
    tensor = torch.randint(low, high, shape)
    return tensor.bool() if dtype == torch.bool else tensor.to(dtype)


def equal(ours, theirs, what):
    if isinstance(ours, (list, tuple)):
        for one, other in zip(ours, theirs):
            equal(one, other, what)
        return
    if not torch.equal(ours, theirs.to(ours.dtype)):
        raise AssertionError(f"rank {dist.get_rank()}: {what} of {ours.dtype}: {ours} and, by gloo, {theirs}")


def wide(tensor):
    """A copy in a dtype that gloo reduces and in which the values are exact."""
    return tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64, copy=True)


def test_all_reduce(reference):
    for dtype in FLOATS + INTEGERS:
        for op in REDUCTIONS:
            for shape in [(1,), (5, 7), (0,), (30000,)]:
                ours = values(shape, dtype)
                theirs = wide(ours)
                dist.all_reduce(ours, op)
                dist.all_reduce(theirs, op, group=reference)
                equal(ours, theirs, f"all_reduce {op}")


def test_all_reduce_bits(reference):
    for dtype in INTEGERS:
        for op in [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]:
            ours = values((100,), dtype, 0, 100)
            theirs = wide(ours)
            dist.all_reduce(ours, op)
            dist.all_reduce(theirs, op, group=reference)
            equal(ours, theirs, f"all_reduce {op}")
    for op, any_or_all in [(ReduceOp.SUM, ReduceOp.MAX), (ReduceOp.PRODUCT, ReduceOp.MIN)]:
        ours = values((100,), torch.bool, 0, 2)
        theirs = ours.int()
        dist.all_reduce(ours, op)
        dist.all_reduce(theirs, any_or_all, group=reference)
        equal(ours.int(), theirs, f"all_reduce {op} of bool")


def test_average(reference):
    size = dist.get_world_size()
    for dtype in FLOATS + [torch.int32]:
        ours = values((64,), dtype) * size
        theirs = wide(ours)
        dist.all_reduce(ours, ReduceOp.AVG)
        dist.all_reduce(theirs, group=reference)
        equal(ours, theirs / size, "average")
    ours = values((64,), torch.float32)
    theirs = ours * (dist.get_rank() + 1)
    dist.all_reduce(ours, dist._make_nccl_premul_sum(float(dist.get_rank() + 1)))
    dist.all_reduce(theirs, group=reference)
    equal(ours, theirs, "premultiplied sum")


def test_strided(reference):
    ours = values((6, 8), torch.float32).t()
    theirs = ours.contiguous()
    dist.all_reduce(ours)
    dist.all_reduce(theirs, group=reference)
    equal(ours, theirs, "all_reduce of a transposed tensor")
    work = dist.broadcast(ours[:, 1:3], 0, async_op=True)
    dist.broadcast(theirs, 0, group=reference)
    work.wait()
    equal(ours[:, 1:3].clone(), theirs[:, 1:3], "broadcast into a slice")


def test_reduce(reference):
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in FLOATS + INTEGERS:
        for root in range(size):
            ours = values((33,), dtype)
            theirs = wide(ours)
            dist.reduce(ours, root)
            dist.reduce(theirs, root, group=reference)
            if rank == root:
                equal(ours, theirs, "reduce")


def test_broadcast(reference):
    for dtype in MOVED:
        for root in range(dist.get_world_size()):
            ours = values((1000,), dtype)
            theirs = ours.clone().view(torch.uint8)  # gloo has not every dtype
            dist.broadcast(ours, root)
            dist.broadcast(theirs, root, group=reference)
            equal(ours.view(torch.uint8), theirs, f"broadcast of {dtype}")


def test_all_gather(reference):
    size = dist.get_world_size()
    for dtype in [torch.float32, torch.bfloat16, torch.int64]:
        mine = values((9,), dtype)
        ours, theirs = ([torch.empty_like(mine) for _ in range(size)] for _ in range(2))
        dist.all_gather(ours, mine)
        theirs = [wide(tensor) for tensor in theirs]
        dist.all_gather(theirs, wide(mine), group=reference)
        equal(ours, theirs, "all_gather")
        flat = torch.empty(9 * size, dtype=dtype)
        dist.all_gather_into_tensor(flat, mine)
        equal(flat, torch.cat(theirs), "all_gather_into_tensor")
    mine = values((dist.get_rank() + 1,), torch.float32)
    ours = [torch.empty(rank + 1) for rank in range(size)]
    dist.all_gather(ours, mine)
    equal(ours[dist.get_rank()], mine, "all_gather of unequal tensors")


def test_reduce_scatter(reference):
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in FLOATS + INTEGERS:
        for op in REDUCTIONS:
            inputs = values((size, 11), dtype)
            theirs = wide(inputs)
            ours = torch.empty(11, dtype=dtype)
            dist.all_reduce(theirs, op, group=reference)
            dist.reduce_scatter(ours, list(inputs.clone()), op)
            equal(ours, theirs[rank], f"reduce_scatter {op}")
            dist.reduce_scatter_tensor(ours, inputs.flatten(), op)
            equal(ours, theirs[rank], f"reduce_scatter_tensor {op}")


def test_all_to_all(reference):
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in [torch.float32, torch.int64]:
        mine = values((size * 6, 3), dtype)
        ours, theirs = torch.empty_like(mine), torch.empty_like(mine)
        dist.all_to_all_single(ours, mine)
        dist.all_to_all_single(theirs, mine, group=reference)
        equal(ours, theirs, "all_to_all_single")
        lists = [torch.empty(6, 3, dtype=dtype) for _ in range(size)]
        dist.all_to_all(lists, list(mine.chunk(size)))
        equal(torch.cat(lists), theirs, "all_to_all")
    sent = [rank + peer for peer in range(size)]
    ours = torch.empty(sum(sent), 2)
    mine = values((sum(sent), 2), torch.float32)
    theirs = torch.empty_like(ours)
    dist.all_to_all_single(ours, mine, sent, sent)
    dist.all_to_all_single(theirs, mine, sent, sent, group=reference)
    equal(ours, theirs, "all_to_all_single with splits")


def test_gather_scatter(reference):
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in [torch.float32, torch.int64]:
        for root in range(size):
            mine = values((13,), dtype)
            ours, theirs = ([torch.empty_like(mine) for _ in range(size)] if rank == root else None
                            for _ in range(2))
            dist.gather(mine, ours, root)
            dist.gather(mine, theirs, root, group=reference)
            equal(ours or [], theirs or [], "gather")
            blocks = list(values((size, 13), dtype)) if rank == root else None
            one, other = torch.empty(13, dtype=dtype), torch.empty(13, dtype=dtype)
            dist.scatter(one, blocks, root)
            dist.scatter(other, blocks, root, group=reference)
            equal(one, other, "scatter")


def test_gather_single(_reference):
    """gather into one tensor, which PyTorch 2.15 has and gloo has not."""
    if not hasattr(dist, "gather_single"):
        return
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in MOVED:
        for root in range(size):
            mine = torch.full((5, 2), rank + 1).to(dtype)
            whole = torch.zeros(5 * size, 4, dtype=dtype)[:, ::2] if rank == root else None  # not contiguous
            dist.gather_single(mine, whole, root)
            if rank == root:
                equal(whole, torch.arange(1, size + 1).to(dtype).repeat_interleave(10).view(-1, 2), "gather_single")


def test_no_elements(_reference):
    """Tensors without elements, in each operation that has tensors."""
    size, rank = dist.get_world_size(), dist.get_rank()

    def none(count=None):
        return torch.empty(0) if count is None else [torch.empty(0) for _ in range(count)]

    dist.reduce(none(), 0)
    dist.broadcast(none(), 0)
    dist.all_gather(none(size), none())
    dist.all_gather_into_tensor(none(), none())
    dist.reduce_scatter(none(), none(size))
    dist.reduce_scatter_tensor(none(), none())
    dist.all_to_all(none(size), none(size))
    dist.all_to_all_single(none(), none())
    dist.all_to_all_single(none(), none(), [0] * size, [0] * size)
    dist.gather(none(), none(size) if rank == 0 else None, 0)
    dist.scatter(none(), none(size) if rank == 0 else None, 0)
    sent = dist.isend(none(), (rank + 1) % size)
    dist.recv(none(), (rank - 1) % size)
    sent.wait()


def test_coalesced(reference):
    if not hasattr(dist, "_coalescing_manager"):
        return  # PyTorch 2.0 has none
    size = dist.get_world_size()
    ours = [values((7,), torch.float32), values((70000,), torch.float32)]
    theirs = [tensor.clone() for tensor in ours]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in ours:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in theirs:
        dist.all_reduce(tensor, group=reference)
    equal(ours, theirs, "coalesced all_reduce")
    inputs = [values((3,), torch.float32), values((4,), torch.float32)]
    outputs = [torch.empty(3 * size), torch.empty(4 * size)]
    with dist._coalescing_manager():
        for output, tensor in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, tensor)
    for output, tensor in zip(outputs, inputs):
        flat = torch.empty_like(output)
        dist.all_gather_into_tensor(flat, tensor, group=reference)
        equal(output, flat, "coalesced all_gather")


def test_several_dtypes(reference):
    """Lists of several dtypes, which travel one by one."""
    ours = [values((7,), torch.float32), values((3, 2), torch.int64)]
    theirs = [tensor.clone() for tensor in ours]
    dist.distributed_c10d._get_default_group().allreduce_coalesced(ours).wait()
    for tensor in theirs:
        dist.all_reduce(tensor, group=reference)
    equal(ours, theirs, "coalesced all_reduce")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    lists = [[torch.empty_like(tensor) for tensor in ours] for _ in range(dist.get_world_size())]
    backend.allgather_coalesced(lists, ours).wait()
    for one in lists:
        equal(one, ours, "all_gather_coalesced")


def sparse(shape, dtype, count):
    """A sparse tensor with `count` random elements, some of them at one place."""
    indices = torch.stack([torch.randint(size, (count,)) for size in shape[:2]])
    return torch.sparse_coo_tensor(indices, values((count, *shape[2:]), dtype, 1, 4), shape)


def test_all_reduce_sparse(reference):
    for dtype in [torch.float32, torch.float64, torch.int64]:
        for shape in [(5, 4), (5, 4, 3)]:
            ours = sparse(shape, dtype, 3 * dist.get_rank())  # rank 0 has no element
            theirs = ours.to_dense()
            dist.all_reduce(ours)
            dist.all_reduce(theirs, group=reference)
            equal(ours.to_dense(), theirs, "all_reduce of a sparse tensor")
    ours = sparse((2 + dist.get_rank() % 2, 2, 3 - dist.get_rank() % 2), torch.float32, 1)
    raises("another shape", dist.all_reduce, ours)
    raises("the reduction SUM", dist.all_reduce, sparse((2, 2), torch.float32, 1), ReduceOp.MAX)


def test_objects(_reference):
    everything = [None] * dist.get_world_size()
    dist.all_gather_object(everything, {"rank": dist.get_rank()})
    check([one["rank"] for one in everything] == list(range(dist.get_world_size())), f"objects: {everything}")
    names = ["a", {"b": 2}] if dist.get_rank() == 0 else [None, None]
    dist.broadcast_object_list(names, 0)
    check(names == ["a", {"b": 2}], f"objects: {names}")


def test_futures(_reference):
    tensor = torch.ones(4)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    twice = future.then(lambda done: done.value()[0] * 2)
    check(torch.equal(twice.wait(), torch.full((4,), 2.0 * dist.get_world_size())), "a future's function")
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        pass
    check(work.is_success() and torch.equal(work.result()[0], tensor), "a polled work")
    check(torch.equal(work.get_future().wait()[0], tensor), "a future of a finished work")


def test_refused(_reference):
    raises("any source", dist.recv, torch.ones(1))
    raises("reduction", dist.all_reduce, torch.ones(2), ReduceOp.BAND)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    raises("to_dense", backend.broadcast, [torch.ones(2).to_sparse()])
    raises("on the CPU and on CUDA devices", backend.broadcast, [torch.ones(2, device="meta")])


def test_roots(_reference):
    """A root that is no rank, which the functions of torch.distributed refuse, and those of a backend may get."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    for root in (-1, dist.get_world_size()):
        calls = {dist.BroadcastOptions: lambda options: backend.broadcast([torch.ones(1)], options),
                 dist.ReduceOptions: lambda options: backend.reduce([torch.ones(1)], options),
                 dist.GatherOptions: lambda options: backend.gather([], [torch.ones(1)], options),
                 dist.ScatterOptions: lambda options: backend.scatter([torch.ones(1)], [], options)}
        for kind, call in calls.items():
            options = kind()
            options.rootRank = root
            raises(f"the root {root} is not a rank of the process group", call, options)


def test_barrier_waits(_reference):
    """A barrier finishes after the collectives before it, those with copies too."""
    size = dist.get_world_size()
    for _ in range(20):
        tensors = [torch.full((100, 100), float(i)) for i in range(16)]
        for i, tensor in enumerate(tensors):
            dist.all_reduce(tensor.t() if i % 2 else tensor, async_op=True)
        dist.barrier()
        for i, tensor in enumerate(tensors):
            check(bool((tensor == i * size).all()), f"all-reduce {i} is not finished after a barrier")


def body():
    reference = gloo()
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test(reference)
            dist.barrier()


if __name__ == "__main__":
    run(body)
