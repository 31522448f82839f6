# SPDX-License-Identifier: Apache-2.0
"""One operation, waits for several, and `await` in asyncio.

One idea: an operation keeps its arrays until it has ended, also where the program has dropped it: the library writes to
them meanwhile. No thread of the library calls Python for that; a wait, a test or the context's descriptor tells the end.

Waits are cut into periods, between which Python serves signals (Ctrl-C)."""

import asyncio
import collections
import contextlib
import time
from typing import Any, Generator, Generic, Optional, Sequence, TypeVar

from tryst._abi import NULL, ffi, lib
from tryst.errors import Error, check, op_failed, refused, step_failed
from tryst.tensors import Room

T = TypeVar("T")
PERIOD_NS = 100_000_000
_OP_P = ffi.typeof("tryst_op *[1]")
_wait, _TIMEOUT, _IN_PROGRESS = lib.tryst_wait, lib.TRYST_E_TIMEOUT, lib.TRYST_IN_PROGRESS

_left: Any = collections.deque()  # operations that were dropped before their end, with what they use
_LEFT_MANY = 64
_op_rooms: Any = []  # for results of calls, used again


def op_room() -> Any:
    """Room for the operation that a call returns."""
    try:
        return _op_rooms.pop()
    except IndexError:
        return ffi.new(_OP_P)


def sweep() -> None:
    """Release dropped operations that have ended."""
    with contextlib.suppress(IndexError):  # another thread sweeps, too
        for _ in range(len(_left)):
            operation = _left.popleft()
            if lib.tryst_op_test(operation[0]) == _IN_PROGRESS:
                _left.append(operation)
            else:
                lib.tryst_op_release(operation[0])


def _until(call: Any, handle: Any, timeout: Optional[float]) -> int:
    """Call `call(handle, period)` until it does not time out or `timeout` seconds have passed; return its status."""
    if timeout is None:
        status = _TIMEOUT
        while status == _TIMEOUT:
            status = call(handle, PERIOD_NS)
        return int(status)
    end = time.monotonic_ns() + int(timeout * 1e9)
    while True:
        left = max(end - time.monotonic_ns(), 0)
        status = call(handle, min(left, PERIOD_NS))
        if status != _TIMEOUT or left <= PERIOD_NS:
            return int(status)


class Operation(Generic[T]):
    """An operation of a group. It goes on by itself where it is dropped."""

    __slots__ = ("_handle", "_context", "_keep", "_value", "_error", "__weakref__")
    _keep: Any
    _error: Optional[Error]

    def __init__(self, calls: Any, status: int, op_p: Any, keep: Any, value: Any) -> None:
        """What a call of the library in the step of `calls` has returned; `op_p` is of `op_room`. `keep`: what the
        operation uses, but None; `value`: its result."""
        self._handle, self._keep, self._error = NULL, None, None
        if status:
            raise status == lib.TRYST_E_ABORTED and step_failed(calls._step) or refused(status)
        self._handle, self._context, self._keep, self._value = op_p[0], calls._context, keep, value
        _op_rooms.append(op_p)
        if calls._note:
            calls._note(self)

    def __del__(self, test: Any = lib.tryst_op_test, release: Any = lib.tryst_op_release) -> None:
        if self._keep is not None and test(self._handle) == _IN_PROGRESS:
            _left.append((self._handle, self._keep, self._value))
            if len(_left) % _LEFT_MANY == 0:
                sweep()
        else:
            release(self._handle)

    def _end(self, status: int) -> None:
        """Note the outcome, once."""
        if self._keep is None:
            return
        if status:
            self._error = op_failed(self._handle, status)
        value = self._value
        if not status and value.__class__ is Room:
            self._value = value.take(self._handle)
        self._keep = None

    def done(self) -> bool:
        """True if the operation has ended, well or not. Makes no progress."""
        if self._keep is not None:
            status = lib.tryst_op_test(self._handle)
            if status == _IN_PROGRESS:
                return False
            self._end(status)
        return True

    def result(self) -> T:
        """Return the array with the result of an operation that has ended (None: it has none). Raises its error."""
        if not self.done():
            raise RuntimeError("the operation has not ended: wait first")
        if self._error:
            raise self._error
        return self._value

    def wait(self, timeout: Optional[float] = None) -> T:
        """Wait, and make progress meanwhile; return as `result`. `timeout`: in seconds; WaitTimeout when it has
        passed, and the operation goes on."""
        if self._keep is not None:
            status = _wait(self._handle, PERIOD_NS if timeout is None else 0)
            if status == _TIMEOUT:
                status = _until(_wait, self._handle, timeout)
                if status == _TIMEOUT:
                    raise refused(status)
            if status or self._value.__class__ is Room:
                self._end(status)
            self._keep = None
        if self._error:
            raise self._error
        return self._value

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done():
            yield from self._context.watcher().add(self).__await__()
        return self.result()

    def cancel(self) -> None:
        """Request the end: with CANCELED, or with its result if this is too late."""
        check(lib.tryst_op_cancel(self._handle))

    def reprioritize(self, priority: int) -> None:
        """Raise the priority, if the new one is more urgent."""
        check(lib.tryst_op_reprioritize(self._handle, priority))

    def stream_wait(self, device: int, stream: int) -> None:
        """Let a stream (a CUstream, as a number) wait for the end."""
        check(lib.tryst_op_stream_wait(self._handle, device, ffi.cast("void *", stream)))


