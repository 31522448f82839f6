# SPDX-License-Identifier: Apache-2.0
"""The hook, with and without CrossBarrier, trains to the results of DistributedDataParallel over gloo: bit by bit with
2 ranks, within 1e-6 with 4. Pieces that the next forward pass needs first overtake others. What is read between step()
and the next forward pass is right, and what cannot be right is refused.
"""

import contextlib
import copy
import gc
import io
import pickle
import sys
import time
import weakref

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import tryst_torch
from ranks import check, gloo, raises, run

STEPS = 12
KINDS = ["hook", "cross", "cross view"]
VERSION = tuple(int(number) for number in torch.__version__.split(".")[:2])


def layers():
    return torch.nn.Sequential(
        torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.BatchNorm1d(128), torch.nn.Linear(128, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 10))


class Odd(torch.nn.Module):
    """A parameter that two layers share, one of a module that is not called, one without a module, channels last."""

    def __init__(self):
        super().__init__()
        self.image = torch.nn.Conv2d(2, 8, 3, padding=1).to(memory_format=torch.channels_last)
        self.first = torch.nn.Linear(128, 32, bias=False)
        self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)
        self.scale = torch.nn.Parameter(torch.ones(32))
        self.head = torch.nn.Linear(128, 10)

    def forward(self, x):
        x = self.image(x.view(-1, 2, 4, 4)).flatten(1)
        x = self.first(x) * self.scale
        x = self.attention(x.unsqueeze(1), x.unsqueeze(1), x.unsqueeze(1))[0].squeeze(1)
        x = functional.linear(x, self.first.weight.t())
        return functional.linear(x, self.head.weight, self.head.bias)


class Sometimes(torch.nn.Module):
    """One layer is used by rank 0 alone, in every second step; another one never."""

    def __init__(self):
        super().__init__()
        self.body, self.side, self.never = torch.nn.Linear(32, 10), torch.nn.Linear(32, 10), torch.nn.Linear(32, 10)
        self.step = 0

    def forward(self, x):
        self.step += 1
        out = self.body(x)
        return out + self.side(x) if dist.get_rank() == 0 and self.step % 2 else out


class Trainer:
    """A model, its optimizer and its data over one of: gloo, hook, cross, cross view."""

    def __init__(self, kind, reference, make=layers, optimizer=None, piece_bytes=4096, **options):
        torch.manual_seed(1)
        options.setdefault("bucket_cap_mb", 0.05)
        group = reference if kind == "gloo" else dist.group.WORLD
        model = make().double() if dist.get_world_size() > 2 else make()
        self.ddp = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=kind == "cross view",
                                           **options)
        self.optimizer = (optimizer or sgd)(self.ddp)
        self.barrier = None
        if kind == "hook":
            self.ddp.register_comm_hook(tryst_torch.HookState(self.ddp, piece_bytes), tryst_torch.ddp_hook)
        elif kind != "gloo":
            self.barrier = tryst_torch.CrossBarrier(self.ddp, self.optimizer, piece_bytes)
        self.data = torch.Generator().manual_seed(100 + dist.get_rank())
        self.losses = []

    def batch(self):
        dtype = next(self.ddp.parameters()).dtype
        return torch.randn(8, 32, generator=self.data).to(dtype), torch.randint(0, 10, (8,), generator=self.data)

    def backward(self):
        inputs, targets = self.batch()
        loss = functional.cross_entropy(self.ddp(inputs), targets)
        loss.backward()
        self.losses.append(loss.item())

    def step(self):
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def groups_of(model):
    """Two groups with learning rates of their own."""
    parameters = list(model.parameters())
    return [{"params": parameters[::2]}, {"params": parameters[1::2], "lr": 0.002}]


def equal(ours, theirs, what):
    """Compare tensors: bits with two ranks, otherwise 1e-6 of the largest element."""
    for one, other in zip(ours, theirs):
        worst = (one - other).abs().max().item() / (other.abs().max().item() or 1)
        check(worst <= 1e-6, f"{what}: differs by {worst:.2g}")
        check(dist.get_world_size() > 2 or torch.equal(one, other), f"{what}: differs in its bits, {worst:.2g}")


def same(ours, theirs, what):
    equal(torch.tensor(ours.losses, dtype=torch.float64), torch.tensor(theirs.losses, dtype=torch.float64),
          f"{what}: losses")
    equal(ours.ddp.parameters(), theirs.ddp.parameters(), f"{what}: parameters")
    for one, other in zip(ours.ddp.parameters(), theirs.ddp.parameters()):
        check((one.grad is None) == (other.grad is None), f"{what}: a gradient that is None")
        if one.grad is not None:
            equal([one.grad], [other.grad], f"{what}: gradients")


