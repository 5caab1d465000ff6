"""A person with an arm of muscles and a prosthesis that holds a racket. A ball flies sideways and
misses both; it is to come to a place at the hand of muscles."""

import diffmj
import mujoco
import numpy as np

from experiments import manipulation

NEAR = 0.05  # [m]
VARIANTS = ("return",)
KEY = 2  # of MyoSuite's model: the arm is stretched out
PALM_UP = -1.4  # [rad] pronation
RADIUS, MASS = 0.033, 0.03  # [m], [kg] of the ball
BALL = (-0.05, -0.38, 1.50)  # [m] where it starts
SPEED = (2.2, 0.0, 0.9)  # [m/s]
TARGET = (-0.50, -0.30, 1.29)  # [m]
# of the ball alone: fingers of the prosthesis are near to each other all the time
CFD = diffmj.Cfd(width=0.0, geoms={"ball": diffmj.Cfd(width=0.3, d_0=0.01)}, max_contacts=24)


def spec(variant: str) -> mujoco.MjSpec:
    out = manipulation.hand("arm/myoarm_bionic_bimanual.xml")
    model = out.compile()
    qpos = model.key_qpos[KEY].copy()
    qpos[model.joint("pro_sup").qposadr[0]] = PALM_UP
    qpos[-7:] = *BALL, 1, 0, 0, 0
    for key in list(out.keys):
        out.delete(key)
    for name in ("start", "goal"):  # pillars
        out.delete(out.body(name))
    ball = out.body("manip_object")
    for geom in list(ball.geoms):
        out.delete(geom)
    ball.add_geom(
        name="ball",
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=[RADIUS, 0, 0],
        mass=MASS,
        contype=1,
        conaffinity=3,
        rgba=[0.8, 0.9, 0.2, 1],
        solref=[0.02, 1],
        solimp=[0, 0.95, 0.001, 0.5, 2],
    )
    ball.add_site(name="ball", pos=[0, 0, 0])
    out.worldbody.add_site(name="target", pos=TARGET, size=[0.02, 0, 0], rgba=[0.2, 0.8, 0.2, 0.5])
    out.body("prosthesis/palm").add_geom(
        name="racket",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[0.01, 0.11, 0.09],
        pos=[0.0, -0.20, 0.0],
        mass=0.1,
        rgba=[0.3, 0.3, 0.8, 1],
        contype=1,
        conaffinity=1,
        priority=1,
        solref=[-100000, 0],
        solimp=[0, 0.95, 0.001, 0.5, 2],
    )
    model = out.compile()
    qvel = np.zeros(model.nv)
    qvel[-6:-3] = SPEED
    ctrl = np.zeros(model.nu)
    for i in range(model.nu):
        if model.actuator_dyntype[i] == mujoco.mjtDyn.mjDYN_NONE:
            ctrl[i] = qpos[model.jnt_qposadr[model.actuator_trnid[i, 0]]]
    out.add_key(name="start", qpos=qpos, qvel=qvel, ctrl=ctrl)
    return out


def errors(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    return np.linalg.norm(qpos[:, -7:-4] - TARGET, axis=1, keepdims=True) / NEAR
