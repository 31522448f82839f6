# SPDX-License-Identifier: Apache-2.0
"""Failures of the library as exceptions.

One idea: the class says how far the damage goes, as the bands of tryst/status.h do; `status` says what failed, `rank`
where it began, and the text is the library's sentence."""

import enum
from typing import Any, Optional

from tryst._abi import NULL, as_dict, ffi, lib, sized, text, visit

_statuses = visit(lib.tryst_status_visit, (), "tryst_status, const char *, const char *",
                  lambda status, name, _: (text(name)[len("TRYST_"):].replace("E_", "", 1), status))
_IntEnum: Any = enum.IntEnum
Status: Any = _IntEnum("Status", _statuses)  # Status.PEER is TRYST_E_PEER

_NO_STEP = 2**64 - 1


class Error(RuntimeError):
    """A call or an operation failed; everything else goes on.

    status         a Status
    rank           the rank where the failure began; None where it is not known, and for a call that was refused
    origin_status  the status that this rank reported first
    step, key      of the operation, or None"""

    status: Any
    origin_status: Any
    rank: Optional[int] = None
    step: Optional[int] = None
    key: Optional[str] = None


class PeerError(Error):
    """A rank died, left, or cannot be reached: operations with it fail, the others go on."""


class GroupError(Error):
    """A step was aborted, or the ranks did not come together."""


class ContextError(Error):
    """The context has failed: close it."""


class WaitTimeout(Error, TimeoutError):
    """A wait timed out; the operation goes on, and still uses its arrays."""


_BANDS = (Error, Error, PeerError, GroupError, ContextError)


def error_of(status: int, sentence: str, details: Any = None) -> Error:
    """The exception for a status, a text, and a tryst_error."""
    kind: type[Error] = WaitTimeout if status == lib.TRYST_E_TIMEOUT else _BANDS[min(status // 100, len(_BANDS) - 1)]
    error = kind(f"{sentence or text(lib.tryst_status_str(status))} ({text(lib.tryst_status_name(status))})")
    error.status = error.origin_status = Status(status)
    if details:
        error.origin_status = Status(details.origin_status)
        error.rank = None if details.origin_rank < 0 else details.origin_rank
        error.step = None if details.step == _NO_STEP else details.step
        error.key = text(details.key) or None
    return error


def refused(status: int) -> Error:
    """The error of a call of this thread that has just returned `status`."""
    return error_of(status, text(lib.tryst_last_error()))


def check(status: int) -> None:
    """Raise unless a call succeeded."""
    if status:
        raise refused(status)


def opened(kind: str, call: Any, *arguments: Any) -> Any:
    """Return the object of the type `kind` that a call opens."""
    object_p = ffi.new(kind + " **")
    check(call(*arguments, object_p))
    return object_p[0]


def filled(kind: str, call: Any, *arguments: Any) -> dict[str, Any]:
    """Return the struct that a call fills in."""
    struct = sized(kind)
    check(call(*arguments, struct))
    return as_dict(struct)


def op_failed(op: Any, status: int) -> Error:
    """The error of an operation that has ended with `status`."""
    details = sized("tryst_error")
    if lib.tryst_op_error(op, details) != status:
        return refused(status)  # it has not ended: the process is a forked child
    return error_of(status, text(details.text), details)


def step_failed(step: Any) -> Optional[Error]:
    """The error with which a step was aborted, or None."""
    details = sized("tryst_error")
    status = lib.tryst_step_status(step or NULL, details)
    if status == lib.TRYST_E_ABORTED:
        return error_of(status, text(details.text), details)
    check(status)
    return None
