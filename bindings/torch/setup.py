# SPDX-License-Identifier: Apache-2.0
"""The C++ part of tryst_torch: torch's CppExtension over an installed libtryst (found by pkg-config), or
over the build tree that TRYST_BUILD names, such as build/release."""

import os
import re
import subprocess
import sys
from glob import glob
from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = Path(__file__).resolve().parent


def tree_options(build):
    """Folders of headers and of the library of the build tree `build`."""
    lib = Path(build).resolve() / "lib"
    if not (lib / "libtryst.so").exists():
        sys.exit(f"tryst_torch: no libtryst.so in {lib}: TRYST_BUILD names no build tree "
                 "(cmake --preset release && cmake --build build/release)")
    cache = (lib.parent / "CMakeCache.txt").read_text()
    source = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache, re.MULTILINE)[1]
    return [source + "/include"], [str(lib)]


def pkg_config(option):
    """The folders that pkg-config prints for `option`, without their -I or -L."""
    try:
        text = subprocess.run(["pkg-config", option, "tryst"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        sys.exit(f"tryst_torch: pkg-config does not find libtryst: {reason}\nInstall Tryst (cmake --install) and "
                 "set PKG_CONFIG_PATH to its lib/pkgconfig, or set TRYST_BUILD to a build tree.")
    return [word[2:] for word in text.split()]


def options():
    """Folders of headers and of the library."""
    if "TRYST_BUILD" in os.environ:
        return tree_options(os.environ["TRYST_BUILD"])
    return pkg_config("--cflags-only-I"), pkg_config("--libs-only-L")


include, lib = options()
os.chdir(HERE)
setup(
    ext_modules=[
        CppExtension(
            "tryst_torch._C",
            sorted(glob("csrc/*/*.cc")),
            include_dirs=include,
            library_dirs=lib,
            runtime_library_dirs=lib,
            libraries=["tryst"],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
