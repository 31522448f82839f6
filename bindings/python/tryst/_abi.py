# SPDX-License-Identifier: Apache-2.0
"""Load libtryst and give its functions (`lib`), with the helpers that every part needs.

One idea: nothing is compiled. cffi calls the library by the declarations of its public headers (_ffi.py, made of cdef.txt,
which a test compares with the headers), and releases the GIL during each call."""

import os
from typing import Any, Callable

try:
    from tryst import _ffi
except ImportError as error:
    raise ImportError("this is the source of the package tryst, and not an installed one: leave its folder, and "
                      "pip install ./bindings/python") from error

ffi: Any = _ffi.ffi
NULL = ffi.NULL
_VERSION = [ffi.integer_const(f"TRYST_VERSION_{part}") for part in ("MAJOR", "MINOR", "PATCH")]
VERSION = ".".join(map(str, _VERSION))
_SONAME = ".so.{}.{}".format(*_VERSION)  # below 1.0 the interface may change with the minor version
_PREFIX_LIB = "/usr/local/lib"  # the folder of cmake --install, which ld.so may not have noticed yet


def _places(name: str) -> list[str]:
    """Where a library may be: beside the one that TRYST_LIBRARY names, else where ld.so finds it."""
    file, given = name + _SONAME, os.environ.get("TRYST_LIBRARY")
    if not given:
        return [file, f"{_PREFIX_LIB}/{file}"]
    return [given if name == "libtryst" else os.path.join(os.path.dirname(given), file)]


def load(name: str) -> Any:
    """Open the library `name`. Raises ImportError with all places that were tried."""
    tried = []
    for place in _places(name):
        try:
            return ffi.dlopen(place, ffi.RTLD_NOW | ffi.RTLD_LOCAL)
        except OSError as error:
            tried.append(f"  {place}: {error}")
    raise ImportError(f"cannot load {name}{_SONAME}, the library of Tryst {VERSION}: install Tryst and call "
                      "ldconfig, or set TRYST_LIBRARY to the path of libtryst.so. Tried:\n" + "\n".join(tried))


def text(chars: Any) -> str:
    """A C string as str; "" for NULL."""
    return ffi.string(chars).decode(errors="replace") if chars else ""


def sized(name: str, /, **fields: Any) -> Any:
    """Allocate the struct `name` with its struct_size and some fields."""
    struct = ffi.new(name + " *", fields)
    struct.struct_size = ffi.sizeof(struct[0])
    return struct


class _Names(dict[str, int]):
    def __missing__(self, name: str) -> int:
        raise ValueError(f"not a valid name: {name!r} ({', '.join(self)})")


def names(enum: str, prefix: str) -> dict[str, int]:
    """The numbers of an enum by the names that users write: "sum" for TRYST_REDUCE_SUM."""
    numbers = {name[len(prefix):].lower(): number for name, number in ffi.typeof(enum).relements.items()}
    numbers.pop("invalid", None)
    return _Names(numbers)


def _value(field: Any) -> Any:
    if not isinstance(field, ffi.CData):
        return field
    return text(field) if ffi.typeof(field).kind in ("pointer", "array") else int(field)


def as_dict(struct: Any) -> dict[str, Any]:
    """The fields of a struct of numbers and strings; a NULL string is ""."""
    fields = ffi.typeof(struct)
    return {name: _value(getattr(struct, name)) for name, _ in (fields.item if fields.kind == "pointer" else fields).fields
            if name not in ("struct_size", "reserved")}


def visit(call: Callable[..., Any], subject: tuple[Any, ...], types: str, row: Callable[..., Any]) -> list[Any]:
    """Call one of the library's visit functions; return `row` of each item. `types`: the arguments of its callback,
    without the first one."""
    rows: list[Any] = []
    errors: list[BaseException] = []

    @ffi.callback(f"int(void *, {types})", error=1, onerror=lambda _type, error, _trace: errors.append(error))
    def add(_arg: Any, *item: Any) -> int:
        rows.append(row(*item))
        return 0

    call(*subject, add, NULL)
    if errors:
        raise errors[0]
    return rows


lib = load("libtryst")
if lib.tryst_version() >> 8 != _VERSION[0] << 8 | _VERSION[1]:
    raise ImportError(f"this package is for Tryst {VERSION}, and the library is {text(lib.tryst_version_string())}: "
                      "install the package and the library from one version")
