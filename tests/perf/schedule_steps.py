#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the steps of schedules whose stages only sleep, beside the simulated step.

usage: schedule_steps.py <pp_bench> [--ranks P] [--microbatches M] [--runs N] [--activation SIZE] [--beside PP_BENCH]
                         [--torch PYTHON] [schedule…]

Each run trains all schedules in turn, so that a change of the machine's load meets all of them. A rank's F takes 10 ms
(--ms) and its B 20 ms, or I and W 10 ms each; with several stages on a rank each takes its share. Prints, for each schedule,
the median over the runs of: the median step, the step that the simulator computes from the measured times of the
actions, and their ratio; the step in multiples of that of 1f1b in the same run; the bubble, measured and simulated.
--beside names another build's pp_bench, which runs the same schedules in turn with ours, with a ratio of the steps.
--torch names a Python with torch 2: PyTorch's own schedules over gloo then run in turn with the others
(torch_pipeline.py), beside their ideal step.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

SCHEDULES = ["1f1b", "gpipe", "interleaved:v=2", "bfs:v=2", "pipedream", "pipedream-2bw"]
BESIDE = "beside "


def chunks_of(schedule):
    """Returns the number of stages on each rank, for which a copy in the other direction does not count."""
    name, _, options = schedule.partition(":")
    given = dict(option.partition("=")[::2] for option in options.split(",") if option)
    if name == "hanayo":
        return 2 * int(given.get("waves", 1))
    return int(given.get("v", 2 if name in ("interleaved", "bfs", "zb-v", "dualpipev", "v-half", "v-min") else 1))


def size(text):
    """A size in bytes, such as 64K."""
    unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
    return int(text.rstrip("KM")) * unit


def run_torch(args, schedule):
    """Returns the median step of a schedule of PyTorch and its ideal step, in seconds, and no bubbles."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_pipeline.py")
    command = [args.torch, script, "--ranks", str(args.ranks), "--microbatches", str(args.microbatches), "--steps",
               str(args.steps), "--elements", str(size(args.activation) // 4), schedule]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=args.timeout).stdout
    figures = json.loads(out.splitlines()[-1])
    return figures["step_s"], figures["ideal_s"], math.nan, math.nan


def run(args, schedule):
    """Returns the median step and the simulated step, in seconds, and both bubbles."""
    if schedule.startswith("torch "):
        return run_torch(args, schedule.partition(" ")[2])
    pp_bench = args.pp_bench
    if schedule.startswith(BESIDE):
        pp_bench, schedule = args.beside, schedule.removeprefix(BESIDE)
    chunks = chunks_of(schedule)
    with tempfile.NamedTemporaryFile(suffix=".json") as figures:
        command = [pp_bench, "-n", str(args.ranks), "--model", "sleep:" + ",".join(3 * [str(args.ms / chunks)]),
                   "--layers", str(args.ranks * chunks), "--sleep-activation", args.activation,
                   "--microbatches", str(args.microbatches), "--steps", str(args.steps), "--schedule", schedule,
                   "--json", figures.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=args.timeout)
        document = json.load(figures)
    # the first step fills caches, the last of a loop has no forwards of a next step
    seconds = [step["seconds"] for step in document["steps"][1:-1]]
    return (statistics.median(seconds), document["step_predicted_s"], document["bubble_measured"],
            document["bubble_predicted"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pp_bench")
    parser.add_argument("schedules", nargs="*")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--microbatches", type=int, default=64)
    parser.add_argument("--ms", type=float, default=10, help="of each of a rank's F, I and W; PyTorch's take 10")
    parser.add_argument("--activation", default="64K")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--beside", metavar="PP_BENCH", help="another build's pp_bench")
    parser.add_argument("--torch", help="a Python with torch 2")
    parser.add_argument("--torch-schedules", default="1f1b,gpipe,interleaved,bfs")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each run")
    args = parser.parse_intermixed_args()
    schedules = list(dict.fromkeys(["1f1b", *(args.schedules or SCHEDULES)]))
    if args.beside:
        schedules = [side for schedule in schedules for side in (schedule, BESIDE + schedule)]
    if args.torch:
        schedules += [f"torch {name}" for name in args.torch_schedules.split(",")]
    found = {schedule: [] for schedule in schedules}
    for number in range(1, args.runs + 1):
        for schedule in schedules:
            found[schedule].append(run(args, schedule))
            step, simulated = found[schedule][-1][:2]
            print(f"run {number} of {args.runs}: {schedule}: {step:.4f} s, simulated {simulated:.4f} s", file=sys.stderr)
    print(f"{'schedule':24} {'step, s':>9} {'simulated':>9} {'ratio':>7} {'lowest':>7} {'highest':>7} {'of 1f1b':>8} "
          f"{'bubble, %':>10} {'simulated':>9}")
    for schedule in schedules:
        runs = found[schedule]
        ratios = [step / simulated for step, simulated, _, _ in runs]
        of_base = [run[0] / base[0] for run, base in zip(runs, found["1f1b"])]
        step, simulated, bubble, bubble_simulated = (statistics.median(run[i] for run in runs) for i in range(4))
        print(f"{schedule:24} {step:9.4f} {simulated:9.4f} {statistics.median(ratios):7.4f} "
              f"{min(ratios):7.4f} {max(ratios):7.4f} {statistics.median(of_base):8.4f} "
              f"{100 * bubble:10.2f} {100 * bubble_simulated:9.2f}")
    for schedule in schedules if args.beside else []:
        if BESIDE + schedule in found:
            ratios = [run[0] / other[0] for run, other in zip(found[schedule], found[BESIDE + schedule])]
            print(f"{schedule:24} {statistics.median(ratios):.4f} of the step beside it "
                  f"({min(ratios):.4f} to {max(ratios):.4f})")
    print(f"({args.ranks} ranks, {args.microbatches} micro-batches, {args.activation} activations; "
          f"medians of {args.runs} runs)")


if __name__ == "__main__":
    main()
