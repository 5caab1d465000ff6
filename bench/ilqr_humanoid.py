"""iLQR on a humanoid of 27 degrees of freedom that was pushed, half a second ahead.

    python bench/ilqr_humanoid.py [--nthread 2] [--seconds 1]

It stands on one leg and replans after every 20 ms with one iteration. Printed are what an iteration
costs in rollouts of the same length, the seconds of a plan in processor time of one thread and on
the clock, both as fractions of real time (20 ms over that: 1 is as fast as the world), and whether
it still stands.
"""

import argparse
import time
from pathlib import Path

import diffmj
import numpy as np

SCENE = Path(__file__).parent.parent / "scenarios/planning/one_leg.xml"
AHEAD, REPLAN = 0.5, 0.02  # [s]
PUSH = (0.2, 0.2, 0.0)  # [m/s]
COST = [
    diffmj.Distance("com:pelvis", "body:foot_r", axes=(1, 1, 0), to_pos=(0.045, 0, 0), weight=20),
    diffmj.Distance("body:torso", (0, 0, 1.046), axes=(0, 0, 1), weight=10),
    diffmj.Distance("body:foot_l", (0, 0, 0.22), axes=(0, 0, 1), weight=5),
    diffmj.Orientation("body:torso", (1, 0, 0, 0), weight=1),
    diffmj.JointVelocity(weight=1e-3),
    diffmj.ControlEffort(weight=1e-2),
]


def rollout_seconds(sim: diffmj.Simulator, start: dict, horizon: int, clock) -> float:
    """Median time of a rollout of the plan's length."""
    ctrl, times = np.zeros((horizon, sim.nu)), []
    for _ in range(11):
        begin = clock()
        sim.rollout(**start, ctrl=ctrl)
        times.append(clock() - begin)
    return float(np.median(times))


def loop(sim: diffmj.Simulator, start: dict, seconds: float, **options) -> diffmj.MpcRun:
    planner = diffmj.Planner(sim, COST, "ilqr", iterations=1, **options)
    steps = {"nstep": round(seconds / sim.timestep), "execute": round(REPLAN / sim.timestep)}
    return diffmj.run_mpc(planner, **start, **steps)


def measure(timestep: float, nthread: int, seconds: float) -> None:
    sim = diffmj.Simulator(SCENE)
    x = sim.keyframe_state("one_leg")
    start = {"qpos": x.qpos, "qvel": np.concatenate([PUSH, np.zeros(sim.nv - 3)])}
    horizon = round(AHEAD / timestep)
    options = {"horizon": horizon, "timestep": timestep}
    # seconds of this process, on one thread: others on the machine do not count
    planner = diffmj.Planner(sim, COST, "ilqr", iterations=4, nthread=1, **options)
    rollout = rollout_seconds(planner.simulator, start, horizon, time.process_time)
    begin = time.process_time()
    found = planner.plan(**start)
    iteration = (time.process_time() - begin - rollout) / (len(found.history) - 1)
    begin = time.process_time()
    run = loop(sim, start, seconds, nthread=1, **options)
    one = (time.process_time() - begin) / len(run.plans)
    # on the clock
    run = loop(sim, start, seconds, nthread=nthread, **options)
    clock = float(np.median([plan.seconds for plan in run.plans]))
    print(
        f"{horizon} steps of {1e3 * timestep:g} ms: an iteration is {iteration / rollout:.1f} "
        f"rollouts; a plan in the loop takes {1e3 * one:.1f} ms of one core, "
        f"{REPLAN / one:.2f} of real time, and on the clock with {nthread} threads "
        f"{1e3 * clock:.1f} ms, {REPLAN / clock:.2f} of real time; "
        f"lowest pelvis {np.array(run.qpos)[:, 2].min():.2f} m of {x.qpos[2]:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nthread", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    for timestep in (0.005, 0.01):
        measure(timestep, options.nthread, options.seconds)


if __name__ == "__main__":
    main()
