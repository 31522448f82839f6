# SPDX-License-Identifier: Apache-2.0
"""Tensors on a device: programs of other tests run on one over a CUDA driver without a GPU (device/), and give the bits
that they give on the CPU. The arguments behind the number of ranks name functions of this file: programs, ddp, fsdp,
pipelining; or killed, alone. --whole: all their cases, and more steps. Without arguments: the first four, whole.

On this device each value is written later than the call that computes it returns, and reading memory too early, or after
its end, ends the process. FAKE_CUDA_DELAY_US and FAKE_CUDA_LAZY of the environment are the driver's (fake_cuda.h).
"""

import contextlib
import datetime
import gc
import inspect
import signal
import sys
import tempfile
import time

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
import test_killed  # noqa: E402
import test_operations  # noqa: E402
import test_pipelining  # noqa: E402
import tryst_torch  # noqa: E402
from ranks import check, gloo, over, raises, run_jobs  # noqa: E402

DEVICE = torch.device(fake_gpu.NAME, 0)
STEPS = 20
NAMES = [name for name in sys.argv[2:] if name != "--whole"] or ["programs", "ddp", "fsdp", "pipelining"]
WHOLE = "--whole" in sys.argv or len(sys.argv) == 2
# Sparse tensors and their conversions, which the device does not have; refusals of what is on the CPU.
LEFT_OUT = {"test_all_reduce_sparse", "test_refused", "test_no_elements"}


def to_cpu(value):
    if isinstance(value, dict):
        return {name: to_cpu(one) for name, one in value.items()}
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


def first_message():
    """The first message with a tensor on a device waits until no stream waits; from then on the host waits."""
    size, rank = dist.get_world_size(), dist.get_rank()
    tensors = [torch.ones(1000), torch.ones(1000)]
    for index, tensor in enumerate(tensors):
        dist.barrier()
        if rank == 0:
            time.sleep(0.3)
        begin = time.monotonic()
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        waited = time.monotonic() - begin
        sent = dist.isend(torch.ones(10), (rank + 1) % size)
        both = time.monotonic() - begin
        dist.recv(torch.zeros(10), (rank - 1) % size)
        sent.wait()
        if rank == 1:
            check(both > 0.2, f"a message began {both * 1000:.0f} ms after a stream's wait of 300 ms")
            check((waited > 0.2) == (index == 1), f"wait {index} took {waited * 1000:.0f} ms")
        check(bool((tensor == size).all()), "a sum before a message")


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
    test_operations.test_no_elements(None)  # has messages, too


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


def late():
    """A wait for a collective returns while a peer has not called it; what is queued behind it reads the result."""
    size, rank = dist.get_world_size(), dist.get_rank()
    side = torch.Stream(device=DEVICE)
    late_by, stops = 0.3, []
    for shape in ((100000,), (300, 200)) * 2:
        tensor, copy = torch.ones(shape).t(), torch.zeros(shape).t()  # not contiguous where it has two dimensions
        shard, whole = torch.zeros(10), torch.ones(10 * size)
        dist.all_reduce(torch.ones(4))  # the first take-over opens its streams
        torch.accelerator.current_stream().synchronize()
        dist.barrier()
        if rank == 0:
            time.sleep(late_by)
        side.wait_stream(torch.accelerator.current_stream())
        begin = time.monotonic()
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        copy.copy_(tensor, non_blocking=True)
        with fake_gpu.stream(side):
            dist.reduce_scatter_tensor(shard, whole)
        stops.append(time.monotonic() - begin)
        side.synchronize()
        check(bool((copy == size).all() and (shard == size).all()), "results that a stream waits for")
    if rank == 1:
        check(max(stops) < late_by / 2, f"the host stopped in waits, for these seconds: {stops}")
        if WHOLE:
            print("two waits beside a late peer, milliseconds:", *(f"{1000 * stop:.1f}" for stop in stops))


def failing():
    """After a failure a stream goes on, and the next call of the process group raises."""
    rank = dist.get_rank()
    group = dist.new_group(timeout=datetime.timedelta(seconds=0.3))
    if rank:
        tensor = torch.ones(1000)
        work = dist.all_reduce(tensor, group=group, async_op=True)
        work.wait()
        tensor.cpu()
        deadline = time.monotonic() + 5
        while work.exception() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        check("timeout of 300 ms" in str(work.exception()), f"the exception is {work.exception()}")
        raises("all_reduce 1 of process group", dist.all_reduce, tensor, group=group)
        raises("all_reduce 1 of process group", work.wait)
    dist.barrier()


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
    dist.all_reduce(several[0], async_op=True)
    dist.all_reduce(torch.ones(2, device="cpu"), async_op=True)
    dist.barrier(async_op=True).get_future().wait()  # of works on two devices
    check(several[0].sum().item() == 3 * size * size, "a sum before a barrier")


def refused():
    backend = dist.group.WORLD._get_backend(DEVICE)
    raises("on the CPU and on CUDA devices", backend.broadcast, [torch.ones(2, device="meta")])
    raises("give tensors of one device", dist.all_gather_into_tensor, torch.ones(2 * dist.get_world_size()),
           torch.ones(2, device="cpu"))


