# SPDX-License-Identifier: Apache-2.0
"""Random programs: calls of torch.distributed in random kinds, sizes, groups, threads, priorities and delays.

A seed gives one program. Each rank makes the whole program from the seed, runs its part of it, and checks each result
against values that are computed from the seed alone; so both ends of each operation are checked. What the backend asks
of a program: the collectives of one kind in one process group, and the messages of one pair and tag, are submitted in
one order on all ranks. So one thread of each rank submits all of a kind and a group, and everything else may cross.

usage: test_random.py RANKS [PROGRAMS [FIRST]]
A failure prints the seed; `test_random.py RANKS 1 SEED` repeats its program.
"""

import random
import sys
import threading
import time

import torch
import torch.distributed as dist

import ranks
import tryst_torch
from ranks import TIMEOUT, check, run

PROGRAMS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
FIRST = int(sys.argv[3]) if len(sys.argv) > 3 else 1
KINDS = ["all_reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
         "all_to_all", "all_to_all_single", "reduce", "gather", "scatter", "barrier", "message", "batch"]
SIZES = [1, 1, 3, 17, 100, 1000, 4096, 20000, 100003]
TYPES = [torch.float32, torch.float64, torch.int32, torch.int64]


class Action:
    """One call of the program: what all ranks of `members` do together, in one thread of each."""

    def __init__(self, source, index, groups):
        self.index = index
        self.group = source.randrange(len(groups))
        self.members = groups[self.group]
        self.kind = source.choice(KINDS)
        self.count = source.choice(SIZES)
        self.dtype = source.choice(TYPES)
        self.priority = source.choice([None, None, -3, 0, 2])
        self.root = source.choice(self.members)
        self.peer = source.choice([rank for rank in self.members if rank != self.root])
        self.tag = source.randrange(3)
        self.is_lazy = source.random() < 0.7  # wait later
        self.delays = [source.choice([0] * 8 + [0.001, 0.01, 0.05]) for _ in range(8)]

    def __repr__(self):
        return (f"{self.index}: {self.kind} of {self.count} {self.dtype}, group {self.group} {self.members}, "
                f"root {self.root}")

    def thread(self, threads):
        kind = "message" if self.kind in ("message", "batch") else self.kind
        return (KINDS.index(kind) * 7 + self.group) % threads

    def value(self, rank, part=0):
        """The value of all elements that `rank` gives (for the member at `part`): small, so that sums are exact."""
        return (self.index * 31 + rank * 7 + part * 3) % 100

    def filled(self, value, elements=None):
        return torch.full((self.count if elements is None else elements,), value, dtype=self.dtype)

    def values(self, values):
        return torch.cat([self.filled(value) for value in values])


class Pending:
    """Works of an action, and pairs of a tensor and what it must hold at their end."""

    def __init__(self, action):
        self.action, self.works, self.results = action, [], []

    def expect(self, tensor, expected):
        self.results.append((tensor, expected))

    def finish(self):
        for work in self.works:
            if work is not None:
                work.wait()
        for tensor, expected in self.results:
            check(torch.equal(tensor, expected), f"{self.action}: {tensor[:3]}… where {expected[:3]}… is due")


def room(action, blocks=1):
    return torch.full((action.count * blocks,), -1, dtype=action.dtype)


def submit_reductions(action, me, group, pending):
    members, place = action.members, action.members.index(me)
    total = sum(action.value(rank) for rank in members)
    totals = [sum(action.value(rank, part) for rank in members) for part in range(len(members))]
    given = [action.filled(action.value(me, part)) for part in range(len(members))]
    if action.kind == "all_reduce":
        tensor = action.filled(action.value(me))
        pending.expect(tensor, action.filled(total))
        return dist.all_reduce(tensor, group=group, async_op=True)
    if action.kind == "reduce":
        tensor = action.filled(action.value(me))
        if me == action.root:
            pending.expect(tensor, action.filled(total))
        return dist.reduce(tensor, action.root, group=group, async_op=True)
    output = room(action)
    pending.expect(output, action.filled(totals[place]))
    if action.kind == "reduce_scatter":
        return dist.reduce_scatter(output, given, group=group, async_op=True)
    return dist.reduce_scatter_tensor(output, torch.cat(given), group=group, async_op=True)


def submit_exchanges(action, me, group, pending):
    members, place = action.members, action.members.index(me)
    given = [action.filled(action.value(me, part)) for part in range(len(members))]
    from_all = action.values(action.value(rank, place) for rank in members)
    if action.kind == "all_to_all":
        outputs = [room(action) for _ in members]
        for rank, output in zip(members, outputs):
            pending.expect(output, action.filled(action.value(rank, place)))
        return dist.all_to_all(outputs, given, group=group, async_op=True)
    if action.kind == "all_to_all_single":
        output = room(action, len(members))
        pending.expect(output, from_all)
        return dist.all_to_all_single(output, torch.cat(given), group=group, async_op=True)
    output = room(action)
    pending.expect(output, action.filled(action.value(action.root, place)))
    return dist.scatter(output, given if me == action.root else None, action.root, group=group, async_op=True)


