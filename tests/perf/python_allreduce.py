# SPDX-License-Identifier: Apache-2.0
"""The time of an all-reduce from Python, measured as tryst-perf does: from a rank's submission to its completion; the slowest
rank of each operation counts, and the median of these. One rank of python.sh.

    python_allreduce.py prepared|plain BYTES COUNT"""

import os
import sys
import time

import numpy

import tryst

how, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
processors = sorted(os.sched_getaffinity(0))
with tryst.open() as group:
    if group.size <= len(processors):
        os.sched_setaffinity(0, {processors[group.rank]})
    array = numpy.zeros(size // 4, "f4")
    tensor = tryst.Tensor(array)
    collective = group.prepare("allreduce", array.size, "f4", name="prepared")
    nanoseconds = numpy.zeros(count, "i8")
    clock, start = time.perf_counter_ns, group.start
    is_prepared = how == "prepared"
    for i in range(-max(count // 10, 5), count):
        begin = clock()
        if is_prepared:
            start(collective, out=tensor).wait()
        else:
            group.allreduce(array).wait()
        end = clock()
        if i >= 0:
            nanoseconds[i] = end - begin
    slowest = group.allreduce(nanoseconds, op="max").wait()
    if group.rank == 0:
        print(f'"seconds": {numpy.median(slowest) / 1e9:.9f}')
