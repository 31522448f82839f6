# SPDX-License-Identifier: Apache-2.0
"""Runs one test file of a PyTorch checkout (its folder test/distributed is not in the wheel) over tryst or gloo.

    python3 checkout.py FILE [--backend tryst|gloo] [--seconds N] [--out FILE] [NAME...]

NAME is the name of a test, or a pattern of shell for names; without names all tests run. One line for each test that
opens a process group over gloo (or over tryst in its place); of the others there is a count. The exit status is 0 if no
test failed.

PyTorch's files stay as they are. Over tryst the name "gloo" becomes "tryst" where torch.distributed makes a process
group, and `ProcessGroupGloo`, which some tests call themselves, makes a backend of tryst. Each test runs in a fork of
this process, which has imported the file and done nothing else, and the ranks of the test are forks of that one.
"""

import contextlib
import fnmatch
import functools
import importlib.abc
import importlib.util
import json
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import types
import unittest

from run import parser_make, stand_in

SECONDS = 150
MOVED = {  # older names of modules, and where these modules are today, if anywhere
    "torch.distributed._spmd": None,
    "torch.distributed._cuda_p2p": None,
    "torch.distributed._tensor.experimental.attention": "torch.distributed.tensor.experimental._attention",
    "torch.distributed._tensor.ops.common_rules": "torch.distributed.tensor._ops._common_rules",
    "torch.distributed._tensor.ops.embedding_ops": "torch.distributed.tensor._ops._embedding_ops",
    "torch.distributed._tensor.ops.matrix_ops": "torch.distributed.tensor._ops._matrix_ops",
    "torch.distributed._tensor.ops.view_ops": "torch.distributed.tensor._ops._view_ops",
    "torch.distributed._tensor.ops": "torch.distributed.tensor._ops",
    "torch.distributed._tensor.random": "torch.distributed.tensor._random",
    "torch.distributed._tensor.": "torch.distributed.tensor.",
    "torch.distributed._composable.fsdp._fsdp": "torch.distributed.fsdp._fully_shard._fsdp",
}
WORDS = ("passed", "failed", "late", "skipped")
LINES = 400  # of a failed test's output that are kept


def mark():
    """Note that the test which runs has opened a process group."""
    open(os.environ["CHECKOUT_MARK"], "w").close()


def helper_patch(backend):
    """Count the process groups over gloo that torch.distributed makes, and make them over `backend`."""
    from torch.distributed import distributed_c10d as c10d
    original = c10d._new_process_group_helper

    @functools.wraps(original)
    def helper(size, rank, ranks, name, *arguments, **named):
        config = str(c10d.BackendConfig(c10d.Backend(str(name)))) if name else "cpu:gloo"
        if re.search(r"\bcpu:(gloo|tryst)\b", config):
            mark()
        if name is None or str(name) == c10d.Backend.UNDEFINED:
            return original(size, rank, ranks, "cpu:" + backend, *arguments, **named)
        return original(size, rank, ranks, c10d.Backend(re.sub(r"\bgloo\b", backend, str(name))), *arguments, **named)

    c10d._new_process_group_helper = helper


class Instead(type):
    """The class of a class that stands in for another, `real`: attributes and instances are those of `real`."""

    def __getattr__(cls, name):
        return getattr(cls.real, name)

    def __instancecheck__(cls, value):
        return isinstance(value, cls.real)


def class_patch(backend):
    """As helper_patch, for tests that call ProcessGroupGloo themselves."""
    import datetime

    import torch.distributed

    class Group(metaclass=Instead):
        real = torch.distributed.ProcessGroupGloo

        def __new__(cls, store, rank, size, options=None, **named):
            mark()
            if backend == "gloo":
                return cls.real(store, rank, size, *([] if options is None else [options]), **named)
            import tryst_torch
            timeout = named.get("timeout", getattr(options, "_timeout", options)) or datetime.timedelta(seconds=60)
            return tryst_torch._C.backend_open(store, rank, size, "alone", [], timeout)

    torch.distributed.ProcessGroupGloo = Group


def forks():
    """Make each process that a test starts a fork: it need not import torch."""
    import torch.multiprocessing
    original = multiprocessing.get_context
    multiprocessing.get_context = torch.multiprocessing.get_context = lambda method=None: original("fork")


