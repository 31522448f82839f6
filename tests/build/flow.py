#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one tryst_send_key of 8 bytes passes: source files, calls into another file and another folder, indirect calls.

Callgrind runs perf_pingpong and collects inside tryst_send_key alone, with the address of each instruction; an indirect
call is one that objdump shows as a call through a register or a table (not through the linker's). What less than every
second message passes does not count.

usage: flow.py <perf_pingpong> <libtryst.so> [most files] [most indirect calls] [most changes of folder]
Exit status 1: more than these.  77: valgrind or objdump is missing."""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

MESSAGES = 2000


def profile(program):
    """Run the program; return callgrind's lines."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["valgrind", "--tool=callgrind", "--dump-instr=yes", "--toggle-collect=tryst_send_key",
                        "--callgrind-out-file=" + out.name, program, str(MESSAGES)],
                       check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(out.name) as text:
            return text.read().splitlines()


def indirect_sites(library):
    """Return the addresses of the library's calls and jumps through a register or a table of functions."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], check=True, timeout=300,
                          stdout=subprocess.PIPE).stdout.decode()
    sites = re.findall(r"^ *([0-9a-f]+):\s+(?:notrack )?(?:call|jmp) +\*(?!.*\(%rip\))", text, re.M)
    return {int(site, 16) for site in sites}


def source(path):
    """Return the path below the repository: callgrind has it as the compiler did."""
    found = re.search(r"(?:^|/)((?:core|topology|transports|commsched|rendezvous|collectives|context)/.*\.c)$", path)
    return found and found.group(1)


def read(lines, library):
    """Return {source file: instructions}, {(caller's, callee's file): calls}, {(address, callee): calls}. Callgrind counts
    calls also where it does not collect; so a call counts as often as its instruction."""
    names = {}  # (kind, id) -> name
    kinds = {"ob": "ob", "cob": "ob", "fl": "fl", "fi": "fl", "fe": "fl", "cfi": "fl", "cfl": "fl",
             "fn": "fn", "cfn": "fn"}
    at = {}
    address = 0
    is_call = False
    files, run = collections.Counter(), collections.Counter()
    calls = set()
    for line in lines:
        key, _, rest = line.partition("=")
        if key in kinds:
            number, name = re.match(r"(\([0-9]+\))? ?(.*)", rest).groups()
            at[key] = names.setdefault((kinds[key], number), name)
            if key in ("fl", "fi", "fe"):
                at["here"] = at["cfi"] = at[key]
        elif key == "calls":
            is_call = True
        elif line[:1] in tuple("0+-*"):
            place, _, cost = line.split()
            if place[0] == "0":
                address = int(place, 16)
            elif place != "*":
                address += int(place, 0)
            if is_call:
                calls.add((os.path.realpath(at["ob"]), address, source(at["here"]), source(at["cfi"]), at["cfn"]))
                at["cfi"] = at["here"]
            else:
                files[source(at["here"])] += int(cost)
                run[os.path.realpath(at["ob"]), address] += int(cost)
            is_call = False
    edges, sites = collections.Counter(), collections.Counter()
    for ob, address, caller, callee, name in calls:
        edges[caller, callee] += run[ob, address]
        if ob == library:
            sites[address, name] += run[ob, address]
    return files, edges, sites


def folder(path):
    return path.rsplit("/", 1)[0]


def main():
    program, library, *most = sys.argv[1:]
    for need in ("valgrind", "objdump"):
        if not shutil.which(need):
            print("skipped: " + need + " is not installed")
            return 77
    library = os.path.realpath(library)
    files, edges, sites = read(profile(program), library)
    often = MESSAGES / 2
    files = sorted(name for name, cost in files.items() if name and cost >= often)
    edges = {ends: calls for ends, calls in edges.items() if all(ends) and ends[0] != ends[1] and calls >= often}
    changes = {ends: calls for ends, calls in edges.items() if folder(ends[0]) != folder(ends[1])}
    through = indirect_sites(library)
    sites = {site: calls for site, calls in sites.items() if site[0] in through and calls >= often}
    rows = (("files", len(files), ["  " + name for name in files]),
            ("indirect calls", round(sum(sites.values()) / MESSAGES),
             ["  %.1f %s" % (calls / MESSAGES, callee) for (_, callee), calls in sorted(sites.items())]),
            ("changes of folder", round(sum(changes.values()) / MESSAGES),
             ["  %.1f %s -> %s" % (calls / MESSAGES, *ends) for ends, calls in sorted(changes.items())]))
    for name, count, text in rows:
        print("%d %s" % (count, name), *text, sep="\n")
    over = [name for (name, count, _), bound in zip(rows, most) if count > int(bound)]
    if over:
        print("more than allowed: " + ", ".join(over))
    return 1 if over else 0


sys.exit(main())
