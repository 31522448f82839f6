#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The profiles of profiles.py: as many parameters as published, the computation that the caller gives, backward twice
forward; and tryst-perf simulates and draws them, with orders no better than the optimum.
Usage: test_profiles.py <tryst-perf>"""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

# model, parameters, operations. The counts are those of torchvision (vgg16, resnet50) and of Hugging Face's transformers
# (gpt2, BertModel of bert-large-uncased).
MODELS = (("vgg16", 138357544, 16), ("resnet50", 25557032, 54), ("gpt2", 124439808, 50),
          ("bert-large", 335141888, 98))
GBIT = 2.0


def near(value, wanted, part=1e-9):
    return abs(value - wanted) <= part * abs(wanted)


def nodes_of(model, *options):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiles.py")
    text = subprocess.run([sys.executable, script, model, *options], check=True, stdout=subprocess.PIPE).stdout
    return text, json.loads(text)["nodes"]


def check_step(model, nodes, seconds):
    """Each layer's backward is before its gradients, and those are before its forward."""
    known = {node["name"]: node for node in nodes}
    assert len(known) == len(nodes), f"{model}: names are not unique"
    assert near(sum(node.get("seconds", 0) for node in nodes), seconds), f"{model}: not {seconds} s of computation"
    for node in nodes:
        if node["name"].startswith("forward "):
            layer = node["name"][len("forward "):]
            assert near(known["backward " + layer]["seconds"], 2 * node["seconds"]), f"{model}: {layer}: backward"
            gradients = [name for name in node["after"] if "bytes" in known[name]]
            assert gradients, f"{model}: {layer} has no gradient"
            for name in gradients:
                assert known[name]["after"] == ["backward " + layer], f"{model}: {name}"


def check_simulation(perf, model, text):
    with tempfile.TemporaryDirectory() as folder:
        drawn = os.path.join(folder, "step.svg")
        out = subprocess.run([perf, "sched", "--simulate", "--profile", "-", "--gbit", str(GBIT), "--json", "-",
                              "--draw", drawn], input=text, check=True, stdout=subprocess.PIPE).stdout
        xml.etree.ElementTree.parse(drawn)
    figures = json.loads(out)
    gaps = {result["order"]: result["gap_order"] for result in figures["results"]}
    assert all(gap >= 0 for gap in gaps.values()), f"{model}: better than the optimum: {gaps}"
    assert gaps["preempt"] < 1e-6, f"{model}: preempt is not the optimum: {gaps}"
    assert gaps["priority"] <= gaps["fifo"], f"{model}: priority is worse than fifo: {gaps}"


def main(perf):
    for model, parameters, operations in MODELS:
        for seconds in (0.5, 2.0):
            text, nodes = nodes_of(model, "--seconds", str(seconds))
            sizes = [node["bytes"] for node in nodes if "bytes" in node]
            assert sum(sizes) == 4 * parameters, f"{model}: {sum(sizes) / 4} parameters, not {parameters}"
            assert len(sizes) == operations, f"{model}: {len(sizes)} operations, not {operations}"
            check_step(model, nodes, seconds)
            check_simulation(perf, model, text)
        text, nodes = nodes_of(model, "--seconds", "0.5", "--bytes", "33.6e6")
        sizes = [node["bytes"] for node in nodes if "bytes" in node]
        assert len(sizes) == operations and near(sum(sizes), 33.6e6, 1e-4), f"{model}: scaled to {sum(sizes)} bytes"
        check_step(model, nodes, 0.5)
    text, nodes = nodes_of("ddp")
    sizes = [node["bytes"] for node in nodes if "bytes" in node]
    assert len(sizes) == 161 and near(sum(sizes), 33.6e6, 1e-4), f"ddp: {len(sizes)} tensors of {sum(sizes)} bytes"
    assert all(size % 4 == 0 and size > 0 for size in sizes), "ddp: a tensor without elements"
    check_step("ddp", nodes, 0.4)
    check_simulation(perf, "ddp", text)


main(sys.argv[1])
