"""The console program `diffmj`: hands over to the binary for the MuJoCo that is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from ._require_mujoco import installed_release, release_folder, supported_releases

_EXIT_ERROR = 2  # as the program's


def main() -> NoReturn:
    doctor = sys.argv[1:2] == ["doctor"]
    info = python_info() if doctor else {}
    try:
        program = release_folder(installed_release()) / "bin" / "diffmj"
        if not program.exists():
            raise ImportError(
                f"this package was built without its command-line program ({program})"
            )
    except ImportError as error:
        # what a report needs is the versions, above all where nothing works
        for name, value in info.items():
            print(f"{name:<18}{value}")
        sys.exit(_fail(str(error)))
    # whose renderer makes films
    environment = os.environ | {"DIFFMJ_PYTHON": sys.executable}
    if doctor:
        environment["DIFFMJ_PYTHON_INFO"] = "\n".join(f"{k}={v}" for k, v in info.items())
    # exec: signals, exit code and standard streams are the program's own
    os.execve(program, [sys.argv[0], *sys.argv[1:]], _with_library(program, environment))


def python_info() -> dict[str, str]:
    """What `diffmj doctor` prints about Python: versions and places."""
    names = ("mujoco", "numpy", "jax", "jaxlib", "torch", "ray")
    versions = [f"{x} {y}" for x in names if (y := _version(x))]
    return {
        "Python": f"{platform.python_version()} ({sys.executable})",
        "package": str(Path(__file__).parent),
        "supports": f"MuJoCo {', '.join(supported_releases()) or 'none: it is not built'}",
        "with": ", ".join(versions),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _with_library(program: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which the program finds MuJoCo's library.

    It looks in site-packages/mujoco beside its own package. Where the two packages are installed in
    different places, the loader is told.
    """
    out = dict(environment)
    spec = importlib.util.find_spec("mujoco")
    beside = Path(__file__).parents[1] / "mujoco"
    if spec is None or not spec.origin or Path(spec.origin).parent == beside:
        return out
    name = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
    paths = [str(Path(spec.origin).parent), *filter(None, [environment.get(name)])]
    out[name] = os.pathsep.join(paths)
    return out


def _fail(message: str) -> int:
    print(f"diffmj: error: {message}", file=sys.stderr)
    return _EXIT_ERROR


if __name__ == "__main__":
    main()
