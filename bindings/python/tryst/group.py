# SPDX-License-Identifier: Apache-2.0
"""Groups and steps: `open` brings the ranks together.

One idea: a Group is a context and its group in one. Its own calls are in step 0, so small programs need no steps."""

import asyncio
import atexit
import contextlib
import math
import weakref
from typing import IO, Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy

from tryst._abi import NULL, as_dict, ffi, lib, names, sized, text, visit
from tryst.calls import REDUCE, Calls, numbers
from tryst.errors import ContextError, Error, GroupError, PeerError, check, filled, opened, refused, step_failed
from tryst.handles import Collective, Key, Registration, Subgroup, members_of
from tryst.operation import Operation, Watcher, op_room, sweep, wait_all
from tryst.settings import Config
from tryst.tensors import dtype_code, dtype_numpy, tensor_of

_KEYS_MANY = 4096  # prepared keys that a group keeps
_ENDED_MANY = 256  # operations of a step after which those that have ended are dropped
_KINDS = names("tryst_coll_kind", "TRYST_COLL_")


class Context:
    """A tryst_ctx. It is closed when its group is, and no array is in memory that it allocated."""

    def __init__(self, config: Config, log: Optional[Callable[[int, str], Any]]) -> None:
        self._log = NULL if log is None else ffi.callback(
            "void(void *, tryst_log_level, const char *)", lambda _, level, line: log(level, text(line)))
        params = sized("tryst_open_params", config=config.handle, log_fn=self._log)
        self.handle = opened("tryst_ctx", lib.tryst_open, params)
        self.descriptor = lib.tryst_event_fd(self.handle)
        self._users = 1
        self._watchers: Any = weakref.WeakKeyDictionary()  # by event loop

    def get(self) -> None:
        self._users += 1

    def put(self) -> None:
        self._users -= 1
        if not self._users:
            handle, self.handle = self.handle, NULL
            lib.tryst_close(handle)

    def watcher(self) -> Watcher:
        """The operations that the running event loop awaits."""
        loop = asyncio.get_running_loop()
        if loop not in self._watchers:
            self._watchers[loop] = Watcher(self, loop)
        return self._watchers[loop]

    def watchers(self) -> list[Watcher]:
        return list(self._watchers.values())


class Step(Calls):
    """A scope of names and keys, which ends as a whole. `with` waits at its end for what was submitted in it; if its
    body raises, it aborts the step on all ranks, with the error as the reason."""

    def __init__(self, group: "Group", number: int) -> None:
        self.group, self.id, self._context = group, number, group._context
        self._step = opened("tryst_step", lib.tryst_step_open, group.handle, number)
        self._operations: list[Operation[Any]] = []
        self._ended_at = _ENDED_MANY

    def _note(self, operation: Operation[Any]) -> None:
        self._operations.append(operation)
        count = len(self._operations)
        if count > self._ended_at:  # a failed one stays, for the error at the end of `with`
            self._operations[:count] = [one for one in self._operations[:count] if not one.done() or one._error]
            self._ended_at = 2 * len(self._operations) + _ENDED_MANY

    def abort(self, reason: str = "", status: int = lib.TRYST_E_CANCELED) -> None:
        """End all operations of the step, present and future, on all ranks (ABORTED)."""
        check(lib.tryst_step_abort(self._step, status, reason.encode()))

    @property
    def error(self) -> Optional[Error]:
        """The reason of an abort; None: the step was not aborted."""
        return step_failed(self._step)

    def close(self) -> Optional[Operation[None]]:
        """Cancel what has not ended. The result ends when all operations of the step have ended; None: closed
        before."""
        if not self._step:
            return None
        op_p = op_room()
        ended: Operation[None] = Operation(self, lib.tryst_step_close(self._step, op_p), op_p, (), None)
        self._step = NULL
        return ended

    def _leave(self, error: Optional[BaseException]) -> None:
        """Close. An error that other ranks have no other way to learn of aborts the step at all of them."""
        if error and not isinstance(error, (PeerError, GroupError, ContextError)):
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            lib.tryst_step_abort(self._step, lib.TRYST_E_CANCELED, reason.encode())
        self.close()
        self._operations.clear()

    def __enter__(self) -> "Step":
        return self

    def __exit__(self, _kind: Any, error: Optional[BaseException], _trace: Any) -> None:
        try:
            if not error:
                wait_all(self._operations)
        except BaseException as failed:
            error = failed
            raise
        finally:
            self._leave(error)

    async def __aenter__(self) -> "Step":
        return self

    async def __aexit__(self, _kind: Any, error: Optional[BaseException], _trace: Any) -> None:
        try:
            for operation in [] if error else self._operations:
                await operation
        except BaseException as failed:
            error = failed
            raise
        finally:
            self._leave(error)


