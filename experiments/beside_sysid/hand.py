"""MyoSuite's hand as a problem of mujoco.sysid: what its muscles can do, from one recorded motion."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import mujoco
import mujoco.rollout
import numpy as np

# of each of the 39 muscles, in this order: peak force, largest speed, force at lengthening, range
# of lengths; with their indices in gainprm and biasprm
KINDS = {
    "strength": ((2,), (2,)),
    "speed": ((6,), ()),
    "lengthening": ((8,), ()),
    "reach": ((5,), (5,)),
}
NOISE = {"q": 1e-3, "v": 1e-2}  # [rad], [rad/s]


def spec() -> mujoco.MjSpec:
    """The hand without what is only seen, and with sensors of all its joints."""
    package = importlib.util.find_spec("myosuite")
    if package is None:
        raise SystemExit("the package myosuite is missing; `make setup` installs it")
    path = Path(package.origin).parent / "simhive/myo_sim/hand/myohand.xml"
    out = mujoco.MjSpec.from_file(str(path))
    for geom in list(out.geoms):
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH:
            out.delete(geom)
    for kind in (out.geoms, out.sites, out.tendons):
        for element in kind:
            element.material = ""
    for kind in (out.meshes, out.materials, out.textures, out.skins):
        for element in list(kind):
            out.delete(element)
    for joint in out.joints:
        for name, sensor in (("q", mujoco.mjtSensor.mjSENS_JOINTPOS), ("v", mujoco.mjtSensor.mjSENS_JOINTVEL)):
            out.add_sensor(
                name=f"{name}_{joint.name}",
                type=sensor,
                objtype=mujoco.mjtObj.mjOBJ_JOINT,
                objname=joint.name,
            )
    return out
