"""iLQR on a humanoid of 27 degrees of freedom that was pushed, half a second ahead.

    python bench/ilqr_humanoid.py [--nthread 2] [--seconds 1]

It stands on one leg and replans after every 20 ms with one iteration. Printed are the seconds of a
plan, the rate as a fraction of real time (20 ms over that: 1 is as fast as the world), what an
iteration costs in rollouts of the same length, and whether it still stands.
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


def measure(timestep: float, nthread: int, seconds: float) -> None:
    sim = diffmj.Simulator(SCENE)
    x = sim.keyframe_state("one_leg")
    start = {"qpos": x.qpos, "qvel": np.concatenate([PUSH, np.zeros(sim.nv - 3)])}
    horizon = round(AHEAD / timestep)
    options = {"horizon": horizon, "timestep": timestep, "nthread": nthread}
    # seconds of this process, on one thread: others on the machine do not count
    one = diffmj.Planner(sim, COST, "ilqr", iterations=4, **(options | {"nthread": 1}))
    begin = time.process_time()
    found = one.plan(**start)
    iteration = (time.process_time() - begin) / (len(found.history) - 1)
    rollout = rollout_seconds(one.simulator, start, horizon, time.process_time)
    planner = diffmj.Planner(sim, COST, "ilqr", iterations=1, **options)
    run = diffmj.run_mpc(
        planner, **start, nstep=round(seconds / sim.timestep), execute=round(REPLAN / sim.timestep)
    )
    times = np.array([plan.seconds for plan in run.plans[1:]])
    torso = np.array(run.qpos)[:, 2].min()
    print(
        f"{horizon} steps of {1e3 * timestep:g} ms: an iteration is {iteration / rollout:.1f} "
        f"rollouts ({1e3 * iteration:.1f} ms on one core); in the loop "
        f"on {nthread} threads a plan takes {1e3 * np.median(times):.1f} ms "
        f"(fastest {1e3 * times.min():.1f}): "
        f"{REPLAN / np.median(times):.2f} of real time (fastest {REPLAN / times.min():.2f}); "
        f"lowest pelvis {torso:.2f} m of {x.qpos[2]:.2f}, "
        f"cost of the last plan {run.plans[-1].cost:.3g}"
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
