# SPDX-License-Identifier: Apache-2.0
"""Each rank sends to the next, and all add up. Run it with tryst-run -n 4 python3 ring.py."""

import numpy

import tryst

with tryst.open() as group:
    after, before = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    sent = group.send(numpy.full(3, group.rank), after)  # no order of sends and receives can hang
    got = group.recv(source=before).wait()
    sent.wait()
    total = group.allreduce(numpy.full(3, group.rank)).wait()
    print(f"rank {group.rank} of {group.size}: {got[0]} from rank {before}, {total[0]} from all")
