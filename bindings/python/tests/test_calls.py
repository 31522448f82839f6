# SPDX-License-Identifier: Apache-2.0
"""Every call between ranks, against NumPy."""

import array
import itertools
import os
import tempfile

import numpy

import tryst
from ranks import raises, run

DTYPES = "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split()
FOLD = {"sum": numpy.add, "product": numpy.multiply, "min": numpy.minimum, "max": numpy.maximum,
        "and": numpy.bitwise_and, "or": numpy.bitwise_or, "xor": numpy.bitwise_xor}


def terms(group, dtype, count=999):
    """What each rank has: small whole numbers, of which sums and products are exact."""
    return [((numpy.arange(count) + rank) % 3 + 1).astype(dtype) for rank in range(group.size)]


def reduced(arrays, op):
    total = arrays[0].copy()
    for array_ in arrays[1:]:
        total = FOLD[op](total, array_)
    return total


def bf16(values):
    return (numpy.asarray(values, "f4").view("u4") >> 16).astype("u2")


def test_allreduce(group):
    for dtype, op in itertools.product(DTYPES, FOLD):
        if op in ("and", "or", "xor") and dtype[0] == "f":
            continue
        arrays = terms(group, dtype)
        out = numpy.zeros_like(arrays[0])
        assert group.allreduce(arrays[group.rank], out, op).wait(30) is out
        numpy.testing.assert_array_equal(out, reduced(arrays, op), f"{dtype} {op}")
        mine = arrays[group.rank].copy()  # in place
        assert group.allreduce(mine, op=op).wait(30) is mine
        numpy.testing.assert_array_equal(mine, out)


def test_allreduce_bf16(group):
    bits = bf16(terms(group, "f4")[group.rank])
    group.allreduce(tryst.Tensor(bits, "bf16")).wait(30)
    numpy.testing.assert_array_equal(bits, bf16(reduced(terms(group, "f4"), "sum")))


def test_averages(group):
    arrays = terms(group, "f8")
    mean = group.allreduce(arrays[group.rank].copy(), op="average").wait(30)
    numpy.testing.assert_allclose(mean, reduced(arrays, "sum") / group.size)
    weighted = group.allreduce(arrays[group.rank].copy(), op="premultiplied_sum", factor=group.rank + 0.5).wait(30)
    numpy.testing.assert_allclose(weighted, sum((rank + 0.5) * one for rank, one in enumerate(arrays)))


def test_ring(group):
    """Each rank sends to the next; names and numbers meet, whatever the order."""
    before, after = (group.rank - 1) % group.size, (group.rank + 1) % group.size
    for dtype in DTYPES:
        sent = [numpy.full(7, 10 * i + group.rank, dtype) for i in range(3)]
        got = [numpy.zeros(7, dtype) for _ in range(3)]
        operations = [group.send(sent[i], after, name="ring", index=i, priority=-i) for i in (2, 0, 1)]
        operations += [group.recv(got[i], before, name="ring", index=i) for i in (0, 1, 2)]
        tryst.wait_all(operations, 30)
        for i in range(3):
            numpy.testing.assert_array_equal(got[i], numpy.full(7, 10 * i + before, dtype))


def test_unknown_shape(group):
    for dtype, count in itertools.product(DTYPES, (0, 1, 100_000)):
        sent = group.send(numpy.full(count, group.rank, dtype), (group.rank + 1) % group.size, name="shape")
        got = group.recv(source=(group.rank - 1) % group.size, name="shape").wait(30)
        assert (got.dtype, got.size) == (numpy.dtype(dtype), count), got
        assert (got == (group.rank - 1) % group.size).all()
        sent.wait(30)


def test_keys(group):
    after, before = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    with group.key(group.rank, after, "edge", 3) as out, group.key(before, group.rank, "edge", 3) as in_:
        assert str(out) == group.key_text(group.rank, after, "edge", 0, 3)
        assert tryst.key_parse(str(out))["edge"] == "edge"
        prepared = group.key_prepare(str(in_))
        got = numpy.zeros(2)
        operations = [group.send(numpy.ones(2), key=out), group.recv(got, key=prepared)]
        operations += [group.send(numpy.ones(2), key=str(out)), group.recv(got, key=str(in_))]
        tryst.wait_all(operations, 30)
    raises(tryst.Error, "TRYST_E_INVALID", group.send, numpy.ones(1), key=out)  # closed
    raises(TypeError, "other rank", group.send, numpy.ones(1))
    raises(tryst.Error, "at byte", tryst.key_parse, "a;b")