def programs():
    for test in (one_world, operations, streams, late, failing, futures, first_message, dropped, messages, refused):
        test()
        dist.barrier()


def train(optimizer_of, evaluate=None):
    """Train DistributedDataParallel of the process group; return losses and parameters. `optimizer_of` takes the replica."""
    torch.manual_seed(1)
    replica = DistributedDataParallel(test_ddp.model(), bucket_cap_mb=0.05)
    optimizer = optimizer_of(replica)
    torch.manual_seed(100 + dist.get_rank())
    losses = []
    for _ in range(test_ddp.STEPS):
        loss = replica(torch.randn(16, 32)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if evaluate:
            losses.append(evaluate(replica.module))
    return losses, [parameter.detach().clone() for parameter in replica.parameters()]


def sgd(replica):
    return torch.optim.SGD(replica.parameters(), lr=0.05, momentum=0.9, foreach=False)


def by_need(replica):
    replica.register_comm_hook(tryst_torch.HookState(replica, piece_bytes=4096), tryst_torch.ddp_hook)
    return sgd(replica)


def deferred(replica):
    optimizer = sgd(replica)
    tryst_torch.CrossBarrier(replica, optimizer, piece_bytes=4096)
    return optimizer


def elsewhere(model):
    """Use the model in another stream, which waits for the current one, and for which the current one does not wait."""
    side = contextlib.nullcontext()
    if torch.get_default_device() == DEVICE:
        stream = torch.Stream(device=DEVICE)
        stream.wait_stream(torch.accelerator.current_stream())
        side = fake_gpu.stream(stream)
    model.eval()
    with side, torch.inference_mode():
        value = model(torch.ones(4, 32)).square().sum().item()
    model.train()
    return value


def ddp():
    world = dist.group.WORLD
    results = {"a hook": test_ddp.train(world, hook=test_ddp.averaging_hook),
               "CrossBarrier, and another stream": train(deferred, elsewhere)}
    if WHOLE:
        results.update({"DDP": test_ddp.train(world), "views of buckets": test_ddp.train(world, gradient_as_bucket_view=True),
                        "pieces by need": train(by_need), "CrossBarrier": train(deferred)})
    return results


def fsdp():
    names = ["float32", "HSDP"]
    if WHOLE:
        test_fsdp.STEPS = STEPS
        names += ["float32 that keeps its parameters", "bfloat16", "accumulation", "HSDP with accumulation",
                  "HSDP in bfloat16"]
    cases = {name: test_fsdp.CASES[name] for name in names if test_fsdp.is_possible(test_fsdp.CASES[name])}
    return {name: test_fsdp.train(**options) for name, options in cases.items()}


def pipelining():
    if not WHOLE:
        return test_pipelining.train("Schedule1F1B")
    test_pipelining.STEPS = STEPS
    return test_pipelining.program()


def killed():
    """A rank that is killed or stopped, as in test_killed.py, with tensors on the device. Not in a rank: this starts some."""
    runs = test_killed.runs_of(test_killed.possible()) if WHOLE else [[("sharded", signal.SIGKILL)]]
    with on(DEVICE), tempfile.TemporaryDirectory() as folder:
        return test_killed.are_right(test_killed.results(int(sys.argv[1]), folder, runs))


def compare(cpu, device, what):
    """Compare results, which are dictionaries, lists, tensors and numbers."""
    if isinstance(cpu, dict):
        for name, value in cpu.items():
            compare(value, device[name], f"{what}, {name}")
    elif isinstance(cpu, (list, tuple)):
        check(len(cpu) == len(device), f"{what}: {len(device)} values on the device, {len(cpu)} on the CPU")
        for index, (one, other) in enumerate(zip(cpu, device)):
            compare(one, other, f"{what}, {index}")
    elif isinstance(cpu, torch.Tensor):
        same = torch.equal(*(one.reshape(-1).view(torch.uint8) for one in (cpu, device)))
        check(same, f"{what}: the device's tensor of {list(cpu.shape)} differs from the CPU's by "
                    f"{(cpu.double() - device.double()).abs().max().item() if cpu.numel() else 0:.2g}")
    else:
        check(cpu == device, f"{what}: {device} on the device, {cpu} on the CPU")


@contextlib.contextmanager
def on(device):
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


def compare_both(name):
    results = []
    for device in ("cpu", DEVICE):
        with on(device):
            results.append(to_cpu(over("tryst", globals()[name])))
    gc.collect()  # FSDP2's models are in cycles, which Python does not free at its end
    compare(*results, name)


def body():
    for name in NAMES:
        if name == "programs":
            with on(DEVICE):
                over("tryst", programs)
                over(f"cpu:tryst,{fake_gpu.NAME}:tryst", one_world)
        else:
            compare_both(name)


if NAMES == ["killed"]:
    sys.exit(not killed())
run_jobs(body)
