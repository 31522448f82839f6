#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduces of torch.distributed over gloo and over tryst, in turn, in the same processes.

    torchrun --nproc-per-node 2 tests/perf/allreduce_torch.py
    TORCH_LAB_TRYST=build/release/torch/package tests/perf/torch_lab.sh tests/netlab/netlab.sh star \
        $TRYST_TORCH_VENV/bin/python3 tests/perf/allreduce_torch.py

A line for each size: the medians in milliseconds, of which each try counts the slowest rank; the median of the ratios of
neighbours in turn, and its least and largest; and the TCP segments that the host of the worst rank retransmitted in all
tries (/proc/net/snmp), which means something where each rank has a host of its own.
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist

import tryst_torch  # noqa: F401 (registers the backend)

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def sizes_read(text):
    """[("4K", 4096), …] of "4K,…"."""
    sizes = []
    for size in text.split(","):
        number = size.rstrip("KMG")
        unit = size[len(number):]
        if not number.isdigit() or unit not in UNITS or int(number) * UNITS[unit] < 4:
            raise argparse.ArgumentTypeError(f"'{size}' is no size: a number of bytes, at least 4, with K, M or G")
        sizes.append((size, int(number) * UNITS[unit]))
    return sizes


def retransmits():
    """The TCP segments that this host has retransmitted."""
    with open("/proc/self/net/snmp", encoding="ascii") as file:
        names, values = [line.split() for line in file if line.startswith("Tcp:")]
    return int(values[names.index("RetransSegs")])


def one_try(group, tensor):
    """The seconds of an all-reduce on the slowest rank, and the retransmits of this host."""
    dist.barrier()
    before, begin = retransmits(), time.perf_counter()
    dist.all_reduce(tensor, group=group)
    slowest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    sent_again = retransmits() - before
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item(), sent_again


def most(values):
    """The largest of each value over the ranks."""
    shared = torch.tensor(values)
    dist.all_reduce(shared, dist.ReduceOp.MAX)
    return shared.tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=sizes_read, default="4K,256K,1M,4M,25M,64M", help="bytes of the tensors (4K,256K,1M,4M,25M,64M)")
    parser.add_argument("--tries", type=int, default=7, help="of each backend and size, behind one that does not count (7)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("tryst")
    groups = {"gloo": dist.new_group(backend="gloo"), "tryst": dist.group.WORLD}
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, torch {torch.__version__}, {options.tries} tries\n"
              "    size     gloo, ms    tryst, ms  tryst/gloo  least  largest  retransmits: gloo, tryst", flush=True)
    for size, count in options.sizes:
        tensor = torch.ones(count // 4)
        tries = {name: [] for name in groups}
        for _ in range(1 + options.tries):
            for name, group in groups.items():
                tries[name].append(one_try(group, tensor))
        gloo, tryst = ([seconds for seconds, _ in tries[name][1:]] for name in groups)
        again = most([sum(segments for _, segments in tries[name]) for name in groups])
        ratios = [ours / theirs for ours, theirs in zip(tryst, gloo)]
        if dist.get_rank() == 0:
            print(f"{size:>8} {statistics.median(gloo) * 1e3:12.3f} {statistics.median(tryst) * 1e3:12.3f} "
                  f"{statistics.median(ratios):11.3f} {min(ratios):6.3f} {max(ratios):8.3f} {again[0]:18} {again[1]:6}",
                  flush=True)
    dist.destroy_process_group()


main()