def _array(operations: Sequence[Operation[Any]]) -> Any:
    return ffi.new("tryst_op *[]", [operation._handle for operation in operations])


def wait_all(operations: Sequence[Operation[Any]], timeout: Optional[float] = None) -> list[Any]:
    """Wait for all; return the results. Raises the error of the first, by index, that failed."""
    ops = _array(operations)
    status = _until(lambda _, period: lib.tryst_wait_all(ops, len(ops), period), NULL, timeout)
    if status == _TIMEOUT:
        raise refused(status)
    return [operation.wait() for operation in operations]


def wait_any(operations: Sequence[Operation[Any]], timeout: Optional[float] = None) -> Optional[int]:
    """Wait for any; return the index of the first that has ended, well or not, or None if there are no operations."""
    ops, index = _array(operations), ffi.new("size_t *")
    status = _until(lambda _, period: lib.tryst_wait_any(ops, len(ops), period, index), NULL, timeout)
    if index[0] < len(ops):
        return int(index[0])
    check(status)
    return None


# ---- asyncio -------------------------------------------------------------------------------------------------------

_POLL_S = 0.001


class Watcher:
    """The operations that one event loop awaits.

    Between turns, while there are operations, the loop sleeps in one of three ways: on the context's descriptor, which
    tryst_arm has prepared; for _POLL_S, where another thread drives the engine and the descriptor is that thread's; or
    not at all, after a turn with events."""

    def __init__(self, context: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._context, self._loop = context, loop
        self._ops = ffi.new("tryst_op *[]", 16)
        self._awaited: dict[int, Any] = {}  # by index in _ops: the operation, and its future
        self._free = list(range(len(self._ops)))
        self._index = ffi.new("size_t *")
        self._listens = self._is_due = False
        self._idle = 0  # turns without an event and without sleep

    def add(self, operation: Operation[Any]) -> "asyncio.Future[None]":
        """Return a future that is done when `operation` is. A cancel of it requests the operation's."""
        if not self._free:
            self._grow()
        at, future = self._free.pop(), self._loop.create_future()
        self._ops[at] = operation._handle
        self._awaited[at] = operation, future
        future.add_done_callback(lambda ended: lib.tryst_op_cancel(operation._handle) if ended.cancelled() else None)
        if not self._listens:
            self._again(0)
        return future

    def _grow(self) -> None:
        count = len(self._ops)
        self._ops = ffi.new("tryst_op *[]", list(self._ops) + [NULL] * count)
        self._free = list(range(count, 2 * count))

    def _again(self, seconds: float) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_later(seconds, self._due) if seconds else self._loop.call_soon(self._due)

    def _due(self) -> None:
        self._is_due = False
        self.turn()

    def _listen(self, listens: bool) -> None:
        """Let the loop call `turn` when the context's descriptor is readable, or no longer."""
        if listens and not self._listens:
            self._loop.add_reader(self._context.descriptor, self.turn)
        elif self._listens and not listens:
            self._loop.remove_reader(self._context.descriptor)
        self._listens = listens

    def turn(self) -> None:
        """Make progress, end what has ended, and prepare the loop's sleep."""
        if not self._context.handle:
            return
        events = lib.tryst_progress(self._context.handle)
        self.collect()
        if not self._awaited:
            self._listen(False)
        elif events == 0 and lib.tryst_arm(self._context.handle) == lib.TRYST_OK:
            self._idle = 0
            self._listen(True)
        else:
            self._idle = 0 if events else self._idle + 1
            is_poll = self._idle > 1
            self._listen(self._listens and not is_poll)
            self._again(_POLL_S if is_poll else 0)

    def collect(self) -> None:
        """Set the futures of operations that have ended."""
        while self._awaited:
            lib.tryst_wait_any(self._ops, len(self._ops), 0, self._index)
            at = self._index[0]
            if at == len(self._ops):
                return
            self._ops[at] = NULL
            self._free.append(at)
            future = self._awaited.pop(at)[1]
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """The context closes: its operations end. In the loop's thread."""
        if not self._loop.is_closed():
            self._listen(False)
