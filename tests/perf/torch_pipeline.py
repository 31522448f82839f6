#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the steps of PyTorch's pipeline schedules over gloo (schedule_steps.py and gpt_steps.py, --torch PYTHON).

usage: torch_pipeline.py [--ranks P] [--microbatches M] [--steps N] [--elements N] gpipe|1f1b|interleaved|bfs|zbv
       torch_pipeline.py --gpt HIDDEN [--layers N] [--heads N] [--seq N] [--microbatch-size N] [--data FILE] … SCHEDULE

Stages only sleep: a rank's F takes 10 ms and its B 20 ms, of which zbv runs I and W apart, 10 ms each; with two chunks each
chunk takes its half. Or they are a GPT over bytes, of the shape of pp_bench's, with Adam; each rank has one thread.
Prints, as JSON, the median and the fastest step of rank 0 without the first; of sleeping stages the ideal step, which is
(M + P - 1) · 30 ms, with two chunks M · 30 ms + (P - 1) · 15 ms, and zbv's, one behind the other,
M · 30 ms + (P - 1) · 5 ms; of a GPT the last loss.
"""
import argparse
import json
import os
import socket
import statistics
import sys
import time

import numpy
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B,
                                          ScheduleLoopedBFS, ScheduleZBVZeroBubble)

ACTION_S = 0.010  # F, I and W of a rank
SCHEDULES = {"gpipe": (ScheduleGPipe, 1), "1f1b": (Schedule1F1B, 1), "interleaved": (ScheduleInterleaved1F1B, 2),
             "bfs": (ScheduleLoopedBFS, 2), "zbv": (ScheduleZBVZeroBubble, 2)}


class Input(torch.autograd.Function):
    """F, and I: the path of the input."""
    @staticmethod
    def forward(ctx, x, part):
        ctx.part = part
        time.sleep(ACTION_S * part)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ACTION_S * ctx.part)
        return gradient.contiguous(), None  # the gradient of sum() is not, and gloo demands it


class Weight(torch.autograd.Function):
    """W: the path of the weight, which meets the input's in a sum."""
    @staticmethod
    def forward(ctx, weight, part):
        ctx.part = part
        return weight.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ACTION_S * ctx.part)
        return gradient, None


class Stage(torch.nn.Module):
    def __init__(self, part):
        super().__init__()
        self.weight, self.part = torch.nn.Parameter(torch.zeros(1)), part

    def forward(self, x):
        return Input.apply(x, self.part) + Weight.apply(self.weight, self.part)


class Block(torch.nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.qkv, self.project = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
        self.up, self.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        parts = self.qkv(self.norm1(x)).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.project(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Embedding(torch.nn.Module):
    def __init__(self, hidden, seq):
        super().__init__()
        self.byte, self.place = torch.nn.Embedding(256, hidden), torch.nn.Parameter(0.02 * torch.randn(seq, hidden))

    def forward(self, x):
        return self.byte(x) + self.place


def gpt_stage(args, place, total):
    """The stage's blocks, between the embedding of the first and the head of the last."""
    torch.manual_seed(place)
    blocks = range(place * args.layers // total, (place + 1) * args.layers // total)
    parts = [Block(args.gpt, args.heads) for _ in blocks]
    if place == 0:
        parts.insert(0, Embedding(args.gpt, args.seq))
    if place == total - 1:
        parts += [torch.nn.LayerNorm(args.gpt), torch.nn.Linear(args.gpt, 256)]
    return torch.nn.Sequential(*parts)


def gpt_loss(out, target):
    return F.cross_entropy(out.flatten(0, 1), target.flatten())


class GptBatches:
    """Windows at random offsets, equal on all ranks."""
    def __init__(self, args):
        self.bytes = torch.from_numpy(numpy.fromfile(args.data, dtype=numpy.uint8).astype(numpy.int64))
        self.shape, self.draw = (args.microbatches * args.microbatch_size, args.seq), numpy.random.default_rng(0)

    def next(self):
        begins = self.draw.integers(0, len(self.bytes) - self.shape[1], self.shape[0])
        windows = torch.stack([self.bytes[begin:begin + self.shape[1] + 1] for begin in begins])
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


class SleepBatches:
    def __init__(self, args):
        self.data = torch.zeros(args.microbatches, args.elements, requires_grad=True)  # the first stage has I, too

    def next(self):
        return self.data, self.data


def rank_main(rank, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    kind, chunks = SCHEDULES[args.schedule]
    total, turns = args.ranks * chunks, args.schedule == "zbv"
    places = [total - 1 - rank if chunk and turns else chunk * args.ranks + rank for chunk in range(chunks)]
    models = [gpt_stage(args, place, total) if args.gpt else Stage(1 / chunks) for place in places]
    stages = [PipelineStage(model, place, total, torch.device("cpu")) for model, place in zip(models, places)]
    schedule = kind(stages if chunks > 1 else stages[0], args.microbatches,
                    loss_fn=gpt_loss if args.gpt else lambda out, target: out.sum())
    weights = [weight for model in models for weight in model.parameters()]
    optimizer = torch.optim.Adam(weights, lr=0.001, fused=True) if args.gpt else None
    batches, seconds, losses = (GptBatches if args.gpt else SleepBatches)(args), [], []
    for _ in range(args.steps):
        begin = time.monotonic()
        data, target = batches.next()
        schedule.step(*((data,) if rank == 0 else ()), **({"target": target, "losses": losses} if total - 1 in places else {}))
        if optimizer:
            optimizer.step()
            optimizer.zero_grad()
        seconds.append(time.monotonic() - begin)
    report(args, rank, seconds[1:], (3 / chunks if not turns else 0.5) * ACTION_S, losses, total - 1 in places)
    dist.destroy_process_group()


def report(args, rank, seconds, idle, losses, is_last):
    """Rank 0 prints; the last stage sends it the mean loss."""
    loss = torch.stack(losses).mean().detach().reshape(1) if is_last else torch.zeros(1)
    dist.all_reduce(loss)
    if rank == 0:
        figures = {"step_s": statistics.median(seconds), "fastest_s": min(seconds), "torch": torch.__version__}
        if args.gpt:
            figures["loss"] = loss.item()
        else:
            figures["ideal_s"] = args.microbatches * 3 * ACTION_S + (args.ranks - 1) * idle
        print(json.dumps(figures))
        sys.stdout.flush()


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("schedule", choices=SCHEDULES)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--microbatches", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--elements", type=int, default=16384, help="fp32 elements of an activation")
    parser.add_argument("--gpt", type=int, metavar="HIDDEN", help="stages of a GPT of this width")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--microbatch-size", type=int, default=4)
    parser.add_argument("--data", help="of a GPT")
    args = parser.parse_args()
    mp.spawn(rank_main, (args, free_port()), nprocs=args.ranks)


if __name__ == "__main__":
    main()
