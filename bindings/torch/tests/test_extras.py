# SPDX-License-Identifier: Apache-2.0
"""What c10d of PyTorch 2.15 has beside operations: what is offered works, and each function that is not says why.
PyTorch 2.0 has none of these."""

import datetime
import os
import pickle
import time

import torch
import torch.distributed as dist

from ranks import TIMEOUT, check, raises, run

CPU = torch.device("cpu")


def backend():
    return dist.group.WORLD._get_backend(CPU)


def total(group, value=1.0):
    """The sum of `value` over a group, by a new tensor."""
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


def test_split_group():
    """Parts of the job, of a part of it, and with ranks in an order of their own."""
    rank, size = dist.get_rank(), dist.get_world_size()
    half = size // 2
    parts = [list(range(half)), list(range(half, size))]
    part = dist.split_group(split_ranks=parts)
    check(total(part, rank) == sum(parts[rank >= half]), "a sum over a part")
    check(dist.get_world_size(part) == len(parts[rank >= half]), "the size of a part")
    backwards = dist.split_group(split_ranks=[list(range(size))[::-1]])
    check(dist.get_rank(backwards) == size - 1 - rank, "the order of ranks")
    tensor = torch.tensor([float(rank)])
    dist.broadcast(tensor, size - 1, group=backwards)
    check(tensor.item() == size - 1, "a broadcast in another order")
    nested = dist.split_group(backwards, [[0]])
    check((nested is dist.GroupMember.NON_GROUP_MEMBER) == (rank != size - 1), "a rank that is in no part")
    if rank == size - 1:
        check(total(nested, 3) == 3, "a part of a part")
    raises("no rank", backend().split, dist.HashStore(), [rank, size + 5], backend().options)


def test_split_timeout():
    """The time-out of a part is its own."""
    size = dist.get_world_size()
    part = dist.split_group(split_ranks=[list(range(size))], timeout=datetime.timedelta(seconds=1))
    if dist.get_rank() != size - 1:
        raises("deadline", dist.all_reduce, torch.ones(1), group=part)
    else:
        time.sleep(2)
        raises("deadline", dist.all_reduce, torch.ones(1), group=part)


def test_device_id():
    """A job with a device has new_group of some ranks, which splits where a backend can."""
    group = dist.new_group([0])
    if dist.get_rank() == 0:
        check(total(group) == 1, "a group of one")


def test_abort_hook():
    """An abort hook runs when a time-out fails an operation, and no longer once it is removed."""
    called = []
    group = dist.new_group(timeout=datetime.timedelta(seconds=0.5))
    check(group.supports_abort_hooks, "abort hooks")
    group.register_abort_hook(5, lambda: called.append(5))
    group.register_abort_hook(6, lambda: called.append(6))
    group.unregister_abort_hook(6)
    group.register_abort_hook(4, lambda: 1 / 0)  # an exception is a warning, and the next hook runs
    if dist.get_rank() == 0:
        raises("deadline", dist.irecv(torch.ones(1), 1, group=group).wait)
        end = time.monotonic() + 30
        while 5 not in called and time.monotonic() < end:
            time.sleep(0.01)
        check(set(called) == {5}, f"hooks that ran: {called}")
        check("TIMEOUT" in str(group._get_backend(CPU).get_error()), "the error of a group with a time-out")
    check("SUCCESS" in str(backend().get_error()), "the error of a group without failures")


def test_abort_hook_once():
    """Many failures together start no thread for each, where a hook takes long."""
    group, called = dist.new_group(timeout=datetime.timedelta(seconds=0.5)), []
    group.register_abort_hook(1, lambda: (called.append(1), time.sleep(0.3)))
    if dist.get_rank() == 0:
        works = [dist.irecv(torch.ones(1), 1, group=group, tag=tag) for tag in range(200)]
        for work in works:
            raises("deadline", work.wait)
        threads = len(os.listdir("/proc/self/task"))
        time.sleep(1)
        check(1 <= len(called) <= 4, f"{len(called)} runs of a hook")
        check(threads < 60, f"{threads} threads after 200 failures")


def recorded(kind):
    """The operations of a kind in PyTorch's own recorder."""
    entries = pickle.loads(torch._C._distributed_c10d._dump_fr_trace(True, False, False, "tryst"))["entries"]
    return [entry for entry in entries if entry["profiling_name"].endswith(kind)]


def recorded_states(kind):
    """Their states, once all have ended, or after 10 s."""
    end = time.monotonic() + 10
    states = None
    while states != {"completed"} and time.monotonic() < end:
        states = {entry["state"] for entry in recorded(kind)}
    return states


def test_flight_recorder():
    """PyTorch's own recorder learns the ends of operations from completion hooks."""
    check(backend().supports_completion_hooks, "completion hooks")
    dist.all_gather([torch.ones(2) for _ in range(dist.get_world_size())], torch.ones(2))
    dist.all_reduce(torch.ones(2))
    states = recorded_states("all_gather")
    check(states == {"completed"}, f"states in PyTorch's recorder: {states}")


