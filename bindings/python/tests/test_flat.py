# SPDX-License-Identifier: Apache-2.0
"""Many steps, each with its own all-reduce, messages and a dropped operation: memory stays flat.

    test_flat.py STEPS"""

import gc
import sys

import numpy

import tryst

ALLOWED = 1 << 20  # bytes; a leak of 20 bytes a step shows in 10^5 steps


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def one_step(group, data, got):
    with group.step() as step:
        step.allreduce(data, name="gradients", priority=-1)
        step.send(data[:100], (group.rank + 1) % group.size, name="part", index=step.id % 7)
        step.recv(got, (group.rank - 1) % group.size, name="part", index=step.id % 7)
        step.barrier()
    data[:] = 1
    group.send(data[:10], group.rank, name="self")  # dropped
    assert group.recv(source=group.rank, name="self").wait().size == 10


def main():
    steps = int(sys.argv[1])
    data, got = numpy.ones(5000, "f4"), numpy.zeros(100, "f4")
    with tryst.open() as group:
        for _ in range(300 + steps // 10):  # until pools and caches have their size
            one_step(group, data, got)
        gc.collect()
        before, objects = resident(), len(gc.get_objects())
        for _ in range(steps):
            one_step(group, data, got)
        gc.collect()
        growth, more = resident() - before, len(gc.get_objects()) - objects
        assert more < 100 and growth < ALLOWED, f"{steps} steps: {growth} bytes and {more} objects more"
        group.barrier().wait()
        if group.rank == 0:
            print(f"passed test_flat.py: {steps} steps, {growth} bytes and {more} objects more at rank 0")


main()
