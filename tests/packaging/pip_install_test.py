"""`pip install .` gives a package that imports, knows its version and runs its program.

It is installed into a virtual environment of its own, which sees the packages of this one through
links: nothing is downloaded, and the layout (site-packages/diffmj beside site-packages/mujoco) is
that of a real installation.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

CHECK = """
import importlib.metadata
import pathlib

import diffmj
import diffmj._diffmj

print(importlib.metadata.version("diffmj"))
print(diffmj.__version__)
print(diffmj.mujoco_version)
print(pathlib.Path(diffmj._diffmj.__file__))
"""


def run(*command, **kwargs):
    print("+", *command, flush=True)
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, **kwargs)
    print(done.stdout, flush=True)
    if done.returncode != 0:
        sys.exit(f"failed with exit code {done.returncode}")
    return done.stdout


def make_environment(directory: Path) -> Path:
    """A virtual environment with links to the packages of the running one; returns its python."""
    shutil.rmtree(directory, ignore_errors=True)
    venv.create(directory, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": directory, "platbase": directory}))
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith(("diffmj", "__pycache__")):
            (site / package.name).symlink_to(package)
    return directory / "bin" / "python"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--build-type", required=True)
    parser.add_argument("--flags", required=True, help="of the compiler, for this build type")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--precompile", required=True, help="ON or OFF, as in the build under test")
    args = parser.parse_args()

    # the build directory stays: the second run compiles what has changed
    wheels = args.scratch / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    if shutil.which("ccache"):
        # same flags as the build under test, and beside it: nothing is compiled twice
        flags = f"cmake.define.CMAKE_CXX_FLAGS_{args.build_type.upper()}={args.flags}"
        settings = [f"cmake.build-type={args.build_type}", flags, "cmake.define.DIFFMJ_WERROR=ON"]
    else:
        # the package is tested here, not its speed
        settings = ["cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0"]
    settings.append(f"cmake.define.CMAKE_CXX_COMPILER={args.compiler}")
    settings.append(f"cmake.define.DIFFMJ_PRECOMPILE={args.precompile}")
    pip = ("-m", "pip", "--disable-pip-version-check")
    offline = ("--no-deps", "--no-index")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    run(
        *(sys.executable, *pip, "wheel", "--no-build-isolation", *offline, "-w", wheels),
        *(f"-Cbuild-dir={args.scratch}", *(f"-C{s}" for s in settings), args.source),
        env=environment,
    )
    python = make_environment(args.scratch / "venv")
    run(python, *pip, "install", *offline, *wheels.glob("*.whl"), env=environment)

    expected, attribute, mujoco, extension = run(
        python, "-c", CHECK, cwd=args.scratch, env=environment
    ).split("\n")[:4]
    assert attribute == expected, f"__version__ is {attribute}, the metadata say {expected}"
    assert extension.startswith(str(args.scratch)), f"imported {extension}"
    release = Path(extension).parent
    package = release.parents[1]
    assert release.relative_to(package) == Path("_releases", mujoco), f"imported {extension}"
    assert (package / "py.typed").exists(), "py.typed is missing"
    assert (package / "_diffmj.pyi").exists(), "_diffmj.pyi is missing"

    program = args.scratch / "venv/bin/diffmj"
    text = run(program, "--version", cwd=args.scratch, env=environment)
    assert text.startswith(f"diffmj {expected} "), f"the program says {text}"

    # a wheel carries no path of the machine it was made on
    if shutil.which("readelf"):
        for binary in (Path(extension), release / "bin/diffmj"):
            dynamic = run("readelf", "-d", binary)
            paths = re.search(r"R(?:UN)?PATH.*\[(.*)\]", dynamic)[1].split(":")
            assert all(p.startswith("$ORIGIN/") for p in paths), f"{binary}: run path {paths}"


if __name__ == "__main__":
    main()
