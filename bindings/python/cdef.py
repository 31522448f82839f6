# SPDX-License-Identifier: Apache-2.0
"""The declarations of the public headers for cffi: cdef.txt, and the module that is made of it.

    python3 bindings/python/cdef.py            write cdef.txt, from include/tryst
    python3 bindings/python/cdef.py --check    status 1 and the difference, if cdef.txt is not what the headers give

One idea: the C preprocessor reads the headers without the system's, of which cffi knows the types. What is left are
declarations; macros that are whole numbers are read from the lines of the headers. setup.py makes tryst/_ffi.py of cdef.txt, a
module of Python alone (cffi's out-of-line ABI mode), so that neither a user nor an import parses C."""

import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent if "__file__" in globals() else pathlib.Path.cwd()
INCLUDE = HERE.parents[1] / "include"
CDEF = HERE / "cdef.txt"
HEADERS = ("tryst/coll.h", "tryst/topo.h")  # the first includes tryst.h
SYSTEM = ("stddef.h", "stdint.h", "stdbool.h")
HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* The declarations of the public headers, for cffi. Written by bindings/python/cdef.py: do not edit. */
"""


def preprocessed():
    """The headers, without comments, macros and attributes."""
    with tempfile.TemporaryDirectory() as empty:
        for name in SYSTEM:
            pathlib.Path(empty, name).touch()
        source = "".join(f"#include <{name}>\n" for name in HEADERS)
        # Without __GNUC__ no declaration has an attribute (types.h).
        command = [os.environ.get("CC", "cc"), "-E", "-P", "-nostdinc", "-U__GNUC__", f"-I{empty}", f"-I{INCLUDE}", "-"]
        return subprocess.run(command, input=source, check=True, capture_output=True, text=True).stdout


def declarations(text):
    """Yield each declaration, in one line; a struct's ends behind its last brace."""
    depth, begin = 0, 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if character == ";" and not depth:
            yield " ".join(text[begin:at].split()) + ";"
            begin = at + 1


def header_lines():
    for path in sorted((INCLUDE / "tryst").iterdir()):
        if path.name in ("tryst.h", "types.h", "key.h", "coll.h"):
            yield from path.read_text().splitlines()


def macros():
    """Yield name and value of the macros that are whole numbers."""
    for line in header_lines():
        found = re.fullmatch(r"#define (TRYST_[A-Z_]+) +([0-9]+)u?", line)
        if found:
            yield found.groups()


def contents():
    lines = [f"#define {name} {value}" for name, value in macros()]
    for declaration in declarations(preprocessed()):
        lines += textwrap.wrap(declaration, 116, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return HEAD + "\n".join(lines) + "\n"


def builder():
    """What setup.py calls: the declarations, as the module tryst._ffi."""
    import cffi
    made = cffi.FFI()
    made.cdef(CDEF.read_text())
    made.set_source("tryst._ffi", None)
    return made


def main():
    if sys.argv[1:] != ["--check"]:
        CDEF.write_text(contents())
        return 0
    difference = list(difflib.unified_diff(CDEF.read_text().splitlines(), contents().splitlines(), "cdef.txt", "the headers",
                                           lineterm=""))
    print("\n".join(difference) if difference else "passed cdef.py: cdef.txt is what the headers give")
    return bool(difference)


if __name__ == "__main__":
    sys.exit(main())
