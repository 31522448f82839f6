# SPDX-License-Identifier: Apache-2.0
"""What a program submits in a step: sends, receives, collectives.

One idea: each method is one call of the library. It never blocks, and returns an Operation; an array that is both input
and output is used in place. Names, not the order of the calls, decide what meets what."""

from typing import TYPE_CHECKING, Any, Iterable, Optional, TypedDict, Union

from tryst._abi import NULL, ffi, lib, names, sized
from tryst.errors import refused
from tryst.handles import Collective, Key, Subgroup
from tryst.operation import Operation
from tryst.tensors import Room, room_alloc, tensor_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

REDUCE = names("tryst_reduce_op", "TRYST_REDUCE_")
_OP_P = ffi.typeof("tryst_op *[1]")
_Counts = Optional[Iterable[int]]


class Options(TypedDict, total=False):
    """What every operation takes, by name."""

    priority: Optional[int]  # smaller is more urgent; without one it is 0
    background: bool  # moves in the bandwidth that others leave
    deadline: Optional[float]  # seconds, after which the operation is cancelled (DEADLINE)
    dead: bool  # a send: the tensor does not exist; both ends get DEAD
    factor: float  # of this rank, for "premultiplied_sum"
    subgroup: Optional[Subgroup]  # a collective: the ranks that take part


def numbers(counts: _Counts) -> Any:
    """An array of counts or offsets for the library; None is NULL."""
    return NULL if counts is None else ffi.new("uint64_t[]", list(counts))


def _params(priority: Optional[int] = None, background: bool = False, deadline: Optional[float] = None,
            dead: bool = False, factor: float = 0.0, subgroup: Optional[Subgroup] = None) -> Any:
    params = sized("tryst_op_params", factor=factor)
    params.flags = ((priority is not None) * lib.TRYST_OP_PRIORITY | background * lib.TRYST_OP_BACKGROUND
                    | dead * lib.TRYST_OP_DEAD)
    params.priority = priority or 0
    params.deadline_ns = 0 if deadline is None else max(int(deadline * 1e9), 1)
    params.subgroup = subgroup.handle if subgroup else NULL
    return params


