# SPDX-License-Identifier: Apache-2.0
"""Training without a wait at the end of backward (the cross-barrier of ByteScheduler, Peng et al., SOSP 2019).

One idea: a gradient is needed by the optimizer alone, and the optimizer's result by the next use of the parameter alone.
So backward() and step() return at once, and the first use of a parameter in the next forward pass waits for the gradient
of this parameter, and runs the optimizer for it.

    backward()                 step()                        first use of the parameter
    all-reduces are started ─▶ settings are copied;        ─▶ wait for the piece's all-reduce, then run the optimizer
    gradient: PendingGradient  parameter: PendingParameter    for the piece's parameters; both become plain tensors

- DDP receives a complete future, so DDP does not wait, and copies unfinished sums from the bucket into the gradients.
  The function _arm, queued behind DDP's own last function of the backward pass, puts a PendingGradient in the place of
  each: any operation on a PendingGradient raises an error, so clip_grad_norm_, GradScaler and others cannot read an
  unfinished gradient.
- A PendingParameter is the same tensor whose class has a __torch_function__: any function of PyTorch that reads or
  writes it completes it first. Forward pre-hooks of modules do the same for the modules' own parameters, for functions
  that PyTorch does not dispatch (C++ extensions).
- The optimizer runs by its own step(), while its param_groups hold the piece's parameters alone, with the settings of
  the time of the user's step(), and on a device in the stream of that time, for which the current one then waits.
  Optimizers of torch.optim, LBFGS apart, treat each parameter by itself, so the results are the same bits.

Invariant: at the end of each forward pass of the model nothing is pending, so DDP finds plain gradients and idle
buckets in the next backward pass.
"""

import contextlib
import threading
import time
import types
import weakref

import torch
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from tryst_torch.ddp import PIECE_BYTES, HookState, ddp_hook


class PendingGradient(torch.Tensor):
    """The gradient of a parameter while its all-reduce is under way: it has a shape, and no elements.

    It refers weakly to its entry, which holds the parameter: Python's garbage collector does not see that a parameter
    holds its gradient, so a model that is dropped now would never be freed."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, parameter, _entry):
        return torch.Tensor._make_wrapper_subclass(cls, parameter.size(), strides=parameter.stride(),
                                                   dtype=parameter.dtype, device=parameter.device)

    def __init__(self, _parameter, entry):
        self.name_of_parameter, self.entry = entry.name, weakref.ref(entry)

    def __repr__(self):
        return f"PendingGradient({self.name_of_parameter})"

    @classmethod
    def __torch_dispatch__(cls, function, _types, arguments=(), named=None):
        if function in (torch.ops.aten.zero_.default, torch.ops.aten._foreach_zero_.default):
            return _zero(arguments[0])
        _refuse(next(_of_class(cls, (arguments, named))))


def _refuse(pending):
    raise RuntimeError(
        f"cannot use the gradient of {pending.name_of_parameter}: tryst_torch.CrossBarrier lets its all-reduce go on after "
        "backward(), so gradient clipping, GradScaler and reading of gradients are refused; call synchronize() of the "
        "CrossBarrier before, which waits for all gradients, or train without it")


def _zero(gradients):
    """zero_grad(set_to_none=False): what is pending becomes zero when it has been used."""
    for gradient in [gradients] if isinstance(gradients, torch.Tensor) else gradients:
        if not isinstance(gradient, PendingGradient):
            gradient.zero_()
            continue
        entry = gradient.entry()
        if entry is None:  # the CrossBarrier is gone
            _refuse(gradient)
        entry.zero()
    return gradients


def _getters(*names):
    return {getattr(torch.Tensor, name).__get__ for name in names if hasattr(torch.Tensor, name)}


# Functions that read no element of a parameter, and so do not wait for its gradient.
WITHOUT_ELEMENTS = _getters(
    "grad", "_grad", "requires_grad", "is_leaf", "grad_fn", "shape", "dtype", "device", "layout", "ndim", "names",
    "_version", "_base", "_backward_hooks", "retains_grad", "is_cpu", "is_cuda", "is_sparse", "is_meta",
    "is_quantized") | {
    torch.Tensor.grad.__set__, torch.Tensor.requires_grad.__set__, torch.Tensor.size, torch.Tensor.stride,
    torch.Tensor.dim, torch.Tensor.numel, torch.Tensor.nelement, torch.Tensor.element_size, torch.Tensor.is_contiguous,
    torch.Tensor.is_floating_point, torch.Tensor.is_complex, torch.numel, torch.is_floating_point, torch.is_complex}


class PendingParameter(torch.nn.Parameter):
    """The class of a parameter from step() to its next use."""

    @classmethod
    def __torch_function__(cls, function, _types, arguments=(), named=None):
        named = named or {}
        if function in WITHOUT_ELEMENTS:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*arguments, **named)
        for parameter in list(_of_class(cls, (arguments, named))):
            _complete(parameter)
        return function(*arguments, **named)

    def __deepcopy__(self, memo):
        return _complete(self).__deepcopy__(memo)

    def __reduce_ex__(self, protocol):
        return _complete(self).__reduce_ex__(protocol)

    def __repr__(self):
        return repr(_complete(self))


def _complete(parameter):
    """Make a PendingParameter a plain one, and return it."""
    if isinstance(parameter, PendingParameter):
        parameter._tryst_entry.complete()
    return parameter


def _of_class(cls, value):
    """Yield the tensors of a class among a function's arguments."""
    if isinstance(value, torch.Tensor):
        if type(value) is cls:
            yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _of_class(cls, item)
    elif isinstance(value, dict):
        yield from _of_class(cls, list(value.values()))


