# SPDX-License-Identifier: Apache-2.0
"""An urgent all-reduce of 4 KiB while an all-to-all of 256 MiB is under way in the same process group, over gloo and
over tryst.

    torchrun --nproc-per-node 2 examples/priority.py

Each line has medians of several tries, of which each counts the slowest rank:

    alone        the all-reduce with nothing else under way
    under load   the all-reduce, called 20 ms after the all-to-all, at priority -1
    window       what the bytes that tryst may have in flight take at the all-to-all's rate: these cannot be overtaken
    ratio        under load / (alone + window)
    left         the time from the end of the all-reduce to the end of the all-to-all, and the all-to-all's whole time

Times mean something on a machine without other work alone, with a processor or two for each rank.
"""

import argparse
import contextlib
import statistics
import time

import torch
import torch.distributed as dist

import tryst_torch

HEAD_START = 0.02  # seconds from the call of the all-to-all to that of the all-reduce


def in_flight_bytes():
    """The bytes that this rank may have in flight to all peers together: the windows of tryst_torch.dump."""
    return sum(peer["window_bytes"] for page in tryst_torch.dump()["library"] for peer in page["peers"])


def slowest(*values):
    """Each value's maximum over the ranks."""
    shared = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(shared, dist.ReduceOp.MAX)
    return shared.tolist()


def one_try(group, urgent, small, large):
    """One all-reduce, beside an all-to-all if there is `large`: the seconds of the all-reduce, those that were left of
    the all-to-all, its own, and the bytes in flight."""
    dist.barrier()
    begin = time.perf_counter()
    work = dist.all_to_all_single(*large, group=group, async_op=True) if large else None
    time.sleep(HEAD_START)
    called = time.perf_counter()
    with urgent:
        dist.all_reduce(small, group=group)
    ended = time.perf_counter()
    window = in_flight_bytes() if work and not work.is_completed() else 0
    if work:
        work.wait()
    return slowest(ended - called, time.perf_counter() - ended, time.perf_counter() - begin, window)


def measure(group, priority, options):
    """The medians: seconds alone, under load, left, of the all-to-all, and of a window."""
    small = torch.ones(options.bytes // 4)
    count = options.mib * (1 << 20) // 4 // dist.get_world_size() * dist.get_world_size()
    large = (torch.zeros(count), torch.ones(count))
    tries = {}
    for name, load in (("alone", None), ("loaded", large)):
        def urgent():
            return contextlib.nullcontext() if priority is None else tryst_torch.priority(priority)
        one_try(group, urgent(), small, load)
        tries[name] = [one_try(group, urgent(), small, load) for _ in range(options.tries)]
    alone = statistics.median(one[0] for one in tries["alone"])
    loaded, left, whole, window = (statistics.median(one[i] for one in tries["loaded"]) for i in range(4))
    sent = 4 * count / dist.get_world_size() * (dist.get_world_size() - 1)
    return alone, loaded, left, whole, window * whole / sent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256, help="MiB of each rank's all-to-all (256)")
    parser.add_argument("--bytes", type=int, default=4096, help="bytes of the all-reduce (4096)")
    parser.add_argument("--tries", type=int, default=11, help="tries of each kind (11)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("tryst")
    rows = {"gloo": measure(dist.new_group(backend="gloo"), None, options),
            "tryst": measure(dist.group.WORLD, -1, options)}
    window = rows["tryst"][4]
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, all-to-all of {options.mib} MiB, all-reduce of {options.bytes} bytes, "
              f"{options.tries} tries\n"
              "       alone     under load  window    ratio  left")
        for name, (alone, loaded, left, whole, _) in rows.items():
            print(f"{name:5}  {alone * 1e3:7.3f} ms  {loaded * 1e3:7.3f} ms  {window * 1e3:7.3f} ms  "
                  f"{loaded / (alone + window):5.2f}  {left * 1e3:.0f} of {whole * 1e3:.0f} ms", flush=True)
    dist.destroy_process_group()


main()