def compare(reference, what, loop, kinds=None, **options):
    """Run `loop` on a trainer of each kind; all must end as the one over gloo."""
    theirs = Trainer("gloo", reference, **options)
    loop(theirs)
    for kind in kinds or KINDS:
        ours = Trainer(kind, reference, **options)
        loop(ours)
        if ours.barrier:
            ours.barrier.synchronize()
        same(ours, theirs, f"{what}, {kind}")


def steps(trainer, count=STEPS):
    for _ in range(count):
        trainer.step()


# --- results


def test_optimizers(reference):
    optim = torch.optim
    kinds = {
        "SGD": lambda model: optim.SGD(groups_of(model), lr=0.05),
        "SGD with momentum": lambda model: optim.SGD(groups_of(model), lr=0.05, momentum=0.9, nesterov=True,
                                                     weight_decay=0.01),
        "SGD, foreach": lambda model: optim.SGD(groups_of(model), lr=0.05, momentum=0.9, foreach=True),
        "Adam": lambda model: optim.Adam(groups_of(model), lr=1e-3),
        "Adam, foreach": lambda model: optim.Adam(groups_of(model), lr=1e-3, foreach=True),
        "AdamW": lambda model: optim.AdamW(groups_of(model), lr=1e-3, amsgrad=True),
        "RMSprop": lambda model: optim.RMSprop(groups_of(model), lr=1e-3, centered=True),
    }
    if VERSION >= (2, 4):  # fused optimizers for the CPU
        kinds["Adam, fused"] = lambda model: optim.Adam(groups_of(model), lr=1e-3, fused=True)
        kinds["SGD, fused"] = lambda model: optim.SGD(groups_of(model), lr=0.05, momentum=0.9, fused=True)
    for name, make in kinds.items():
        compare(reference, name, steps, optimizer=make)


def test_loops(reference):
    """Other forms of the loop: where gradients are zeroed, and how; schedulers; two steps for one backward."""

    def zeroed_after(trainer):
        for _ in range(STEPS):
            trainer.backward()
            trainer.optimizer.step()
            trainer.optimizer.zero_grad(set_to_none=False)

    def never_zeroed(trainer):
        for _ in range(4):
            trainer.backward()
            trainer.optimizer.step()

    def zeroed_by_model(trainer):
        for _ in range(STEPS):
            trainer.backward()
            trainer.optimizer.step()
            trainer.ddp.zero_grad()

    def scheduled(trainer):
        scheduler = torch.optim.lr_scheduler.ExponentialLR(trainer.optimizer, 0.8)
        for _ in range(STEPS):
            trainer.step()
            scheduler.step()

    def stepped_twice(trainer):
        for _ in range(4):
            trainer.step()
            trainer.optimizer.step()

    def zeroed_before_step(trainer):
        for _ in range(4):
            trainer.backward()
            trainer.optimizer.zero_grad(set_to_none=False)
            trainer.optimizer.step()

    def some_without_gradient(trainer):
        for _ in range(4):
            trainer.optimizer.zero_grad()
            trainer.backward()
            trainer.ddp.module[0].weight.grad = None
            trainer.ddp.module[3].weight.grad = torch.ones_like(trainer.ddp.module[3].weight)
            trainer.optimizer.step()

    for loop in (zeroed_after, never_zeroed, zeroed_by_model, scheduled, stepped_twice, zeroed_before_step):
        compare(reference, loop.__name__, loop)
    compare(reference, "some without a gradient", some_without_gradient, ["cross", "cross view"])


def test_scheduler_before(reference):
    """A scheduler that is older than the CrossBarrier; it must not warn, and its rate at step() counts."""
    schedulers = {}

    def adam(model):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        schedulers[optimizer] = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        return optimizer

    def loop(trainer):
        for _ in range(STEPS):
            trainer.step()
            schedulers[trainer.optimizer].step()

    compare(reference, "a scheduler", loop, optimizer=adam)


def test_models(reference):
    compare(reference, "shared and uncalled", steps, make=Odd)
    compare(reference, "parameters that are unused at times", steps, make=Sometimes, find_unused_parameters=True,
            piece_bytes=0)
    compare(reference, "static graph", steps, static_graph=True)
    compare(reference, "static graph, shared", steps, make=Odd, static_graph=True)


def test_accumulation(reference):
    def loop(trainer):
        for _ in range(4):
            trainer.optimizer.zero_grad()
            for part in range(3):
                with trainer.ddp.no_sync() if part < 2 else contextlib.nullcontext():
                    trainer.backward()
            trainer.optimizer.step()

    compare(reference, "accumulation", loop)


