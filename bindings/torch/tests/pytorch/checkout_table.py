# SPDX-License-Identifier: Apache-2.0
"""Runs test files of a PyTorch checkout (checkout.py) over gloo and over tryst, and writes what passed.

    python3 checkout_table.py SOURCE [--runs FOLDER] [--origin TEXT] [--out RESULTS.md]

SOURCE is the checkout. The outcomes of runs lie in FOLDER, one file each; those that are there are not run again. The
table takes the place of the part of RESULTS.md that begins with its title.

Fails if a test passes over gloo and not over tryst, unless reasons.py has its reason.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

import torch

from reasons import CHECKOUT

HERE = os.path.dirname(os.path.abspath(__file__))
BACKENDS = ("gloo", "tryst")
SECONDS = 1500  # for one file
FILES = ("test_c10d_gloo.py", "test_c10d_spawn_gloo.py", "test_c10d_object_collectives.py", "test_collective_utils.py",
         "test_functional_api.py", "test_pg_wrapper.py", "_composable/test_replicate.py", "algorithms/test_join.py",
         "tensor/parallel/test_parallelize_api.py", "tensor/parallel/test_tp_examples.py", "_tensor/test_api.py",
         "_tensor/test_convolution_ops.py", "_tensor/test_dtensor.py", "_tensor/test_dtensor_compile.py",
         "_tensor/test_embedding_ops.py", "_tensor/test_experimental_ops.py", "_tensor/test_init.py",
         "_tensor/test_math_ops.py", "_tensor/test_matrix_ops.py", "_tensor/test_optimizers.py",
         "_tensor/test_random_ops.py", "_tensor/test_redistribute.py", "_tensor/test_tensor_ops.py",
         "_tensor/test_view_ops.py", "checkpoint/test_dtensor_checkpoint.py", "checkpoint/test_dtensor_resharding.py",
         "checkpoint/test_format_utils.py", "checkpoint/test_fsdp_tp_checkpoint_conversion.py",
         "checkpoint/test_save_load_api.py", "checkpoint/test_tp_checkpoint.py")
TITLE = "# PyTorch's test files\n"
HEAD = TITLE + """
Files of test/distributed of PyTorch {source}{commit}, which its wheel does not contain, run with PyTorch {version}
over gloo and over tryst on the same machine, without GPUs. Made by `bindings/torch/test.sh pytorch BUILD source CHECKOUT`;
[`checkout.py`](checkout.py) tells how the tests are run. Counted are the tests that open a process group over gloo.
Where the files are older than PyTorch, a test that uses what is gone fails over both backends. Over gloo a few others fail in
each run, with "Connection reset by peer".

| file | tests | passed over gloo | passed over tryst | over gloo alone | over tryst alone |
|---|---|---|---|---|---|
"""


def run(source, name, backend, folder):
    """Run a file, unless its outcomes are there; return its rows."""
    out = f"{folder}/{name.replace('/', '_').removesuffix('.py')}.{backend}.json"
    if not os.path.exists(out):
        subprocess.run([sys.executable, HERE + "/checkout.py", f"{source}/test/distributed/{name}", "--backend",
                        backend, "--out", out], timeout=SECONDS)
    with open(out) as file:
        return {row["name"]: row for row in json.load(file) if row["group"]}


def passed(rows):
    return {name for name, row in rows.items() if row["outcome"] == "passed"}


def compare(source, folder):
    """Return the table's lines, and the names of tests that pass over gloo alone, with why they fail over tryst."""
    lines, alone = [], {}
    for name in FILES:
        gloo, tryst = (run(source, name, backend, folder) for backend in BACKENDS)
        ours, theirs = passed(tryst), passed(gloo)
        counts = map(len, (gloo, theirs, ours, theirs - ours, ours - theirs))
        lines.append(" | ".join([f"| {name}", *map(str, counts)]) + " |")
        alone.update({test: tryst[test]["why"] if test in tryst else "no process group" for test in theirs - ours})
    return lines, alone


def reasons_text(alone):
    groups = collections.defaultdict(list)
    for test, why in sorted(alone.items()):
        groups[CHECKOUT.get(test, why.replace("|", "/"))].append(test)
    text = "\n## Passed over gloo alone\n\n| tests | reason | names |\n|---|---|---|\n"
    for reason, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        text += f"| {len(names)} | {reason} | {' '.join(names)} |\n"
    return text


def version(source):
    """The checkout's version, and its commit where it is a repository."""
    with open(source + "/version.txt") as file:
        number = file.read().strip()
    done = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True)
    return number, f" ({done.stdout.strip()})" if done.returncode == 0 else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source")
    parser.add_argument("--runs", help="keep the outcomes of runs in this folder")
    parser.add_argument("--origin", help="repository and commit of a checkout without its history")
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines, alone = compare(options.source, options.runs or folder)
    number, commit = version(options.source)
    if options.origin:
        commit = f" ({options.origin})"
    text = HEAD.format(source=number, commit=commit, version=torch.__version__)
    text += "\n".join(lines) + "\n" + reasons_text(alone)
    if options.out:
        with open(options.out) as file:
            before = file.read().split(TITLE)[0].rstrip("\n")
        with open(options.out, "w") as file:
            file.write(before + "\n\n" + text)
    wrong = [f"{test} passes over gloo alone: {why}" for test, why in alone.items() if test not in CHECKOUT]
    print(text, *wrong, "failed" if wrong else "passed", sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
