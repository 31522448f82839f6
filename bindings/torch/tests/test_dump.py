# SPDX-License-Identifier: Apache-2.0
"""Dumps: what a time-out writes, what tryst_torch.dump returns, and which ranks the two name."""

import contextlib
import datetime
import json
import locale
import os
import statistics
import subprocess
import threading
import time

import torch
import torch.distributed as dist

import tryst_torch
from ranks import check, raises, run

QUIET_S = 5.0  # no further file within this time


def path():
    return os.environ["TORCH_TRYST_DUMP_FILE"].replace("%r", str(dist.get_rank()))


def dumped():
    with open(path()) as file:
        return json.load(file)


def one(document, **wanted):
    """The one operation of a document with these members."""
    found = [op for op in document["operations"] if all(op.get(name) == value for name, value in wanted.items())]
    check(len(found) == 1, f"operations with {wanted}: {found} of {document['operations']}")
    return found[0]


def test_deadline():
    """A deadline that passes writes the operation, with its rank that has not come, and what is pending beside it. The
    rank that comes too late writes its own."""
    rank, size = dist.get_rank(), dist.get_world_size()
    last = size - 1
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    dist.broadcast(torch.ones(2, 5, dtype=torch.int64), 0, group=group)
    if rank == last:
        time.sleep(2)
        text = raises("all_reduce 2", dist.all_reduce, torch.ones(3, 4), group=group)
    else:
        with tryst_torch.priority(-2):
            work = dist.all_reduce(torch.ones(3, 4), group=group, async_op=True)
        received = dist.irecv(torch.ones(7), last, tag=5)
        text = raises("all_reduce 2", work.wait)
        check("1 operation is pending here, the oldest for" in text and f"recv from rank {last}" in text, text)
    check(f"dump: {path()}" in text, text)
    document = dumped()
    check(document["rank"] == rank and document["pid"] == os.getpid() and document["version"] == 1, "the process")
    failed = one(document, kind="all_reduce", timeout_ms=1000)
    check(failed["state"] == "timed out" and failed["number"] == 2, f"{failed}")
    check(failed["inputs"] == [{"dtype": "Float", "sizes": [3, 4]}] == failed["outputs"], f"{failed}")
    check("deadline" in failed["error"] and "rank" in failed["error"], f"{failed}")
    check(failed["priority"] == (None if rank == last else -2), f"{failed}")
    done = one(document, kind="broadcast")
    check(done["state"] == "completed" and 0 <= done["duration_s"] < done["age_s"], f"{done}")
    check(done["outputs"] == [{"dtype": "Long", "sizes": [2, 5]}], f"{done}")
    if rank != last:
        pending = one(document, kind="recv")
        check(pending["state"] == "pending" and pending["waits_for"] == [last] == [pending["peer"]], f"{pending}")
        check(pending["inputs"] == [] and pending["outputs"][0]["sizes"] == [7], f"{pending}")
        check(0.5 < failed["age_s"] < 60, f"{failed}")
    dist.barrier()
    if rank == last:
        for other in range(last):
            dist.send(torch.ones(7), other, tag=5)
    else:
        received.wait()


def test_quiet():
    """A second time-out soon after the first writes no second file; its error still names the file."""
    if dist.get_rank() == 0:
        before = os.stat(path()).st_mtime_ns
        group_wait = dist.irecv(torch.ones(1), 1, tag=77)
        text = raises("recv from rank 1", group_wait.wait, datetime.timedelta(seconds=0.2))
        check(f"dump: {path()}" in text, text)
        check(os.stat(path()).st_mtime_ns == before, "a second file within 5 s")
    dist.barrier()


def test_wait():
    """A wait that times out writes the dump before it cancels: the operation is pending in it, and the library's page
    has the rank that it waits for."""
    rank, size = dist.get_rank(), dist.get_world_size()
    time.sleep(QUIET_S + 0.2)
    dist.barrier()
    if rank == size - 1:
        time.sleep(2)
        raises("all_reduce", dist.all_reduce, torch.ones(400, 100))
        with contextlib.suppress(RuntimeError):
            dist.all_reduce(torch.ones(2))
        return
    work = dist.all_reduce(torch.ones(400, 100), async_op=True)
    second = dist.all_reduce(torch.ones(2), async_op=True)
    if rank > 0:
        raises("all_reduce", work.wait)  # rank 0 cancels it
        with contextlib.suppress(RuntimeError):
            second.wait(datetime.timedelta(seconds=0.1))
        return
    text = raises("cancelled it", work.wait, datetime.timedelta(seconds=1))
    check("pending here" in text and f"dump: {path()}" in text, text)
    document = dumped()
    pending = [op for op in document["operations"] if op["kind"] == "all_reduce" and op["state"] == "pending"]
    check([op["outputs"][0]["sizes"] for op in pending] in ([[400, 100], [2]], [[400, 100]]), f"{pending}")
    if size == 2:
        check([op["waits_for"] for op in pending] == [[1], [1]], f"{pending}")
        library = document["library"][0]
        check(library["rank"] == 0 and library["size"] == size and int(library["run"], 16) > 0, f"{library}")
        check(library["peers"][0]["rank"] == 1 and len(library["operations"]) == 2, f"{library}")
    with contextlib.suppress(RuntimeError):  # the last rank comes for it, or not in time
        second.wait(datetime.timedelta(seconds=0.1))


