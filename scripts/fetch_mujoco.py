#!/usr/bin/env python3
"""Headers and library of the further releases of MuJoCo that a wheel supports, from their wheels.

    fetch_mujoco.py FOLDER

The newest release of cmake/mujoco_releases.txt is the one that the build environment has. Prints
the others as CMake takes them: -DDIFFMJ_MUJOCO_ROOTS=FOLDER/3.17.0/mujoco;... What is there is not
fetched again.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def releases() -> list[str]:
    """Every supported release, newest first."""
    return (ROOT / "cmake" / "mujoco_releases.txt").read_text().split()


def fetch(version: str, folder: Path) -> Path:
    """A MuJoCo_ROOT with this release."""
    package = folder / version / "mujoco"
    # since 4.0 the library is in a package of its own
    for name in ("mujoco", "mujoco-core"):
        if any(package.glob("libmujoco.*")):
            break
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--no-deps", "--only-binary", ":all:", "--upgrade"),
                *("--target", str(folder / version), f"{name}=={version}"),
            ],
            check=True,
            stdout=sys.stderr,
        )
    if not any(package.glob("libmujoco.*")) or not (package / "include/mujoco/mujoco.h").exists():
        sys.exit(f"fetch_mujoco: the wheels of MuJoCo {version} have no library or no headers")
    return package


def roots(folder: Path) -> str:
    """The value of DIFFMJ_MUJOCO_ROOTS."""
    return ";".join(str(fetch(version, folder)) for version in releases()[1:])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"-DDIFFMJ_MUJOCO_ROOTS={roots(Path(sys.argv[1]).resolve())}")
