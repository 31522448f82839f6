# SPDX-License-Identifier: Apache-2.0
"""Tensors on a device: programs of other tests run on one over a CUDA driver without a GPU (device/), and give the bits
that they give on the CPU. The arguments behind the number of ranks choose among programs, ddp and fsdp. FSDP2 is left out
without them: it trains, but some parameters differ from the CPU's in their last bits, for a reason that is not known.

On this device each value is written later than the call that computes it returns, and reading memory too early, or after
its end, ends the process. FAKE_CUDA_DELAY_US and FAKE_CUDA_LAZY of the environment are the driver's (fake_cuda.h).
"""

import contextlib
import inspect
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    import fake_gpu
except ImportError as error:
    print(f"skipped: the test device is not built: {error}")
    sys.exit(77)

import test_ddp  # noqa: E402
import test_fsdp  # noqa: E402
import test_operations  # noqa: E402
import tryst_torch  # noqa: E402
from ranks import check, gloo, over, raises, run_jobs  # noqa: E402

DEVICE = torch.device(fake_gpu.NAME, 0)
# Sparse tensors and their conversions, which the device does not have; refusals of what is on the CPU.
LEFT_OUT = {"test_all_reduce_sparse", "test_refused", "test_roots"}


def to_cpu(value):
    if isinstance(value, (list, tuple)):
        return [to_cpu(one) for one in value]
    return value.cpu() if isinstance(value, torch.Tensor) else value


def write_back(value, copy):
    for one, other in zip(value, copy) if isinstance(value, (list, tuple)) else [(value, copy)]:
        if isinstance(one, torch.Tensor):
            one.copy_(other)


class OverCopies:
    """torch.distributed, with copies on the CPU in the calls of the group `reference`, which is gloo's."""

    def __init__(self, reference):
        self.reference = reference

    def __getattr__(self, name):
        function = getattr(dist, name)
        if not inspect.isfunction(function):
            return function

        def call(*arguments, **named):
            if named.get("group") is not self.reference:
                return function(*arguments, **named)
            copies = [to_cpu(one) for one in arguments]
            result = function(*copies, **named)
            for one, copy in zip(arguments, copies):
                write_back(one, copy)
            return result

        return call


def operations():
    reference = gloo()
    test_operations.dist = OverCopies(reference)
    for name, test in sorted(vars(test_operations).items()):
        if name.startswith("test_") and name not in LEFT_OUT:
            test(reference)
            dist.barrier()


def one_world():
    """Both devices have one backend, also where they are named apart, and tensors of both travel in one group."""
    backends = {dist.group.WORLD._get_backend(torch.device(kind)) for kind in ("cpu", fake_gpu.NAME)}
    check(len(backends) == 1, f"{len(backends)} backends for two devices")
    for device in ("cpu", DEVICE):
        tensor = torch.ones(1000, device=device)
        dist.all_reduce(tensor)
        check(bool((tensor == dist.get_world_size()).all()), f"an all-reduce on {device}")


def messages():
    """Messages around a ring, also into tensors that are not contiguous."""
    size, rank = dist.get_world_size(), dist.get_rank()
    for count in (1, 70000):
        sent = torch.arange(count * 2, dtype=torch.float32).view(count, 2) + rank
        received = torch.empty(2, count).t()
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, (rank + 1) % size),
                                        dist.P2POp(dist.irecv, received, (rank - 1) % size)])
        for work in works:
            work.wait()
        check(torch.equal(received + rank, sent + (rank - 1) % size), "a message")


def streams():
    """The current stream of the call and that of the wait count, whichever they are."""
    size = dist.get_world_size()
    sides = [torch.Stream(device=DEVICE) for _ in range(2)]
    for repeat in range(20):
        with fake_gpu.stream(sides[0]):
            tensor = torch.zeros(64, 64)
            tensor.fill_(repeat)
            works = [dist.all_reduce(tensor, async_op=True)]
            strided = torch.full((40, 30), float(repeat)).t()
            works.append(dist.all_reduce(strided, async_op=True))
        with fake_gpu.stream(sides[1]):
            for work in works:
                work.wait()
            sums = [(tensor + 1).cpu(), (strided + 1).cpu()]
        for one in sums:
            check(bool((one == repeat * size + 1).all()), f"a sum in another stream: {one}")


