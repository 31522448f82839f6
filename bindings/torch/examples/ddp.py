# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training of a small network over gloo and over tryst, and the time of a step of each.

    torchrun --nproc-per-node 2 examples/ddp.py

Each line has the median step, the same step without communication (DDP's no_sync), and the difference: the communication
that the computation does not hide. Times mean something on a machine without other work alone.
"""

import argparse
import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tryst_torch  # noqa: F401 (registers the backend)


def model(width, layers):
    torch.manual_seed(1)
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*parts)


def step(replica, optimizer, inputs):
    optimizer.zero_grad()
    loss = replica(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def step_times(replica, options, synchronised):
    """The times of the steps in seconds, each the slowest rank's, and the last loss."""
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.01)
    inputs = torch.randn(options.batch, options.width, generator=torch.Generator().manual_seed(dist.get_rank()))
    times = []
    for _ in range(options.steps):
        dist.barrier()
        begin = time.perf_counter()
        with contextlib.nullcontext() if synchronised else replica.no_sync():
            loss = step(replica, optimizer, inputs)
        seconds = torch.tensor([time.perf_counter() - begin])
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        times.append(seconds.item())
    return times[len(times) // 4:], loss  # without the first quarter, which warms up


def measure(name, group, options):
    replica = DistributedDataParallel(model(options.width, options.layers), process_group=group)
    times, loss = step_times(replica, options, synchronised=True)
    alone, _ = step_times(replica, options, synchronised=False)
    if dist.get_rank() == 0:
        median, compute = statistics.median(times), statistics.median(alone)
        print(f"{name:5}  step {median * 1e3:7.1f} ms   without communication {compute * 1e3:7.1f} ms   "
              f"exposed {(median - compute) * 1e3:7.1f} ms   loss {loss:.9g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=1024, help="features of each layer (1024)")
    parser.add_argument("--layers", type=int, default=8, help="layers of width x width (8: 34 MB of gradients)")
    parser.add_argument("--batch", type=int, default=64, help="samples a rank and step (64)")
    parser.add_argument("--steps", type=int, default=20, help="steps of each kind (20)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("tryst")
    measure("gloo", dist.new_group(backend="gloo"), options)
    measure("tryst", dist.group.WORLD, options)
    dist.destroy_process_group()


main()
