# SPDX-License-Identifier: Apache-2.0
"""Process groups and steps leave nothing behind: memory, file descriptors and threads stay as they are.

Measured in each rank, before and after each part:

- RSS, after a garbage collection and malloc_trim;
- heap: the bytes that malloc has given out, exact, and so free of the kernel's and the allocator's delays;
- file descriptors and threads.

What remains of a destroyed process group is bounded, but is not zero. torch.distributed and its store keep some of it
(compare the part over gloo). The library keeps the next number of each name of a collective and of a message until
the job ends, since its one step is open until then (core/world.h). GROUP_BYTES is the limit.

The parts: process groups that are made, used once and destroyed; the same over gloo, to compare; process groups that
are all kept until the end of the part; steps, each of three all-reduces and a message to and from a neighbour. Each
part warms up before the first measurement.

Without an option a short form runs; `--whole` runs 1,000 process groups and 100,000 steps.
"""

import ctypes
import gc
import os
import sys
import time

import torch
import torch.distributed as dist

import ranks
from ranks import TIMEOUT, check, run

WHOLE = "--whole" in sys.argv
GROUPS, KEPT, STEPS = (1000, 1000, 100000) if WHOLE else (200, 100, 3000)
GROUPS_GLOO = 200 if WHOLE else 20
WARM_GROUPS, WARM_STEPS = 150, 4000  # after these, tables and pools have their size
KIB = 1024
# Measured with 1,000 process groups: 3.4 KiB (2 ranks) to 4.3 KiB (4 ranks) for each that was destroyed, over gloo 3.2
# to 4.1 KiB; 10 KiB for each that exists.
GROUP_BYTES, KEPT_BYTES = 4.75 * KIB, 12 * KIB
SLACK_BYTES = 256 * KIB  # tables that grow by doubling, Python's caches


class Heap(ctypes.Structure):
    """struct mallinfo2 of glibc 2.33."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


LIBC = ctypes.CDLL(None)
HAS_HEAP = hasattr(LIBC, "mallinfo2")
if HAS_HEAP:
    LIBC.mallinfo2.restype = Heap


class Use:
    """What this process uses now: rss and heap in bytes, descriptors, threads."""

    def __init__(self):
        gc.collect()
        LIBC.malloc_trim(0)
        heap = LIBC.mallinfo2() if HAS_HEAP else Heap()
        self.heap = heap.uordblks + heap.hblkhd
        with open("/proc/self/statm") as file:
            self.rss = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        self.descriptors = len(os.listdir("/proc/self/fd"))
        self.threads = len(os.listdir("/proc/self/task"))


class Growth:
    """The difference of the use before and after `count` units of a part; prints it."""

    def __init__(self, part, unit, count, before, after):
        self.rss, self.heap = after.rss - before.rss, after.heap - before.heap
        self.descriptors, self.threads = after.descriptors - before.descriptors, after.threads - before.threads
        print(f"rank {dist.get_rank()}: {part}: {count} {unit}s: RSS {before.rss // KIB} -> {after.rss // KIB} KiB, "
              f"heap {before.heap // KIB} -> {after.heap // KIB} KiB ({self.heap / count:.1f} bytes for each {unit}), "
              f"descriptors {before.descriptors} -> {after.descriptors}, threads {before.threads} -> {after.threads}",
              flush=True)
        self.part = part

    def require(self, heap_bytes):
        """Fail if more was added than this to the heap, 1 MiB more to the RSS, a thread, or two descriptors for each
        rank: the library opens and closes some for each peer, as the traffic needs them."""
        check(self.heap <= heap_bytes, f"{self.part}: the heap grew by {self.heap} bytes, at most {heap_bytes} are due")
        check(self.rss <= heap_bytes + (1 << 20), f"{self.part}: the RSS grew by {self.rss} bytes")
        check(self.threads <= 0, f"{self.part}: {self.threads} more threads")
        check(self.descriptors <= 2 * dist.get_world_size(), f"{self.part}: {self.descriptors} more descriptors")


def group_use(group):
    tensor = torch.ones(8)
    dist.all_reduce(tensor, group=group)
    check(tensor[0] == dist.get_world_size(), "an all-reduce of one of many groups")


def groups_destroyed(count, backend):
    for _ in range(count):
        group = dist.new_group(backend=backend, timeout=TIMEOUT)
        group_use(group)
        dist.destroy_process_group(group)


def measured(part, unit, warm, count, function):
    """Call function(n): first with n = `warm`, then with `count`; return the growth in the latter."""
    function(warm)
    before, begin = Use(), time.monotonic()
    function(count)
    seconds = time.monotonic() - begin
    dist.barrier()
    growth = Growth(part, unit, count, before, Use())
    print(f"rank {dist.get_rank()}: {part}: {seconds:.1f} s", flush=True)
    return growth


def groups_kept(count):
    groups = [dist.new_group(timeout=TIMEOUT) for _ in range(count)]
    for group in groups:
        group_use(group)
    return groups


def steps(count):
    rank, size = dist.get_rank(), dist.get_world_size()
    following, previous = (rank + 1) % size, (rank - 1) % size
    reduced = [torch.ones(elements) for elements in (1, 64, 1000)]
    sent, received = torch.ones(100), torch.zeros(100)
    for step in range(count):
        works = [dist.isend(sent, following), dist.irecv(received, previous)]
        for tensor in reduced:
            tensor.fill_(1)
            works.append(dist.all_reduce(tensor, async_op=True))
        for work in works:
            work.wait()
        check(reduced[2][999] == size and received[99] == 1, f"step {step}")


def test_groups_destroyed():
    if not torch.__version__.startswith("2.0."):  # there a rank does not return from gloo's groups
        measured("gloo, destroyed", "group", 10, GROUPS_GLOO, lambda count: groups_destroyed(count, "gloo"))
    growth = measured("tryst, destroyed", "group", WARM_GROUPS, GROUPS, lambda count: groups_destroyed(count, "tryst"))
    growth.require(SLACK_BYTES + GROUP_BYTES * GROUPS)


def test_groups_kept():
    before = Use()
    groups = groups_kept(KEPT)
    Growth("tryst, kept", "group", KEPT, before, Use()).require(SLACK_BYTES + KEPT_BYTES * KEPT)
    while groups:
        dist.destroy_process_group(groups.pop())
    dist.barrier()
    growth = Growth("tryst, kept, then destroyed", "group", KEPT, before, Use())
    check(growth.heap <= SLACK_BYTES + GROUP_BYTES * KEPT, f"{growth.heap} bytes remain of destroyed groups")


def test_steps():
    measured("steps", "step", WARM_STEPS, STEPS, steps).require(64 * KIB)


def body():
    test_groups_destroyed()
    test_groups_kept()
    test_steps()


ranks.SECONDS, ranks.SHOW = (1500 if WHOLE else 240), True
run(body)
