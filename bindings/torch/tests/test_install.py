# SPDX-License-Identifier: Apache-2.0
"""pip installs the package into a virtual environment of its own; two ranks all-reduce, and the metadata is right. Then
the library goes away, or is replaced by wrong ones: each import ends with a sentence.

    python3 tests/test_install.py BUILD SOURCE tree|prefix

tree: a wheel against the build tree. prefix: a source distribution against an installed library; this compiles anew.
SOURCE: a copy of bindings/torch, which this script may write to. Nothing is fetched: the environment sees the torch,
pip and setuptools of the Python that runs this script.
"""

import email
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import venv

import torch

SECONDS = 280
OFFLINE = ("--no-deps", "--no-build-isolation", "--no-index")
GIVEN = ("torch", "pip", "setuptools")
HEADER = os.path.dirname(os.path.abspath(__file__)) + "/../../../include/tryst/tryst.h"
RANKS = """
import sys, torch, torch.distributed as dist
if not {has_entry_points}:
    import tryst_torch
dist.init_process_group("tryst", init_method="file://{folder}/store", rank=int(sys.argv[1]), world_size=2)
tensor = torch.ones(3)
dist.all_reduce(tensor)
assert tensor[0] == 2, tensor
dist.destroy_process_group()
"""
GLOO = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
print(dist.group.WORLD._get_backend(torch.device("cpu")).name())
"""
FILES = r"tryst_torch/\w+\.py|tryst_torch_autoload\.py|tryst_torch/py\.typed|tryst_torch/_C\.[\w.-]+\.so|tryst_torch-[\d.]+\.dist-info/[\w./]+"


def check(condition, text):
    if not condition:
        sys.exit(f"failed: {text}")


def call(*command, **environment):
    """Run a command; return its status and its output."""
    done = subprocess.run(command, env=dict(os.environ, **environment), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    return done.returncode, done.stdout


def must(*command, **environment):
    status, output = call(*command, **environment)
    check(status == 0, f"{' '.join(command)}: status {status}\n{output}")
    return output


def folder_of(name):
    """The folder from which this Python imports a package."""
    return os.path.dirname(importlib.util.find_spec(name).origin)


def environment_make(folder, given):
    """Make a virtual environment that sees the packages beside `given`, behind its own; return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder + "/bin/python3"
    home = must(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    with open(home + "/given.pth", "w") as file:
        for path in dict.fromkeys(os.path.dirname(folder_of(name)) for name in given):
            file.write(path + "\n")
    return python


def pip(python, *arguments, **environment):
    return must(python, "-m", "pip", "--disable-pip-version-check", *arguments, **environment)


def check_ranks(python, folder):
    """Two ranks all-reduce; PyTorch finds the backend by its entry point, where it looks for these."""
    numbers = tuple(int(number) for number in torch.__version__.split(".")[:2])
    script = RANKS.format(folder=folder, has_entry_points=numbers >= (2, 15))
    ranks = [subprocess.Popen([python, "-c", script, str(rank)], cwd=folder) for rank in range(2)]
    try:
        check([rank.wait(SECONDS) for rank in ranks] == [0, 0], "an all-reduce of two ranks")
    finally:
        for rank in ranks:
            rank.kill()
    if os.path.exists(folder + "/store"):  # PyTorch 2.15 removes it
        os.unlink(folder + "/store")


def check_gloo(python):
    """The setting that puts tryst in the place of gloo works in a program that does not import tryst_torch."""
    if tuple(int(number) for number in torch.__version__.split(".")[:2]) < (2, 15):
        return
    for value, expected in ("1", "tryst"), ("0", "gloo"):
        name = must(python, "-c", GLOO, TORCH_TRYST_REPLACE_GLOO=value).split()[-1]
        check(name == expected, f"TORCH_TRYST_REPLACE_GLOO={value} opens {name}")
    status, output = call(python, "-c", GLOO, TORCH_TRYST_REPLACE_GLOO="yes")
    check(status and "not a valid TORCH_TRYST_REPLACE_GLOO: 'yes' (0 or 1)" in output, output)


def check_readme(python, build, source):
    """The command of README.md fetches nothing, also where packages are missing that torch names (test.sh venv)."""
    with open(source + "/README.md") as file:
        options = re.search(r"pip install (--.*) \./bindings/torch$", file.read(), re.MULTILINE)[1]
    pip(python, "install", "--no-index", "--dry-run", *options.split(), source, TRYST_BUILD=build)


def version_of(header):
    with open(header) as file:
        return ".".join(re.findall(r"^#define TRYST_VERSION_[A-Z]+ ([0-9]+)$", file.read(), re.MULTILINE))


def check_metadata(python, version):
    """What pip and PyTorch read of the installed package."""
    script = ("import importlib.metadata as m; d = m.distribution('tryst-torch'); print(d.read_text('METADATA')); "
              "print('Files:', *d.files, sep='\\n '); print('Entry:', *d.entry_points)")
    text = must(python, "-c", script)
    fields = email.message_from_string(text)
    minor = ".".join(torch.__version__.split(".")[:2])
    for name, value in (("Name", "tryst-torch"), ("Version", version), ("Requires-Python", ">=3.9"),
                        ("Description-Content-Type", "text/markdown")):
        check(fields[name] == value, f"the metadata has {name}: {fields[name]}, not {value}")
    check("Apache-2.0" in (fields["License"] or fields["License-Expression"] or ""), "the licence")
    check(fields.get_all("Requires-Dist") == [f"torch=={minor}.*"], f"the needed torch: {fields['Requires-Dist']}")
    check("# tryst_torch: a torch.distributed backend" in text, "the long description")
    check("group='torch.distributed.backends'" in text and "tryst_torch:register" in text, "the entry point")
    files = [line.strip() for line in text.split("Files:")[1].split("Entry:")[0].split()]
    wrong = [file for file in files if not re.fullmatch(FILES, file) and "__pycache__" not in file]
    check(not wrong, f"needless files: {wrong}")
    check(any(file.endswith("LICENSE") for file in files), "no LICENSE")
    check("tryst_torch/py.typed" in files, "no py.typed, so no type checker reads the annotations")


def check_import(python, pattern, **environment):
    status, output = call(python, "-c", "import tryst_torch", **environment)
    last = output.strip().splitlines()[-1]
    check(status and re.search(pattern, last), f"an import without {pattern!r} in its last line:\n{output}")


def check_isolated(python, source, folder):
    """What pip fetches for a build, from which it hides the environment's packages: no torch where there is one."""
    only = folder + "/only"
    os.mkdir(only)
    for name in ("setuptools", "_distutils_hack"):
        os.symlink(folder_of(name), f"{only}/{name}")
    script = (f"import sys; sys.path = [{source!r}, {only!r}, *(path for path in sys.path if path.endswith("
              "('.zip', '/lib-dynload', f'/python3.{sys.version_info[1]}')))]; import build_backend; "
              "print(build_backend.get_requires_for_build_wheel(), 'torch' in sys.modules)")
    with_torch = must(python, "-c", script).strip()
    check(with_torch == "[] False", f"requirements of a build where torch is: {with_torch}")
    without = must(environment_make(folder + "/empty", []), "-c", script).strip()
    check(without == "['torch>=2.0'] False", f"requirements of a build where no torch is: {without}")


def sdist(python, source, folder, **environment):
    must(python, source + "/setup.py", "-q", "sdist", "--dist-dir", folder, **environment)
    return glob.glob(folder + "/*.tar.gz")[0]


def library_make(folder, name, text):
    """Compile a library of a few lines."""
    with open(folder + "/stub.c", "w") as file:
        file.write(text)
    must("cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", f"{folder}/{name}", folder + "/stub.c")


def need_rename(environment, build):
    """Let the installed module need a library that no folder has, an installed Tryst's neither; return its name."""
    module = glob.glob(environment + "/**/tryst_torch/_C*.so", recursive=True)[0]
    name = os.path.basename(min(glob.glob(build + "/lib/libtryst.so.*"), key=len))
    absent = re.sub("[0-9]", "9", name)
    with open(module, "rb") as file:
        data = file.read()
    check(os.fsencode(name) in data, f"the module does not need {name}")
    with open(module, "wb") as file:
        file.write(data.replace(os.fsencode(name), os.fsencode(absent)))
    return absent


def check_missing(python):
    check_import(python, r"does not find the library libtryst\.so\.\d.*install Tryst.*LD_LIBRARY_PATH")


def check_wrong_libraries(python, folder, build, name):
    """One without the functions, and an older one."""
    library_make(folder, name, "int other(void) { return 0; }\n")
    check_import(python, "with another version of libtryst", LD_LIBRARY_PATH=folder)
    os.unlink(f"{folder}/{name}")
    library_make(folder, "old.so", 'const char *tryst_version_string(void) { return "0.0.9"; }\n')
    os.symlink(build + "/lib/libtryst.so", f"{folder}/{name}")
    check_import(python, "needs libtryst .* or later, and finds 0.0.9", LD_LIBRARY_PATH=folder,
                 LD_PRELOAD=folder + "/old.so")


def check_tree(python, build, source, folder):
    """A wheel against the build tree. This Python makes it, from what torch_build has compiled."""
    pip(sys.executable, "wheel", *OFFLINE, "--wheel-dir", folder, source, TRYST_BUILD=build)
    pip(python, "install", "--ignore-installed", *OFFLINE, *glob.glob(folder + "/*.whl"))
    check_isolated(python, source, folder)
    check_readme(python, build, source)
    check_metadata(python, version_of(HEADER))
    check_ranks(python, folder)
    check_gloo(python)
    name = need_rename(folder + "/environment", build)
    check_missing(python)
    check_wrong_libraries(python, folder, build, name)
    pip(python, "uninstall", "--yes", "tryst-torch")
    left = glob.glob(folder + "/environment/**/*tryst*", recursive=True)
    check(not left, f"files after an uninstall: {left}")


def check_prefix(python, build, source, folder):
    """A source distribution against an installed library."""
    prefix = folder + "/prefix"
    must("cmake", "--install", build, "--prefix", prefix)
    config = os.path.dirname(glob.glob(prefix + "/**/tryst.pc", recursive=True)[0])
    made = sdist(python, source, folder, PKG_CONFIG_PATH=config)
    pip(python, "install", "--ignore-installed", *OFFLINE, made, PKG_CONFIG_PATH=config)
    check_metadata(python, version_of(HEADER))
    check_ranks(python, folder)
    need_rename(folder + "/environment", build)
    check_missing(python)


def main():
    build, source = (os.path.abspath(path) for path in sys.argv[1:3])
    missing = [name for name in GIVEN if not importlib.util.find_spec(name)]
    if missing:
        print(f"skipped: {sys.executable} has no {' and no '.join(missing)}")
        sys.exit(77)
    os.environ.pop("TRYST_BUILD", None)
    with tempfile.TemporaryDirectory() as folder:
        python = environment_make(folder + "/environment", GIVEN)
        {"tree": check_tree, "prefix": check_prefix}[sys.argv[3]](python, build, source, folder)
    print("passed")


main()
