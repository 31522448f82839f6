# SPDX-License-Identifier: Apache-2.0
"""The tests of ranks: `run(globals())` opens the group and calls each function test_…, by name, with a barrier behind each.
A rank that fails aborts; tryst-run ends the others."""

import os
import sys
import traceback

import tryst


def raises(kind, pattern, call, *arguments, **named):
    """Call what must fail with an error of the class `kind` and a text that contains `pattern`; return the error."""
    try:
        call(*arguments, **named)
    except kind as error:
        assert pattern in str(error), f"the error lacks {pattern!r}: {error}"
        return error
    raise AssertionError(f"no {kind.__name__} where one with {pattern!r} is due")


def run(tests, **options):
    with tryst.open(**options) as group:
        for name, test in sorted(tests.items()):
            if not name.startswith("test_"):
                continue
            try:
                test(group)
                group.barrier(name=name).wait(60)
            except BaseException:
                print(f"{name}: rank {group.rank}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
                os._exit(1)
        if group.rank == 0:
            print("passed", os.path.basename(sys.argv[0]), group.size)
