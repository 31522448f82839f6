# SPDX-License-Identifier: Apache-2.0
"""cdef.txt is what the public headers give; its structs have the compiler's layout; and each function of tryst.h and coll.h,
with the headers that they include, is used by the package.

    test_headers.py BUILD"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tryst._ffi import ffi

HERE = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = HERE.parents[1] / "include"
HEADERS = ("tryst.h", "coll.h", "types.h", "key.h")
CC = os.environ.get("CC", "cc")
VIEWS = "for engines in C: a view is bare memory, which numpy would hold beyond its end"
UNUSED = {"tryst_last_error_set": "for libraries in C that refuse calls of their own",
          "tryst_mem_share": VIEWS, "tryst_mem_view": VIEWS, "tryst_mem_view_close": VIEWS}


def check_cdef():
    if not (INCLUDE / "tryst").exists():
        print("left out: the headers are not beside this folder")
        return
    subprocess.run([sys.executable, HERE / "cdef.py", "--check"], check=True, env=dict(os.environ, CC=CC))


def check_layouts():
    """Sizes, offsets and numbers, as a C program prints them."""
    lines, expected = [], []
    text = (HERE / "cdef.txt").read_text()
    structs = re.findall(r"^typedef struct (\w+) \{", text, re.MULTILINE)
    for name in structs:
        struct = ffi.typeof(name)
        lines.append(f'    printf("%zu\\n", sizeof({name}));')
        expected.append(ffi.sizeof(struct))
        for field, _ in struct.fields:
            lines.append(f'    printf("%zu\\n", offsetof({name}, {field}));')
            expected.append(ffi.offsetof(struct, field))
    for name in re.findall(r"\b(TRYST_[A-Z0-9_]+) = ", text) + re.findall(r"^#define (TRYST_[A-Z_]+) ", text, re.MULTILINE):
        lines.append(f'    printf("%lld\\n", (long long){name});')
        expected.append(ffi.integer_const(name))
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "layouts.c")
        source.write_text("#include <stdio.h>\n#include <tryst/coll.h>\n#include <tryst/topo.h>\nint main(void)\n{\n"
                          + "\n".join(lines) + "\n    return 0;\n}\n")
        subprocess.run([CC, f"-I{INCLUDE}", "-o", f"{folder}/layouts", source], check=True)
        printed = subprocess.run([f"{folder}/layouts"], check=True, capture_output=True, text=True).stdout
    numbers = list(map(int, printed.split()))
    assert len(numbers) > 150, len(numbers)
    for line, number, ours in zip(lines, numbers, expected):
        assert number == ours, f"{line.strip()} prints {number}, and cffi has {ours}"
    print(f"{len(structs)} structs, {len(numbers)} numbers")


def check_functions():
    functions = []
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "tryst" / header).read_text(), flags=re.DOTALL)
        functions += re.findall(r"^TRYST_API\b[^;]*?\b(tryst_\w+)\(", text, re.MULTILINE)
    assert len(functions) > 80, functions
    package = "".join(path.read_text() for path in (HERE / "tryst").glob("*.py"))
    used = set(re.findall(r"\blib\.(tryst_\w+)", package))
    declared = (HERE / "cdef.txt").read_text()
    for function in functions:
        assert re.search(rf"\b{function}\(", declared), f"cdef.txt has no {function}"
        assert (function in used) != (function in UNUSED), f"{function}: used by the package, or in UNUSED with the reason?"
    print(f"{len(functions)} functions, {len(UNUSED)} of them not used")


check_cdef()
check_layouts()
check_functions()
print("passed test_headers.py")