class _Entry:
    """A parameter whose gradient is under way."""

    def __init__(self, barrier, name, parameter, piece, view):
        self.barrier, self.name, self.parameter, self.piece, self.view = barrier, name, parameter, piece, view
        self.gradient = parameter.grad  # where the user finds the result
        self.settings = None  # of the optimizer, from step() on
        self.is_zeroed = False
        self.pending = PendingGradient(parameter, self)
        parameter.grad = self.pending

    def complete(self):
        self.barrier._complete(self.piece)

    def zero(self):
        """The user zeroes the gradient: before step() at once, behind it when the optimizer has run."""
        if self.settings is None:
            self.complete()
            self.gradient.zero_()
        else:
            self.is_zeroed = True

    def defer(self, settings):
        self.settings = settings
        self.parameter.__class__ = PendingParameter
        self.parameter._tryst_entry = self

    def arrive(self):
        """Make the parameter a plain one, with its gradient for the optimizer; return its gradient for the user."""
        parameter, later = self.parameter, self.parameter.grad
        if isinstance(parameter, PendingParameter):
            parameter.__class__ = torch.nn.Parameter
            del parameter._tryst_entry
        if later is not self.pending:  # zero_grad() came first: the optimizer reads the bucket
            parameter.grad = self.view
            return later
        if self.gradient.data_ptr() != self.view.data_ptr():
            self.gradient.copy_(self.view)
        parameter.grad = self.gradient
        return self.gradient

    def leave(self, later):
        if self.is_zeroed and later is self.gradient:
            later.zero_()
        self.parameter.grad = later


class _Call:
    """Calls a method of a CrossBarrier while it exists; a copy of it, in a copy of a model, does nothing."""

    def __init__(self, barrier=None, method=None):
        self.barrier, self.method = barrier and weakref.ref(barrier), method

    def __call__(self, *arguments):
        barrier = self.barrier and self.barrier()
        if barrier is not None:
            getattr(barrier, self.method)(*arguments)

    def __reduce__(self):
        return _Call, ()


@contextlib.contextmanager
def _in_stream(stream):
    """Run in `stream`, and let the current stream wait for what ran. None: on the CPU, which has no streams."""
    if stream is None:
        yield
        return
    module = getattr(torch, stream.device.type)
    current = module.current_stream(stream.device)
    with module.stream(stream):
        yield
    if current != stream:
        current.wait_stream(stream)


