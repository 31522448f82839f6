# SPDX-License-Identifier: Apache-2.0
"""README's commands, in a virtual environment of its own: pip makes a wheel without a compiled part, and the ring runs. Then
imports without the library, and with wrong ones, end with a sentence.

    test_install.py BUILD

Nothing is fetched: the environment sees the cffi, NumPy, pip and setuptools of the Python that runs this script."""

import glob
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parents[1]
GIVEN = ("cffi", "numpy", "pip", "setuptools", "wheel", "pycparser")
OFFLINE = ["--no-index", "--no-build-isolation", "--no-deps", "--quiet", "--disable-pip-version-check"]
FILES = r"tryst/\w+\.py|tryst/py\.typed|tryst-[\d.]+\.dist-info/[\w./]+"


def call(*command, **variables):
    """Run a command; return its status and its output."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TRYST_LIBRARY")}
    done = subprocess.run(command, env=dict(environment, **variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=200, cwd="/")
    return done.returncode, done.stdout


def must(*command, **variables):
    status, output = call(*command, **variables)
    assert status == 0, f"{command}: status {status}\n{output}"
    return output


def environment_make(folder):
    venv.create(folder, with_pip=False, symlinks=True)
    python = f"{folder}/bin/python3"
    home = must(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    found = [importlib.util.find_spec(name) for name in GIVEN]
    pathlib.Path(home, "given.pth").write_text("".join(f"{path}\n" for path in dict.fromkeys(
        os.path.dirname(os.path.dirname(spec.origin)) for spec in found if spec)))
    return python


def check_readme(build, source, python):
    """The commands, with options that keep pip from the network, and the programs of the build tree."""
    block = re.search(r"^```sh\n(.*?)^```$", (HERE / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    install, ring = (line.partition("#")[0].split() for line in block.splitlines())
    assert install[:2] == ["pip", "install"] and install[2] == "./bindings/python", install
    must(python, "-m", "pip", *install[1:2], *OFFLINE, "--ignore-installed", source)
    assert ring[:4] == ["tryst-run", "-n", "4", "python3"], ring
    output = must(f"{build}/bin/tryst-run", "-n", "4", python, str(HERE.parents[1] / ring[4]),
                  TRYST_LIBRARY=f"{build}/lib/libtryst.so")
    assert len(re.findall(r"rank \d of 4: \d from rank \d, 6 from all", output)) == 4, output


def check_wheel(source, folder, python):
    must(python, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", folder, source)
    assert glob.glob(f"{folder}/tryst-*-py3-none-any.whl"), os.listdir(folder)
    script = "import importlib.metadata as m; d = m.distribution('tryst'); print(d.version, *d.files, sep='\\n')"
    version, *files = must(python, "-c", script).split()
    wrong = [file for file in files if not re.fullmatch(FILES, file) and "__pycache__" not in file]
    assert not wrong and "tryst/py.typed" in files and "tryst/_ffi.py" in files, files
    return version


def check_import(python, pattern, **variables):
    status, output = call(python, "-c", "import tryst", **variables)
    assert status == 1 and re.search(pattern, output, re.DOTALL), f"an import without {pattern!r}:\n{output}"
    assert "ImportError" in output


def check_libraries(build, folder, python, version):
    check_import(python, r"install Tryst and call ldconfig, or set TRYST_LIBRARY .*Tried:\n  /no/libtryst.so: .*no/lib",
                 TRYST_LIBRARY="/no/libtryst.so")
    stub = pathlib.Path(folder, "stub.c")
    stub.write_text('unsigned tryst_version(void) { return 99 << 16; }\n'
                    'const char *tryst_version_string(void) { return "99.0.0"; }\n')
    must(os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", f"{folder}/libtryst.so", str(stub))
    check_import(python, rf"is for Tryst {version}, and the library is 99\.0\.0", TRYST_LIBRARY=f"{folder}/libtryst.so")
    name = os.path.basename(min(glob.glob(build + "/lib/libtryst.so.*"), key=len))
    by_name = call(python, "-c", "import tryst; print(tryst.version())", LD_LIBRARY_PATH=f"{build}/lib")
    assert by_name == (0, version + "\n"), by_name
    if not any(os.path.exists(f"{place}/{name}") for place in ("/usr/local/lib", "/usr/lib", "/usr/lib64")):
        check_import(python, rf"Tried:\n  {name}: .*\n  /usr/local/lib/{name}: ")


def main():
    build = sys.argv[1]
    missing = [name for name in ("pip", "setuptools") if not importlib.util.find_spec(name)]
    if missing:
        print(f"skipped: {sys.executable} has no {' and no '.join(missing)}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        python = environment_make(f"{folder}/environment")
        check_readme(build, f"{build}/python/source", python)
        version = check_wheel(f"{build}/python/source", folder, python)
        check_libraries(build, folder, python, version)
    print("passed test_install.py")
    return 0


sys.exit(main())
