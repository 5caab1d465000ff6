"""A program as a user writes it, for `make types`: mypy --strict must accept it."""

from pathlib import Path

import diffmj
import numpy as np
import numpy.typing as npt


def final_height(sim: diffmj.Simulator, ctrl: npt.NDArray[np.float64]) -> float:
    return float(sim.rollout(ctrl=ctrl).qpos[-1, 2])


def gradient(sim: diffmj.Simulator, ctrl: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    trajectory: diffmj.Trajectory = sim.rollout(ctrl=ctrl)
    bar = np.zeros(sim.nq)
    bar[2] = 1
    found: diffmj.Gradient = trajectory.backward(final={"qpos": bar}, params=["body_mass"])
    mass: npt.NDArray[np.float64] = found.params["body_mass"]
    assert mass.shape == (sim.nbody,)
    return found.ctrl


def certificate(path: Path) -> str:
    sim = diffmj.Simulator(path, integrator=diffmj.Tsit5(rtol=1e-8), cfd=diffmj.Cfd(width=0.1))
    report = sim.check(nstep=5)
    return f"{report.verdict}: {report.nearest_kink.what}"


def plan(sim: diffmj.Simulator) -> npt.NDArray[np.float64]:
    cost = diffmj.Cost([diffmj.SiteDistance("hand", "goal"), diffmj.ControlEffort(weight=1e-3)])
    return diffmj.Planner(sim, cost, method="ilqr", horizon=50).plan().ctrl


def fit(path: Path, recordings: list[diffmj.Recording]) -> dict[str, float]:
    return diffmj.identify(path, {"elbow/damping": 0.1}, recordings, segment=10).values
