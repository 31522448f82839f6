# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests of a backend, DistributedTest of torch.testing in PyTorch's wheel, over tryst or gloo.

    python3 run.py RANKS [--backend tryst|gloo] [--like gloo|mpi] [--seconds N] [--out FILE] [NAME...]

NAME is the name of a test, or a pattern of shell for names; without names all tests run. One line for each test,
and one with the counts at the end. The exit status is 0 if no test failed.

PyTorch starts a new Python process for each rank of each test, and each would import torch again. Here the ranks are
forks of this process, which has imported it once; this process itself runs no tensor operation and opens no process
group.

PyTorch's decorators leave tests out by lists of backends that name those of PyTorch. So the module is loaded with the
name of one of these, `--like`; then tryst takes its place: `Place` is the text "tryst", and equals the other name.
All tests that gloo runs thus run over tryst, and those with an entry in reasons.py are counted as not applicable,
whatever their outcome.
"""

import argparse
import fnmatch
import json
import logging
import os
import sys
import tempfile
import time
import types
import unittest

OLDEST = (2, 15)  # the tests of older versions have other names and decorators
MODULE = "torch.testing._internal.distributed.distributed_test"
SECONDS = 60


class Place(str):
    """The name of a backend that takes the place of another in comparisons."""

    def __new__(cls, name, other):
        self = super().__new__(cls, name)
        self.other = other
        return self

    def __eq__(self, text):
        return str.__eq__(self, text) or self.other == text

    def __ne__(self, text):
        return not self == text

    def __hash__(self):
        return hash(self.other)


def stand_in():
    """A module for expecttest, of which torch.testing needs the class alone. DistributedTest uses none of its
    assertions."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        module = types.ModuleType("expecttest")
        module.TestCase = unittest.TestCase
        module.ACCEPT = False
        sys.modules["expecttest"] = module


def load(options, folder):
    """Import PyTorch's module of tests as if for the backend `options.like`, and put `options.backend` in its
    place."""
    os.makedirs(folder + "/barrier")
    os.environ.update(BACKEND=options.like, WORLD_SIZE=str(options.ranks), TEMP_DIR=folder,
                      INIT_METHOD=f"file://{folder}/shared", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(options.seconds),
                      OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    stand_in()
    import importlib

    import torch
    from torch.testing._internal import common_distributed
    torch.set_num_threads(1)
    common_distributed.TIMEOUT_OVERRIDE = {}
    module = importlib.import_module(MODULE)
    for name in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(module, name).append(options.backend)
    for backends in common_distributed.DistTestCases.backend_feature.values():
        if options.like in backends:
            backends.add(options.backend)
    module.BACKEND = Place(options.backend, options.like)
    os.environ["BACKEND"] = options.backend
    return module


def test_class(module):
    """The class of all tests, with forks for ranks."""
    import torch.multiprocessing

    class Tests(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            module.INIT_METHOD = os.environ["INIT_METHOD"]  # a new folder for each test
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Tests


class Outcomes(unittest.TestResult):
    """Prints one line for each test, and keeps name, outcome, reason and seconds."""

    def __init__(self, reasons):
        super().__init__()
        self.reasons = reasons
        self.rows = []

    def startTest(self, test):
        super().startTest(test)
        self.start = time.monotonic()

    def note(self, test, outcome, reason=""):
        name = test.id().rsplit(".", 1)[-1]
        if name in self.reasons and outcome != "skipped":
            outcome, reason = "not applicable", f"{self.reasons[name]} ({outcome})"
        seconds = round(time.monotonic() - self.start, 1)
        self.rows.append({"name": name, "outcome": outcome, "reason": reason, "seconds": seconds})
        print(f"{outcome:15}{seconds:6.1f} s  {name}  {reason}", flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addFailure(self, test, error):
        self.note(test, "failed", self._exc_info_to_string(error, test))

    addError = addFailure


def choose(tests, patterns):
    names = unittest.defaultTestLoader.getTestCaseNames(tests)
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            sys.exit(f"run.py: no test has the name {pattern}")
    if patterns:
        names = [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    return unittest.TestSuite(map(tests, names))


def require_version():
    import torch
    if tuple(int(number) for number in torch.__version__.split(".")[:2]) < OLDEST:
        print(f"skipped: PyTorch {torch.__version__} is older than {'.'.join(map(str, OLDEST))}, whose tests these are")
        sys.exit(77)


def parser_make(text, seconds):
    """A parser of what all runners of PyTorch's tests take; `text`: the script's own."""
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    parser.add_argument("--backend", default="tryst")
    parser.add_argument("--seconds", type=int, default=seconds, help="the longest time of one test")
    parser.add_argument("--out", help="write the outcomes to this file, as JSON")
    return parser


def options_parse():
    parser = parser_make(__doc__, SECONDS)
    parser.add_argument("ranks", type=int)
    parser.add_argument("--like", default="gloo", help="the backend whose tests run")
    parser.add_argument("names", nargs="*")
    return parser.parse_intermixed_args()


def main():
    options = options_parse()
    require_version()
    reasons = {}
    if options.backend == "tryst":
        import tryst_torch  # noqa: F401 (registers the backend)
        from reasons import REASONS as reasons
    with tempfile.TemporaryDirectory() as folder:
        module = load(options, folder)
        logging.disable(logging.INFO)
        outcomes = Outcomes(reasons)
        choose(test_class(module), options.names).run(outcomes)
    if options.out:
        with open(options.out, "w") as file:
            json.dump(outcomes.rows, file, indent=1)
    counts = {word: sum(row["outcome"] == word for row in outcomes.rows)
              for word in ("passed", "failed", "not applicable", "skipped")}
    print(f"{options.backend}, {options.ranks} ranks:", ", ".join(f"{n} {word}" for word, n in counts.items()))
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)


if __name__ == "__main__":
    main()