def dropped():
    """Works and tensors that the program drops at once."""
    size, rank = dist.get_world_size(), dist.get_rank()
    for _ in range(20):
        kept = torch.ones(30, 20)
        dist.all_reduce(torch.ones(100000), async_op=True)
        dist.all_reduce(torch.ones(300, 200).t(), async_op=True)
        dist.all_reduce(kept.t(), async_op=True)
        dist.isend(torch.ones(70000) * 2, (rank + 1) % size)
        received = torch.empty(70000)
        dist.recv(received, (rank - 1) % size)
        dist.barrier()
        check(bool((kept == size).all() and (received == 2).all()), "results of dropped works")


def futures():
    """Functions of futures read what is on the device."""
    size = dist.get_world_size()
    for shape in ((1000,), (30, 40)):
        tensor = torch.ones(shape)
        future = dist.all_reduce(tensor.t(), async_op=True).get_future()
        after = future.then(lambda done: done.value()[0] * 2).then(lambda done: done.value() + 1)
        check(bool((after.wait() == 2 * size + 1).all()), "a chain of functions")
    several = [torch.ones(3), torch.ones(5, dtype=torch.int64)]
    value = dist.group.WORLD.allreduce_coalesced(several).get_future().wait()
    check([one.sum().item() for one in value] == [3 * size, 5 * size], "a value of two works")


def refused():
    backend = dist.group.WORLD._get_backend(DEVICE)
    raises("on the CPU and on CUDA devices", backend.broadcast, [torch.ones(2, device="meta")])
    raises("give tensors of one device", dist.all_gather_into_tensor, torch.ones(2 * dist.get_world_size()),
           torch.ones(2, device="cpu"))


def programs():
    for test in (messages, one_world, operations, streams, dropped, futures, refused):
        test()
        dist.barrier()


def by_need(world):
    """The hook of tryst_torch, which test_ddp.train cannot register: its state needs the replica."""
    torch.manual_seed(1)
    replica = DistributedDataParallel(test_ddp.model(), process_group=world, bucket_cap_mb=0.05)
    replica.register_comm_hook(tryst_torch.HookState(replica, piece_bytes=4096), tryst_torch.ddp_hook)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
    torch.manual_seed(100 + dist.get_rank())
    losses = []
    for _ in range(test_ddp.STEPS):
        loss = replica(torch.randn(16, 32)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def ddp():
    world = dist.group.WORLD
    return [test_ddp.train(world), test_ddp.train(world, hook=test_ddp.averaging_hook),
            test_ddp.train(world, gradient_as_bucket_view=True), by_need(world)]


def fsdp():
    names = ["float32", "float32 that keeps its parameters", "bfloat16", "accumulation", "HSDP"]
    cases = {name: test_fsdp.CASES[name] for name in names if test_fsdp.is_possible(test_fsdp.CASES[name])}
    return {name: test_fsdp.train(**options) for name, options in cases.items()}


def bits(value):
    """A form in which results of both devices can be compared."""
    if isinstance(value, dict):
        return {name: bits(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(one) for one in value]
    return value.cpu().contiguous().view(torch.uint8).tolist() if isinstance(value, torch.Tensor) else value


def behind_messages(program):
    """The library loads the CUDA driver for the first tensor on a device. A collective that comes before this has ended
    ends the process in shadows.c:arena_open, since the shadow that it takes has no driver yet; a message waits."""
    messages()
    return program()


def compare(cpu, device, what):
    if isinstance(cpu, dict):
        for name, value in cpu.items():
            compare(value, device[name], f"{what}, {name}")
        return
    check(cpu == device, f"{what}: {device} on the device, and {cpu} on the CPU")


@contextlib.contextmanager
def on(device):
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


def body():
    wanted = sys.argv[2:] or ["programs", "ddp"]
    if "programs" in wanted:
        with on(DEVICE):
            over("tryst", programs)
            over(f"cpu:tryst,{fake_gpu.NAME}:tryst", one_world)
    for name in (one for one in wanted if one != "programs"):
        results = []
        for device in ("cpu", DEVICE):
            with on(device):
                results.append(bits(over("tryst", behind_messages, globals()[name])))
        compare(*results, name)


run_jobs(body)
