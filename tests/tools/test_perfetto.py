#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A trace of pp_bench in Perfetto's own trace processor (PyPI's `perfetto`): no import error,
every arrow joined, a process for each rank, and the transfers in it. Skips (77) where the
trace processor is not available.
Usage: test_perfetto.py <pp_bench>"""
import json
import subprocess
import sys
import tempfile

RANKS = 3
SKIPPED = 77

try:
    from perfetto.trace_processor import TraceProcessor
except ImportError:
    print("skipped: the Python package perfetto is missing (pip install perfetto)")
    sys.exit(SKIPPED)
try:
    TraceProcessor().close()
except Exception as error:  # no network, no curl, another machine
    print(f"skipped: perfetto's trace_processor_shell cannot be started: {error}")
    sys.exit(SKIPPED)


def count(processor, query):
    return next(iter(processor.query(query))).n


with tempfile.TemporaryDirectory() as folder:
    path = folder + "/trace.json"
    subprocess.run([sys.argv[1], "-n", str(RANKS), "--model", "mlp", "--layers", str(RANKS), "--hidden", "16",
                    "--seq", "8", "--steps", "3", "--transport", "shm", "--trace", path], check=True,
                   stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as file:
        arrows = sum(event["ph"] == "s" for event in json.load(file)["traceEvents"])
    processor = TraceProcessor(trace=path)
    wrong = [f"{row.name}: {row.value}" for row in
             processor.query("select name, value from stats where severity != 'info' and value > 0")]
    joined = count(processor, "select count(*) as n from flow")
    if joined != arrows:
        wrong.append(f"{joined} of {arrows} arrows are joined")
    ranks = count(processor, "select count(*) as n from process where name glob 'rank *'")
    if ranks != RANKS:
        wrong.append(f"{ranks} processes for {RANKS} ranks")
    homes = count(processor, "select count(distinct upid) as n from slice join process_track on "
                             "slice.track_id = process_track.id where slice.name in ('send', 'receive')")
    if homes != RANKS:
        wrong.append(f"transfers are under {homes} of {RANKS} ranks")
    processor.close()
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
