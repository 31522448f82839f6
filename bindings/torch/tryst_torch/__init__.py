# SPDX-License-Identifier: Apache-2.0
"""A torch.distributed backend over Tryst.

    import tryst_torch
    torch.distributed.init_process_group("tryst")

Importing this package registers the backend; PyTorch versions that know entry points find it without the
import.
"""

import atexit
import contextlib
import datetime
import inspect
import json
import operator
import os
from typing import Any, Dict, Iterator, Optional, Union

import torch.distributed

from tryst_torch import gloo
from tryst_torch._load import load

_C = load()

from tryst_torch.cross_barrier import CrossBarrier  # noqa: E402
from tryst_torch.ddp import HookState, ddp_hook  # noqa: E402
from tryst_torch.periods import period_begin  # noqa: E402

__all__ = ["CrossBarrier", "HookState", "ddp_hook", "dump", "period_begin", "priority", "register", "replace_gloo"]
__version__ = _C.headers_version


def _open(options, _backend_options):
    """Open the backend of one process group (the function that torch.distributed calls)."""
    timeout = options.timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=timeout)
    return _C.backend_open(
        options.store,
        options.group_rank,
        options.group_size,
        options.group_id,
        options.global_ranks_in_group,
        timeout,
    )


def register() -> None:
    """Register the backend "tryst" for tensors on the CPU and on CUDA devices, once; later calls do nothing."""
    backends = torch.distributed.Backend
    if "TRYST" in backends._plugins:
        return
    known = inspect.signature(backends.register_backend).parameters
    devices = {"devices": ["cpu", "cuda"]} if "devices" in known else {}  # since PyTorch 2.1
    backends.register_backend("tryst", _open, extended_api=True, **devices)


def replace_gloo() -> None:
    """Open tryst wherever this process opens a process group of gloo from here on, for libraries that name gloo
    themselves. Call it on all ranks, before init_process_group; TORCH_TRYST_REPLACE_GLOO=1 calls it with the import.
    `torch.distributed.get_backend` still returns "gloo". Later calls do nothing. Raises RuntimeError where a process
    group is open already."""
    gloo.replace(_open)


@contextlib.contextmanager
def priority(value: Optional[int]) -> Iterator[None]:
    """Give the operations that this thread submits inside the `with` block a priority: a whole number, smaller is
    more urgent; without one it is 0. Give all ranks the same one. Blocks nest; None: no priority.

    The priority is the thread's. In a coroutine or a generator, end the block before `await` or `yield`: what the thread
    runs meanwhile would have the priority, too."""
    number = None if value is None else operator.index(value)
    if number is not None and not -2**31 <= number < 2**31:
        raise ValueError(f"not a valid priority: {value} ({-2**31} to {2**31 - 1})")
    before = _C.priority_get()
    _C.priority_set(number)
    try:
        yield
    finally:
        _C.priority_set(before)


def dump(path: Optional[Union[str, os.PathLike]] = None, reason: str = "dump") -> Dict[str, Any]:
    """Return what this process's operations do, as a dictionary (README.md, "Dumps"); with `path`, write it to that
    file, too, as JSON. May be called at any time and from any thread, also while other threads wait."""
    text = _C.dump_text(reason)
    if path is not None:
        with open(path, "w") as file:
            file.write(text)
    return json.loads(text)


register()
if gloo.is_set():
    replace_gloo()
atexit.register(_C.finisher_stop)
