# SPDX-License-Identifier: Apache-2.0
"""The build backend that pip calls: that of setuptools, with the torch that the program will load.

The package must be compiled against the torch beside which it is installed: PyTorch's C++ interface changes with each
minor version. pip builds in an environment of its own that hides this torch, and would fetch another one, of
gigabytes. So: where the interpreter's own folders have a torch, this backend adds these folders to the path, behind
the others, and requires nothing; where there is none, it requires one of pip. With --no-build-isolation torch is
there anyhow.
"""

import importlib.util
import os
import site
import sys
import sysconfig

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 (the hooks that stay as they are)


def folders():
    """Folders with packages of this interpreter: those of its virtual environment, and those that it shows besides
    (include-system-site-packages, .pth files)."""
    paths = sysconfig.get_paths()
    found = [paths["purelib"], paths["platlib"]]
    if is_open_environment():
        found += [sysconfig.get_path("purelib", vars={"base": sys.base_prefix}), *site.getsitepackages([sys.base_prefix]),
                  site.getusersitepackages()]
    return [folder for folder in dict.fromkeys(found) if os.path.isdir(folder)]


def is_open_environment():
    """True unless this is a virtual environment that hides the packages of its base."""
    if sys.prefix == sys.base_prefix:
        return True
    try:
        with open(os.path.join(sys.prefix, "pyvenv.cfg")) as file:
            return any(line.replace(" ", "").strip().lower() == "include-system-site-packages=true" for line in file)
    except OSError:
        return False


def torch_show():
    """Make the installed torch importable; return whether there is one."""
    if importlib.util.find_spec("torch"):
        return True
    for folder in folders():
        before = len(sys.path)
        site.addsitedir(folder)  # reads .pth files, too
        if importlib.util.find_spec("torch"):
            return True
        del sys.path[before:]
    return False


def get_requires_for_build_wheel(config_settings=None):
    return [] if torch_show() else ["torch>=2.0"]


def get_requires_for_build_editable(config_settings=None):
    return get_requires_for_build_wheel()


def get_requires_for_build_sdist(config_settings=None):
    return []


def with_torch(hook):
    def call(*arguments, **named):
        torch_show()
        return hook(*arguments, **named)

    return call


build_wheel = with_torch(build_meta.build_wheel)
build_editable = with_torch(build_meta.build_editable)
prepare_metadata_for_build_wheel = with_torch(build_meta.prepare_metadata_for_build_wheel)
prepare_metadata_for_build_editable = with_torch(build_meta.prepare_metadata_for_build_editable)
