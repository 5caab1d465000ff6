"""An arm that reaches, a hundred plans a second."""

import diffmj
import numpy as np

from experiments import common

SCENE = common.SCENARIOS / "planning" / "arm.xml"
LATENCY = 0.01  # [s] that a plan takes
STEPS = 5  # of 2 ms from plan to plan
SECONDS = 1.0


def goal(seed: int) -> np.ndarray:
    """A place within reach, on any side."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(-2, 2), rng.uniform(0.35, 0.65)
    return np.array([radius * np.cos(angle), radius * np.sin(angle), rng.uniform(0.2, 0.8)])


def reach(seed: int, nthread: int = 0) -> tuple[diffmj.MpcRun, np.ndarray]:
    """A run, and the distance of the tool from its goal at every state [m]."""
    sim = diffmj.Simulator(SCENE)
    place = goal(seed)
    cost = [
        diffmj.SiteDistance("tool", place, weight=10.0),
        diffmj.JointVelocity(weight=1e-3),
        diffmj.ControlRate(weight=1e-5),
    ]
    planner = diffmj.Planner(
        sim, cost, horizon=40, timestep=0.01, iterations=8, rate=0.01, nthread=nthread
    )
    home = sim.keyframe_state("home")
    run = diffmj.run_mpc(
        planner,
        home.qpos,
        home.qvel,
        ctrl=home.qpos,
        nstep=round(SECONDS / sim.timestep),
        execute=STEPS,
        realtime=True,
        plan_seconds=LATENCY,
    )
    tool = sim.rollout(run.qpos, np.zeros_like(run.qvel), nstep=0).site_xpos[:, 0, 0]
    return run, np.linalg.norm(tool - place, axis=1)