class Group(Calls):
    """The ranks of a job. `with` closes it at its end."""

    def __init__(self, context: Context, params: Any) -> None:
        self.group, self._context = self, context
        self.handle = opened("tryst_group", lib.tryst_group_open, context.handle, params)
        self.rank = int(lib.tryst_group_rank(self.handle))
        self.size = int(lib.tryst_group_size(self.handle))
        self._children: Any = weakref.WeakSet()
        self._keys: dict[Any, Key] = {}
        self._steps_end = 0
        self._step = self.step()._step
        _open_groups.add(self)

    @property
    def local_rank(self) -> int:
        """This rank's number among those of this host."""
        return int(lib.tryst_group_local_rank(self.handle))

    @property
    def local_size(self) -> int:
        """The number of ranks of this host."""
        return int(lib.tryst_group_local_size(self.handle))

    def step(self, number: Optional[int] = None) -> Step:
        """Open a step. Numbers are equal on all ranks, and increase; without one it is the next."""
        number = self._steps_end if number is None else number
        step = Step(self, number)
        self._steps_end = number + 1
        return step

    def close(self) -> None:
        """Leave the group: what has not ended fails. No other thread may be inside a call of the group."""
        handle, self.handle = self.handle, NULL
        if not handle:
            return
        _open_groups.discard(self)
        self._step = NULL
        self._keys.clear()
        for child in list(self._children):
            child.close()
        watchers = self._context.watchers()
        for watcher in watchers:
            watcher.close()
        lib.tryst_group_close(handle)
        for watcher in watchers:
            watcher.collect()
        sweep()
        self._context.put()

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_error: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.close()

    # ---- prepared ----

    def key(self, source: int, to: int, name: str, index: int = 0) -> Key:
        """Make a key from two ranks, a name and a number."""
        return Key(self, opened("tryst_key", lib.tryst_key_make, self.handle, source, to, name.encode(), index))

    def key_prepare(self, key: str) -> Key:
        """Prepare a key that is given as text."""
        return Key(self, opened("tryst_key", lib.tryst_key_prepare, self.handle, key.encode()))

    def key_text(self, source: int, to: int, edge: str, frame: int = 0, iteration: int = 0) -> str:
        """Return the key of an edge as text."""
        chars = ffi.new("char[]", lib.TRYST_KEY_MAX + 1)
        check(lib.tryst_key_build(self.handle, source, to, edge.encode(), frame, iteration, chars, len(chars)))
        return text(chars)

    def _key(self, source: Optional[int], to: Optional[int], name: str, index: int) -> Key:
        """The key of a send or receive, prepared once."""
        identity = source, to, name, index
        key = self._keys.get(identity)
        if key is None:
            if source is None or to is None:
                raise TypeError("give the other rank, or key=")
            if len(self._keys) >= _KEYS_MANY:
                self._keys.clear()
            key = self._keys[identity] = self.key(source, to, name, index)
        return key

    def prepare(self, kind: str, count: int = 0, dtype: Any = None, op: str = "sum", root: int = 0, *,
                name: Optional[str] = None, counts: Optional[Iterable[int]] = None,
                offsets: Optional[Iterable[int]] = None, out_counts: Optional[Iterable[int]] = None,
                out_offsets: Optional[Iterable[int]] = None, subgroup: Optional[Subgroup] = None) -> Collective:
        """Prepare a collective that is started many times. `kind`: the name of its method; `count`: elements of the
        tensor, or of a block; `counts` and `offsets` are those of blocks in `tensor`, and `out_…` in `out`."""
        keep = [ffi.new("char[]", (name or kind).encode()),
                *map(numbers, (counts, offsets, out_counts, out_offsets)), subgroup]
        params = sized("tryst_coll_params", kind=_KINDS[kind], reduce=REDUCE[op], count=count, root=root, name=keep[0],
                       dtype=0 if dtype is None else dtype_code(dtype), in_counts=keep[1], in_offsets=keep[2],
                       out_counts=keep[3], out_offsets=keep[4], subgroup=subgroup.handle if subgroup else NULL)
        return Collective(self, params, keep)

    def subgroup(self, ranks: Sequence[int], epoch: int = 0) -> Subgroup:
        """Open a subgroup: every member with the same ranks in the same order, and the same epoch."""
        params, _keep = members_of(ranks, epoch)
        return Subgroup(self, opened("tryst_subgroup", lib.tryst_subgroup_open, self.handle, params))

    # ---- memory ----

    def register(self, array: Any) -> Registration:
        """Register the memory of an array, so that tensors in it move without a registration each."""
        tensor, keep = tensor_of(array, True)
        mem_p, size = ffi.new("tryst_mem **"), tensor.count * lib.tryst_dtype_bytes(tensor.dtype)
        check(lib.tryst_mem_register(self._context.handle, tensor.data, size, lib.TRYST_MEMORY_HOST, 0, mem_p))
        return Registration(self, mem_p[0], keep)

    def alloc(self, shape: Any, dtype: Any = "f32") -> Any:
        """Allocate an array in registered memory that ranks of this host map: its tensors move with one copy less.
        Its memory is given back when no array uses it."""
        code = dtype_code(dtype)
        count = shape if isinstance(shape, int) else math.prod(shape)
        size = max(count, 1) * lib.tryst_dtype_bytes(code)
        data_p, mem_p = ffi.new("void **"), ffi.new("tryst_mem **")
        context = self._context
        check(lib.tryst_mem_alloc(context.handle, size, lib.TRYST_MEMORY_HOST, 0, data_p, mem_p))
        context.get()
        mem = mem_p[0]

        def free(_data: Any) -> None:
            lib.tryst_mem_release(mem)
            context.put()

        memory = ffi.buffer(ffi.gc(data_p[0], free), size)
        return numpy.frombuffer(memory, dtype_numpy(code), count).reshape(shape)

    # ---- what goes on ----

    def peer(self, rank: int) -> dict[str, Any]:
        """What is known of a rank: host, transport, bytes, and where the time of its sends went."""
        return filled("tryst_peer_info", lib.tryst_group_peer, self.handle, rank)

    def counters(self) -> dict[str, int]:
        """The context's counters."""
        return dict(visit(lib.tryst_counter_visit, (self._context.handle,), "const char *, uint64_t",
                          lambda name, value: (text(name), value)))

    def transports(self) -> list[dict[str, Any]]:
        """The transports of this build; those that are modules are loaded."""
        return visit(lib.tryst_transport_visit, (self._context.handle,), "const tryst_transport_info *", as_dict)

    def dump(self, file: Union[int, IO[Any]] = 2) -> None:
        """Write all pending operations to a file, or a descriptor: key, peer, since when, which side is missing."""
        lib.tryst_dump(self._context.handle, _descriptor(file))

    def now_ns(self) -> int:
        """The clock of traces, in nanoseconds."""
        return int(lib.tryst_now_ns(self._context.handle))

    @contextlib.contextmanager
    def trace_span(self, name: str, argument: int = 0) -> Iterator[None]:
        """Record the body of the `with` block in the trace (TRYST_TRACE=1)."""
        begin = self.now_ns()
        try:
            yield
        finally:
            lib.tryst_trace_span(self._context.handle, name.encode(), begin, self.now_ns(), argument)

    def trace_counter(self, name: str, value: int) -> None:
        """Record a value in the trace."""
        lib.tryst_trace_counter(self._context.handle, name.encode(), value)

    def trace_write(self, file: Union[int, IO[Any]]) -> None:
        """Write this rank's trace as JSON (Chrome, Perfetto)."""
        check(lib.tryst_trace_write(self._context.handle, _descriptor(file)))

    def progress(self) -> int:
        """Make progress without blocking; return the number of events."""
        return int(lib.tryst_progress(self._context.handle))

    # ---- other event loops than asyncio's ----

    def fileno(self) -> int:
        """The context's descriptor: readable, after `arm`, when `progress` has something to do."""
        return int(self._context.descriptor)

    def arm(self) -> bool:
        """Prepare a sleep on the descriptor. False: call `progress` first."""
        status = lib.tryst_arm(self._context.handle)
        if status not in (lib.TRYST_OK, lib.TRYST_AGAIN):
            raise refused(status)
        return bool(status == lib.TRYST_OK)

    def wake(self) -> None:
        """Wake the threads that sleep on the context. Any thread."""
        lib.tryst_wake(self._context.handle)


