#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the training of a GPT over ranks that compute: tokens per second of pp_bench, of others, and of PyTorch.

usage: gpt_steps.py <pp_bench> [--beside PP_BENCH]… [--torch PYTHON] [--runs N] [--steps N] [HIDDEN | HIDDENxROWS]…

Each run trains all sides in turn, with 1f1b on two ranks, so that a change of the machine's load meets all of them. A
micro-batch is ROWS (4) windows of --seq bytes. Prints, for each width, the tokens per second of each side, by the median
and by the fastest step, as medians over the runs; and, of the sides beside the first, the median of the first's tokens per
second over theirs, by run, with the lowest and the highest.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "LICENSE")


def shape(args, rows):
    """What pp_bench and torch_pipeline.py are told alike."""
    return ["--layers", str(args.layers), "--heads", "4", "--seq", str(args.seq), "--microbatches",
            str(args.microbatches), "--microbatch-size", str(rows), "--steps", str(args.steps), "--data", DATA]


def run_tryst(args, pp_bench, width, rows):
    """Returns the median and the fastest step, in seconds, without the first and the last."""
    with tempfile.NamedTemporaryFile(suffix=".json") as figures:
        command = [pp_bench, "-n", str(args.ranks), "--hidden", str(width), *shape(args, rows), "--json",
                   figures.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=args.timeout)
        seconds = [step["seconds"] for step in json.load(figures)["steps"][1:-1]]
    return statistics.median(seconds), min(seconds)


def run_torch(args, python, width, rows):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_pipeline.py")
    command = [python, script, "--ranks", str(args.ranks), "--gpt", str(width), *shape(args, rows), "1f1b"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=args.timeout).stdout
    figures = json.loads(out.splitlines()[-1])
    return figures["step_s"], figures["fastest_s"]


def compare(args, sides, width, rows):
    found = {name: [] for name, _, _ in sides}
    for _ in range(args.runs):
        for name, run, program in sides:
            found[name].append(run(args, program, width, rows))
    tokens = args.microbatches * rows * args.seq
    first = found[sides[0][0]]
    for name, steps in found.items():
        median, fastest = (tokens / statistics.median(step[i] for step in steps) for i in range(2))
        line = f"{width:6} {rows:5}  {name:24} {median:10.0f} {fastest:10.0f}"
        if steps is not first:
            for i in range(2):
                ratios = [theirs[i] / ours[i] for ours, theirs in zip(first, steps)]
                line += f"   {statistics.median(ratios):6.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pp_bench")
    parser.add_argument("widths", nargs="*", default=["64", "128", "256", "512x32"], metavar="HIDDEN[xROWS]")
    parser.add_argument("--beside", action="append", default=[], metavar="PP_BENCH", help="another build's pp_bench")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with torch 2 and numpy")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each run")
    args = parser.parse_intermixed_args()
    sides = [("pp_bench", run_tryst, args.pp_bench)]
    sides += [(f"beside {i}: pp_bench", run_tryst, program) for i, program in enumerate(args.beside, 1)]
    sides += [("PyTorch, gloo", run_torch, args.torch)] if args.torch else []
    print(f"hidden  rows  {'side':24} {'tokens/s':>10} {'fastest':>10}   the first's over it, by medians, by the fastest")
    for given in args.widths:
        width, _, rows = given.partition("x")
        compare(args, sides, int(width), int(rows or 4))
    print(f"({args.ranks} ranks, {args.microbatches} micro-batches of ROWS windows of {args.seq} bytes, {args.layers} "
          f"layers; {args.runs} runs of {args.steps} steps)")


if __name__ == "__main__":
    main()
