# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests (run.py) over gloo and over tryst, and writes what passed, what was skipped and why.

    python3 table.py [--out RESULTS.md]

Fails if a test fails over tryst, or if a test that applies passes over gloo alone.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
BACKENDS = ("gloo", "tryst")
SMALL = "Skipped due to small world size."
SECONDS = 1200
OUTCOMES = ("passed", "failed", "not applicable", "skipped")

HEAD = """# PyTorch's own tests of a backend

`DistributedTest` of PyTorch {version}, as its wheel contains it, over gloo and over tryst on the same machine, without
GPUs. Made by `python3 tests/pytorch/table.py --out tests/pytorch/RESULTS.md`; [`run.py`](run.py) tells how the tests
are run, [`reasons.py`](reasons.py) has the reasons of those that do not apply.

| run | backend | passed | failed | not applicable | skipped |
|---|---|---|---|---|---|
"""


def run(backend, ranks, folder, like="gloo", names=()):
    """Run the tests; return their rows."""
    out = f"{folder}/{backend}.{ranks}.{like}.{len(names)}.json"
    command = [sys.executable, HERE + "/run.py", str(ranks), "--backend", backend, "--like", like, "--out", out, *names]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    if done.returncode == 77:
        print(done.stdout)
        sys.exit(77)
    if not os.path.exists(out):
        sys.exit(f"failed: {' '.join(command)}: status {done.returncode}\n{done.stdout}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("failed")]
    print(*lines, done.stdout.splitlines()[-1], sep="\n", flush=True)
    with open(out) as file:
        return json.load(file)


def names_with(rows, reason):
    return [row["name"] for row in rows if row["reason"] == reason]


def runs(folder):
    """All runs: their titles, and the rows of each backend."""
    both = {}
    for ranks in (2, 4):
        both[f"{ranks} ranks"] = {name: run(name, ranks, folder) for name in BACKENDS}
    small = names_with(both["4 ranks"]["gloo"], SMALL)
    both["8 ranks: those that need as many"] = {name: run(name, 8, folder, names=small) for name in BACKENDS}
    both["4 ranks: `all_to_all`, which PyTorch tests over MPI"] = {
        name: run(name, 4, folder, like="mpi", names=["test_all_to_all*"]) for name in BACKENDS}
    return both


def counts_text(both):
    text = ""
    for title, rows in both.items():
        for backend in BACKENDS:
            counts = collections.Counter(row["outcome"] for row in rows[backend])
            text += f"| {title} | {backend} | " + " | ".join(str(counts[word]) for word in OUTCOMES) + " |\n"
    return text


def grouped(rows, outcome):
    """The names of tests with this outcome, by reason; the most frequent first."""
    groups = collections.defaultdict(list)
    for row in rows:
        if row["outcome"] == outcome:
            errors = [line for line in row["reason"].splitlines() if "Error: " in line]
            groups[errors[-1] if outcome == "failed" and errors else row["reason"].splitlines()[0]].append(row["name"])
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def groups_text(rows, outcome):
    text = "| tests | reason | names |\n|---|---|---|\n"
    for reason, names in grouped(rows, outcome):
        text += f"| {len(names)} | {reason} | {' '.join(name.removeprefix('test_') for name in names)} |\n"
    return text


def results_text(both):
    rows = both["4 ranks"]["tryst"]
    text = HEAD.format(version=torch.__version__) + counts_text(both)
    text += "\n## Not applicable to tryst (4 ranks)\n\n" + groups_text(rows, "not applicable")
    text += ("\n## Skipped by PyTorch's decorators (4 ranks)\n\nThe reasons are PyTorch's words, and the same tests are "
             "skipped over gloo.\n\n" + groups_text(rows, "skipped"))
    for title, rows in both.items():
        for backend in BACKENDS:
            if any(row["outcome"] == "failed" for row in rows[backend]):
                text += f"\n## Failed over {backend}, {title}\n\n" + groups_text(rows[backend], "failed")
    return text


def faults(both):
    """What must not be: a failure over tryst, or a test that applies and passes over gloo alone."""
    for title, rows in both.items():
        over_gloo = {row["name"] for row in rows["gloo"] if row["outcome"] == "passed"}
        for row in rows["tryst"]:
            if row["outcome"] == "failed":
                yield f"{title}: {row['name']} failed"
            elif row["outcome"] == "skipped" and row["name"] in over_gloo:
                yield f"{title}: {row['name']} is skipped, and passes over gloo: {row['reason']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", help="write the results to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        both = runs(folder)
    if options.out:
        with open(options.out) as file:
            _, title, others = file.read().partition("\n# PyTorch's test files\n")  # checkout_table.py
        with open(options.out, "w") as file:
            file.write(results_text(both) + title + others)
    wrong = list(faults(both))
    print(*wrong, "failed" if wrong else "passed", sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