def test_clipping_after_synchronize(reference):
    def loop(trainer):
        for _ in range(4):
            trainer.optimizer.zero_grad()
            trainer.backward()
            if trainer.barrier:
                trainer.barrier.synchronize()
            torch.nn.utils.clip_grad_norm_(trainer.ddp.parameters(), 0.5)
            trainer.optimizer.step()

    compare(reference, "clipping", loop)


def test_join(reference):
    """Ranks with different numbers of steps: right with the hook alone, refused with CrossBarrier."""
    trainers = [Trainer(kind, reference) for kind in ("hook", "gloo")]
    for trainer in trainers:
        with trainer.ddp.join():
            steps(trainer, 3 + dist.get_rank())
    same(*trainers, "Join")
    trainer = Trainer("cross", reference)
    with trainer.ddp.join():
        raises("cannot train with Join", trainer.step)


# --- the order of need


class Spy:
    """A process group that records the priority of each all-reduce."""

    def __init__(self, group):
        self.group, self.priorities = group, []

    def allreduce(self, tensors, options):
        self.priorities.append(tryst_torch._C.priority_get())
        return self.group.allreduce(tensors, options)


def test_priorities(reference):
    """The pieces' priorities are in the order of the forward pass, and the all-reduces have them."""
    trainer = Trainer("cross", reference)
    state = trainer.barrier.state
    names = {id(parameter): name for name, parameter in trainer.ddp.module.named_parameters()}
    spy = state.group = Spy(state.group)
    for number in range(3):
        spy.priorities.clear()
        trainer.step()
        check(spy.priorities == [piece.priority for piece in state.pieces], "priorities of the all-reduces")
        order = sorted(state.pieces, key=lambda piece: piece.priority)
        order = [layer for piece in order
                 for layer in sorted(int(names[id(parameter)].split(".")[0]) for parameter in piece.parameters)]
        check(order == sorted(order), f"step {number}: layers in the order {order}")
        check(min(spy.priorities) == 1 and len(set(spy.priorities)) == len(spy.priorities), str(spy.priorities))
    check(tryst_torch._C.priority_get() is None, "the thread's priority afterwards")


def wide():
    return torch.nn.Sequential(*(torch.nn.Linear(1448, 1448, bias=False) for _ in range(10)))


def test_overtaking(reference):
    """Pieces of 8 MiB: when that of the first layer, started last, ends, others are still under way."""
    ddp = DistributedDataParallel(wide(), bucket_cap_mb=1)
    barrier = tryst_torch.CrossBarrier(ddp, torch.optim.SGD(ddp.parameters(), lr=1e-3))
    overtaken = []
    for _ in range(8):
        ddp(torch.ones(1, 1448)).sum().backward()
        pieces = barrier.state.pieces
        check(pieces[-1].priority == 1, "the first layer's gradient is the last one")
        pieces[-1].work.wait()
        overtaken.append(sum(not piece.work.is_completed() for piece in pieces))
        barrier.synchronize()
    print("pieces overtaken in each step:", overtaken)
    check(sum(overtaken) >= 8, f"pieces overtaken in each step: {overtaken}")
    barrier.close()


# --- reading between step() and the next forward pass


def reads():
    """Ways to read a parameter, each giving its elements."""

    def saved(parameter):
        file = io.BytesIO()
        torch.save(parameter, file)
        file.seek(0)
        return torch.load(file)

    return {
        "detach": lambda p: p.detach(), "data": lambda p: p.data, "numpy": lambda p: torch.tensor(p.detach().numpy()),
        "tolist": lambda p: torch.tensor(p.tolist(), dtype=p.dtype), "clone": lambda p: p.clone(),
        "add": lambda p: p + 0, "item": lambda p: torch.stack([p[i][0] for i in range(len(p))]),
        "deepcopy": copy.deepcopy, "pickle": lambda p: pickle.loads(pickle.dumps(p)), "save": saved,
        "list": lambda p: torch.stack([p, p])[1], "foreach": lambda p: torch._foreach_add([p], 0)[0],
        "storage": lambda p: torch.tensor([], dtype=p.dtype).set_(p.untyped_storage()).view(p.shape),
        "copy": lambda p: torch.empty_like(p).copy_(p), "vector": lambda p: torch.nn.utils.parameters_to_vector([p]),
    }


