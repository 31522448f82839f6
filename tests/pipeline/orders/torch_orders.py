#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files of orders/torch again: PyTorch's schedules, as PyTorch writes them.

usage: torch_orders.py [--source FOLDER] [FOLDER]

  --source  a folder with torch/distributed/pipelining of an unpacked wheel; without it, the installed torch
  FOLDER    where the files are written (default: torch/ beside this script)

One idea: PyTorch's own schedules.py decides and writes every action; nothing here knows an order. The multi-stage
schedules compute their orders in their constructors, and _dump_csv writes them. The single-stage schedules (GPipe,
1F1B) have no such function: their own run loop, _step_microbatches, runs over a stage that only records the calls, and
the record is given to _PipelineScheduleRuntime, whose _load_csv checks it and adds the communication. The order that
these two print (_get_pipeline_order) is a file of its own.

--source needs no more of torch than that folder: what schedules.py imports from elsewhere is replaced by empty classes
(of these only record_function, which names a span for the profiler, is used on the way). Run by hand, not in CI; the README beside the files says with which version.
"""
import argparse
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
from unittest import mock

REAL = ("torch.distributed.pipelining.schedules", "torch.distributed.pipelining._utils")


class Empty(types.ModuleType):
    """A module in which each name is an empty class, which may be a context manager, too."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {"__init__": lambda self, *args, **kwargs: None,
                                "__enter__": lambda self: None, "__exit__": lambda self, *error: None})
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the two real modules in `folder`; every other module of torch is empty."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def find_spec(self, name, path=None, target=None):
        if name in REAL:
            file = self.folder / (name.replace(".", "/") + ".py")
            return importlib.util.spec_from_file_location(name, file)
        if name == "torch" or name.startswith("torch."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Empty(spec.name)

    def exec_module(self, module):
        pass


def stages_make(rank, ranks, chunks):
    """The stages of a rank, as far as constructors and run loops ask for them."""
    return [mock.MagicMock(stage_index=rank + chunk * ranks, group_rank=rank, group_size=ranks, is_last=False,
                           num_stages=ranks * chunks, **{f"get_{direction}_{what}_ops.return_value": []
                                                         for direction in ("fwd", "bwd") for what in ("send", "recv")})
            for chunk in range(chunks)]


def order_run(schedules, name, ranks, microbatches):
    """The order in which the run loop of a single-stage schedule calls its stage."""
    order = {}
    for rank in range(ranks):
        stage, = stages_make(rank, ranks, 1)
        actions = order[rank] = []

        def record(kind, index, rank=rank, actions=actions):
            actions.append(schedules._Action(rank, kind, index))

        stage.forward_one_chunk.side_effect = lambda index, *_, **__: record(schedules.FORWARD, index)
        stage.backward_one_chunk.side_effect = lambda index, **_: record(schedules.FULL_BACKWARD, index)
        schedule = getattr(schedules, name)(stage, microbatches)
        schedule._stage_forward_initialized = True
        schedule._step_microbatches()
    return order


def single_write(schedules, name, ranks, microbatches, path):
    runtime = schedules._PipelineScheduleRuntime(stages_make(0, ranks, 1), microbatches)
    runtime.pipeline_order = order_run(schedules, name, ranks, microbatches)
    runtime._dump_csv(f"{path}.compute_only.csv", "compute_only")
    runtime._load_csv(f"{path}.compute_only.csv", "compute_only")
    runtime._dump_csv(f"{path}.compute_comms.csv", "compute_comms")
    runtime.pipeline_order = getattr(schedules, name)(stages_make(0, ranks, 1)[0], microbatches).pipeline_order
    runtime._dump_csv(f"{path}.printed.csv", "compute_only")


def multi_write(schedules, name, ranks, chunks, microbatches, path):
    schedule = getattr(schedules, name)(stages_make(0, ranks, chunks), microbatches)
    for form in ("compute_only", "compute_comms"):
        schedule._dump_csv(f"{path}.{form}.csv", form)


# ranks, micro-batches
SINGLE = ((2, 4), (2, 8), (3, 6), (4, 4), (4, 8))
# ranks, chunks, micro-batches
MULTI = {
    # groups of ranks; of 6 (p = 4, m = 6) and 5 (m = 10) micro-batches; and fewer micro-batches than ranks
    "ScheduleInterleaved1F1B": ((2, 2, 4), (2, 2, 8), (3, 2, 6), (3, 3, 6), (4, 2, 4), (4, 2, 8), (4, 2, 6),
                                (4, 2, 10), (4, 2, 3)),
    "ScheduleLoopedBFS": ((2, 2, 4), (2, 2, 8), (3, 3, 6), (4, 2, 4), (4, 2, 8), (4, 2, 6)),
    "ScheduleInterleavedZeroBubble": ((2, 2, 4), (3, 3, 6), (4, 2, 8), (4, 2, 10), (8, 2, 16), (8, 2, 24)),
    "ScheduleZBVZeroBubble": ((2, 2, 4), (3, 2, 4), (4, 2, 8), (8, 2, 16), (8, 2, 24)),
    "ScheduleDualPipeV": ((2, 2, 4), (3, 2, 7), (4, 2, 8), (8, 2, 16), (8, 2, 24)),
}
NAMES = {"ScheduleInterleaved1F1B": "interleaved", "ScheduleLoopedBFS": "bfs",
         "ScheduleInterleavedZeroBubble": "zb1p", "ScheduleZBVZeroBubble": "zbv", "ScheduleDualPipeV": "dualpipev"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source")
    parser.add_argument("folder", nargs="?", default=pathlib.Path(__file__).parent / "torch", type=pathlib.Path)
    options = parser.parse_args()
    if options.source:
        sys.meta_path.insert(0, Finder(options.source))
    schedules = importlib.import_module(REAL[0])
    for name in ("ScheduleGPipe", "Schedule1F1B"):
        for ranks, microbatches in SINGLE:
            path = options.folder / f"{name[8:].lower()}-p{ranks}-m{microbatches}"
            single_write(schedules, name, ranks, microbatches, path)
    for name, cases in MULTI.items():
        for ranks, chunks, microbatches in cases:
            path = options.folder / f"{NAMES[name]}-p{ranks}-v{chunks}-m{microbatches}"
            multi_write(schedules, name, ranks, chunks, microbatches, path)


if __name__ == "__main__":
    main()