class CrossBarrier:
    """Let backward() and optimizer.step() of a model return at once; the next forward pass waits, by parameter.

        barrier = tryst_torch.CrossBarrier(model, optimizer)

    model        a DistributedDataParallel over tryst, without a communication hook: this one registers `ddp_hook`
    optimizer    of torch.optim, LBFGS apart; its parameters outside the model are stepped at once
    piece_bytes, priority    as in HookState

    The loop stays as it is. Call `synchronize` before gradients are read or clipped, before memory of parameters is
    read other than by functions of PyTorch, and before the process group is destroyed. What PyTorch's functions read
    of parameters, state_dict() of the model and of the optimizer, and evaluation are right without it.

    An error of an all-reduce is raised where its parameter is used first, and again at each further use.
    `waited_seconds` adds up how long uses have waited: communication that the computation did not hide.

    After `close`, or the end of a `with` block, backward() waits again, as with ddp_hook alone.
    """

    def __init__(self, model: torch.nn.parallel.DistributedDataParallel, optimizer: torch.optim.Optimizer,
                 piece_bytes: int = PIECE_BYTES, priority: int = 1) -> None:
        self.state = HookState(model, piece_bytes, priority)
        _model_require(model)
        _optimizer_require(optimizer)
        self.optimizer = optimizer  # not the model: it holds, in C++, pieces whose parameters lead here
        self.waited_seconds = 0.0
        self._names = {id(parameter): name for name, parameter in model.module.named_parameters()}
        self._lock = threading.RLock()  # guards all below
        self._started = []  # pieces of a backward pass that goes on
        self._pieces = []  # pieces that are pending, most urgent first
        self._entries = {}  # by id of the parameter
        self._error = None  # after a wrong order of calls; every use of a pending parameter raises it
        self._is_open = True
        self._device = next(model.parameters()).device
        self._stream = None  # the current one of the newest end of backward, or step(); the steps that are due run there
        self._replaced = {}
        self._hooks = []
        model.register_comm_hook(self.state, ddp_hook)
        self.state.barrier = weakref.ref(self)
        self._hooks_add(model)
        self._methods_replace()

    def __enter__(self):
        return self

    def __exit__(self, kind, _error, _trace):
        if kind is None:
            self.close()
        else:
            self._release()

    def synchronize(self) -> None:
        """Wait for all gradients, and run the steps that are due. Raises the error of an all-reduce."""
        with self._lock:
            for piece in list(self._pieces):
                self._complete(piece)

    def close(self) -> None:
        """Synchronize, and give the optimizer its own step() back."""
        self.synchronize()
        self._release()

    # --- what is replaced: methods of the optimizer; hooks of the modules

    def _methods_replace(self):
        def step(optimizer, closure=None):
            return self._step(closure)

        # Learning-rate schedulers mark the step() that they have wrapped, and warn when they find another one.
        step._with_counter = step._wrapped_by_lr_sched = True
        self._replace("step", types.MethodType(step, self.optimizer))
        for name in ("state_dict", "load_state_dict", "__getstate__"):
            self._replace(name, self._synchronized(getattr(self.optimizer, name)))

    def _replace(self, name, function):
        self._replaced[name] = vars(self.optimizer).get(name)
        setattr(self.optimizer, name, function)

    def _synchronized(self, function):
        def call(*arguments, **named):
            self.synchronize()
            return function(*arguments, **named)

        return call

    def _hooks_add(self, model):
        begin = _Call(self, "_forward_begins")
        self._hooks.append(model.register_forward_pre_hook(begin, prepend=True))
        self._hooks.append(model.register_forward_hook(_Call(self, "_forward_ends")))
        for module in model.module.modules():
            if next(module.parameters(recurse=False), None) is not None:
                call = _Call(self, "_module_begins")
                self._hooks.append(module.register_forward_pre_hook(call, prepend=True))

    def _stream_note(self):
        if self._device.type != "cpu":
            self._stream = getattr(torch, self._device.type).current_stream(self._device)

    def _release(self):
        """Remove hooks and replaced methods. Parameters that are pending after an error lose their gradients."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self.state.barrier = None
            for entry in self._entries.values():
                entry.parameter.__class__ = torch.nn.Parameter
                vars(entry.parameter).pop("_tryst_entry", None)
                entry.parameter.grad = None
            self._entries, self._pieces = {}, []
        for hook in self._hooks:
            hook.remove()
        for name, before in self._replaced.items():
            delattr(self.optimizer, name)
            if before is not None:
                setattr(self.optimizer, name, before)

    # --- a step, in the order of time

    def _forward_begins(self, model, _arguments):
        if model._join_config.enable:
            raise RuntimeError("cannot train with Join and tryst_torch.CrossBarrier: a rank that has joined has no "
                               "next forward pass; use tryst_torch.ddp_hook alone")
        if getattr(model, "_require_manual_backward_finalization", False):
            raise RuntimeError("cannot train with require_manual_backward_finalization and tryst_torch.CrossBarrier: "
                               "both move the end of backward")
        will_rebuild = model.static_graph or not model.find_unused_parameters
        if will_rebuild and not model._has_rebuilt_buckets:
            self.synchronize()  # DDP copies gradients when it makes its buckets anew, in the second step

    def _module_begins(self, module, _arguments):
        for parameter in module.parameters(recurse=False):
            if isinstance(parameter, PendingParameter):
                _complete(parameter)

    def _forward_ends(self, _model, _arguments, _output):
        self.synchronize()
        started, self._started = self._started, []
        for piece in started:  # of a backward pass that ended with an error
            piece.work.wait()

    def _bucket_begins(self):
        """Before the hook writes into a bucket: the backward pass before must be done with it."""
        if self._pieces and self._error is None:
            self._error = RuntimeError(
                "cannot run backward again: gradients of the backward pass before are under way, and there was no "
                "forward pass of the model between; call synchronize() of the CrossBarrier before")
        if self._error is not None:
            raise self._error

    def _take(self, bucket, pieces):
        """Take the pieces of a bucket from the hook."""
        if bucket.index() == 0:
            self._started = []
        self._started += pieces
        if bucket.is_last():
            # DDP queues its last function when this hook has returned. The outer callback runs before that function, and
            # queues _arm behind it.
            engine = torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: engine.queue_callback(self._arm))

    def _arm(self):
        """DDP is done with its gradients: replace those that are under way."""
        with self._lock, torch.no_grad():
            self._stream_note()
            pieces, self._started = self._started, []
            for piece in pieces:
                for parameter, view in zip(piece.parameters, piece.gradients()):
                    if parameter.grad is not None:  # None: no rank has used the parameter
                        name = self._names.get(id(parameter), "a parameter")
                        self._entries[id(parameter)] = _Entry(self, name, parameter, piece, view)
            self._pieces = sorted(pieces, key=lambda piece: piece.priority)

    def _step(self, closure):
        """The optimizer's step(): at once for gradients that are there, later for the others."""
        optimizer = self.optimizer
        if closure is not None:
            raise ValueError("cannot defer step(closure): tryst_torch.CrossBarrier runs the optimizer after step() has "
                             "returned; call backward() before step()")
        with self._lock:
            if self._pieces:
                _step_require(optimizer)
            if any(entry.settings is not None for entry in self._entries.values()):
                self.synchronize()  # a second step() on the same gradients
            self._stream_note()
            ready = []
            for group in optimizer.param_groups:
                pending = [parameter for parameter in group["params"] if self._is_pending(parameter)]
                ready.append((group, [parameter for parameter in group["params"] if not self._is_pending(parameter)]))
                settings = _settings(group) if pending else None
                for parameter in pending:
                    self._entries[id(parameter)].defer(settings)
            self._run(ready)
        # What learning-rate schedulers check.
        optimizer._opt_called = True
        if hasattr(optimizer, "_step_count"):
            optimizer._step_count += 1

    def _is_pending(self, parameter):
        return isinstance(parameter.grad, PendingGradient)

    def _complete(self, piece):
        """Wait for a piece, and run the steps of its parameters that are due."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if piece not in self._pieces:
                return
            with _in_stream(self._stream):
                self._wait(piece)
                self._pieces.remove(piece)
                self._run_due(piece)

    def _run_due(self, piece):
        entries = [self._entries.pop(id(p)) for p in piece.parameters if id(p) in self._entries]
        # The first use may be under inference_mode, in which the optimizer's state must not be made, or autocast.
        with torch.inference_mode(False), torch.no_grad(), torch.autocast(self._device.type, enabled=False):
            later = [entry.arrive() for entry in entries]
            self._run(_by_settings(entries))
            for entry, gradient in zip(entries, later):
                entry.leave(gradient)

    def _wait(self, piece):
        if piece.work.is_completed():
            piece.work.wait()  # raises its error
            return
        begin = time.monotonic()
        try:
            piece.work.wait()
        finally:
            self.waited_seconds += time.monotonic() - begin

    def _run(self, groups):
        """Run the optimizer's own step() for these pairs of settings and parameters."""
        optimizer = self.optimizer
        if not any(parameter.grad is not None for _, parameters in groups for parameter in parameters):
            return
        before = optimizer.param_groups
        optimizer.param_groups = [dict(settings, params=parameters) for settings, parameters in groups if parameters]
        try:
            type(optimizer).step(optimizer)
        finally:
            optimizer.param_groups = before