def test_call():
    """tryst_torch.dump at any time, also from another process group's point of view and to a file."""
    rank, size = dist.get_rank(), dist.get_world_size()
    ends = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        other = size - 1 - rank
        work = dist.irecv(torch.ones(3), other, tag=1, group=ends)
        document = tryst_torch.dump(os.environ["TEST_FOLDER"] + f"/call.{rank}", reason="a test")
        with open(os.environ["TEST_FOLDER"] + f"/call.{rank}") as file:
            check(json.load(file) == document and document["reason"] == "a test", "the file and the value")
        pending = one(document, kind="recv", state="pending")
        peer = 1 if rank == 0 else 0
        check(pending["peer"] == peer and pending["waits_for"] == [peer], f"{pending}")
        group = [group for group in document["process_groups"] if group["name"] == pending["process_group"]]
        check(group[0]["ranks"] == [0, size - 1] and group[0]["size"] == 2, f"{group}")
        dist.barrier(group=ends)
        dist.isend(torch.ones(3), other, tag=1, group=ends).wait()
        work.wait()
        one(tryst_torch.dump(), kind="recv", state="completed", process_group=pending["process_group"])


def test_kept():
    """The setting bounds the ended operations; the oldest leave first."""
    for _ in range(80):
        dist.all_reduce(torch.ones(1))
    operations = tryst_torch.dump()["operations"]
    check(len(operations) == int(os.environ["TORCH_TRYST_DUMP_OPERATIONS"]), f"{len(operations)} are kept")
    check([op["id"] for op in operations] == list(range(operations[0]["id"], operations[0]["id"] + len(operations))),
          "the order of operations")


def test_beside():
    """A dump that takes long does not hold operations up."""
    group = dist.new_group([0])
    if dist.get_rank():
        return
    many = [torch.ones(1) for _ in range(10000)]  # each is in the dump
    for _ in range(50):
        group.allreduce_coalesced(many).wait()
    begin = time.monotonic()
    tryst_torch._C.dump_text("a long one")
    whole, seconds, is_over = time.monotonic() - begin, [], threading.Event()
    thread = threading.Thread(target=lambda: [tryst_torch._C.dump_text("") for _ in iter(is_over.is_set, True)])
    thread.start()
    for turn in range(9):
        time.sleep(whole * 0.37)
        begin = time.monotonic()
        dist.all_reduce(torch.ones(1), group=group)
        seconds.append(time.monotonic() - begin)
    is_over.set()
    thread.join()
    print(f"a dump takes {whole:.3f} s; all-reduces beside dumps:", *(f"{one:.4f}" for one in seconds))
    check(statistics.median(seconds) < whole / 5, f"a dump of {whole} s; operations beside it took {seconds}")
    for _ in range(50):
        dist.all_reduce(torch.ones(1), group=group)


def test_off():
    """An empty setting writes nothing, and a folder that is not there is said so; both fail as ever."""
    time.sleep(QUIET_S + 0.2)
    dist.barrier()
    before = os.environ["TORCH_TRYST_DUMP_FILE"]
    for setting, wanted in (("", None), ("/nonexistent/%r.json", "cannot write the dump /nonexistent/")):
        os.environ["TORCH_TRYST_DUMP_FILE"] = setting
        dist.barrier()
        if dist.get_rank() == 0:
            text = raises("cancelled it", dist.irecv(torch.ones(1), 1, tag=9).wait, datetime.timedelta(seconds=0.2))
            check(wanted in text if wanted else "dump" not in text, text)
        dist.barrier()
    os.environ["TORCH_TRYST_DUMP_FILE"] = before


def test_language():
    """Numbers have a point also where the program's language has a comma."""
    folder = os.environ["TEST_FOLDER"] + f"/language.{dist.get_rank()}"
    os.makedirs(folder)
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder + "/de_DE.UTF-8"], capture_output=True)
    if made.returncode:
        print("test_language: skipped: localedef:", made.stderr.decode())
        return
    os.environ["LOCPATH"] = folder
    locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
    try:
        check(locale.localeconv()["decimal_point"] == ",", "a language with a comma")
        dist.all_reduce(torch.ones(2))
        check(tryst_torch.dump()["operations"][-1]["duration_s"] > 0, "a dump in German")
    finally:
        locale.setlocale(locale.LC_NUMERIC, "C")


def body():
    for test in (test_deadline, test_quiet, test_call, test_wait, test_kept, test_beside, test_language, test_off):
        test()
        dist.barrier()


os.environ.setdefault("TORCH_TRYST_DUMP_OPERATIONS", "50")
run(body)
