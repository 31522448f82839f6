# SPDX-License-Identifier: Apache-2.0
"""`await` of operations in asyncio: 1,000 at once, cancels, timeouts, steps, and the loop's own work meanwhile. Once by the
context's descriptor, and once where a thread of the library makes progress."""

import asyncio
import os
import sys
import time

import numpy

import tryst

COUNT = 1000
TICKS = 30


async def send_later(group):
    """The loop serves others while operations are awaited."""
    for _ in range(TICKS):
        await asyncio.sleep(0.01)
    group.send(numpy.ones(1), group.rank, name="mine")


async def thousand(group):
    """Each rank exchanges COUNT messages with the next, in opposite orders, and reduces as often."""
    after, before = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    got = [numpy.zeros(3) for _ in range(COUNT)]
    receives = [group.recv(got[i], before, name="many", index=i % 10) for i in range(COUNT)]
    sends = [group.send(numpy.full(3, float(i)), after, name="many", index=i % 10) for i in range(COUNT)]
    sums = [group.allreduce(numpy.full(2, i), name=f"sum {i % 10}") for i in range(COUNT)]
    results = await asyncio.gather(*receives, *sends, *sums)
    for i in range(COUNT):
        assert results[i] is got[i] and (got[i] == i).all()
        assert (results[2 * COUNT + i] == i * group.size).all()


async def others(group):
    """Nothing comes for 0.3 s, and the loop sleeps meanwhile."""
    sender = asyncio.ensure_future(send_later(group))
    waits = group.recv(numpy.zeros(1), group.rank, name="mine")
    process = time.process_time()
    assert await waits == 1
    process = time.process_time() - process
    await sender
    assert process < 0.2, f"{process} s of the processor in a sleep of 0.3 s"


async def cancels(group):
    waits = group.recv(numpy.zeros(1), group.rank, name="never")
    try:
        await asyncio.wait_for(waits, 0.02)
        raise AssertionError("no timeout")
    except asyncio.TimeoutError:
        pass
    try:
        waits.wait(30)
        raise AssertionError("not cancelled")
    except tryst.Error as error:
        assert error.status is tryst.Status.CANCELED, error


async def steps(group):
    data = numpy.ones(100_000)
    async with group.step() as step:
        step.allreduce(data)
    assert (data == group.size).all()
    failing = group.step()
    try:
        async with failing:
            failing.barrier()
            if group.rank == 0:
                raise ValueError("the body failed")
    except ValueError:
        assert group.rank == 0
    except tryst.GroupError as error:
        assert "the body failed" in str(error) and error.rank == 0, error


async def main():
    with tryst.open(config={"progress_thread": sys.argv[1]}) as group:
        for test in thousand, others, cancels, steps:
            begin = time.monotonic()
            await test(group)
            await group.barrier(name=test.__name__)
            if group.rank == 0:
                print(f"{test.__name__}: {time.monotonic() - begin:.3f} s", flush=True)
        waits = group.recv(numpy.zeros(1), group.rank, name="end")
        future = asyncio.ensure_future(wait_for_end(waits))
        await asyncio.sleep(0.01)
    await future
    if group.rank == 0:
        print("passed test_await.py, progress_thread", sys.argv[1])


async def wait_for_end(operation):
    """The group closes meanwhile: the operation ends with that."""
    try:
        await operation
        raise AssertionError("not ended")
    except tryst.ContextError as error:
        assert error.status is tryst.Status.CONTEXT


try:
    asyncio.run(asyncio.wait_for(main(), 100))
except BaseException:
    import traceback
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)
