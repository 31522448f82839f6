# SPDX-License-Identifier: Apache-2.0
"""The time of small blocking messages between two ranks, over gloo and over tryst in alternating runs of the same processes:

    torchrun --nproc-per-node 2 bindings/torch/examples/messages.py

round trip   rank 0 sends and receives, rank 1 receives and sends
stream       rank 0 sends, rank 1 receives

Each line has the medians of the runs, in microseconds, and the median of the ratios of neighbouring runs.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist

import tryst_torch  # noqa: F401 (registers the backend)


def round_trip(group, tensor, rounds):
    for _ in range(rounds):
        if dist.get_rank() == 0:
            dist.send(tensor, 1, group=group)
            dist.recv(tensor, 1, group=group)
        else:
            dist.recv(tensor, 0, group=group)
            dist.send(tensor, 0, group=group)


def stream(group, tensor, rounds):
    for _ in range(rounds):
        if dist.get_rank() == 0:
            dist.send(tensor, 1, group=group)
        else:
            dist.recv(tensor, 0, group=group)


def seconds(program, group, tensor, rounds):
    dist.barrier(group=group)
    begin = time.perf_counter()
    program(group, tensor, rounds)
    return (time.perf_counter() - begin) / rounds


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--bytes", type=int, nargs="+", default=[4, 64, 1024])
    options.add_argument("--runs", type=int, default=31)
    options.add_argument("--rounds", type=int, default=500)
    options = options.parse_args()
    dist.init_process_group("gloo")
    groups = [dist.new_group(backend=backend) for backend in ("gloo", "tryst")]
    for program in (round_trip, stream):
        for size in options.bytes:
            tensor = torch.ones(size, dtype=torch.uint8)
            runs = [[seconds(program, group, tensor, options.rounds) for group in groups] for _ in range(options.runs)]
            gloo, tryst = (statistics.median(times) * 1e6 for times in zip(*runs))
            ratio = statistics.median(ours / theirs for theirs, ours in runs)
            if dist.get_rank() == 0:
                print(f"{program.__name__.replace('_', ' ')}, {size} bytes: gloo {gloo:.1f} us, tryst {tryst:.1f} us, "
                      f"ratio {ratio:.2f}", flush=True)
    dist.barrier()  # gloo's ranks must not leave while others still connect
    dist.destroy_process_group()


main()