def test_flight_recorder_joined():
    """A call that is several operations has ended, there too, when the last of them has."""
    group, size = dist.new_group(timeout=datetime.timedelta(seconds=0.5)), dist.get_world_size()
    several = [torch.ones(3), torch.ones(5, dtype=torch.int64)]
    group.allreduce_coalesced(several).wait()
    group.allgather_into_tensor_coalesced([torch.ones(2 * size), torch.ones(size)], [torch.ones(2), torch.ones(1)]).wait()
    work = group.reduce_scatter_tensor_coalesced([torch.ones(2), torch.ones(1)], [torch.ones(2 * size), torch.ones(size)])
    work.wait()
    check(work._get_duration() > 0, "the duration of several operations")
    for kind in ("allreduce_coalesced", "all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"):
        check(recorded(kind), f"no {kind} in {[entry['profiling_name'] for entry in recorded('')]}")
        states = recorded_states(kind)
        check(states == {"completed"}, f"states of {kind} in PyTorch's recorder: {states}")
    if dist.get_rank() == 0:
        raises("deadline", group.allreduce_coalesced(several).wait)
        states = [entry["state"] for entry in recorded("allreduce_coalesced")]
        check(states[-1] != "completed", "an operation that failed counts as one that has ended well")
    dist.barrier()


def test_ephemeral_timeout():
    """An extension holds until the first later operation ends."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    late = dist.get_rank() == dist.get_world_size() - 1
    group._add_ephemeral_timeout(datetime.timedelta(seconds=30))
    if late:
        time.sleep(2)
    check(total(group) == dist.get_world_size(), "an operation with more time")
    if late:
        time.sleep(2)
    raises("deadline", dist.all_reduce, torch.ones(1), group=group)


def test_memory():
    """Tensors in memory that the ranks of a host share, which outlive their use in operations."""
    check(backend().supports_tensor_alloc(CPU), "tensors of the backend")
    tensor = backend().allocate_tensor(300000, dtype=torch.float32, device=CPU)
    tensor.fill_(1)
    dist.all_reduce(tensor)
    check(bool((tensor == dist.get_world_size()).all()), "a sum in the backend's memory")
    stats = backend().memory_stats
    stats = stats() if callable(stats) else stats
    check(stats["memory_bytes"] > 0, f"{stats}")
    raises("memory of the CPU only", backend().allocate_tensor, 4, dtype=torch.float32, device=torch.device("meta"))
    check(not backend().supports_tensor_alloc(torch.device("cuda:0")), "no tensors on GPUs")
    return tensor


def test_work():
    work = dist.all_reduce(torch.ones(4), async_op=True)
    work.wait()
    check(work._get_duration() > 0, "the duration of a work")


def test_refused():
    """Each refusal is one sentence: what, why, and what to do."""
    world, one = dist.group.WORLD, backend()
    refused = {
        "tryst cannot open a window": lambda: world.new_window(torch.ones(1)),
        "tryst cannot give a handle for reconfigure": world.get_reconfigure_handle,
        "tryst cannot reconfigure": lambda: world.reconfigure(torch._C._distributed_c10d.ReconfigureOptions()),
        "tryst cannot suspend": one.suspend,
        "tryst cannot resume": one.resume,
        "tryst cannot give an allocator": lambda: one.mem_allocator,
        "tryst cannot estimate times": one._start_time_estimate,
        "tryst cannot merge process groups": lambda: world.merge_remote_group(dist.HashStore(), 2, TIMEOUT),
    }
    for text, function in refused.items():
        said = raises(text, function)
        check(": " in said and "; " in said, f"no reason, or no advice: {said}")
    check(not world.supports_window and not world.supports_reconfigure, "what is refused is not announced")
    raises("tryst cannot estimate times", one._end_time_estimate)


def test_shrink():
    """Process groups without some of their ranks: a part first, then the default one; the ranks that are left number
    themselves anew, and make groups again. The last test, since others' groups end."""
    rank, size = dist.get_rank(), dist.get_world_size()
    part = dist.new_group()
    if rank != size - 1:
        part = dist.shrink_group([size - 1], group=part)
        check(total(part) == size - 1 == dist.get_world_size(part), "a sum over a smaller group")
    dist.barrier()
    if rank == 0:
        return True
    left = dist.shrink_group([0], shrink_flags=1)
    check(dist.get_world_size() == size - 1 and dist.get_rank() == rank - 1, "ranks of a smaller job")
    check(total(left, rank) == sum(range(1, size)), "a sum over a smaller job")
    check(total(dist.new_group(), 2) == 2 * (size - 1), "a new group of a smaller job")
    dist.barrier()


def body():
    if not hasattr(dist, "split_group") or not hasattr(torch._C._distributed_c10d.Backend, "supports_window"):
        return  # PyTorch before 2.15
    for test in (test_split_group, test_split_timeout, test_device_id, test_abort_hook, test_abort_hook_once,
                 test_flight_recorder, test_flight_recorder_joined, test_ephemeral_timeout, test_work, test_refused):
        test()
        dist.barrier()
    tensor = test_memory()
    dist.barrier()
    test_shrink()
    tensor.fill_(0)  # its memory is there as long as it is


run(body)
