# SPDX-License-Identifier: Apache-2.0
"""The test device: the module fake_gpu_C over libfake_cuda.so of the build tree TRYST_BUILD (test.sh, `build`)."""

import os
import re
from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ["TRYST_BUILD"]).resolve()
CACHE = (BUILD / "CMakeCache.txt").read_text()
SOURCE = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", CACHE, re.MULTILINE)[1]
CUDA = re.search(r"^CUDAToolkit_.*INCLUDE_DIRS?:\w+=(.+)$", CACHE, re.MULTILINE)[1]
LIB = str(BUILD / "lib" / "test_cuda")

os.chdir(HERE)
setup(
    name="fake_gpu",
    py_modules=["fake_gpu"],
    ext_modules=[
        CppExtension(
            "fake_gpu_C",
            ["device.cc"],
            include_dirs=[SOURCE + "/tests", CUDA],
            library_dirs=[LIB],
            runtime_library_dirs=[LIB],
            libraries=["fake_cuda"],
            extra_compile_args=["-O1", "-g1", "-Wall", "-Wextra", "-Wno-unused-parameter"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
