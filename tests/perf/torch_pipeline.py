#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the steps of PyTorch's pipeline schedules over gloo, whose stages only sleep (schedule_steps.py --torch PYTHON).

usage: torch_pipeline.py [--ranks P] [--microbatches M] [--steps N] [--elements N] gpipe|1f1b|interleaved|bfs

A rank's F takes 10 ms and its B 20 ms; with two chunks each chunk takes its half. Prints, as JSON, the median step of rank 0
without the first, and the ideal step: (M + P - 1) · 30 ms, with two chunks M · 30 ms + (P - 1) · 15 ms.
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
                                          ScheduleLoopedBFS)

FORWARD_S, BACKWARD_S = 0.010, 0.020
SCHEDULES = {"gpipe": (ScheduleGPipe, 1), "1f1b": (Schedule1F1B, 1), "interleaved": (ScheduleInterleaved1F1B, 2),
             "bfs": (ScheduleLoopedBFS, 2)}


class Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, part):
        ctx.part = part
        time.sleep(FORWARD_S * part)
        return x + weight

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(BACKWARD_S * ctx.part)
        gradient = gradient.contiguous()  # the gradient of sum() is not, and gloo demands it
        return gradient, gradient.sum().reshape(1), None


class Stage(torch.nn.Module):
    def __init__(self, part):
        super().__init__()
        self.weight, self.part = torch.nn.Parameter(torch.zeros(1)), part

    def forward(self, x):
        return Sleep.apply(x, self.weight, self.part)


def rank_main(rank, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    kind, chunks = SCHEDULES[args.schedule]
    total = args.ranks * chunks
    stages = [PipelineStage(Stage(1 / chunks), chunk * args.ranks + rank, total, torch.device("cpu"))
              for chunk in range(chunks)]
    schedule = kind(stages if chunks > 1 else stages[0], args.microbatches, loss_fn=lambda out, target: out.sum())
    data = torch.zeros(args.microbatches, args.elements)
    seconds = []
    for _ in range(args.steps):
        begin = time.monotonic()
        inputs = (data,) if rank == 0 else ()
        target = {"target": data} if rank == args.ranks - 1 else {}
        schedule.step(*inputs, **target)
        seconds.append(time.monotonic() - begin)
    if rank == 0:
        pair = FORWARD_S + BACKWARD_S
        print(json.dumps({"step_s": statistics.median(seconds[1:]), "torch": torch.__version__,
                          "ideal_s": args.microbatches * pair + (args.ranks - 1) * pair / chunks}))
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