class Moved(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of torch that the files import by an older name; those that are gone are empty, so a test that uses
    one fails, and the others of its file run."""

    def find_spec(self, name, path, target=None):
        if name.startswith(tuple(MOVED)):
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec):
        for old, new in MOVED.items():
            if new and spec.name.startswith(old):
                with contextlib.suppress(ImportError):
                    self.found = importlib.import_module(new + spec.name.removeprefix(old))
                    break
        else:
            self.found = None
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        found = self.found
        module.__getattr__ = self.attribute if found is None else lambda name: getattr(found, name)

    @staticmethod
    def attribute(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def renamed():
    """Give a class of DTensor its older name, too."""
    from torch.distributed._tensor import placement_types
    placement_types._Partial = placement_types.Partial


def load(path):
    """Import the file."""
    renamed()
    sys.meta_path.append(Moved())
    folder = os.path.dirname(path)
    sys.path[:0] = [folder, re.sub(r"/test/.*", "/test", folder)]
    name = os.path.basename(path).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prepare(options):
    os.environ.update(DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(options.seconds - 10), OMP_NUM_THREADS="1",
                      OPENBLAS_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    stand_in()
    import torch
    from torch.testing._internal import common_distributed
    torch.set_num_threads(1)
    common_distributed.TIMEOUT_OVERRIDE = {}
    if options.backend == "tryst":
        import tryst_torch  # noqa: F401 (registers the backend)
    helper_patch(options.backend)
    class_patch(options.backend)
    forks()


def flat(suite):
    for item in suite:
        yield from flat(item) if isinstance(item, unittest.TestSuite) else [item]


def run_here(test, answer):
    """Run a test in this process, and write the outcome to the file `answer`."""
    result = unittest.TestResult()
    unittest.TestSuite([test]).run(result)
    if result.skipped:
        outcome = ["skipped", result.skipped[0][1]]
    elif result.failures or result.errors:
        outcome = ["failed", (result.failures + result.errors)[0][1]]
    else:
        outcome = ["passed", ""]
    with open(answer, "w") as file:
        json.dump(outcome, file)


def child(test, folder):
    """What the fork for one test does."""
    os.setsid()
    os.chdir(folder)
    output = os.open("output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(CHECKOUT_MARK=folder + "/mark", TMPDIR=folder)
    tempfile.tempdir = None
    try:
        run_here(test, folder + "/answer")
    finally:
        os._exit(0)


def wait(process, seconds):
    """Wait for the test's process; then end all processes of its session. True if it ended in time."""
    end = time.monotonic() + seconds
    ended = False
    while not ended and time.monotonic() < end:
        ended = os.waitpid(process, os.WNOHANG)[0] == process
        time.sleep(0.01)
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not ended:
        os.waitpid(process, 0)
    return ended


def why(outcome, reason, output):
    """The line of a test's outcome and of its ranks' output that says why it did not pass."""
    if outcome in ("passed", "skipped"):
        return reason
    pattern = r"(?!.*Process \d+ exited)[\w.]*(Error|Exception|Failure)\w*:"
    lines = [line for line in output + reason.splitlines() if re.match(pattern, line)]
    return (lines or reason.splitlines())[0]


def run(test, seconds):
    """Run a test in a fork; return its row."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = os.fork()
        if not process:
            child(test, folder)
        if not wait(process, seconds):
            outcome = ["late", f"still running after {seconds} s"]
        elif os.path.exists(folder + "/answer"):
            with open(folder + "/answer") as file:
                outcome = json.load(file)
        else:
            outcome = ["failed", "the process ended without an answer"]
        with open(folder + "/output", errors="replace") as file:
            output = file.read().splitlines()[-LINES:] if outcome[0] in ("failed", "late") else []
        return {"name": ".".join(test.id().split(".")[-2:]), "outcome": outcome[0], "why": why(*outcome, output),
                "reason": outcome[1], "output": output, "group": os.path.exists(folder + "/mark"),
                "seconds": round(time.monotonic() - start, 1)}


def choose(module, patterns):
    tests = list(flat(unittest.defaultTestLoader.loadTestsFromModule(module)))
    return [test for test in tests
            if not patterns or any(fnmatch.fnmatch(test.id().split(".")[-1], pattern) for pattern in patterns)]


def options_parse():
    parser = parser_make(__doc__, SECONDS)
    parser.add_argument("file")
    parser.add_argument("names", nargs="*")
    return parser.parse_intermixed_args()


def main():
    options = options_parse()
    prepare(options)
    rows = []
    for test in choose(load(os.path.abspath(options.file)), options.names):
        rows.append(run(test, options.seconds))
        row = rows[-1]
        if row["group"]:
            print(f"{row['outcome']:8}{row['seconds']:6.1f} s  {row['name']}  {row['why']}", flush=True)
    if options.out:
        with open(options.out, "w") as file:
            json.dump(rows, file, indent=1)
    counts = {word: sum(row["outcome"] == word for row in rows if row["group"]) for word in WORDS}
    print(f"{options.backend}, {os.path.basename(options.file)}:", *(f"{n} {word}," for word, n in counts.items()),
          f"{sum(not row['group'] for row in rows)} open no process group")
    sys.exit(1 if counts["failed"] or counts["late"] else 0)


if __name__ == "__main__":
    main()
