"""MyoSuite's hand turns a die by a quarter turn. Nothing of MyoSuite is in this repository: the
scene is built from its package."""

import importlib.util
import warnings
from pathlib import Path

import diffmj
import mujoco
import numpy as np

AXES = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}
LATENCY = 0.08  # [s] that a plan takes
# The first plan may take this many times as long. Meanwhile no muscle is active and the hand sinks,
# with the die in it.
FIRST = 10
TIMESTEP, PLANNING = 0.0025, 0.005  # [s] of what is executed, and of what is planned with
ANGLE, DISTANCE, HOLD = 0.2, 0.015, 0.25  # [rad], [m], [s]: solved, if within for so long
DROPPED = 0.1  # [m]
ARM = 0.1  # [m]: points on the die's axes that the cost looks at


def available() -> bool:
    return importlib.util.find_spec("myosuite") is not None


def scene() -> mujoco.MjModel:
    """The hand with the contacts of [Paulus26], palm up."""
    package = Path(importlib.util.find_spec("myosuite").origin).parent
    spec = mujoco.MjSpec.from_file(str(package / "envs/myo/assets/hand/myohand_die.xml"))
    spec.option.timestep = TIMESTEP
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.iterations, spec.option.ls_iterations = 4, 16
    for geom in spec.geoms:
        geom.solref, geom.solimp = [0.02, 1], [0, 0.95, 0.001, 0.5, 2]
    return spec.compile()


class Die:
    """The scene at rest, and where the die is in it."""

    def __init__(self):
        self.model = scene()
        self.sim = diffmj.Simulator(self.model)
        qpos = np.array(self.sim.default_state().qpos)
        qpos[0] = -1.5
        with warnings.catch_warnings():
            # no gradient is taken here
            warnings.simplefilter("ignore", diffmj.SolverWarning)
            rest = self.sim.rollout(qpos, nstep=100, ctrl=np.zeros(self.sim.nu))
        self.start = rest.qpos[-1], rest.qvel[-1], rest.act[-1]
        self.body = self.model.body("Object").id
        self.place, self.turned = self.poses(rest.qpos[-1:])
        self.place, self.turned = self.place[0], self.turned[0]

    def poses(self, qpos) -> tuple[np.ndarray, np.ndarray]:
        """Centres (n, 3) and rotations (n, 3, 3)."""
        data = mujoco.MjData(self.model)
        places, rotations = [], []
        for row in qpos:
            data.qpos = row
            mujoco.mj_kinematics(self.model, data)
            places.append(data.xpos[self.body].copy())
            rotations.append(data.xmat[self.body].reshape(3, 3).copy())
        return np.array(places), np.array(rotations)

    def target(self, axis: str) -> np.ndarray:
        """The die as it lies, turned by a quarter about an axis of the world."""
        quat, matrix = np.empty(4), np.empty(9)
        mujoco.mju_axisAngle2Quat(quat, np.array(AXES[axis], float), np.pi / 2)
        mujoco.mju_quat2Mat(matrix, quat)
        return matrix.reshape(3, 3) @ self.turned

    def cost(self, target: np.ndarray) -> list:
        """Squared distances of the centre and of a point on each axis from their targets, also at
        the end of the plan; and a little of the angular velocity, or the die is thrown."""
        terms = [diffmj.Distance("body:Object", self.place, weight=80.0, terminal=24.0)]
        for point, turned in zip(np.eye(3), target.T, strict=True):
            to = self.place + ARM * turned
            terms.append(
                diffmj.Distance("body:Object", to, of_pos=ARM * point, weight=30.0, terminal=9.0)
            )
        return [*terms, diffmj.FrameVelocity("body:Object", angular=True, weight=0.003)]

    def errors(self, qpos, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Angles [rad] and distances [m] from the target."""
        places, rotations = self.poses(qpos)
        trace = np.einsum("ij,nij->n", target, rotations)
        angles = np.arccos(np.clip((trace - 1) / 2, -1, 1))
        return angles, np.linalg.norm(places - self.place, axis=1)

    def turn(self, axis: str, seed: int, seconds: float, nthread: int = 0, clock: bool = False):
        """A run, its errors, and the time at which it was solved; None: it was not.

        Args:
            clock: a plan takes as long as it takes on the clock.
        """
        target = self.target(axis)
        planner = diffmj.Planner(
            self.sim,
            self.cost(target),
            "gradient",
            horizon=96,
            timestep=PLANNING,
            iterations=3,
            # from the last plan, with large steps and with small ones
            starts=2,
            sigma=0.0,
            rate=0.06,
            rate_factor=0.25,
            first_effort=FIRST,
            nthread=nthread,
        )
        qpos, qvel, act = self.start
        qvel = qvel + 0.02 * np.random.default_rng(seed).standard_normal(len(qvel))
        rows = round(HOLD / TIMESTEP) + 1

        def done(run: diffmj.MpcRun) -> bool:
            angles, distances = self.errors(run.qpos[-rows:], target)
            return distances[-1] > DROPPED or (len(angles) == rows and held(angles, distances))

        run = diffmj.run_mpc(
            planner,
            qpos,
            qvel,
            act,
            np.zeros(self.sim.nu),
            nstep=round(seconds / TIMESTEP),
            execute=1,
            realtime=True,
            latency=FIRST * LATENCY,
            plan_seconds=None if clock else LATENCY,
            predict_timestep=TIMESTEP,
            done=done,
        )
        angles, distances = self.errors(run.qpos, target)
        solved = held(angles[-rows:], distances[-rows:])
        return run, angles, distances, run.simulated if solved else None


def held(angles: np.ndarray, distances: np.ndarray) -> bool:
    return bool(np.all((angles < ANGLE) & (distances < DISTANCE)))