def test_reading(reference):
    """Each way to read gives the value after the step; the one that finds the parameter pending is tested."""
    for name, read in reads().items():
        theirs, ours = Trainer("gloo", reference), Trainer("cross", reference)
        for trainer in (theirs, ours):
            steps(trainer, 3)
        pending, plain = ours.ddp.module[3].weight, theirs.ddp.module[3].weight
        check(type(pending) is not torch.nn.Parameter, f"{name}: the parameter is not pending")
        check(pending.shape == plain.shape and pending.requires_grad and pending.is_leaf, "attributes")
        check(type(pending) is not torch.nn.Parameter, f"{name}: attributes have completed the parameter")
        with torch.no_grad():
            equal([read(pending)], [read(plain)], f"read by {name}")
        check(type(pending) is torch.nn.Parameter, f"{name}: the parameter is still pending")
        ours.barrier.close()


def test_evaluation(reference):
    """Evaluation, checkpoints and copies in the middle of the training, and a new start from a checkpoint."""

    def loop(trainer):
        inputs = torch.ones(4, 32, dtype=next(trainer.ddp.parameters()).dtype)
        for number in range(STEPS):
            trainer.step()
            module = trainer.ddp.module
            module.eval()
            if number % 4 == 0:
                with torch.inference_mode():
                    trainer.losses.append(module(inputs).square().sum().item())
            elif number % 4 == 1:
                twin = copy.deepcopy(module)
                twin.eval()
                trainer.losses.append(twin(inputs).square().sum().item())
            elif number % 4 == 2:
                state, moments = copy.deepcopy(module.state_dict()), copy.deepcopy(trainer.optimizer.state_dict())
                trainer.losses += [value.double().abs().sum().item() for value in state.values()]
                trainer.losses += [value["momentum_buffer"].abs().sum().item() for value in moments["state"].values()]
                trainer.step()
                module.load_state_dict(state)
                trainer.optimizer.load_state_dict(moments)
            module.train()

    compare(reference, "evaluation", loop)


def test_copies(reference):
    """A copy of the whole model, as PyTorch allows it over the default process group: its gradients are DDP's own."""
    for kind in ("hook", "cross"):
        trainer = Trainer(kind, reference)
        steps(trainer, 3)
        twins = [copy.deepcopy(trainer.ddp), pickle.loads(pickle.dumps(trainer.ddp)),
                 torch.optim.swa_utils.AveragedModel(trainer.ddp).module]
        for twin in twins:
            equal(twin.parameters(), trainer.ddp.parameters(), f"{kind}: a copy")
            twin(trainer.batch()[0]).sum().backward()
            sums = [parameter.grad.clone() for parameter in twin.parameters()]
            for tensor in sums:
                dist.broadcast(tensor, 0)
            equal([parameter.grad for parameter in twin.parameters()], sums, f"{kind}: the gradients of a copy")
        if trainer.barrier:
            trainer.barrier.close()


def collect():
    for _ in range(3):  # C++ objects free Python's, which are the next turn's
        gc.collect()


def test_dropped(reference):
    """A model that is dropped with gradients under way is freed, before step() and behind it."""
    for kind in ("cross", "cross view"):
        for is_stepped in (False, True):
            trainer = Trainer(kind, reference)
            steps(trainer, 3)
            trainer.optimizer.zero_grad()
            trainer.backward()
            if is_stepped:
                trainer.optimizer.step()
            left = [weakref.ref(parameter) for parameter in trainer.ddp.parameters()]
            check(trainer.barrier._pieces, "gradients under way")
            del trainer
            collect()
            left = sum(parameter() is not None for parameter in left)
            check(not left, f"{kind}, {'behind' if is_stepped else 'before'} step(): {left} parameters are left")


def test_kept(reference):
    """A net whose DistributedDataParallel, optimizer and CrossBarrier are dropped has the last step's parameters."""
    theirs, ours = Trainer("gloo", reference), Trainer("cross", reference)
    steps(theirs, 3)
    steps(ours, 3)
    net = ours.ddp.module
    check(type(net[0].weight) is not torch.nn.Parameter, "a parameter that is under way")
    del ours
    collect()
    with torch.no_grad():
        equal(net.parameters(), theirs.ddp.module.parameters(), "a net that is kept")


def test_close(reference):
    """Behind close() the optimizer and DDP are as before, and the hook goes on."""

    def loop(trainer):
        steps(trainer, 4)
        if trainer.barrier:
            step = trainer.optimizer.step
            trainer.barrier.close()
            check(trainer.optimizer.step != step, "close() gives step() back")
            check(type(trainer.ddp.module[0].weight) is torch.nn.Parameter, "a parameter behind close()")
        trainer.step()
        check(type(next(trainer.ddp.parameters())) is torch.nn.Parameter, "a parameter behind the last step")

    compare(reference, "closed", loop, ["cross", "cross view"])


# --- refusals


