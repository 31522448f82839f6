# SPDX-License-Identifier: Apache-2.0
"""Where training steps begin, for TRYST_PROFILE and TRYST_AUTO_PRIORITY.

One idea: a step begins with the first bucket of a model that has had one in this step already, so a process with two
models does not cut its steps into two. Once the program has called `period_begin`, the communication hook (ddp.py)
begins no step any more.
"""

import weakref

from tryst_torch import _C

_by_program = False
_trained = weakref.WeakSet()  # the HookStates that had a bucket in this step


def period_begin():
    """Begin a training step: with the first collective that this process submits from here on. Call it on all ranks at
    the same place of the training loop, for instance before backward(). Any thread; never blocks. Costs next to nothing
    unless TRYST_PROFILE or TRYST_AUTO_PRIORITY is set."""
    global _by_program
    _by_program = True
    _C.period_begin()


def backward_begins(state):
    """The model of `state` has the first bucket of a backward pass."""
    if _by_program:
        return
    if not _trained or state in _trained:
        _trained.clear()
        _C.period_begin()
    _trained.add(state)
