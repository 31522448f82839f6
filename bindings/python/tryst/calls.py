# SPDX-License-Identifier: Apache-2.0
"""What a program submits in a step: sends, receives, collectives.

One idea: each method is one call of the library. It never blocks, and returns an Operation; an array that is both input
and output is used in place. Names, not the order of the calls, decide what meets what."""

from typing import TYPE_CHECKING, Any, Iterable, Optional, TypedDict, Union

from tryst._abi import NULL, ffi, lib, names, sized
from tryst.handles import Collective, Key, Subgroup
from tryst.operation import Operation, op_room
from tryst.tensors import Room, Tensor, room_alloc, tensor_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

REDUCE = names("tryst_reduce_op", "TRYST_REDUCE_")
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
    params = sized("tryst_op_params", factor=factor, priority=priority or 0, subgroup=subgroup.handle if subgroup else NULL)
    params.flags = ((priority is not None) * lib.TRYST_OP_PRIORITY | background * lib.TRYST_OP_BACKGROUND
                    | dead * lib.TRYST_OP_DEAD)
    params.deadline_ns = 0 if deadline is None else max(int(deadline * 1e9), 1)
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

    def _submit(self, call: Any, what: Any, source: Any, target: Any, between: Any, behind: Any, options: Any) -> Any:
        """Submit what has an input, some arguments, an output and more arguments. A tensor that is None is NULL."""
        in_, in_keep = (NULL, None) if source is None else tensor_of(source, False)
        out, out_keep = NULL, target
        if target.__class__ is Tensor:  # the short way of small tensors in loops
            out = target._tensor
        elif target is not None:
            out, out_keep = tensor_of(target, True)
        params, op_p = _params(**options) if options else NULL, op_room()
        if between or behind:
            status = call(self._step, what, in_, *between, out, *behind, params, op_p)
        else:
            status = call(self._step, what, in_, out, params, op_p)
        return Operation(self, status, op_p, (in_keep, out_keep), target)

    # ---- between two ranks ----

    def send(self, tensor: Any, to: Optional[int] = None, *, name: str = "message", index: int = 0,
             key: Union[Key, str, None] = None, **options: "Unpack[Options]") -> Operation[None]:
        """Send to rank `to`, under a name and a number; or under `key` (Group.key, or text)."""
        if key is None:
            key = self.group._key(self.group.rank, to, name, index)
        data, keep = tensor_of(tensor, False)
        call, what = (lib.tryst_send, key.encode()) if isinstance(key, str) else (lib.tryst_send_key, key.handle)
        params, op_p = _params(**options) if options else NULL, op_room()
        return Operation(self, call(self._step, what, data, params, op_p), op_p, (keep,), None)

    def recv(self, tensor: Any = None, source: Optional[int] = None, *, name: str = "message", index: int = 0,
             key: Union[Key, str, None] = None, **options: "Unpack[Options]") -> Operation[Any]:
        """Receive from rank `source` into `tensor`; without one the result is a new array of one dimension, with the
        sender's dtype and count."""
        if key is None:
            key = self.group._key(source, self.group.rank, name, index)
        call, what = (lib.tryst_recv, key.encode()) if isinstance(key, str) else (lib.tryst_recv_key, key.handle)
        params, op_p = _params(**options) if options or tensor is None else NULL, op_room()
        if tensor is not None:
            data, keep = tensor_of(tensor, True)
            return Operation(self, call(self._step, what, data, params, op_p), op_p, (keep,), tensor)
        room = Room()
        params.alloc, handle = room_alloc, ffi.new_handle(room)
        params.alloc_arg = handle
        return Operation(self, call(self._step, what, NULL, params, op_p), op_p, handle, room)

    # ---- collectives ----

    def allreduce(self, tensor: Any, out: Any = None, op: str = "sum", *, name: str = "allreduce",
                  **options: "Unpack[Options]") -> Operation[Any]:
        """Reduce the tensors of all ranks into every rank's `out` (without one: `tensor`)."""
        source, target = (None, tensor) if out is None else (tensor, out)
        return self._submit(lib.tryst_allreduce, name.encode(), source, target, (), (REDUCE[op],), options)

    def reduce(self, tensor: Any, out: Any = None, op: str = "sum", root: int = 0, *, name: str = "reduce",
               **options: "Unpack[Options]") -> Operation[Any]:
        """Reduce into `out` of rank `root` (without one: into its `tensor`)."""
        is_in_place = out is None and root == self._number(options)
        source, target = (None, tensor) if is_in_place else (tensor, out)
        return self._submit(lib.tryst_reduce, name.encode(), source, target, (), (REDUCE[op], root), options)

    def broadcast(self, tensor: Any, root: int = 0, *, name: str = "broadcast", **options: "Unpack[Options]"
                  ) -> Operation[Any]:
        """Copy `tensor` of rank `root` to that of all others."""
        data, keep = tensor_of(tensor, root != self._number(options))
        params, op_p = _params(**options) if options else NULL, op_room()
        status = lib.tryst_broadcast(self._step, name.encode(), data, root, params, op_p)
        return Operation(self, status, op_p, (keep,), tensor)

    def barrier(self, *, name: str = "barrier", **options: "Unpack[Options]") -> Operation[None]:
        """End when all ranks have submitted it."""
        params, op_p = _params(**options) if options else NULL, op_room()
        return Operation(self, lib.tryst_barrier(self._step, name.encode(), params, op_p), op_p, (), None)

    def allgather(self, tensor: Any, out: Any, counts: _Counts = None, offsets: _Counts = None, *,
                  name: str = "allgather", **options: "Unpack[Options]") -> Operation[Any]:
        """Concatenate the tensors of all ranks in every `out`. `tensor` None: this rank's block of `out`. `counts`,
        `offsets`: of the ranks' blocks in `out`, in elements; without them the blocks are equal and follow one
        another."""
        if counts is None:
            return self._submit(lib.tryst_allgather, name.encode(), tensor, out, (), (), options)
        blocks = numbers(counts), numbers(offsets)
        return self._submit(lib.tryst_allgatherv, name.encode(), tensor, out, (), blocks, options)

    def reduce_scatter(self, tensor: Any, out: Any, op: str = "sum", counts: _Counts = None, offsets: _Counts = None,
                       *, name: str = "reduce_scatter", **options: "Unpack[Options]") -> Operation[Any]:
        """Reduce, and leave block r of the result in `out` of rank r. `counts`, `offsets`: of the blocks of
        `tensor`."""
        if counts is None:
            return self._submit(lib.tryst_reduce_scatter, name.encode(), tensor, out, (), (REDUCE[op],), options)
        blocks = numbers(counts), numbers(offsets)
        return self._submit(lib.tryst_reduce_scatterv, name.encode(), tensor, out, blocks, (REDUCE[op],), options)

    def alltoall(self, tensor: Any, out: Any, counts: _Counts = None, offsets: _Counts = None,
                 out_counts: _Counts = None, out_offsets: _Counts = None, *, name: str = "alltoall",
                 **options: "Unpack[Options]") -> Operation[Any]:
        """Send block r of `tensor` to rank r, and receive the block of rank r into block r of `out`. `counts`,
        `offsets`: of the blocks of `tensor`; `out_counts`, `out_offsets`: of those of `out`."""
        if counts is None:
            return self._submit(lib.tryst_alltoall, name.encode(), tensor, out, (), (), options)
        blocks, out_blocks = (numbers(counts), numbers(offsets)), (numbers(out_counts), numbers(out_offsets))
        return self._submit(lib.tryst_alltoallv, name.encode(), tensor, out, blocks, out_blocks, options)

    def gather(self, tensor: Any, out: Any = None, root: int = 0, counts: _Counts = None, offsets: _Counts = None, *,
               name: str = "gather", **options: "Unpack[Options]") -> Operation[Any]:
        """Concatenate the tensors of all ranks in `out` of rank `root`. `counts`, `offsets`: of the blocks of `out`;
        all ranks give counts or none does, and those of the root count."""
        if counts is None:
            return self._submit(lib.tryst_gather, name.encode(), tensor, out, (), (root,), options)
        blocks = numbers(counts), numbers(offsets), root
        return self._submit(lib.tryst_gatherv, name.encode(), tensor, out, (), blocks, options)

    def scatter(self, tensor: Any, out: Any, root: int = 0, counts: _Counts = None, offsets: _Counts = None, *,
                name: str = "scatter", **options: "Unpack[Options]") -> Operation[Any]:
        """Send block r of `tensor` of rank `root` to `out` of rank r. `counts`, `offsets`: of the blocks of `tensor`,
        as in gather."""
        if counts is None:
            return self._submit(lib.tryst_scatter, name.encode(), tensor, out, (), (root,), options)
        blocks = numbers(counts), numbers(offsets)
        return self._submit(lib.tryst_scatterv, name.encode(), tensor, out, blocks, (root,), options)

    def start(self, collective: Collective, tensor: Any = None, out: Any = None, **options: "Unpack[Options]"
              ) -> Operation[Any]:
        """Start a prepared collective (Group.prepare): as the method of its kind, where one tensor is `out`."""
        return self._submit(lib.tryst_coll_start, collective.handle, tensor, out, (), (), options)

    def _number(self, options: Any) -> int:
        """This rank's number among those that take part."""
        subgroup = options.get("subgroup")
        return subgroup.rank if subgroup else self.group.rank