def _settings(group):
    """Copy the settings of a group, as they are now; a learning rate may be a tensor, which schedulers write."""
    return {key: value.clone() if isinstance(value, torch.Tensor) else value
            for key, value in group.items() if key != "params"}


def _by_settings(entries):
    groups = {}
    for entry in entries:
        if entry.settings is not None:
            groups.setdefault(id(entry.settings), (entry.settings, []))[1].append(entry.parameter)
    return list(groups.values())


# --- what is refused ---


def _model_require(model):
    for module in model.modules():
        is_compiled = type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None)
        if is_compiled or isinstance(module, torch.jit.ScriptModule):
            raise ValueError("cannot train a compiled or scripted model with tryst_torch.CrossBarrier: its code reads "
                             "parameters where they cannot be waited for; use tryst_torch.ddp_hook alone")
    for name, parameter in model.module.named_parameters():
        if type(parameter) is not torch.nn.Parameter:
            raise ValueError(f"cannot train {name}, a {type(parameter).__name__}, with tryst_torch.CrossBarrier: only "
                             "plain parameters can be waited for")
        if parameter.device != next(model.parameters()).device:
            raise ValueError("cannot train a model on several devices with tryst_torch.CrossBarrier: it runs the steps that it "
                             "defers in one stream; use tryst_torch.ddp_hook alone")
    if getattr(model, "mixed_precision", None) is not None or getattr(model, "_delay_all_reduce_params", None):
        raise ValueError("cannot train with DistributedDataParallel's mixed_precision or delay_all_reduce_named_params "
                         "and tryst_torch.CrossBarrier: use tryst_torch.ddp_hook alone")


