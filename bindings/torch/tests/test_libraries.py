# SPDX-License-Identifier: Apache-2.0
"""Programs of libraries that open process groups themselves, or call collectives in inference_mode. Each gives what one
process computes that has all data. Gloo is replaced where the library names it.

    python3 tests/test_libraries.py RANKS accelerate|ignite|lightning|torchmetrics|trainer
"""

import importlib.util
import os
import socket
import sys

import torch
import torch.distributed as dist

import tryst_torch
from ranks import check, run_jobs

BATCH, STEPS = 4, 6
PACKAGES = {"accelerate": ["accelerate"], "ignite": ["ignite"], "lightning": ["lightning"],
            "torchmetrics": ["torchmetrics"], "trainer": ["transformers", "accelerate"]}


class Samples(torch.utils.data.Dataset):
    """Points of a noisy line, the same on all ranks."""

    def __init__(self, ranks):
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(BATCH * STEPS * ranks, 3, generator=generator)
        self.targets = self.inputs.sum(1, keepdim=True) + torch.randn(len(self.inputs), 1, generator=generator)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


def model_make():
    torch.manual_seed(3)
    return torch.nn.Linear(3, 1)


def loss_of(model, batch):
    inputs, targets = batch
    return torch.nn.functional.mse_loss(model(inputs), targets)


def alone(ranks):
    """The parameters after an epoch of one process with the batches of all ranks, and the loss of all data."""
    model, samples = model_make(), Samples(ranks)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.utils.data.DataLoader(samples, batch_size=BATCH * ranks):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    with torch.no_grad():
        return [parameter.clone() for parameter in model.parameters()], loss_of(model, samples[:])


def close(ours, expected, what):
    ours, expected = (torch.as_tensor(value, dtype=torch.float32) for value in (ours, expected))
    check(torch.allclose(ours, expected, atol=1e-5), f"{what}: {ours}, not {expected}")


def trained(model, loss, ranks):
    """Compare a trained model, and its loss of all data, with those of one process."""
    parameters, expected = alone(ranks)
    for ours, one in zip(model.parameters(), parameters):
        close(ours.detach(), one, "parameters after training")
    close(loss, expected, "the loss of all data")


def loader_make(ranks):
    """Batches of this rank, in the order in which `alone` has those of all ranks."""
    samples = Samples(ranks)
    sampler = torch.utils.data.DistributedSampler(samples, ranks, int(os.environ["RANK"]), shuffle=False)
    return torch.utils.data.DataLoader(samples, batch_size=BATCH, sampler=sampler)


def over_tryst():
    name = dist.group.WORLD._get_backend(torch.device("cpu")).name()
    check(name == "tryst", f"the library trains over {name}")


def accelerate(ranks):
    tryst_torch.replace_gloo()
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    over_tryst()
    model = model_make()
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), torch.utils.data.DataLoader(Samples(ranks), batch_size=BATCH))
    for batch in loader:
        optimizer.zero_grad()
        accelerator.backward(loss_of(model, batch))
        optimizer.step()
    with torch.inference_mode():
        losses = [accelerator.gather_for_metrics(loss_of(model, batch).reshape(1)) for batch in loader]
        padded = accelerator.gather(accelerator.pad_across_processes(torch.ones(dist.get_rank() + 1), pad_index=9))
    trained(accelerator.unwrap_model(model), torch.cat(losses).mean(), ranks)
    close(padded.sum(), sum(1 + rank + 9 * (ranks - 1 - rank) for rank in range(ranks)), "padded tensors")
    accelerator.end_training()


def trainer(_ranks):
    """transformers.Trainer. Its sampler shuffles, so the test compares parameters between the ranks alone."""
    tryst_torch.replace_gloo()
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.line = model_make()

        def forward(self, inputs, labels):
            return {"loss": loss_of(self.line, (inputs, labels)), "logits": self.line(inputs)}

    def collate(samples):
        return dict(zip(("inputs", "labels"), map(torch.stack, zip(*samples))))

    samples = Samples(dist.get_world_size() if dist.is_initialized() else int(os.environ["WORLD_SIZE"]))
    options = transformers.TrainingArguments(
        output_dir=os.environ["TEST_FOLDER"], use_cpu=True, per_device_train_batch_size=BATCH, num_train_epochs=4,
        learning_rate=0.1, save_strategy="no", report_to=[], disable_tqdm=True)
    trained_by = transformers.Trainer(model=Model(), args=options, train_dataset=samples, eval_dataset=samples,
                                      data_collator=collate)
    over_tryst()
    before = loss_of(model_make(), samples[:]).item()
    trained_by.train()
    after = trained_by.evaluate()["eval_loss"]
    check(after < before, f"the loss is {after} after training, and {before} before")
    weight = trained_by.model.line.weight.detach()
    everything = [torch.empty_like(weight) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, weight)
    check(all(torch.equal(one, weight) for one in everything), f"weights of the ranks: {everything}")