def test_rooted(group):
    arrays = terms(group, "f4", 12)
    mine = arrays[group.rank]
    for root in range(group.size):
        is_root = group.rank == root
        out = numpy.zeros_like(mine) if is_root else None
        group.reduce(mine, out, root=root).wait(30)
        assert not is_root or (out == reduced(arrays, "sum")).all()
        whole = mine.copy()
        group.reduce(whole, op="max", root=root).wait(30)  # in place
        assert (whole == (reduced(arrays, "max") if is_root else mine)).all()
        copied = group.broadcast(mine.copy(), root).wait(30)
        assert (copied == arrays[root]).all()
        everything = numpy.concatenate(arrays)
        gathered = numpy.zeros_like(everything) if is_root else None
        group.gather(mine, gathered, root).wait(30)
        assert not is_root or (gathered == everything).all()
        part = group.scatter(everything if is_root else None, numpy.zeros_like(mine), root).wait(30)
        assert (part == mine).all()


def test_blocks(group):
    arrays = terms(group, "i4", 4 * group.size)
    mine, total = arrays[group.rank], reduced(arrays, "sum")
    everything = group.allgather(mine, numpy.zeros(mine.size * group.size, "i4")).wait(30)
    assert (everything == numpy.concatenate(arrays)).all()
    block = group.reduce_scatter(mine, numpy.zeros(4, "i4")).wait(30)
    assert (block == total[4 * group.rank:][:4]).all()
    turned = group.alltoall(mine, numpy.zeros_like(mine)).wait(30)
    assert (turned == numpy.concatenate([one[4 * group.rank:][:4] for one in arrays])).all()


def test_uneven_blocks(group):
    counts = [rank + 1 for rank in range(group.size)]
    offsets = [sum(counts[:rank]) for rank in range(group.size)]
    arrays = terms(group, "f8", sum(counts))
    mine, total, here = arrays[group.rank], reduced(arrays, "sum"), slice(offsets[group.rank], None)
    count = counts[group.rank]
    everything = group.allgather(mine[:count], numpy.zeros(sum(counts)), counts, offsets).wait(30)
    assert (everything == numpy.concatenate([one[:n] for one, n in zip(arrays, counts)])).all()
    block = group.reduce_scatter(mine, numpy.zeros(count), "sum", counts, offsets).wait(30)
    assert (block == total[here][:count]).all()
    turned = group.alltoall(mine, numpy.zeros(count * group.size), counts, offsets, [count] * group.size).wait(30)
    assert (turned == numpy.concatenate([one[here][:count] for one in arrays])).all()
    gathered = group.gather(mine[:count], numpy.zeros(sum(counts)), 1 % group.size, counts, offsets).wait(30)
    assert group.rank != 1 % group.size or (gathered == everything).all()
    part = group.scatter(everything, numpy.zeros(count), 0, counts).wait(30)
    assert (part == mine[:count]).all()


def test_prepared(group):
    with group.prepare("allreduce", 5, "f4", op="max", name="prepared") as collective:
        for _ in range(3):
            mine = numpy.full(5, group.rank, "f4")
            group.start(collective, out=mine).wait(30)
            assert (mine == group.size - 1).all()
        info = collective.estimate()
        assert info["trees"] >= 1, info
        parents = collective.tree(0)
        assert len(parents) == group.size and parents.count(-1) == 1, parents
        order = collective.order(0, range(group.size))
        assert order["count"] <= 5 and len(order["parents"]) == group.size, order
    counts = [rank + 1 for rank in range(group.size)]
    gather = group.prepare("allgather", dtype="i4", out_counts=counts)
    out = group.start(gather, numpy.full(group.rank + 1, group.rank, "i4"), numpy.zeros(sum(counts), "i4")).wait(30)
    assert (out == numpy.repeat(range(group.size), counts)).all()
    raises(ValueError, "reduce_scatter", group.prepare, "scan")
    raises(ValueError, "average", group.allreduce, numpy.ones(1), op="mean")


