#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times a training step of PyTorch's DistributedDataParallel on a profile, as tryst-perf sched does, over Gloo and tryst.

usage: ddp_torch.py --profile FILE [--kinds KIND[:MIB],…] [--steps N] [--warmup N] [--figures FILE]

  gloo    DDP over Gloo                    hook   DDP over tryst with tryst_torch.ddp_hook
  tryst   DDP over tryst, nothing else     cross  with tryst_torch.CrossBarrier

:MIB is the size of DDP's buckets (25, which is DDP's own). The kinds run one after another in the same processes. With
--figures, the JSON file of tryst-perf sched on the same network, each step is put beside the optimum of that run.

Started on each host of a lab (netlab.sh ranks). One idea: a model whose layers sleep. Each action of the profile is a
sleep, each operation a parameter; DDP's own hooks put the gradients into buckets and all-reduce them. An action's time
counts from the end of the action before, or from the end of a wait for gradients, so a late wake-up makes no step longer
(tools/order/order_step.c does the same). A step is a backward pass, optimizer.step(), and the forward pass of the next
step. Rank 0 prints the median over the steps, and of each the slowest rank's time.

Needs torch with Gloo: Debian's python3-torch, or PyPI's; the other kinds need tryst_torch.
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

    @classmethod
    def waited(cls):
        """The next action begins now: a wait has ended."""
        cls.at = max(cls.at, time.monotonic())


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


class Layer(torch.nn.Module):
    def __init__(self, forward_s, backward_s, gradients):
        super().__init__()
        self.forward_s, self.backward_s = forward_s, backward_s
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(node["bytes"] // 4)) for node in gradients)

    def forward(self, x, barrier):
        if barrier is not None:
            before = barrier.waited_seconds
            for weight in self.weights:
                weight.detach()  # the first use
            if barrier.waited_seconds > before:
                Clock.waited()
        return Sleep.apply(x, self.forward_s, self.backward_s, *self.weights)


class Model(torch.nn.Module):
    """The layers of a profile of data-parallel training, in the order of their forward actions."""

    def __init__(self, nodes):
        super().__init__()
        named = {node["name"]: node for node in nodes}
        self.layers = torch.nn.ModuleList()
        for node in nodes:
            gradients = [named[a] for a in node.get("after", []) if "bytes" in named[a]]
            if "seconds" not in node or not gradients:
                continue
            backward = named[gradients[0]["after"][0]]
            self.layers.append(Layer(node["seconds"], backward["seconds"], gradients))

    def forward(self, x, barrier=None):
        for layer in self.layers:
            x = layer(x, barrier)
        return x


class Kind:
    """One way to train: "cross:1" is a CrossBarrier over buckets of 1 MiB."""

    def __init__(self, text):
        self.name, _, bucket = text.partition(":")
        self.bucket_mb = float(bucket or 25)
        if self.name not in ("gloo", "tryst", "hook", "cross"):
            raise argparse.ArgumentTypeError(f"'{self.name}' is not a kind: gloo, tryst, hook, cross")

    def __str__(self):
        return f"{self.name}, buckets of {self.bucket_mb:g} MiB"


def options_read():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", required=True)
    parser.add_argument("--kinds", type=lambda text: [Kind(kind) for kind in text.split(",")], default="gloo")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--figures")
    return parser.parse_args()


def groups_open(kinds):
    """Meet at rank 0, whose address netlab.sh gives; its port is that of Tryst's bootstrap. Return this rank, and the
    process groups by backend."""
    rank, size = int(os.environ["TRYST_RANK"]), int(os.environ["TRYST_SIZE"])
    host, port = os.environ["TRYST_BOOTSTRAP"].rsplit(":", 1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "eth0")
    limit = datetime.timedelta(minutes=5)  # of each wait: for the ranks, and for a step
    store = dist.TCPStore("0.0.0.0" if rank == 0 else host, int(port), size, rank == 0, timeout=limit)
    if all(kind.name == "gloo" for kind in kinds):
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
        return rank, {"gloo": dist.group.WORLD}
    import tryst_torch  # noqa: F401 (registers the backend)

    dist.init_process_group("tryst", store=store, rank=rank, world_size=size, timeout=limit)
    return rank, {"tryst": dist.group.WORLD, "gloo": dist.new_group(backend="gloo", timeout=limit)}


class Trainer:
    def __init__(self, kind, groups, nodes):
        group = groups["gloo" if kind.name == "gloo" else "tryst"]
        self.model = torch.nn.parallel.DistributedDataParallel(
            Model(nodes), process_group=group, bucket_cap_mb=kind.bucket_mb, gradient_as_bucket_view=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.barrier = None
        if kind.name == "hook":
            import tryst_torch

            self.model.register_comm_hook(tryst_torch.HookState(self.model), tryst_torch.ddp_hook)
        elif kind.name == "cross":
            import tryst_torch

            self.barrier = tryst_torch.CrossBarrier(self.model, self.optimizer)
        self.forward()

    def forward(self):
        self.output = self.model(torch.ones(1, requires_grad=True), self.barrier)

    def step_time(self):
        """Run a step: backward, then the forward of the next one, as in the profile."""
        begin = time.monotonic()
        self.optimizer.zero_grad()
        self.output.sum().backward()
        if self.barrier is None:
            Clock.waited()  # backward has ended with the last all-reduce
        self.optimizer.step()
        self.forward()
        return time.monotonic() - begin

    def times(self, warmup, steps):
        """The times of the steps in seconds, of each that of the slowest rank."""
        times = []
        for _ in range(warmup + steps):
            dist.barrier()
            Clock.at = time.monotonic()
            seconds = torch.tensor([self.step_time()], dtype=torch.float64)
            dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
            times.append(seconds.item())
        if self.barrier is not None:
            self.barrier.close()
        return times[warmup:]


def figures_read(path):
    """The optimum at the rate of tryst-perf sched, and at the bound of the plan; None where it is not known."""
    if not path:
        return []
    with open(path, encoding="utf-8") as file:
        figures = json.load(file)
    return [(what, figures.get(name)) for what, name in (("optimum", "optimum_seconds"),
                                                         ("optimum at the plan's bound", "certificate_seconds"))]


def main():
    options = options_read()
    torch.set_num_threads(1)
    rank, groups = groups_open(options.kinds)
    with open(options.profile, encoding="utf-8") as file:
        nodes = json.load(file)["nodes"]
    optima = figures_read(options.figures)
    for kind in options.kinds:
        times = Trainer(kind, groups, nodes).times(options.warmup, options.steps)
        median = statistics.median(times)
        beside = "".join(f"; gap to the {what}, {optimum:.4f} s: {median / optimum - 1:.1%}"
                         for what, optimum in optima if optimum)
        if rank == 0:
            print(f"DDP, torch {torch.__version__}, {kind}, {len(times)} steps: median {median:.4f} s, "
                  f"{min(times):.4f} to {max(times):.4f}{beside}", flush=True)
    dist.destroy_process_group()


main()