def submit_copies(action, me, group, pending):
    members, mine = action.members, action.filled(action.value(me))
    if action.kind == "broadcast":
        pending.expect(mine, action.filled(action.value(action.root)))
        return dist.broadcast(mine, action.root, group=group, async_op=True)
    if action.kind == "all_gather_into_tensor":
        output = room(action, len(members))
        pending.expect(output, action.values(action.value(rank) for rank in members))
        return dist.all_gather_into_tensor(output, mine, group=group, async_op=True)
    outputs = [room(action) for _ in members]
    if action.kind == "all_gather" or me == action.root:
        for rank, output in zip(members, outputs):
            pending.expect(output, action.filled(action.value(rank)))
    if action.kind == "all_gather":
        return dist.all_gather(outputs, mine, group=group, async_op=True)
    return dist.gather(mine, outputs if me == action.root else None, action.root, group=group, async_op=True)


def submit_messages(action, me, group, pending):
    """A message from the root to the peer; a batch: one in each direction, listed in an order of the rank's own."""
    operations, ends = [], {action.root: action.peer, action.peer: action.root}
    if me not in ends:
        return []
    other, is_batch = ends[me], action.kind == "batch"
    if is_batch or me == action.root:
        operations.append((dist.isend, action.filled(action.value(me))))
    if is_batch or me == action.peer:
        output = room(action)
        pending.expect(output, action.filled(action.value(other)))
        operations.append((dist.irecv, output))
    if is_batch and me == action.root:
        operations.reverse()
    if is_batch:
        return dist.batch_isend_irecv([dist.P2POp(call, tensor, other, group=group) for call, tensor in operations])
    return [call(tensor, other, group=group, tag=action.tag) for call, tensor in operations]


def submit(action, me, group):
    pending = Pending(action)
    if action.kind in ("message", "batch"):
        pending.works = submit_messages(action, me, group, pending)
    elif action.kind == "barrier":
        pending.works = [dist.barrier(group=group, async_op=True)]
    elif action.kind in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"):
        pending.works = [submit_reductions(action, me, group, pending)]
    elif action.kind in ("all_to_all", "all_to_all_single", "scatter"):
        pending.works = [submit_exchanges(action, me, group, pending)]
    else:
        pending.works = [submit_copies(action, me, group, pending)]
    return pending


def thread_main(actions, me, groups, failures):
    """Submit a thread's actions in the program's order; wait at once, or for all lazy ones at the end, in reverse."""
    try:
        lazy = []
        for action in actions:
            time.sleep(action.delays[me])
            if action.priority is None:
                pending = submit(action, me, groups[action.group])
            else:
                with tryst_torch.priority(action.priority):
                    pending = submit(action, me, groups[action.group])
            if action.is_lazy:
                lazy.append(pending)
            else:
                pending.finish()
        for pending in reversed(lazy):
            pending.finish()
    except BaseException as error:  # noqa: B902 (the thread's failure is the test's)
        failures.append(error)


def program(seed):
    """Return the members of each group, the threads and the actions of a seed: the same on all ranks."""
    source, size = random.Random(seed), dist.get_world_size()
    groups = [list(range(size))]
    for _ in range(source.randrange(4)):
        groups.append(sorted(source.sample(range(size), source.randint(2, size))))
    threads = source.choice([1, 1, 2, 3])
    actions = [Action(source, index, groups) for index in range(source.randint(5, 40))]
    late = source.choice([0, 0, 0.05, 0.2])
    return groups, threads, actions, (source.randrange(size), late)


def program_run(seed):
    members, threads, actions, (late_rank, late) = program(seed)
    me = dist.get_rank()
    groups = [dist.new_group(ranks_of, timeout=TIMEOUT) for ranks_of in members]
    if me == late_rank:
        time.sleep(late)
    failures, runners = [], []
    for number in range(threads):
        mine = [action for action in actions if action.thread(threads) == number and me in action.members]
        runners.append(threading.Thread(target=thread_main, args=(mine, me, groups, failures)))
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    check(not failures, f"seed {seed}: {failures}")
    for ranks_of, group in zip(members, groups):
        if me in ranks_of:
            dist.destroy_process_group(group)


def body():
    for seed in range(FIRST, FIRST + PROGRAMS):
        program_run(seed)


ranks.SECONDS = max(240, 5 * PROGRAMS)
run(body)