class Calls:
    """The calls of a Step; those of a Group are in its first step, which is open as long as the group.

    tensors  NumPy arrays, other objects with the buffer protocol or DLPack (on the CPU), or a Tensor. The library reads
             and writes their memory until the operation has ended
    name     the n-th operation of a name in a step meets the n-th one of that name on the other ranks"""

    group: Any
    _step: Any
    _context: Any
    _note: Any = None  # of a step: keeps an operation until its end

    def _submit(self, call: Any, arguments: Any, options: Any, keep: Any, value: Any) -> Any:
        op_p = ffi.new(_OP_P)
        params = NULL if not options else _params(**options) if options.__class__ is dict else options
        status = call(self._step, *arguments, params, op_p)
        if status:
            raise refused(status)
        operation: Operation[Any] = Operation(op_p[0], self._context, keep, value)
        if self._note:
            self._note(operation)
        return operation

    def _collective(self, call: Any, name: str, source: Any, target: Any, arguments: Any, options: Any
                    ) -> Operation[Any]:
        """Submit a collective from `source` to `target`; either may be None (in place, or not at this rank)."""
        in_, in_keep = (NULL, None) if source is None else tensor_of(source, False)
        in_, in_keep = (NULL, None) if source is None else tensor_of(source, False)
        data, keep = (NULL, None) if target is None else tensor_of(target, True)
        return self._submit(call, (name.encode(), in_, data, *arguments), options, (in_keep, keep), target)

    # ---- between two ranks ----

    def send(self, tensor: Any, to: Optional[int] = None, *, name: str = "message", index: int = 0,
             key: Union[Key, str, None] = None, **options: "Unpack[Options]") -> Operation[None]:
        """Send to rank `to`, under a name and a number; or under `key` (Group.key, or text)."""
        if key is None:
            key = self.group._key(self.group.rank, to, name, index)
        data, keep = tensor_of(tensor, False)
        return self._submit(*_by_key(lib.tryst_send_key, lib.tryst_send, key, data), options, (keep,), None)

    def recv(self, tensor: Any = None, source: Optional[int] = None, *, name: str = "message", index: int = 0,
             key: Union[Key, str, None] = None, **options: "Unpack[Options]") -> Operation[Any]:
        """Receive from rank `source` into `tensor`; without one the result is a new array of one dimension, with the
        sender's dtype and count."""
        if key is None:
            key = self.group._key(source, self.group.rank, name, index)
        if tensor is None:
            return self._recv_new(key, options)
        data, keep = tensor_of(tensor, True)
        return self._submit(*_by_key(lib.tryst_recv_key, lib.tryst_recv, key, data), options, (keep,), tensor)

    def _recv_new(self, key: Any, options: Any) -> Operation[Any]:
        room, params = Room(), _params(**options)
        handle = ffi.new_handle(room)
        params.alloc, params.alloc_arg = room_alloc, handle
        return self._submit(*_by_key(lib.tryst_recv_key, lib.tryst_recv, key, NULL), params, handle, room)

    # ---- collectives ----

    def allreduce(self, tensor: Any, out: Any = None, op: str = "sum", *, name: str = "allreduce",
                  **options: "Unpack[Options]") -> Operation[Any]:
        """Reduce the tensors of all ranks into every rank's `out` (without one: `tensor`)."""
        source, target = (None, tensor) if out is None else (tensor, out)
        return self._collective(lib.tryst_allreduce, name, source, target, (REDUCE[op],), options)

    def reduce(self, tensor: Any, out: Any = None, op: str = "sum", root: int = 0, *, name: str = "reduce",
               **options: "Unpack[Options]") -> Operation[Any]:
        """Reduce into `out` of rank `root` (without one: into its `tensor`)."""
        is_in_place = out is None and root == self._number(options)
        source, target = (None, tensor) if is_in_place else (tensor, out)
        return self._collective(lib.tryst_reduce, name, source, target, (REDUCE[op], root), options)

    def broadcast(self, tensor: Any, root: int = 0, *, name: str = "broadcast", **options: "Unpack[Options]"
                  ) -> Operation[Any]:
        """Copy `tensor` of rank `root` to that of all others."""
        data, keep = tensor_of(tensor, root != self._number(options))
        return self._submit(lib.tryst_broadcast, (name.encode(), data, root), options, (keep,), tensor)

    def barrier(self, *, name: str = "barrier", **options: "Unpack[Options]") -> Operation[None]:
        """End when all ranks have submitted it."""
        return self._submit(lib.tryst_barrier, (name.encode(),), options, (), None)

    def allgather(self, tensor: Any, out: Any, counts: _Counts = None, offsets: _Counts = None, *,
                  name: str = "allgather", **options: "Unpack[Options]") -> Operation[Any]:
        """Concatenate the tensors of all ranks in every `out`. `tensor` None: this rank's block of `out`. `counts`,
        `offsets`: of the ranks' blocks in `out`, in elements; without them the blocks are equal and follow one
        another."""
        if counts is None:
            return self._collective(lib.tryst_allgather, name, tensor, out, (), options)
        blocks = numbers(counts), numbers(offsets)
        return self._collective(lib.tryst_allgatherv, name, tensor, out, blocks, options)

    def reduce_scatter(self, tensor: Any, out: Any, op: str = "sum", counts: _Counts = None, offsets: _Counts = None,
                       *, name: str = "reduce_scatter", **options: "Unpack[Options]") -> Operation[Any]:
        """Reduce, and leave block r of the result in `out` of rank r. `counts`, `offsets`: of the blocks of
        `tensor`."""
        if counts is None:
            return self._collective(lib.tryst_reduce_scatter, name, tensor, out, (REDUCE[op],), options)
        (in_, in_keep), (data, keep) = tensor_of(tensor, False), tensor_of(out, True)
        arguments = name.encode(), in_, numbers(counts), numbers(offsets), data, REDUCE[op]
        return self._submit(lib.tryst_reduce_scatterv, arguments, options, (in_keep, keep), out)

    def alltoall(self, tensor: Any, out: Any, counts: _Counts = None, offsets: _Counts = None,
                 out_counts: _Counts = None, out_offsets: _Counts = None, *, name: str = "alltoall",
                 **options: "Unpack[Options]") -> Operation[Any]:
        """Send block r of `tensor` to rank r, and receive the block of rank r into block r of `out`. `counts`,
        `offsets`: of the blocks of `tensor`; `out_counts`, `out_offsets`: of those of `out`."""
        if counts is None:
            return self._collective(lib.tryst_alltoall, name, tensor, out, (), options)
        (in_, in_keep), (data, keep) = tensor_of(tensor, False), tensor_of(out, True)
        arguments = (name.encode(), in_, numbers(counts), numbers(offsets), data, numbers(out_counts),
                     numbers(out_offsets))
        return self._submit(lib.tryst_alltoallv, arguments, options, (in_keep, keep), out)

    def gather(self, tensor: Any, out: Any = None, root: int = 0, counts: _Counts = None, offsets: _Counts = None, *,
               name: str = "gather", **options: "Unpack[Options]") -> Operation[Any]:
        """Concatenate the tensors of all ranks in `out` of rank `root`. `counts`, `offsets`: of its blocks, at the
        root; the other ranks give `counts` too, and may give an empty one."""
        if counts is None:
            return self._collective(lib.tryst_gather, name, tensor, out, (root,), options)
        blocks = numbers(counts), numbers(offsets), root
        return self._collective(lib.tryst_gatherv, name, tensor, out, blocks, options)

    def scatter(self, tensor: Any, out: Any, root: int = 0, counts: _Counts = None, offsets: _Counts = None, *,
                name: str = "scatter", **options: "Unpack[Options]") -> Operation[Any]:
        """Send block r of `tensor` of rank `root` to `out` of rank r. `counts`, `offsets`: as of gather, of
        `tensor`."""
        if counts is None:
            return self._collective(lib.tryst_scatter, name, tensor, out, (root,), options)
        (in_, in_keep), (data, keep) = _maybe(tensor, False), _maybe(out, True)
        arguments = name.encode(), in_, numbers(counts), numbers(offsets), data, root
        return self._submit(lib.tryst_scatterv, arguments, options, (in_keep, keep), out)

    def start(self, collective: Collective, tensor: Any = None, out: Any = None, **options: "Unpack[Options]"
              ) -> Operation[Any]:
        """Start a prepared collective (Group.prepare): as the method of its kind, where one tensor is `out`."""
        in_, in_keep = (NULL, None) if tensor is None else tensor_of(tensor, False)
        data, keep = (NULL, None) if out is None else tensor_of(out, True)
        return self._submit(lib.tryst_coll_start, (collective.handle, in_, data), options, (in_keep, keep), out)

    def _number(self, options: Any) -> int:
        """This rank's number among those that take part."""
        subgroup = options.get("subgroup")
        return int(subgroup.rank if subgroup else self.group.rank)


def _maybe(value: Any, is_output: bool) -> Any:
    return (NULL, None) if value is None else tensor_of(value, is_output)


def _by_key(by_prepared: Any, by_text: Any, key: Any, data: Any) -> tuple[Any, Any]:
    """The call and its first arguments, for either form of a key."""
    if isinstance(key, str):
        return by_text, (key.encode(), data)
    return by_prepared, (key.handle, data)
