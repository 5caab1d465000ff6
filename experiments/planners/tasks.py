"""The tasks: a scene, a cost, starts by seed, and what a planner is given for it."""

from dataclasses import dataclass, field

import diffmj
import numpy as np

from experiments import common

SCENES = common.SCENARIOS / "planning"


@dataclass(frozen=True)
class Task:
    name: str
    scene: str
    key: str
    cost: list
    horizon: int
    knots: int
    budget: int  # of a plan, in rollouts of two cores: run.py, spent()
    quick: int  # the same of a short run
    speed: float  # standard deviation of the start's velocities [m/s or rad/s]
    rate: float
    sigma: float
    push: tuple = ()  # velocity of the first joint at the start [m/s], 3 numbers
    ctrl: list = field(default_factory=list)  # where the search starts; empty: 0

    def simulator(self) -> diffmj.Simulator:
        return diffmj.Simulator(SCENES / self.scene)

    def start(self, sim: diffmj.Simulator, seed: int) -> dict:
        x = sim.keyframe_state(self.key)
        rng = np.random.default_rng(seed)
        qvel = np.array(x.qvel) + self.speed * rng.standard_normal(sim.nv)
        if self.push:
            qvel[:3] += self.push
        ctrl = np.array(self.ctrl) if self.ctrl else np.zeros(sim.nu)
        return {"qpos": x.qpos, "qvel": qvel, "ctrl": ctrl}


PUSHER = Task(
    name="a pusher and a wall",
    scene="pusher.xml",
    key="start",
    cost=[
        diffmj.SiteDistance("puck", "goal", weight=1.0, terminal=3.0),
        diffmj.JointVelocity(weight=1e-3),
    ],
    horizon=200,
    knots=10,
    budget=1000,
    quick=150,
    speed=0.01,
    rate=0.05,
    sigma=0.4,
    ctrl=[-0.25, 0.0],
)
ARM = Task(
    name="an arm that reaches",
    scene="arm.xml",
    key="home",
    cost=[
        diffmj.SiteDistance("tool", (0.3, 0.45, 0.5), weight=1.0, terminal=1.0),
        diffmj.JointVelocity(weight=1e-3),
        diffmj.ControlRate(weight=1e-4),
    ],
    horizon=300,
    knots=10,
    budget=400,
    quick=80,
    speed=0.2,
    rate=0.05,
    sigma=0.2,
    ctrl=[0, 0.6, 0, 1.2, 0, 0.6, 0],
)
ONE_LEG = Task(
    name="a humanoid on one leg",
    scene="one_leg.xml",
    key="one_leg",
    cost=[
        diffmj.Distance(
            "com:pelvis", "body:foot_r", axes=(1, 1, 0), to_pos=(0.045, 0, 0), weight=20
        ),
        diffmj.Distance("body:torso", (0, 0, 1.046), axes=(0, 0, 1), weight=10),
        diffmj.Distance("body:foot_l", (0, 0, 0.22), axes=(0, 0, 1), weight=5),
        diffmj.Orientation("body:torso", (1, 0, 0, 0), weight=1),
        diffmj.JointVelocity(weight=1e-3),
        diffmj.ControlEffort(weight=1e-2),
    ],
    horizon=120,
    knots=12,
    budget=600,
    quick=80,
    speed=0.02,
    rate=0.05,
    sigma=0.2,
    push=(0.2, 0.2, 0.0),
)
TASKS = [PUSHER, ARM, ONE_LEG]
