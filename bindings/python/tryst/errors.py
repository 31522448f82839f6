# SPDX-License-Identifier: Apache-2.0
"""Failures of the library as exceptions.

One idea: the class says how far the damage goes, as the bands of tryst/status.h do; `status` says what failed, `rank`
where it began, and the text has the whole sentence of the library."""

import enum
from typing import Any, Dict, Optional

from tryst._abi import NULL, as_dict, ffi, lib, sized, text, visit

# Status.PEER is TRYST_E_PEER.
Status = enum.IntEnum("Status", visit(  # type: ignore[misc]
    lib.tryst_status_visit, (), "tryst_status, const char *, const char *",
    lambda status, name, _: (text(name).replace("TRYST_", "").replace("E_", "", 1), status)))

_NO_STEP = 2**64 - 1


class Error(RuntimeError):
    """A call or an operation failed; everything else goes on.

    status         a Status
    name           its name in C, "TRYST_E_MISMATCH"
    rank           the rank where the failure began; None where it is not known, and for a call that was refused
    origin_status  the status that this rank reported first
    step, key      of the operation, or None"""

    def __init__(self, status: int, sentence: str, details: Any = None) -> None:
        self.status = Status(status)
        self.name = text(lib.tryst_status_name(status))
        super().__init__(f"{sentence or text(lib.tryst_status_str(status))} ({self.name})")
        known = details is not None
        self.rank: Optional[int] = details.origin_rank if known and details.origin_rank >= 0 else None
        self.origin_status = Status(details.origin_status) if known else self.status
        self.step: Optional[int] = details.step if known and details.step != _NO_STEP else None
        self.key: Optional[str] = text(details.key) or None if known else None

    def __reduce__(self) -> Any:
        return _restore, (type(self), self.args, self.__dict__)


class PeerError(Error):
    """A rank died, left, or cannot be reached: operations with it fail, the others go on."""


class GroupError(Error):
    """A step was aborted, or the ranks did not come together."""


class ContextError(Error):
    """The context has failed: close it."""


class WaitTimeout(Error, TimeoutError):
    """A wait timed out; the operation goes on, and still uses its arrays."""


_BANDS = (Error, Error, PeerError, GroupError, ContextError)


def _restore(kind: Any, args: Any, fields: Any) -> Error:
    error: Error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


def _class_of(status: int) -> Any:
    return WaitTimeout if status == lib.TRYST_E_TIMEOUT else _BANDS[min(status // 100, len(_BANDS) - 1)]


def refused(status: int) -> Error:
    """The error of a call of this thread that has just returned `status`."""
    return _class_of(status)(status, text(lib.tryst_last_error()))


def check(status: int) -> None:
    """Raise unless a call succeeded."""
    if status:
        raise refused(status)


def opened(kind: str, call: Any, *arguments: Any) -> Any:
    """Return the object of the type `kind` that a call opens."""
    object_p = ffi.new(kind + " **")
    check(call(*arguments, object_p))
    return object_p[0]


def filled(kind: str, call: Any, *arguments: Any) -> Dict[str, Any]:
    """Return the struct that a call fills in."""
    struct = sized(kind)
    check(call(*arguments, struct))
    return as_dict(struct)


def op_failed(op: Any, status: int) -> Error:
    """The error of an operation that has ended with `status`."""
    details = sized("tryst_error")
    if lib.tryst_op_error(op, details) != status:
        return refused(status)  # it is not complete here: the process is a forked child
    return _class_of(status)(status, text(details.text), details)


def step_failed(step: Any) -> Optional[Error]:
    """The error with which a step was aborted, or None."""
    details = sized("tryst_error")
    status = lib.tryst_step_status(step or NULL, details)
    if status == lib.TRYST_E_ABORTED:
        return GroupError(status, text(details.text), details)
    check(status)
    return None


__all__ = ["ContextError", "Error", "GroupError", "PeerError", "Status", "WaitTimeout"]
