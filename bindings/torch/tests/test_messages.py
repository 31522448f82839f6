# SPDX-License-Identifier: Apache-2.0
"""Sends and receives in orders that hang, or meet wrongly, where messages match by the order of calls."""

import threading

import torch
import torch.distributed as dist

from ranks import check, run_tests

COUNT = 200000  # elements: too many for a message that is sent without its receive


def message(value, count=COUNT):
    return torch.full((count,), float(value))


def expect(tensor, value, what):
    check(bool((tensor == value).all()), f"{what}: {tensor[:3]} where {value} is due")


def neighbours():
    rank, size = dist.get_rank(), dist.get_world_size()
    return (rank + 1) % size, (rank - 1) % size


def test_crossed_tags():
    """The receiver takes three messages in the reverse of the order in which they were sent, one at a time."""
    following, previous = neighbours()
    sends = [dist.isend(message(tag), following, tag=tag) for tag in range(3)]
    for tag in reversed(range(3)):
        tensor = message(-1)
        dist.recv(tensor, previous, tag=tag)
        expect(tensor, tag, "crossed tags")
    for work in sends:
        work.wait()


def test_crossed_pairs():
    """Each rank first waits for a receive and then sends, on every second pair."""
    rank = dist.get_rank()
    peer = rank ^ 1
    tensor, early = message(-1), message(-1)
    posted = dist.irecv(early, peer, tag=7)
    if rank % 2:
        dist.recv(tensor, peer, tag=1)
        dist.send(message(rank), peer, tag=2)
    else:
        dist.send(message(rank), peer, tag=1)
        dist.recv(tensor, peer, tag=2)
    dist.isend(message(70), peer, tag=7)
    posted.wait()
    expect(tensor, peer, "crossed pairs")
    expect(early, 70, "a receive posted early")


def test_same_tag_keeps_order():
    following, previous = neighbours()
    sends = [dist.isend(message(value, 10 ** (value % 4)), following) for value in range(12)]
    for value in range(12):
        tensor = message(-1, 10 ** (value % 4))
        dist.recv(tensor, previous)
        expect(tensor, value, "messages of one tag")
    for work in sends:
        work.wait()


def test_batch():
    """Ranks list their operations in different orders, and the neighbours' differ in direction."""
    following, previous = neighbours()
    received = [message(-1), message(-1)]
    operations = [
        dist.P2POp(dist.isend, message(1), following),
        dist.P2POp(dist.isend, message(2), previous),
        dist.P2POp(dist.irecv, received[0], previous),
        dist.P2POp(dist.irecv, received[1], following),
    ]
    if dist.get_world_size() == 2:  # both messages go to one rank: their order is the only name
        operations = [operations[0], operations[1], operations[2], operations[3]]
    elif dist.get_rank() % 2:
        operations.reverse()
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    expect(received[0], 1, "batch, from the previous rank")
    expect(received[1], 2, "batch, from the following rank")


def test_beside_all_reduce():
    """A thread sends and receives while another reduces; each rank begins with another of the two."""
    following, previous = neighbours()
    rounds, failures = 30, []

    def talk():
        try:
            for value in range(rounds):
                tensor = message(-1)
                work = dist.isend(message(value), following, tag=9)
                dist.recv(tensor, previous, tag=9)
                expect(tensor, value, "a message beside all-reduces")
                work.wait()
        except BaseException as error:  # noqa: B902 (the thread's failure is the test's)
            failures.append(error)

    def reduce():
        for _ in range(rounds):
            tensor = message(1)
            dist.all_reduce(tensor)
            expect(tensor, dist.get_world_size(), "an all-reduce beside messages")

    thread = threading.Thread(target=talk)
    if dist.get_rank() % 2:
        reduce()
    thread.start()
    if dist.get_rank() % 2 == 0:
        reduce()
    thread.join()
    check(not failures, f"{failures}")


def test_early_receive_beside_all_reduce():
    """A receive that is posted long before its send delays no all-reduce."""
    following, previous = neighbours()
    early = message(-1)
    posted = dist.irecv(early, previous, tag=3)
    for _ in range(5):
        dist.all_reduce(message(1))
    check(not posted.is_completed(), "a receive is complete before its send")
    dist.barrier()
    work = dist.isend(message(5), following, tag=3)
    posted.wait()
    work.wait()
    expect(early, 5, "a receive posted early")


def test_to_itself():
    tensor = message(-1)
    work = dist.isend(message(4), dist.get_rank(), tag=5)
    received = dist.irecv(tensor, dist.get_rank(), tag=5)
    work.wait()
    received.wait()
    expect(tensor, 4, "a message to itself")


run_tests(globals())
