# SPDX-License-Identifier: Apache-2.0
"""The C++ part of tryst_torch: torch's CppExtension over an installed libtryst (found by pkg-config), or
over the build tree that TRYST_BUILD names, such as build/release.

A source distribution needs neither torch nor libtryst; what compiles needs both, and ends with a sentence
without them."""

import os
import re
import subprocess
import sys
from glob import glob
from pathlib import Path

from setuptools import Extension, setup

try:
    import torch
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ImportError:
    torch = None

HERE = Path(__file__).resolve().parent
HEADER = "tryst/tryst.h"


def is_compile():
    """True if this run compiles, or names the files that a compilation would install."""
    return not {"sdist", "egg_info", "clean", "--version", "--name"} & set(sys.argv)


def tree_options(build):
    """Folders of headers and of the library of the build tree `build`."""
    lib = Path(build).resolve() / "lib"
    if not (lib / "libtryst.so").exists():
        sys.exit(f"tryst_torch: no libtryst.so in {lib}: TRYST_BUILD names no build tree "
                 "(cmake --preset release && cmake --build build/release)")
    cache = (lib.parent / "CMakeCache.txt").read_text()
    source = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache, re.MULTILINE)[1]
    return source + "/include", str(lib)


def pkg_config(variable):
    """The folder that tryst.pc names `variable`."""
    try:
        return subprocess.run(["pkg-config", f"--variable={variable}", "tryst"], check=True, capture_output=True,
                              text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        sys.exit(f"tryst_torch: pkg-config does not find libtryst: {reason}\nInstall Tryst (cmake --install) and "
                 "set PKG_CONFIG_PATH to its lib/pkgconfig, or set TRYST_BUILD to a build tree.")


def options():
    """Folders of headers and of the library."""
    if "TRYST_BUILD" in os.environ:
        return tree_options(os.environ["TRYST_BUILD"])
    return pkg_config("includedir"), pkg_config("libdir")


def version_of(header):
    """The version in the library's header."""
    numbers = re.findall(r"^#define TRYST_VERSION_[A-Z]+ ([0-9]+)$", header.read_text(), re.MULTILINE)
    return ".".join(numbers)


def version():
    """The version of this source: that of the repository, or of the source distribution; for a copy of this folder
    alone, that of the library."""
    made = HERE / "PKG-INFO"
    header = HERE.parents[1] / "include" / HEADER
    if made.exists():
        return re.search(r"^Version: (.*)$", made.read_text(), re.MULTILINE)[1]
    return version_of(header if header.exists() else Path(options()[0]) / HEADER)


def torch_requirement():
    """torch in the minor version that the package is compiled against: the next one has another C++ interface."""
    if not is_compile():
        return "torch>=2.0"
    major, minor = torch.__version__.split(".")[:2]
    return f"torch=={major}.{minor}.*"


def extension():
    if not is_compile():
        return Extension("tryst_torch._C", sorted(glob("csrc/*/*.cc")))
    if torch is None or int(torch.__version__.split(".")[0]) < 2:
        sys.exit("tryst_torch: no PyTorch 2 here, against which to compile: install torch, in the edition that you "
                 "want, and then run pip install --no-build-isolation with this folder")
    include, lib = options()
    return CppExtension(
        "tryst_torch._C",
        sorted(glob("csrc/*/*.cc")),
        include_dirs=[include],
        library_dirs=[lib],
        runtime_library_dirs=[lib],
        libraries=["tryst"],
        # lines for debuggers, and no more: types of torch's headers would make 17 MB
        extra_compile_args=["-O2", "-g1", "-Wall", "-Wextra", "-Wno-unused-parameter"],
    )


os.chdir(HERE)
setup(
    version=version(),
    license="Apache-2.0",
    ext_modules=[extension()],
    install_requires=[torch_requirement()],
    cmdclass={"build_ext": BuildExtension} if torch else {},
)
