"""A person with an arm of muscles and a prosthesis that holds a racket. A ball flies sideways and
misses both; it is to come to a place at the hand of muscles.

The paper gives the racket, its contacts and the cost. The rest is chosen here: both forearms point
forward, the hand of muscles is open and its palm up, with the activations that hold the arm there;
the ball is that of squash, rises from above that hand, and passes over the racket. The target is
where such a ball lies in the palm.
"""

import diffmj
import mujoco
import numpy as np
from scipy.optimize import lsq_linear

from experiments import manipulation

NEAR = 0.05  # [m]
VARIANTS = ("return",)
KEY = 2  # of MyoSuite's model, for the joints that are not named here
FINGERS = {
    f"{joint}{finger}_flexion": angle + 0.05 * (finger - 2) * (joint == "mcp")
    for joint, angle in (("mcp", 0.3), ("pm", 0.2), ("md", 0.06))
    for finger in (2, 3, 4, 5)
}
POSE = FINGERS | {
    "elv_angle": 1.0,
    "shoulder_elv": 0.4,
    "shoulder_rot": 0.12,
    "elbow_flexion": 1.5,
    "pro_sup": -1.5,
    "deviation": 0.28,
    "flexion": -0.44,
    "cmc_abduction": 0.1,
    "cmc_flexion": 0.24,
    "prosthesis/Lshoulder_fe": 0.2,
    "prosthesis/Lshoulder_abad": -0.5,
    "prosthesis/Lhumeral_rot": 0.3,
    "prosthesis/Lelbow": 1.4,
    "prosthesis/wrist_PRO": -0.5,
}
RADIUS, MASS = 0.02, 0.024  # [m], [kg] of the ball
BALL = (-0.15, -0.36, 1.465)  # [m] where it starts
SPEED = (1.8, 0.0, 0.5)  # [m/s]
TARGET = (-0.24, -0.326, 1.22)  # [m]
# of the ball alone: fingers of the prosthesis are near to each other all the time
CFD = diffmj.Cfd(width=0.0, geoms={"ball": diffmj.Cfd(width=0.3, d_0=0.01)}, max_contacts=24)
# from the last plan, with large steps and with small ones; not with noise, which moves the racket
# into the ball's way from some starts
TWO_RATES = {"sigma": 0.0, "rate": 0.1, "rate_factor": 0.25}
PLANNERS = {"gradient": TWO_RATES, "gradient + CFD": TWO_RATES}


def spec(variant: str) -> mujoco.MjSpec:
    out = manipulation.hand("arm/myoarm_bionic_bimanual.xml")
    qpos = _pose(out.compile())
    for key in list(out.keys):
        out.delete(key)
    for name in ("start", "goal"):  # pillars
        out.delete(out.body(name))
    for geom in out.geoms:
        if geom.contype == 2:  # the prosthesis, of which the racket alone can touch something
            geom.contype = geom.conaffinity = 0
    ball = out.body("manip_object")
    for geom in list(ball.geoms):
        out.delete(geom)
    ball.add_geom(
        name="ball",
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=[RADIUS, 0, 0],
        mass=MASS,
        contype=1,
        conaffinity=1,
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
        conaffinity=0,
        priority=1,
        solref=[-100000, 0],
        solimp=[0, 0.95, 0.001, 0.5, 2],
    )
    model = out.compile()
    qvel = np.zeros(model.nv)
    qvel[-6:-3] = SPEED
    ctrl, act = _hold(model, qpos)
    out.add_key(name="start", qpos=qpos, qvel=qvel, act=act, ctrl=ctrl)
    return out


def _pose(model: mujoco.MjModel) -> np.ndarray:
    """Joints at the start, those of the shoulder that follow others included."""
    qpos = model.key_qpos[KEY].copy()
    for name, angle in POSE.items():
        qpos[model.joint(name).qposadr[0]] = angle
    for i in np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_JOINT):
        if model.eq_obj2id[i] >= 0:
            y, x = (model.jnt_qposadr[joint[i]] for joint in (model.eq_obj1id, model.eq_obj2id))
            bend = np.polyval(model.eq_data[i, 4::-1], qpos[x] - model.qpos0[x])
            qpos[y] = model.qpos0[y] + bend
    qpos[-7:] = *BALL, 1, 0, 0, 0
    return qpos


def _hold(model: mujoco.MjModel, qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Controls and activations with which the arms stay where they are: servos at their angles,
    and muscles such that the arm hardly accelerates, fingers less so."""
    model.opt.iterations, model.opt.ls_iterations = 100, 50  # accelerations to the last digits
    data = mujoco.MjData(model)
    ctrl = np.zeros(model.nu)
    muscle = model.actuator_dyntype == mujoco.mjtDyn.mjDYN_MUSCLE
    ctrl[~muscle] = qpos[model.jnt_qposadr[model.actuator_trnid[~muscle, 0]]]
    joints = model.joint("prosthesis/Lshoulder_fe").dofadr[0]  # those of muscles come first
    weight = np.where(np.arange(joints) < model.joint("cmc_abduction").dofadr[0], 1.0, 0.1)

    def acceleration(act):
        data.qpos, data.qvel, data.ctrl, data.act = qpos, 0, ctrl, act
        mujoco.mj_forward(model, data)
        return weight * data.qacc[:joints]

    h = 0.01
    rest = acceleration(np.zeros(model.na))
    slope = np.array([(acceleration(h * x) - rest) / h for x in np.eye(model.na)]).T
    a = np.vstack([slope, np.eye(model.na)])
    # by active sets, which end at the solution: an iteration that ends near it would end elsewhere
    # on another machine
    found = lsq_linear(a, np.append(-rest, np.zeros(model.na)), bounds=(0, 1), method="bvls")
    if found.status <= 0:
        raise RuntimeError(f"tennis: no activations that hold the arm: {found.message}")
    act = found.x
    ctrl[muscle] = act
    return ctrl, act


def errors(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    return np.linalg.norm(qpos[:, -7:-4] - TARGET, axis=1, keepdims=True) / NEAR
