# SPDX-License-Identifier: Apache-2.0
"""tryst in the place of gloo, for libraries that name gloo themselves.

One idea: PyTorch opens a process group by the function that is registered under the backend's name. So the name stays
gloo, also in get_backend(), for code that compares names, and the function is tryst's.
"""

import os
from typing import Any, Callable

import torch
import torch.distributed

SETTING = "TORCH_TRYST_REPLACE_GLOO"


def _require_none_open() -> None:
    if torch.distributed.distributed_c10d._world.pg_map:
        raise RuntimeError(
            "cannot replace gloo: a process group is open already, and some groups would be gloo's and others not; call "
            f"tryst_torch.replace_gloo(), or import tryst_torch with {SETTING}=1, before init_process_group")


def replace(creator: Callable[..., Any]) -> None:
    """Let `creator` open the process groups of the backend gloo. Raises RuntimeError where one is open."""
    backends = torch.distributed.Backend
    if hasattr(backends, "_ensure_backend_registered"):
        backends._ensure_backend_registered("gloo")
    plugin = backends._plugins.get("GLOO")
    if plugin is None:
        raise RuntimeError(f"cannot replace gloo: PyTorch {torch.__version__} opens gloo without a function that could be "
                           "replaced (2.15 has one); name the backend tryst where the program opens process groups")
    if plugin.creator_fn is creator:
        return
    _require_none_open()
    backends._plugins["GLOO"] = plugin._replace(creator_fn=creator, extended_api=True)
    # Code in C++, such as DistributedDataParallel's logger, takes a backend of the type GLOO for a ProcessGroupGloo.
    backends.backend_type_map["gloo"] = torch.distributed.ProcessGroup.BackendType.CUSTOM
    # gloo records its operations for the flight recorder itself; tryst's are recorded by a hook.
    getattr(torch.distributed.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set()).discard("gloo")


def is_set() -> bool:
    """True if the setting requests it."""
    value = os.environ.get(SETTING, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"not a valid {SETTING}: {value!r} (0 or 1)")
    return value == "1"
