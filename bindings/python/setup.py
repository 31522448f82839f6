# SPDX-License-Identifier: Apache-2.0
"""Make tryst/_ffi.py of cdef.txt, and take the version from it. The wheel has no compiled part."""

import re
from pathlib import Path

from setuptools import setup

NUMBERS = re.findall(r"^#define TRYST_VERSION_[A-Z]+ ([0-9]+)$", Path(__file__).with_name("cdef.txt").read_text(), re.MULTILINE)

setup(version=".".join(NUMBERS), license="Apache-2.0", cffi_modules=["cdef.py:builder"])