def test_refused_gradients(reference):
    """Nothing can read a gradient that is under way, before step() and behind it; the training goes on."""

    def loop(trainer):
        for number in range(4):
            trainer.optimizer.zero_grad()
            trainer.backward()
            if trainer.barrier and number:
                refuse_reads(trainer)
            trainer.optimizer.step()
            if trainer.barrier and number:
                refuse_reads(trainer)

    def refuse_reads(trainer):
        parameters = list(trainer.ddp.parameters())
        text = raises("cannot use the gradient of 0.weight", torch.nn.utils.clip_grad_norm_, parameters, 1.0)
        check("clipping" in text and "synchronize()" in text, text)
        raises("cannot use the gradient", torch.nn.utils.clip_grad_value_, parameters, 1.0)
        for use in (lambda grad: grad.norm(), lambda grad: grad + 1, lambda grad: grad.data, lambda grad: grad.clone(),
                    lambda grad: grad.mul_(2), lambda grad: grad[0], lambda grad: grad.tolist(), copy.deepcopy,
                    lambda grad: grad.numpy(), lambda grad: torch.add(torch.ones(1), 1, out=grad)):
            try:
                use(parameters[0].grad)
            except (RuntimeError, TypeError, ValueError):
                continue
            raise AssertionError("a gradient that is under way was read")

    compare(reference, "refusals", loop, ["cross", "cross view"])


def test_refused_scaler(reference):
    if VERSION < (2, 3):  # no GradScaler for the CPU
        return
    for fused in (False, True) if VERSION >= (2, 4) else (False,):
        trainer = Trainer("cross", reference, optimizer=lambda model: torch.optim.Adam(model.parameters(), fused=fused))
        scaler = torch.amp.GradScaler("cpu")
        for number in range(2):
            inputs, targets = trainer.batch()
            trainer.optimizer.zero_grad()
            scaler.scale(functional.cross_entropy(trainer.ddp(inputs), targets)).backward()
            if number == 0:
                raises("GradScaler", scaler.step, trainer.optimizer)
                trainer.barrier.synchronize()
                scaler = torch.amp.GradScaler("cpu")
            else:
                trainer.barrier.synchronize()
                scaler.step(trainer.optimizer)
                scaler.update()
        trainer.barrier.close()


class Mine(torch.optim.SGD):
    pass


def test_refused_uses(reference):
    trainer = Trainer("cross", reference,
                      make=lambda: torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 10)))
    steps(trainer, 3)
    raises("closure", trainer.optimizer.step, lambda: None)
    handle = trainer.optimizer.register_step_post_hook(lambda *_: None)
    trainer.backward()
    raises("hooks of step()", trainer.optimizer.step)
    handle.remove()
    trainer.optimizer.step()
    inputs, targets = trainer.batch()
    losses = [functional.cross_entropy(trainer.ddp(inputs), targets) for _ in range(2)]
    trainer.optimizer.zero_grad()
    losses[0].backward()
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    trainer.ddp.reducer.prepare_for_backward([])  # as if a forward pass of the model had been
    raises("cannot run backward again", losses[1].backward)
    raises("cannot run backward again", trainer.ddp.module, inputs)
    trainer.barrier.__exit__(RuntimeError, None, None)
    check(all(type(p) is torch.nn.Parameter and p.grad is None for p in trainer.ddp.parameters()), "after an error")
    trainer.ddp.module(inputs)


def test_refused_models(reference):
    def barrier(make=layers, optimizer=sgd, group=None):
        ddp = DistributedDataParallel(make(), process_group=group)
        return tryst_torch.CrossBarrier(ddp, optimizer(ddp))

    raises("over gloo", barrier, group=reference)
    if VERSION >= (2, 4):  # PyTorch has a Python reducer
        with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
            raises("Python reducer", barrier)
            raises("Python reducer", lambda: tryst_torch.HookState(DistributedDataParallel(layers())))
    raises("LBFGS", barrier, optimizer=lambda model: torch.optim.LBFGS(model.parameters()))
    raises("Mine", barrier, optimizer=lambda model: Mine(model.parameters(), lr=1))
    raises("scripted", barrier, make=lambda: torch.nn.Sequential(torch.jit.script(torch.nn.Linear(2, 2))))
    try:
        tryst_torch.HookState(layers())
    except TypeError as error:
        check("DistributedDataParallel" in str(error), str(error))
    else:
        raise AssertionError("a model without DDP")


def body():
    reference = gloo()
    for name, test in sorted(globals().items()):
        if name.startswith("test_") and all(word in name for word in sys.argv[2:]):
            begin = time.monotonic()
            test(reference)
            print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)


run(body)
