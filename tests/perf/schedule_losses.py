#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same model under each schedule, and compares the losses over samples and over time.

usage: schedule_losses.py <pp_bench> [--out FILE.svg] [--steps N] [--ranks P] [--microbatches M] [schedule…]

A schedule trains with Adam; with "@sgd" behind its options, as spectrain must, with SGD and momentum. Prints a table: the
last loss (mean of the last tenth of the steps), its ratio to that of 1f1b with the same optimiser, and the time to reach
the last loss of that 1f1b. With --out it draws all losses (needs matplotlib). All schedules of an optimiser have one rate:
one with an UPDATE for each micro-batch makes M times as many updates as one with an UPDATE for each step.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile

SCHEDULES = ["1f1b", "gpipe", "interleaved", "bfs", "pipedream", "pipedream:every=4", "pipedream-vsync",
             "pipedream-2bw", "pipemare", "pipemare:every=1", "pipemare:every=1,rate=800", "xpipe", "xpipe:every=1",
             "1f1b@sgd", "pipedream@sgd", "spectrain@sgd"]


def split(schedule):
    """Returns the schedule's name with its options, and its optimiser."""
    name, _, optimizer = schedule.partition("@")
    return name, optimizer or "adam"


def base_of(schedule):
    return "1f1b" if split(schedule)[1] == "adam" else "1f1b@" + split(schedule)[1]


def train(args, schedule):
    """Returns the steps of a run: a list of {loss, seconds}."""
    name, optimizer = split(schedule)
    rate = ["--lr", str(args.sgd_lr)] if optimizer == "sgd" else []
    with tempfile.NamedTemporaryFile(suffix=".json") as figures:
        command = [args.pp_bench, "-n", str(args.ranks), "--model", "gpt", "--microbatches", str(args.microbatches),
                   "--steps", str(args.steps), "--schedule", name, "--optimizer", optimizer, "--json", figures.name, *rate]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=args.timeout)
        return json.load(figures)["steps"]


def last_loss(steps):
    tail = [step["loss"] for step in steps[-max(1, len(steps) // 10):]]
    return statistics.fmean(tail)


def seconds_to(steps, loss):
    """Returns the time until the mean of five steps is at most `loss`; None: never."""
    seconds = 0
    for i, step in enumerate(steps):
        seconds += step["seconds"]
        if i >= 4 and statistics.fmean(s["loss"] for s in steps[i - 4:i + 1]) <= loss:
            return seconds
    return None


def table(args, runs):
    print(f"{'schedule':26} {'last loss':>10} {'to 1f1b':>8} {'step, s':>9} {'time to 1f1b loss, s':>21}")
    for schedule, steps in runs.items():
        base = last_loss(runs[base_of(schedule)])
        reached = seconds_to(steps, base)
        print(f"{schedule:26} {last_loss(steps):10.4f} {last_loss(steps) / base:8.3f} "
              f"{statistics.median(s['seconds'] for s in steps):9.4f} "
              f"{'never' if reached is None else f'{reached:.1f}':>21}")
    print(f"({args.ranks} ranks, {args.microbatches} micro-batches a step, {args.steps} steps)")


def draw(args, runs):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 6), sharey=True)
    colors = pyplot.get_cmap("tab20").colors
    for i, (schedule, steps) in enumerate(runs.items()):
        losses = [step["loss"] for step in steps]
        smooth = [statistics.fmean(losses[max(0, k - 4):k + 1]) for k in range(len(losses))]
        times, seconds = [], 0
        for step in steps:
            seconds += step["seconds"]
            times.append(seconds)
        style = {"label": schedule, "linewidth": 1.2, "color": colors[i % len(colors)],
                 "linestyle": "--" if "@" in schedule else "-"}
        axes[0].plot(range(1, len(smooth) + 1, 3), smooth[::3], **style)
        axes[1].plot(times[::3], smooth[::3], **style)
    axes[0].set_xlabel(f"steps of {args.microbatches} micro-batches")
    axes[1].set_xlabel("seconds")
    axes[0].set_ylabel("loss, mean of five steps")
    axes[0].legend(fontsize=8, ncols=2)
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(args.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pp_bench")
    parser.add_argument("schedules", nargs="*", default=SCHEDULES)
    parser.add_argument("--out")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--sgd-lr", type=float, default=0.02, help="rate of SGD")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each run")
    args = parser.parse_intermixed_args()
    schedules = list(dict.fromkeys(name for s in args.schedules for name in (base_of(s), s)))
    runs = {}
    for schedule in schedules:
        runs[schedule] = train(args, schedule)
        print(f"{schedule}: {last_loss(runs[schedule]):.4f}", file=sys.stderr)
    table(args, runs)
    if args.out:
        draw(args, runs)


if __name__ == "__main__":
    main()
