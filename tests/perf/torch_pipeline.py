#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the steps of PyTorch's pipeline schedules over gloo, whose stages only sleep (schedule_steps.py --torch PYTHON).

usage: torch_pipeline.py [--ranks P] [--microbatches M] [--steps N] [--elements N] gpipe|1f1b|interleaved|bfs|zbv

A rank's F takes 10 ms and its B 20 ms, of which zbv runs I and W apart, 10 ms each; with two chunks each chunk takes its
half. Prints, as JSON, the median step of rank 0 without the first, and the ideal step: (M + P - 1) · 30 ms, with two chunks
M · 30 ms + (P - 1) · 15 ms, and zbv's, one behind the other, M · 30 ms + (P - 1) · 5 ms.
"""
import argparse
import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
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


def rank_main(rank, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    kind, chunks = SCHEDULES[args.schedule]
    total, turns = args.ranks * chunks, args.schedule == "zbv"
    places = [total - 1 - rank if chunk and turns else chunk * args.ranks + rank for chunk in range(chunks)]
    stages = [PipelineStage(Stage(1 / chunks), place, total, torch.device("cpu")) for place in places]
    schedule = kind(stages if chunks > 1 else stages[0], args.microbatches, loss_fn=lambda out, target: out.sum())
    data = torch.zeros(args.microbatches, args.elements, requires_grad=True)  # so that the first stage has I, too
    seconds = []
    for _ in range(args.steps):
        begin = time.monotonic()
        inputs = (data,) if rank == 0 else ()
        target = {"target": data} if total - 1 in places else {}
        schedule.step(*inputs, **target)
        seconds.append(time.monotonic() - begin)
    if rank == 0:
        idle = ACTION_S / 2 if turns else 3 * ACTION_S / chunks
        print(json.dumps({"step_s": statistics.median(seconds[1:]), "torch": torch.__version__,
                          "ideal_s": args.microbatches * 3 * ACTION_S + (args.ranks - 1) * idle}))
        sys.stdout.flush()
    dist.destroy_process_group()


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
    args = parser.parse_args()
    mp.spawn(rank_main, (args, free_port()), nprocs=args.ranks)


if __name__ == "__main__":
    main()
