#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times a training step of PyTorch's DistributedDataParallel over Gloo on a profile, as tryst-perf sched does.

usage: ddp_gloo.py --profile FILE [--bucket-mb N] [--steps N] [--warmup N]

Started on each host of a lab (netlab.sh ranks). One idea: a model whose layers sleep. Each action of the profile is a
sleep, each operation a parameter; DDP's own hooks put the gradients into buckets and all-reduce them over Gloo. An
action's time counts from the end of the action before, or from the end of the wait for the buckets, so a late wake-up
makes no step longer (tools/order/order_step.c does the same). Rank 0 prints the median over the steps, and of each
the slowest rank's time.

Needs torch with Gloo: Debian's python3-torch, or PyPI's.
"""
import argparse
import datetime
import json
import os
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
except ImportError as reason:
    print(f"skipped: no PyTorch here ({reason}): apt-get install python3-torch", file=sys.stderr)
    sys.exit(77)


class Clock:
    """The end of the last action; sleeps until the end of the next one."""

    at = 0.0

    @classmethod
    def run(cls, seconds):
        cls.at += seconds
        left = cls.at - time.monotonic()
        if left > 0:
            time.sleep(left)


class Sleep(torch.autograd.Function):
    """A layer: its forward and its backward sleep, and all of its gradients are there at the end of the backward."""

    @staticmethod
    def forward(ctx, x, forward_s, backward_s, *parameters):
        ctx.backward_s, ctx.shapes = backward_s, [p.shape for p in parameters]
        Clock.run(forward_s)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        Clock.run(ctx.backward_s)
        return (gradient, None, None, *(torch.ones(shape) for shape in ctx.shapes))


class Model(torch.nn.Module):
    """The layers of a profile of data-parallel training, in the order of their forward actions."""

    def __init__(self, nodes):
        super().__init__()
        named = {node["name"]: node for node in nodes}
        self.layers, self.weights = [], torch.nn.ParameterList()
        for node in nodes:
            gradients = [named[a] for a in node.get("after", []) if "bytes" in named[a]]
            if "seconds" not in node or not gradients:
                continue
            backward = named[gradients[0]["after"][0]]
            first = len(self.weights)
            for gradient in gradients:
                self.weights.append(torch.nn.Parameter(torch.zeros(gradient["bytes"] // 4)))
            self.layers.append((node["seconds"], backward["seconds"], first, len(gradients)))

    def forward(self, x):
        for forward_s, backward_s, first, count in self.layers:
            x = Sleep.apply(x, forward_s, backward_s, *(self.weights[first + i] for i in range(count)))
        return x


def options_read():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", required=True)
    parser.add_argument("--bucket-mb", type=float, default=25)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    return parser.parse_args()


def group_open():
    """Meet at rank 0, whose address netlab.sh gives; its port is that of Tryst's bootstrap."""
    rank, size = int(os.environ["TRYST_RANK"]), int(os.environ["TRYST_SIZE"])
    host, port = os.environ["TRYST_BOOTSTRAP"].rsplit(":", 1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "eth0")
    limit = datetime.timedelta(minutes=5)  # of each wait: for the ranks, and for a step
    store = dist.TCPStore("0.0.0.0" if rank == 0 else host, int(port), size, rank == 0, timeout=limit)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
    return rank


def step_time(model):
    """Run a step: backward, then the forward of the next one, as in the profile."""
    begin = time.monotonic()
    model.output.sum().backward()  # ends when all buckets are reduced
    Clock.at = max(Clock.at, time.monotonic())
    model.output = model(torch.ones(1, requires_grad=True))
    return time.monotonic() - begin


def main():
    options = options_read()
    torch.set_num_threads(1)
    rank = group_open()
    with open(options.profile, encoding="utf-8") as file:
        nodes = json.load(file)["nodes"]
    model = torch.nn.parallel.DistributedDataParallel(Model(nodes), bucket_cap_mb=options.bucket_mb)
    model.output = model(torch.ones(1, requires_grad=True))
    times = []
    for i in range(options.warmup + options.steps):
        dist.barrier()
        Clock.at = time.monotonic()
        seconds = torch.tensor([step_time(model)], dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        if i >= options.warmup:
            times.append(seconds.item())
    if rank == 0:
        print(f"DDP over Gloo, torch {torch.__version__}, buckets of {options.bucket_mb:g} MiB, {len(times)} steps: "
              f"median {statistics.median(times):.4f} s, {min(times):.4f} to {max(times):.4f}")
    dist.destroy_process_group()


main()
