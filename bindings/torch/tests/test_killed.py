# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed is named by all other ranks, within 2 s; one that is stopped, by the time-out.

Each rank works again and again: all-reduces, training with a CrossBarrier, with FSDP2, or in a pipeline. The last one
kills itself in the middle of a step, with its peers' operations under way, or stops itself (SIGSTOP). The others write
what the error reads, and when it came, to files.

One run is under torchrun, which ends all ranks when it notices the death of one; it polls every 5 s here, so that it
does not end them first. The ranks of the other runs are forks of this process, which spares each the import of PyTorch.
"""

import datetime
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import tryst_torch

SECONDS = 60  # of a run, at most
LIMIT = 2.0  # seconds from the death of a rank to the error
TIMEOUT = 3.0  # seconds, of the process group in which a rank is stopped
ANSWER = 5.0  # seconds that a wait stays beyond a time-out, for the answers of the peers
STEPS = 30  # before the signal
FORK = multiprocessing.get_context("fork")


class Signal(torch.nn.Module):
    """The identity; once `send` is set, its forward pass signals this process."""

    send = None

    def forward(self, x):
        if Signal.send:
            Signal.send()
        return x


def layers():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), Signal(), torch.nn.Linear(64, 64),
                               torch.nn.Linear(64, 64))


def all_reduces():
    here = Signal()
    return lambda: dist.all_reduce(here(torch.ones(1000)))


def training():
    model = torch.nn.parallel.DistributedDataParallel(layers())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tryst_torch.CrossBarrier(model, optimizer)

    def step():
        optimizer.zero_grad()
        model(torch.ones(4, 64)).sum().backward()
        optimizer.step()

    return step


def sharded():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    model, mesh = layers(), init_device_mesh(torch.get_default_device().type, (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return lambda: model(torch.ones(4, 64)).sum().backward()


def pipeline():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    rank, size = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(layers(), rank, size, torch.get_default_device())
    schedule = Schedule1F1B(stage, 2 * size, loss_fn=torch.nn.functional.mse_loss)
    data = torch.ones(4 * size, 64)
    return lambda: schedule.step(*[data] if rank == 0 else [], **{"target": data} if rank == size - 1 else {})


WORK = {"all_reduces": all_reduces, "training": training, "sharded": sharded, "pipeline": pipeline}


def note(folder, name, text=""):
    """Write the time and a text to a file, all at once."""
    with open(f"{folder}/{name}.part", "w") as file:
        file.write(f"{time.time()} {text}")
    os.rename(f"{folder}/{name}.part", f"{folder}/{name}")


def read(folder, name):
    """Return the time and the text that a rank noted."""
    with open(f"{folder}/{name}") as file:
        seconds, text = file.read().split(" ", 1)
    return float(seconds), text


def signal_self(folder, number):
    note(folder, "signalled")
    os.kill(os.getpid(), number)


def rank_main(folder, work, number, **place):
    """Work until an error; note it, and leave when all others have noted theirs."""
    torch.set_num_threads(1)
    os.environ["TORCH_TRYST_DUMP_FILE"] = f"{folder}/dump.%r"
    seconds = TIMEOUT if number == signal.SIGSTOP else 60
    dist.init_process_group("tryst", timeout=datetime.timedelta(seconds=seconds), **place)
    rank, size = dist.get_rank(), dist.get_world_size()
    step = WORK[work]()
    try:
        for done in range(100000):
            if rank == size - 1 and done == STEPS:
                Signal.send = lambda: signal_self(folder, number)
            step()
    except RuntimeError as error:
        note(folder, f"rank.{rank}", str(error))
    while not all(os.path.exists(f"{folder}/rank.{other}") for other in range(size - 1)):
        time.sleep(0.02)
    os._exit(1)  # tensors may be in use


def is_named(texts, last, number):
    """True if each error names the last rank; of a stopped one, which only its neighbours in an operation can name,
    if one error does: a neighbour may be stuck in the operation before, and then nothing has come from it to the others."""
    if number == signal.SIGKILL:
        return all(re.search(rf"rank {last} (died|was lost)", text) for text in texts)
    return str(last) in re.findall(r"(?:nothing has come from|passed, and) rank (\d+)", " ".join(texts))


def check(folder, size, number):
    """Return whether the errors are right and in time, and what they read."""
    try:
        begin, _ = read(folder, "signalled")
        notes = [read(folder, f"rank.{rank}") for rank in range(size - 1)]
    except OSError as error:
        return False, f"{error}; all files: {os.listdir(folder)}"
    limit = LIMIT if number == signal.SIGKILL else TIMEOUT + ANSWER + LIMIT
    is_right = is_named([text for _, text in notes], size - 1, number) and max(notes)[0] - begin < limit
    lines = [f"rank {rank}, {end - begin:.3f} s after the signal: {text}" for rank, (end, text) in enumerate(notes)]
    return is_right, "\n".join(lines)


def under_torchrun(size, folder):
    """Run all-reduces, a rank killed, under torchrun."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}",
               "--monitor-interval=5", os.path.abspath(__file__), str(size), folder]
    environment = dict(os.environ, OMP_NUM_THREADS="1", TORCHELASTIC_ERROR_FILE="")
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=2 * SECONDS).stdout
    is_right, text = check(folder, size, signal.SIGKILL)
    return is_right, text if is_right else f"{text}\ntorchrun wrote:\n{output}"


def start(size, folder, work, number):
    """Start the ranks as forks of this process."""
    os.mkdir(folder)
    place = dict(init_method=f"file://{folder}/store", world_size=size)
    children = [FORK.Process(target=rank_main, args=(folder, work, number), kwargs=dict(place, rank=rank))
                for rank in range(size)]
    for child in children:
        child.start()
    return children


def finish(children):
    """Wait for all ranks but the last, which may be stopped, and end those that are left."""
    end = time.monotonic() + SECONDS
    for child in children[:-1]:
        child.join(max(end - time.monotonic(), 0))
    for child in children:
        child.kill()
        child.join()


def runs_of(works):
    """The runs in forks: kills one after another, since each error has to come soon; stops all at once."""
    kills = [[(work, signal.SIGKILL)] for work in works if work != "all_reduces"]
    return kills + [[(work, signal.SIGSTOP) for work in works if work != "training"]]


def possible():
    """The kinds of work that this PyTorch has. What they import, the forks have already."""
    try:
        import torch.distributed.pipelining  # noqa: F401
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError:
        return ["all_reduces", "training"]
    return list(WORK)


def results(size, folder, runs):
    """Do runs in forks; yield the name of each, whether its errors are right, and what they read."""
    for together in runs:
        folders = [f"{folder}/{work}.{number.name}" for work, number in together]
        started = [start(size, place, *run) for place, run in zip(folders, together)]
        for (work, number), place, children in zip(together, folders, started):
            finish(children)
            yield (f"{work}, {number.name}", *check(place, size, number))


def are_right(found):
    """Print results; return whether all are right."""
    are_all = True
    for name, is_right, text in found:
        print(f"{name}, {'as expected' if is_right else 'wrong'}:\n{text}", flush=True)
        are_all &= is_right
    return are_all


def main():
    size = int(sys.argv[1])
    if len(sys.argv) == 3:
        rank_main(sys.argv[2], "all_reduces", signal.SIGKILL)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/torchrun")
        alone = [("all_reduces under torchrun, SIGKILL", *under_torchrun(size, f"{folder}/torchrun"))]
        is_right = are_right(alone) & are_right(results(size, folder, runs_of(possible())))
    print("passed" if is_right else "failed", "test_killed.py", size)
    return not is_right


if __name__ == "__main__":
    sys.exit(main())
