# SPDX-License-Identifier: Apache-2.0
"""A communication hook for DistributedDataParallel that moves gradients in the order of their need.

One idea: the next forward pass needs the parameters of the first layer first, but the backward pass gives the gradients
of the last layer first. The hook cuts each bucket into pieces of whole parameters, and starts an all-reduce for each
piece with a priority: the position of its parameters in the forward pass. So a piece that is needed early overtakes the
pieces that are under way.

The position is that of the parameter in the order in which gradients become ready, reversed, once DDP has put its
buckets into this order (in the second step); before, and where DDP keeps its first buckets (find_unused_parameters),
that of the parameter in the model. Both orders are the same on all ranks, and so are the pieces.
"""

import weakref

import torch
import torch.distributed as dist

from tryst_torch import _C, periods

PIECE_BYTES = 256 << 10


def group_require(group, device):
    """Refuse a process group whose tensors on `device` do not travel over tryst."""
    try:
        name = group._get_backend(device).name()
    except RuntimeError:
        name = "no backend"
    if name != "tryst":
        raise ValueError(f"cannot order gradients by need over {name}: give DistributedDataParallel a process group "
                         "with the backend tryst")


class Piece:
    """Parameters that follow one another in a bucket, and the all-reduce of their gradients.

    parameters  in the order of the bucket
    flat        their gradients, a part of the bucket: the local ones, and the mean of the ranks once `work` is done
    priority    smaller is more urgent
    work        the all-reduce, a torch.distributed.Work
    """

    def __init__(self, parameters, flat, priority):
        self.parameters, self.flat, self.priority = parameters, flat, priority
        self.work = None

    def __repr__(self):
        return f"Piece({len(self.parameters)} parameters, {self.bytes} bytes, priority {self.priority})"

    @property
    def bytes(self):
        return self.flat.numel() * self.flat.element_size()

    def gradients(self):
        """Return the part of `flat` that belongs to each parameter, in the parameter's layout."""
        gradients, at = [], 0
        for parameter in self.parameters:
            gradients.append(_gradient_view(self.flat, at, parameter))
            at += parameter.numel()
        return gradients


def _is_dense(tensor):
    """True if the elements fill their memory without gaps, in some order of the dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.size()) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _gradient_view(flat, at, parameter):
    """View elements of a bucket as DDP does: in the parameter's layout where it is dense, else row by row."""
    if _is_dense(parameter):
        return flat.as_strided(parameter.size(), parameter.stride(), flat.storage_offset() + at)
    return flat.narrow(0, at, parameter.numel()).view(parameter.size())


class HookState:
    """The state of `ddp_hook` for one model.

    model        a DistributedDataParallel over a process group with the backend tryst
    piece_bytes  neighbours in a bucket are joined until a piece has this many bytes; 0: a piece for each parameter.
                 The same on all ranks
    priority     of the piece that is needed first; the others have larger numbers. The default, 1, is behind all
                 operations without a priority of their own (0)

    `pieces` has the pieces of the newest backward pass, in the order of their submission.
    """

    def __init__(self, model: torch.nn.parallel.DistributedDataParallel, piece_bytes: int = PIECE_BYTES,
                 priority: int = 1) -> None:
        if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
            raise TypeError(f"cannot order the gradients of a {type(model).__name__}: give a DistributedDataParallel")
        group_require(model.process_group, next(model.parameters()).device)
        if getattr(model, "_use_python_reducer", False):
            raise ValueError("cannot order the gradients of DistributedDataParallel's Python reducer, which has no buckets: "
                             "create the model without torch._dynamo.config.optimize_ddp = \"python_reducer\"")
        self.group, self.piece_bytes, self.priority = model.process_group, piece_bytes, priority
        self.pieces = []
        self.barrier = None  # returns the CrossBarrier that waits in place of DDP, or None
        self._model = weakref.ref(model)  # DDP holds this state, in C++, where Python finds no cycles
        self._places = {id(parameter): place for place, parameter in enumerate(model.parameters())}
        self._ready = 0  # parameters in the buckets before this one
        self._options = dist.AllreduceOptions()
        # As DDP: multiplied before the sum, which overflows later than a mean of a sum.
        self._options.reduceOp = dist._make_nccl_premul_sum(1.0 / self.group.size())

    def __reduce__(self):
        # DDP keeps its hooks' states, also in a copy of a model, which has no hook and so uses none of them.
        return object, ()

    def start(self, bucket):
        """Start the all-reduces of a bucket, and return its pieces."""
        if bucket.index() == 0:
            self.pieces, self._ready = [], 0
            periods.backward_begins(self)
        pieces = self._cut(bucket)
        before = _C.priority_get()
        try:
            for piece in reversed(pieces):  # gradients of early layers become ready late
                _C.priority_set(piece.priority)
                piece.work = self.group.allreduce([piece.flat], self._options)
        finally:
            _C.priority_set(before)
        self._ready += len(bucket.parameters())
        self.pieces += reversed(pieces)
        return pieces

    def wait_at_end(self):
        """Wait for the pieces at the end of backward, before DDP waits for futures: a wait in the library makes progress,
        and a recorded step has it as a wait."""
        try:
            torch.autograd.Variable._execution_engine.queue_callback(self._wait)
        except RuntimeError:
            pass  # no backward pass runs: a rank that has joined (torch.distributed.algorithms.Join)

    def _wait(self):
        for piece in self.pieces:
            try:
                piece.work.wait()
            except RuntimeError:
                return  # DDP raises it

    def _cut(self, bucket):
        buffer, parameters = bucket.buffer(), bucket.parameters()
        if buffer.layout != torch.strided or buffer.numel() != sum(p.numel() for p in parameters):
            raise NotImplementedError("cannot cut a bucket of gradients that are sparse or have gaps: train without "
                                      "tryst_torch.ddp_hook")
        pieces, first, begin, end = [], 0, 0, 0
        for i, parameter in enumerate(parameters):
            end += parameter.numel()
            if (end - begin) * buffer.element_size() < self.piece_bytes and i + 1 < len(parameters):
                continue
            priority = self.priority + min(self._need(parameters[j], j) for j in range(first, i + 1))
            pieces.append(Piece(parameters[first:i + 1], buffer[begin:end], priority))
            first, begin = i + 1, end
        return pieces

    def _need(self, parameter, place):
        """The position in the forward pass of the parameter at `place` of this bucket."""
        model = self._model()
        if model is not None and model._has_rebuilt_buckets:
            return len(self._places) - 1 - self._ready - place
        return self._places.get(id(parameter), 0)


def ddp_hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """All-reduce (mean) a bucket in pieces, by need: `model.register_comm_hook(HookState(model), ddp_hook)`.

    Small buckets (bucket_cap_mb=1) let the first all-reduces start early; the pieces keep the operations few.
    """
    barrier, buffer = state.barrier() if state.barrier else None, bucket.buffer()
    if barrier is not None:
        barrier._bucket_begins()
        barrier._take(bucket, state.start(bucket))
        done = torch.futures.Future(devices=[] if buffer.is_cpu else [buffer.device])
        done.set_result(buffer)
        return done
    pieces = state.start(bucket)
    if bucket.is_last():
        state.wait_at_end()
    futures = [piece.work.get_future() for piece in pieces]
    # The future of collect_all names no device, so a tensor on one cannot be the value of a future behind it.
    all_done = torch.futures.collect_all(futures) if buffer.is_cpu else futures[0]
    return all_done.then(lambda _done: _result(futures, buffer))


def _result(futures, buffer):
    for future in futures:
        future.wait()  # raises the error of a failed piece
    return buffer
