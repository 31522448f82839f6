#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that a long run of a schedule takes no more memory than a short one.

usage: schedule_memory.py <pp_bench> [--steps N] [schedule…]

Runs each schedule for N / 10 steps and for N (10000), with a small model, and reads the resident memory of all processes of
pp_bench at a tenth and at nine tenths of the long run. Prints the chunks of buffers that the engines made in both runs and the
change of the memory; fails if the long run made more than one chunk more on any rank, or if a process grew by more than 1 MiB.
(A rank whose items come back late, because their reader was stopped, makes a chunk more: items of two steps are out at most.
pp_bench keeps 8 bytes for each step on each rank, and 24 on the first and the last.)
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

SCHEDULES = ["pipedream", "pipedream:every=4", "pipedream-vsync", "pipedream-2bw", "pipemare", "xpipe", "spectrain"]


def command(args, schedule, steps, figures):
    return [args.pp_bench, "-n", str(args.ranks), "--model", "mlp", "--hidden", "16", "--layers", "4", "--seq", "16",
            "--transport", args.transport, "--steps", str(steps), "--schedule", schedule, "--json", figures,
            *(["--optimizer", "sgd"] if schedule.startswith("spectrain") else [])]


def buffers(path):
    with open(path) as figures:
        return [rank["buffer_allocations"] for rank in json.load(figures)["per_rank"]]


def resident(process):
    """Returns the resident bytes of each child of pp_bench."""
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
        ranks = children.read().split()
    pages = []
    for rank in ranks:
        with open(f"/proc/{rank}/statm") as statm:
            pages.append(int(statm.read().split()[1]))
    return [count * os.sysconf("SC_PAGE_SIZE") for count in pages]


def long_run(args, schedule, figures):
    """Returns the resident memory at a tenth and at nine tenths of the run."""
    progress = tempfile.TemporaryFile(mode="w+")
    process = subprocess.Popen(command(args, schedule, args.steps, figures), stdout=progress, stderr=progress)
    begin, early, late = time.monotonic(), None, None
    while process.poll() is None:
        if time.monotonic() - begin > args.timeout:
            process.terminate()
            sys.exit(f"{schedule}: not at its end after {args.timeout} s")
        progress.seek(0)
        steps = [line.split("/")[0].split()[-1] for line in progress.read().splitlines() if line.startswith("step ")]
        try:
            if steps and args.steps // 10 <= int(steps[-1]) < args.steps * 9 // 10:
                late = resident(process) or late
                early = early or late
        except (OSError, IndexError):
            pass  # a rank has just ended
        time.sleep(0.2)
    if process.returncode != 0 or not early:
        sys.exit(f"{schedule}: exit status {process.returncode}")
    return early, late


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pp_bench")
    parser.add_argument("schedules", nargs="*")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--transport", default="shm")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each run")
    args = parser.parse_intermixed_args()
    failed = False
    for schedule in args.schedules or SCHEDULES:
        with tempfile.NamedTemporaryFile(suffix=".json") as figures:
            subprocess.run(command(args, schedule, args.steps // 10, figures.name), check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=args.timeout)
            short = buffers(figures.name)
            early, late = long_run(args, schedule, figures.name)
            long = buffers(figures.name)
        growth = [after - before for before, after in zip(early, late)]
        more = max(after - before for before, after in zip(short, long))
        failed = failed or more > 1 or max(growth) > 1 << 20
        print(f"{schedule:20} chunks made in {args.steps // 10} steps {short}, in {args.steps} {long}; resident memory "
              f"{max(late) / 2**20:.1f} MiB, between a tenth and nine tenths {[g // 1024 for g in growth]} KiB", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
