# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training of a small network over gloo and over tryst: the time of a step, and the communication in it
that the computation does not hide.

    torchrun --nproc-per-node 2 examples/ddp.py

    gloo            DistributedDataParallel as it is
    tryst           one word changed: init_process_group("tryst")
    tryst, by need  and gradients in the order in which the next forward pass needs them (tryst_torch.ddp_hook)
    cross-barrier   and no wait at the end of backward (tryst_torch.CrossBarrier)

Each time is that of a run of steps, from a barrier to the end of the last step's communication, for one step; the median
of the runs. `exposed` is what remains without the time of the same steps under DDP's no_sync, which sends nothing.
Times mean something only on a machine that has nothing else to do, and more processors than processes: the library's
threads move the bytes while the others compute.
"""

import argparse
import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tryst_torch


def model(width, layers):
    torch.manual_seed(1)
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*parts)


class Trainer:
    """A model of its own, with the same start and the same data for each way to train."""

    def __init__(self, options, group, by_need=False, cross_barrier=False):
        bucket_mb = 1 if by_need or cross_barrier else 25
        self.model = DistributedDataParallel(model(options.width, options.layers), process_group=group,
                                             bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.barrier = None
        if cross_barrier:
            self.barrier = tryst_torch.CrossBarrier(self.model, self.optimizer)
        elif by_need:
            self.model.register_comm_hook(tryst_torch.HookState(self.model), tryst_torch.ddp_hook)
        data = torch.Generator().manual_seed(dist.get_rank())
        self.inputs = torch.randn(options.batch, options.width, generator=data)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.model(self.inputs).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def run_time(self, steps, communicates=True):
        """The time of one of `steps` steps, on the slowest rank, and the last loss."""
        dist.barrier()
        begin = time.perf_counter()
        with contextlib.nullcontext() if communicates else self.model.no_sync():
            for _ in range(steps):
                loss = self.step()
        if self.barrier:
            self.barrier.synchronize()
        seconds = torch.tensor([(time.perf_counter() - begin) / steps])
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        return seconds.item(), loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=1024, help="features of each layer (1024)")
    parser.add_argument("--layers", type=int, default=8, help="layers of width x width (8: 34 MB of gradients)")
    parser.add_argument("--batch", type=int, default=64, help="samples a rank and step (64)")
    parser.add_argument("--steps", type=int, default=10, help="steps of a run (10)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each kind, in turn (5); one more comes before")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("tryst")
    gloo, tryst = dist.new_group(backend="gloo"), dist.group.WORLD
    trainers = {
        "gloo": Trainer(options, gloo),
        "tryst": Trainer(options, tryst),
        "tryst, by need": Trainer(options, tryst, by_need=True),
        "cross-barrier": Trainer(options, tryst, cross_barrier=True),
    }
    times, losses = {name: [] for name in trainers}, {}
    for _ in range(options.runs + 1):
        for name, trainer in trainers.items():
            seconds, losses[name] = trainer.run_time(options.steps)
            times[name].append(seconds)
    alone = [trainers["gloo"].run_time(options.steps, communicates=False)[0] for _ in range(options.runs + 1)]
    compute = statistics.median(alone[1:])
    if dist.get_rank() == 0:
        print(f"a step without communication takes {compute * 1e3:.1f} ms")
        for name in trainers:
            median = statistics.median(times[name][1:])
            print(f"{name:14}  step {median * 1e3:7.1f} ms   exposed {(median - compute) * 1e3:7.1f} ms   "
                  f"loss {losses[name]:.9g}", flush=True)
    dist.destroy_process_group()


main()
