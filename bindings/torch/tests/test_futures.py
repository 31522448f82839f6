# SPDX-License-Identifier: Apache-2.0
"""Futures of works: what they hold, when they are complete, and functions chained to them that wait for others."""

import datetime
import threading

import torch
import torch.distributed as dist

from ranks import check, raises, run_tests


def future_of(value=1.0, group=None):
    return dist.all_reduce(torch.full((4,), value), group=group, async_op=True).get_future()


def whole(tensor):
    check(bool((tensor == tensor[0]).all()), f"a sum: {tensor}")
    return tensor[0].item()


def test_order():
    """A future is complete when the wait for its work has returned, or the work says that it is complete."""
    for turn in range(200):
        tensor = torch.ones(100 if turn % 2 else 20000)
        work = dist.all_reduce(tensor, async_op=True)
        future = work.get_future()
        if turn % 4 < 2:
            work.wait()
        else:
            while not work.is_completed():
                pass
        check(future.done(), "a future after its work")
        check(future.value()[0] is not None and whole(future.value()[0]) == dist.get_world_size(), "its value")


def test_values():
    """The value is the list of outputs, the same tensors; a later get_future gives a complete one."""
    size = dist.get_world_size()
    outputs = [torch.zeros(3) for _ in range(size)]
    work = dist.all_gather(outputs, torch.full((3,), float(dist.get_rank())), async_op=True)
    value = work.get_future().wait()
    check([tensor.data_ptr() for tensor in value] == [tensor.data_ptr() for tensor in outputs], "other tensors")
    check([whole(tensor) for tensor in value] == list(range(size)), "a value before its copies")
    work.wait()
    check(work.get_future().done(), "a future that is asked for late")
    check(dist.barrier(async_op=True).get_future().wait() is not None, "a barrier's future")


def test_then():
    size, order = dist.get_world_size(), []
    first = future_of().then(lambda done: (order.append("first"), done.value()[0])[1])
    second = first.then(lambda done: (order.append("second"), done.value() * 2)[1])
    check(whole(second.wait()) == 2 * size, "a chain")
    check(order == ["first", "second"], f"the order: {order}")

    def fail(_done):
        raise ValueError("a function's own error")

    failed = future_of().then(fail)
    raises("a function's own error", failed.wait)
    check(whole(future_of().wait()[0]) == size, "futures after a failed function")


def test_functions_that_wait():
    """Functions that wait for futures and for works with copies, at several depths and several at once, as PowerSGD's
    hook does."""
    size = dist.get_world_size()

    def nested(depth):
        def function(done):
            tensors = [torch.zeros(2) for _ in range(size)]
            dist.all_gather(tensors, torch.ones(2))
            return future_of(depth).then(nested(depth - 1)).wait() if depth else done.value()[0]
        return function

    check(whole(future_of(9).then(nested(0)).wait()) == 9 * size, "no depth")
    check(whole(future_of(9).then(nested(4)).wait()) == size, "a depth of four")
    groups = [dist.new_group() for _ in range(4)]
    several = [future_of(1, group).then(lambda done, group=group: future_of(2, group).wait()[0]) for group in groups]
    for future in reversed(several):
        check(whole(future.wait()) == 2 * size, "several at once")


def test_function_that_waits_for_its_work():
    work = dist.all_reduce(torch.ones(4), async_op=True)
    future = work.get_future().then(lambda _done: work.wait())
    check(future.wait(), "a function that waits for its own work")


def test_failed():
    """The future of a failed work holds the error, also where it is asked for late, and chained functions see it."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if dist.get_rank() == 0:
        work = dist.irecv(torch.ones(3), 1, group=group)
        seen = work.get_future().then(lambda done: str(raises("recv from rank 1", done.value)))
        check("deadline" in seen.wait(), "the error that a function sees")
        raises("recv from rank 1", work.wait)
        raises("recv from rank 1", work.get_future().wait)
    dist.barrier()


def test_joined():
    """The future of coalesced operations holds all of them."""
    if not hasattr(dist, "_coalescing_manager"):
        return  # PyTorch 2.0 has none
    tensors = [torch.ones(3), torch.ones(70000)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    check([whole(tensor) for tensor in tensors] == [dist.get_world_size()] * 2, "coalesced sums")
    group = dist.group.WORLD
    several = [torch.ones(3), torch.ones(5, dtype=torch.int64)]  # two operations
    value = group.allreduce_coalesced(several).get_future().wait()
    check([tensor.data_ptr() for tensor in value] == [tensor.data_ptr() for tensor in several], "a value of two works")
    check([whole(tensor) for tensor in value] == [dist.get_world_size()] * 2, "sums of two works")


def test_joined_after_error():
    """What an exception leaves behind between the two calls of coalescing is no part of the next one."""
    group, cpu = dist.new_group(timeout=datetime.timedelta(seconds=0.5)), torch.device("cpu")
    if not hasattr(group, "_start_coalescing") or not hasattr(dist, "_coalescing_manager"):
        return  # PyTorch 2.0
    if dist.get_rank() == 0:
        group._start_coalescing(cpu)
        raises("recv from rank 1", dist.irecv(torch.ones(1), 1, group=group).wait)
    dist.barrier()
    group._start_coalescing(cpu)
    tensor = torch.ones(4)
    dist.all_reduce(tensor, group=group)
    group._end_coalescing(cpu).wait()
    check(whole(tensor) == dist.get_world_size(), "coalesced operations after an error")


def test_long_timeout():
    """A time-out beyond the 292 years that 64 bits have in nanoseconds is a long one."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor, sent = torch.zeros(3), []
    work = dist.irecv(tensor, (rank - 1) % size, tag=50)
    later = threading.Timer(0.5, lambda: sent.append(dist.isend(torch.ones(3), (rank + 1) % size, tag=50)))
    later.start()
    work.wait(datetime.timedelta(milliseconds=2 ** 64 // 10 ** 6 + 2))  # 2^64 ns and a millisecond or two
    check(whole(tensor) == 1, "a message that was waited for")
    later.join()
    sent[0].wait()


run_tests(globals())
