#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduces of torch.distributed over gloo and over tryst, in turn, in the same processes.

    torchrun --nproc-per-node 2 tests/perf/allreduce_torch.py
    TORCH_LAB_TRYST=build/release/torch/package tests/perf/torch_lab.sh tests/netlab/netlab.sh star \
        $TRYST_TORCH_VENV/bin/python3 tests/perf/allreduce_torch.py

A line for each size: the medians in milliseconds, of which each try counts the slowest rank, the median of the ratios of
neighbours in turn, and its least and largest.
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist

import tryst_torch  # noqa: F401 (registers the backend)

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def bytes_read(text):
    return int(text.rstrip("KM")) * UNITS[text.lstrip("0123456789")]


def seconds(group, tensor, count):
    """The time of `count` all-reduces of a tensor that are under way at once, on the slowest rank."""
    dist.barrier()
    begin = time.perf_counter()
    works = [dist.all_reduce(part, group=group, async_op=True) for part in tensor.chunk(count)]
    for work in works:
        work.wait()
    slowest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="4K,256K,1M,4M,25M,64M", help="bytes of the tensors (4K,256K,1M,4M,25M,64M)")
    parser.add_argument("--tries", type=int, default=7, help="of each backend and size, behind one that does not count (7)")
    parser.add_argument("--parts", type=int, default=1, help="cut each tensor into so many all-reduces at once (1)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("tryst")
    groups = {"gloo": dist.new_group(backend="gloo"), "tryst": dist.group.WORLD}
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, torch {torch.__version__}, {options.tries} tries\n"
              "    size     gloo, ms    tryst, ms  tryst/gloo  least  largest", flush=True)
    for size in options.sizes.split(","):
        tensor = torch.ones(bytes_read(size) // 4)
        times = {name: [] for name in groups}
        for _ in range(1 + options.tries):
            for name, group in groups.items():
                times[name].append(seconds(group, tensor, options.parts))
        gloo, tryst = times["gloo"][1:], times["tryst"][1:]
        ratios = [ours / theirs for ours, theirs in zip(tryst, gloo)]
        if dist.get_rank() == 0:
            print(f"{size:>8} {statistics.median(gloo) * 1e3:12.3f} {statistics.median(tryst) * 1e3:12.3f} "
                  f"{statistics.median(ratios):11.3f} {min(ratios):6.3f} {max(ratios):8.3f}", flush=True)
    dist.destroy_process_group()


main()