def test_subgroups(group):
    ranks = [rank for rank in range(group.size) if rank % 2 == group.rank % 2][::-1]
    with group.subgroup(ranks, epoch=3) as subgroup:
        assert (subgroup.size, subgroup.members, ranks[subgroup.rank]) == (len(ranks), ranks, group.rank)
        total = group.allreduce(numpy.array([group.rank]), subgroup=subgroup).wait(30)
        assert total == sum(ranks)
        copied = group.broadcast(numpy.array([group.rank]), 0, subgroup=subgroup).wait(30)
        assert copied == ranks[0]
        prepared = group.prepare("barrier", subgroup=subgroup, name="some")
        group.start(prepared).wait(30)


def test_steps(group):
    data = numpy.ones(1000)
    with group.step() as step:
        step.allreduce(data, name="a", priority=3)
        step.allreduce(numpy.ones(3), name="b", background=True)
    assert (data == group.size).all()
    late = group.step(step.id + 100)
    ended = late.close()
    ended.wait(30)
    assert late.close() is None
    raises(tryst.Error, "INVALID", group.step, 5)


def test_step_abort(group):
    """What the body of a step raises is the reason at all ranks."""
    step = group.step()
    try:
        with step:
            waits = step.recv(numpy.zeros(1), (group.rank + 1) % group.size, name="never")
            if group.rank == group.size - 1:
                raise KeyError("no such layer")
            waits.wait(30)
    except tryst.GroupError as error:
        assert error.status is tryst.Status.ABORTED and error.rank == group.size - 1, error
        assert "no such layer" in str(error), error
    except KeyError:
        assert group.rank == group.size - 1
    aborted = group.step()
    assert aborted.error is None
    group.barrier(name="aborted").wait(30)
    aborted.abort("enough")
    assert "enough" in str(aborted.error)
    error = raises(tryst.GroupError, "enough", aborted.barrier)  # the reason is in the refusal, too
    assert error.status is tryst.Status.ABORTED and error.rank is not None
    aborted.close()


def test_failures(group):
    after, before = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    got = group.recv(numpy.zeros(1), before, name="late", deadline=0.05)
    error = raises(tryst.Error, "late", got.wait, 30)
    assert error.status is tryst.Status.DEADLINE and error.rank is not None and error.key, vars(error)
    assert got.done()
    raises(tryst.Error, "DEADLINE", got.result)
    waits = group.recv(numpy.zeros(1), before, name="cancelled")
    error = raises(TimeoutError, "TIMEOUT", waits.wait, 0.01)
    assert isinstance(error, tryst.WaitTimeout) and not waits.done()
    raises(RuntimeError, "wait first", waits.result)
    assert tryst.wait_any([], 1) is None
    raises(tryst.WaitTimeout, "none of 1", tryst.wait_any, [waits], 0.01)
    raises(tryst.WaitTimeout, "", tryst.wait_all, [waits], 0.01)
    waits.reprioritize(-5)
    waits.cancel()
    assert tryst.wait_any([waits], 30) == 0
    raises(tryst.Error, "CANCELED", waits.wait)
    sent = group.send(numpy.ones(2, "f4"), after, name="differs")
    error = raises(tryst.Error, "MISMATCH", group.recv(numpy.ones(3, "f4"), before, name="differs").wait, 30)
    raises(tryst.Error, "MISMATCH", sent.wait, 30)
    sent = group.send(numpy.zeros(0), after, name="dead", dead=True)
    raises(tryst.Error, "DEAD", group.recv(source=before, name="dead").wait, 30)
    raises(tryst.Error, "DEAD", sent.wait, 30)


