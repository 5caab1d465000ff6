"""Refuses another MuJoCo than the one the extension was compiled for."""

from __future__ import annotations

_REBUILD = "pip install --no-build-isolation --force-reinstall ."


def require_mujoco() -> None:
    """Imports mujoco, whose library the extension then shares, and compares versions."""
    try:
        from ._build_info import MUJOCO_VERSION as compiled
    except ImportError:
        raise ImportError(
            "diffmj is not built: its extension module is missing beside this file. In diffmj's "
            f"source tree run: {_REBUILD}"
        ) from None
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(
            f"diffmj needs the mujoco package, version {compiled}, and importing it failed "
            f"({error}). Run: pip install mujoco=={compiled}"
        ) from error
    if mujoco.__version__ != compiled:
        raise ImportError(
            f"diffmj was compiled for MuJoCo {compiled}, but MuJoCo {mujoco.__version__} is "
            f"installed, and struct layouts differ between releases. Either run "
            f"'pip install mujoco=={compiled}', or build diffmj for {mujoco.__version__}: in its "
            f"source tree run '{_REBUILD}'"
        )
