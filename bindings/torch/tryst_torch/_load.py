# SPDX-License-Identifier: Apache-2.0
"""Load the C++ part, with a sentence for each thing that may be missing: libtryst, in the version that the part was
compiled with, and the torch that it was compiled with."""

import importlib.metadata
import re

import torch

AGAIN = "install tryst_torch again (pip install --force-reinstall --no-deps --no-build-isolation)"


def _compiled_with():
    """The version of torch that the installed package needs, as text."""
    try:
        needs = importlib.metadata.requires("tryst-torch") or []
    except importlib.metadata.PackageNotFoundError:
        needs = []
    for need in needs:
        found = re.fullmatch(r"torch *\(?==([0-9.]+)\.\*\)?", need)
        if found:
            return found[1]
    return "another version"


def _sentence(error):
    """What the loader's message means for the user."""
    library = re.search(r"libtryst\.so[.0-9]*", error)
    if library and "cannot open shared object file" in error:
        return (f"tryst_torch does not find the library {library[0]}: install Tryst, or add the folder with "
                f"{library[0]} to LD_LIBRARY_PATH. If there is a libtryst.so with another number, {AGAIN}")
    if library or "tryst_" in error and "undefined symbol: tryst_" in error:
        return (f"tryst_torch was compiled with another version of libtryst than the one that it finds: update Tryst, "
                f"or {AGAIN}")
    if "undefined symbol" in error:
        return (f"tryst_torch was compiled with torch {_compiled_with()}, and this is torch {torch.__version__}: "
                f"{AGAIN}")
    return "tryst_torch cannot load its C++ part"


def _numbers(version):
    return [int(number) for number in re.findall(r"[0-9]+", version)[:3]]


def _require_versions(part):
    """Refuse a libtryst older than the headers, and a torch with another minor version."""
    if _numbers(part.library_version()) < _numbers(part.headers_version):
        raise ImportError(f"tryst_torch needs libtryst {part.headers_version} or later, and finds "
                          f"{part.library_version()}: update Tryst, or {AGAIN}")
    if _numbers(part.torch_version)[:2] != _numbers(torch.__version__)[:2]:
        raise ImportError(f"tryst_torch was compiled with torch {part.torch_version}, and this is torch "
                          f"{torch.__version__}: {AGAIN}")


def load():
    """Return the module of the C++ part. Raises ImportError."""
    try:
        from tryst_torch import _C
    except ImportError as error:
        raise ImportError(f"{_sentence(str(error))} ({error})") from error
    _require_versions(_C)
    return _C