def test_buffers(group):
    """The buffer protocol, and what is refused."""
    for buffer in bytearray(b"12345678"), array.array("d", [1, 2]), memoryview(bytearray(16)).cast("i"):
        copied = group.broadcast(buffer, 0, name="buffer").wait(30)
        assert copied is buffer
    read_only = numpy.ones(3)
    read_only.flags.writeable = False
    raises(ValueError, "read-only", group.allreduce, read_only)
    raises(ValueError, "read-only", group.allreduce, b"12")
    raises(ValueError, "not contiguous", group.allreduce, numpy.ones((4, 4))[:, 1])
    raises(ValueError, "not contiguous", group.allreduce, numpy.ones((4, 4)).T)
    raises(TypeError, "complex128", group.allreduce, numpy.ones(3, complex))
    raises(TypeError, ">f8", group.allreduce, numpy.ones(3, ">f8"))
    raises(TypeError, "list", group.allreduce, [1, 2])
    raises(TypeError, "size of bf16", tryst.Tensor, numpy.ones(3), "bf16")
    sent = group.send(b"constant", (group.rank + 1) % group.size, name="bytes")
    assert bytes(group.recv(source=(group.rank - 1) % group.size, name="bytes").wait(30)) == b"constant"
    sent.wait(30)

    class Exporter:  # as of a library that has DLPack alone
        def __init__(self):
            self.array = numpy.full(5, group.rank, "f4")

        def __dlpack__(self, **named):
            return self.array.__dlpack__(**named)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    exported = Exporter()
    group.allreduce(exported).wait(30)
    assert (exported.array == sum(range(group.size))).all()


def test_memory(group):
    shared = group.alloc((100, 100), "f8")
    assert shared.shape == (100, 100)
    shared[:] = group.rank
    group.allreduce(shared).wait(30)
    assert (shared == sum(range(group.size))).all()
    with group.register(numpy.ones(1 << 20)):
        pass


def test_dropped(group):
    """Operations that nobody keeps go on, and so does their memory."""
    for i in range(300):
        group.send(numpy.full(20_000, i, "i4"), (group.rank + 1) % group.size, name="dropped")
    for i in range(300):
        got = group.recv(numpy.zeros(20_000, "i4"), (group.rank - 1) % group.size, name="dropped").wait(30)
        assert (got == i).all()


def test_views(group):
    assert group.peer(group.rank)["alive"] and group.peer(0)["host"]
    assert group.counters()["bulk_bytes_received"] > 0
    assert "shm" in {row["name"] for row in group.transports()}
    assert 0 <= group.local_rank < group.local_size == group.size
    begin = group.now_ns()
    with tempfile.TemporaryFile() as file:
        waits = group.recv(numpy.zeros(1), group.rank, name="pending")
        group.dump(file)
        file.seek(0)
        assert b"pending" in file.read()
        raises(tryst.Error, "cannot make a stream of device -1 wait", waits.stream_wait, -1, 0)
        waits.cancel()
        raises(tryst.Error, "UNSUPPORTED", group.trace_write, file)
    with group.trace_span("a span", 7):
        group.trace_counter("a counter", 3)
    assert group.now_ns() > begin
    group.progress()
    group.wake()
    assert group.fileno() > 2 and group.arm() in (True, False)
    assert tryst.launch()["size"] == group.size
    assert tryst.setting("window_bytes", {"window_bytes": "8M"})["origin"] == "set"
    assert len(tryst.settings()) > 20
    assert all(row["level"] in ("ok", "warn", "fail") for row in tryst.checks())
    raises(tryst.Error, "window_bytes", tryst.settings, {"window_bytes": "many"})
    assert tryst.version() == tryst.__version__


def test_topology(group):
    cluster = {"ranks": ["a", "b", "c"], "nodes": ["sw"],
               "links": [{"a": name, "b": "sw", "gbit_per_s": 10} for name in "abc"]}
    topology = tryst.Topology.parse(cluster)
    assert topology.ranks == ["a", "b", "c"]
    plan = topology.plan("broadcast", root=1)
    topology.verify(plan)
    assert plan["op"] == "broadcast", plan
    assert topology.route(0, 2)["hops"] == 2
    again = tryst.Topology.parse(topology.to_dict())
    assert again.text("dot").startswith("digraph") or "graph" in again.text("dot")
    raises(tryst.Error, "1:", tryst.Topology.parse, "{", "file")
    raises(ValueError, "allreduce", topology.plan, "scan")
    tryst.Topology.detect()
    assert tryst.Topology.load("node:2 gpu:2 nic:2x50GB").ranks


if __name__ == "__main__":
    os.environ.pop("TRYST_TRACE", None)
    run(globals())