def _descriptor(file: Union[int, IO[Any]]) -> int:
    if isinstance(file, int):
        return file
    file.flush()
    return file.fileno()


def _gather_with(allgather: Callable[[bytes], Sequence[bytes]], ranks: int, errors: list[BaseException]) -> Any:
    """The caller's all-gather as the library's; `errors` receives what it raises."""
    @ffi.callback("int(void *, const void *, void *, size_t)", error=1, onerror=lambda *raised: errors.append(raised[1]))
    def call(_arg: Any, mine: Any, everything: Any, size: int) -> int:
        parts = list(allgather(bytes(ffi.buffer(mine, size))))
        if [len(part) for part in parts] != [size] * ranks:
            raise ValueError(f"allgather returned other parts than {ranks} of {size} bytes")
        ffi.memmove(everything, b"".join(parts), size * ranks)
        return 0

    return call


def open(*, config: Optional[Mapping[str, Any]] = None, log: Optional[Callable[[int, str], Any]] = None,
         device_prefix: Optional[str] = None, timeout: Optional[float] = None, rank: Optional[int] = None,
         size: Optional[int] = None, allgather: Optional[Callable[[bytes], Sequence[bytes]]] = None) -> Group:
    """Bring the ranks of the job together, as the launcher's environment describes them (tryst-run, torchrun, mpirun,
    srun, TRYST_*); without one this rank is alone. Blocks until all have come, or `timeout` seconds.

    config     settings that replace those of the environment, by name ("window_bytes": "8M")
    log        is called with level and line, from any thread; it must not call tryst. Default: stderr
    allgather  takes bytes of this rank and returns those of all ranks, by rank (`rank`, `size`): in place of a
               launcher. It is called a few times, and not later"""
    if (rank is None, size is None) != (allgather is None, allgather is None):
        raise TypeError("rank and size go with allgather; else they are the launcher's, or settings (config)")
    prefix = NULL if device_prefix is None else ffi.new("char[]", device_prefix.encode())
    errors: list[BaseException] = []
    call = _gather_with(allgather, size or 0, errors) if allgather else NULL
    params = sized("tryst_group_params", allgather=call, rank=rank or 0, size=size or 0, device_prefix=prefix,
                   timeout_ns=int((timeout or 0) * 1e9))
    with Config(config) as values:
        context = Context(values, log)
    try:
        return Group(context, params)
    except BaseException:
        context.put()
        if errors:
            raise errors[0] from None
        raise


_open_groups: Any = weakref.WeakSet()


@atexit.register
def _close_groups() -> None:
    """At exit arrays are freed, which the library must not use any more then."""
    for group in list(_open_groups):
        group.close()
