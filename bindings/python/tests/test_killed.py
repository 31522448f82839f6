# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed is named by the exceptions of all others, within 2 s, in waits and in `await`.

    test_killed.py BUILD

The ranks are processes of this script, not of tryst-run, which would end the others."""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import time

import numpy

SIZE = 4
LIMIT = 2.0  # seconds from the death to the exception
STEPS = 30


def rank_main(how):
    import tryst
    group = tryst.open()
    last = group.size - 1

    async def step():
        data = numpy.ones(1000)
        if how == "await":
            await group.allreduce(data)
        else:
            group.allreduce(data).wait()

    async def steps():
        for done in range(10**6):
            if group.rank == last and done == STEPS:
                print(time.time(), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            await step()

    try:
        asyncio.run(steps())
    except tryst.PeerError as error:
        assert error.rank == last and error.status is tryst.Status.PEER, vars(error)
        assert f"rank {last}" in str(error), error
        print(time.time(), flush=True)
    sys.stdin.read()  # until all others have the error: a rank that leaves is another failure
    os._exit(0)


def run(how):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{}".format(free.getsockname()[1])
    place = dict(os.environ, TRYST_SIZE=str(SIZE), TRYST_BOOTSTRAP=address, TRYST_TOKEN=secrets.token_hex(16))
    command = [sys.executable, os.path.abspath(__file__), "--rank", how]
    ranks = [subprocess.Popen(command, env=dict(place, TRYST_RANK=str(rank)), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) for rank in range(SIZE)]
    try:
        times = [float(rank.stdout.readline()) for rank in ranks]
        for rank in ranks[:-1]:
            rank.communicate("", 30)
            assert rank.returncode == 0, rank.returncode
        late = max(times[:-1]) - times[-1]
        assert late < LIMIT, f"{late:.3f} s after the death"
        print(f"{how}: all others {late:.3f} s after the death")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


if sys.argv[1] == "--rank":
    rank_main(sys.argv[2])
for one in "wait", "await":
    run(one)
print("passed test_killed.py")