def _optimizer_require(optimizer):
    kind = type(optimizer)
    if not kind.__module__.startswith("torch.optim.") or kind.__name__ == "LBFGS":
        raise ValueError(f"cannot defer step() of {kind.__module__}.{kind.__name__}: tryst_torch.CrossBarrier runs the "
                         "optimizers of torch.optim that treat each parameter by itself")
    if any(group.get("differentiable") for group in optimizer.param_groups):
        raise ValueError("cannot defer step() of a differentiable optimizer: train without tryst_torch.CrossBarrier")
    step = vars(optimizer).get("step")
    if step is not None and not (hasattr(step, "_with_counter") or hasattr(step, "_wrapped_by_lr_sched")):
        raise ValueError("cannot defer step(): the optimizer's step has been replaced already")


def _step_require(optimizer):
    hooks = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks, optimizer._optimizer_step_pre_hooks,
             optimizer._optimizer_step_post_hooks)
    if any(map(len, hooks)):
        raise ValueError("cannot defer step(): hooks of step() are registered, and tryst_torch.CrossBarrier runs the "
                         "optimizer in parts; call synchronize() of the CrossBarrier before step()")
    if getattr(optimizer, "grad_scale", None) is not None or getattr(optimizer, "found_inf", None) is not None:
        raise ValueError("cannot defer step() under GradScaler, which decides by all gradients whether to step; call "
                         "synchronize() of the CrossBarrier after backward(), or train without it")