def lightning(ranks):
    import lightning as L
    from lightning.pytorch.strategies import DDPStrategy

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.line = model_make()
            self.gathered = []

        def training_step(self, batch, _index):
            return loss_of(self.line, batch)

        def validation_step(self, batch, _index):
            loss = loss_of(self.line, batch)
            self.log("loss", loss, sync_dist=True)
            self.gathered.append(self.all_gather(loss))  # in inference_mode
            check(torch.is_inference_mode_enabled(), "Lightning validates in inference_mode")

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Module()
    trainer = L.Trainer(accelerator="cpu", devices=ranks, max_epochs=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                        use_distributed_sampler=False, strategy=DDPStrategy(process_group_backend="tryst"))
    trainer.fit(module, loader_make(ranks))
    over_tryst()
    loss = trainer.validate(module, loader_make(ranks), verbose=False)[0]["loss"]
    trained(module.line, loss, ranks)
    close(torch.stack(module.gathered).mean(), loss, "the gathered losses")


def torchmetrics(ranks):
    import torchmetrics as M
    dist.init_process_group("tryst")
    samples = Samples(ranks)
    mine = slice(dist.get_rank() * 5, len(samples) if dist.get_rank() == ranks - 1 else dist.get_rank() * 5 + 5)
    for mode in (torch.inference_mode, torch.enable_grad):
        for metric in (M.MeanSquaredError, M.SpearmanCorrCoef, M.CatMetric, M.MeanMetric):
            ours, expected = metric(), metric(distributed_available_fn=lambda: False)
            single = metric in (M.CatMetric, M.MeanMetric)
            for values, part in ((ours, mine), (expected, slice(None))):
                inputs = samples.inputs[part, 0].contiguous(), samples.targets[part, 0].contiguous()
                with mode():
                    values.update(*inputs[:1 if single else 2])
            with mode():
                close(ours.compute(), expected.compute(), metric.__name__)  # of unequal numbers of samples


def ignite(ranks):
    tryst_torch.replace_gloo()
    import ignite.distributed as idist
    from ignite.engine import Engine
    from ignite.metrics import MeanSquaredError
    idist.initialize("gloo")
    over_tryst()
    model = idist.auto_model(model_make())
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))

    def train(_engine, batch):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()

    def evaluate(_engine, batch):
        with torch.inference_mode():
            return model(batch[0]), batch[1]

    Engine(train).run(loader_make(ranks), max_epochs=1)
    evaluator = Engine(evaluate)
    MeanSquaredError().attach(evaluator, "loss")
    loss = evaluator.run(loader_make(ranks)).metrics["loss"]
    trained(model.module, loss, ranks)
    check(idist.all_gather(idist.get_rank()) == list(range(ranks)), "an all_gather of numbers")
    idist.finalize()


def port_agree(folder, rank):
    """A free port, which rank 0 finds."""
    store = dist.FileStore(f"{folder}/port", -1)
    if rank == 0:
        with socket.create_server(("127.0.0.1", 0)) as server:
            store.set("port", str(server.getsockname()[1]))
    return store.get("port").decode()


def body():
    """The environment of torchrun, then the program."""
    rank, ranks = os.environ["TEST_RANK"], os.environ["TEST_SIZE"]
    os.environ.update(
        RANK=rank, LOCAL_RANK=rank, GROUP_RANK="0", WORLD_SIZE=ranks, LOCAL_WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1",
        MASTER_PORT=port_agree(os.environ["TEST_FOLDER"], int(rank)), TORCHELASTIC_RUN_ID="test", HF_HUB_OFFLINE="1")
    globals()[sys.argv[2]](int(ranks))
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


missing = [name for name in PACKAGES[sys.argv[2]] if not importlib.util.find_spec(name)]
if missing:
    print(f"skipped: {sys.executable} has no {' and no '.join(missing)} (bindings/torch/test.sh libraries)")
    sys.exit(77)
run_jobs(body)
