"""Which of the extensions in this package fits the MuJoCo that is installed.

The layouts of MuJoCo's structs differ between releases, so the package has one extension module and
one command-line program for each release that it supports, in `_releases/<version>`.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

_RELEASES = Path(__file__).parent / "_releases"
_REBUILD = "pip install --no-build-isolation --no-deps --force-reinstall ."


def supported_releases() -> list[str]:
    """The releases of MuJoCo that this package was compiled for, newest first."""
    folders = [x.name for x in _RELEASES.iterdir() if x.is_dir()] if _RELEASES.is_dir() else []
    return sorted(folders, key=_as_numbers, reverse=True)


def installed_release() -> str:
    """The version of the mujoco package, which is not imported unless that is the way to tell."""
    try:
        return importlib.metadata.version("mujoco")
    except importlib.metadata.PackageNotFoundError:
        return _imported_release()


def release_folder(version: str) -> Path:
    """The folder of the extension for this MuJoCo; ImportError if there is none."""
    supported = supported_releases()
    if version in supported:
        return _RELEASES / version
    if not supported:
        raise ImportError(_NOT_BUILT)
    *others, last = supported
    known = f"{', '.join(others)} and {last}" if others else last
    raise ImportError(
        f"MuJoCo {version} is installed, but this diffmj supports MuJoCo {known}. Either run "
        f"'pip install mujoco=={supported[0]}', or build diffmj for {version}: in its source tree "
        f"run '{_REBUILD}'"
    )


def require_mujoco() -> str:
    """Imports mujoco, whose library the extension then shares, and returns the extension's folder.

    Called before the extension is loaded: it must not meet the structs of another release.
    """
    if not supported_releases():
        raise ImportError(_NOT_BUILT)
    return str(release_folder(_imported_release()))


_NOT_BUILT = (
    "diffmj is not built: there is no extension module in the folder _releases beside this file. "
    f"In diffmj's source tree run '{_REBUILD}'"
)


def _imported_release() -> str:
    try:
        import mujoco
    except ImportError as error:
        wanted = "".join(f"=={x}" for x in supported_releases()[:1])
        raise ImportError(
            f"diffmj needs the mujoco package, and importing it failed ({error}). Run "
            f"'pip install mujoco{wanted}'"
        ) from error
    return str(mujoco.__version__)


def _as_numbers(version: str) -> list[int]:
    return [int(x) if x.isdigit() else 0 for x in version.split(".")]
