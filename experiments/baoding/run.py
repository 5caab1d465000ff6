"""MyoChallenge's baoding balls, planned: the score by MyoSuite's rule.

Phase 1 has one instance; runs differ in the planner's seed. Phase 2 draws instances at random, and
each is planned twice: with its own balls in the planning model, and with nominal ones. Controls are
held for 25 ms, as an action of MyoSuite is. `--quick` makes the first second of one run.
"""

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import diffmj
import matplotlib.pyplot as plt
import numpy as np

from experiments import common
from experiments.baoding import scene

TASK = tomllib.loads(Path(__file__).with_name("task.toml").read_text())


@dataclass
class Run:
    score: float  # share of the episode's control steps
    distances: np.ndarray  # (steps, 2) [m]
    seconds: float  # of planning


def play(instance, seed: int, steps: int, nominal: bool = False, nthread: int = 0) -> Run:
    """An episode of so many control steps, or until a ball falls.

    Args:
        nominal: plan with the balls of phase 1.
    """
    real = scene.model(instance)
    carrier, height = scene.palm(real)
    time, points = scene.targets(instance, height)
    weight = TASK["cost"][0]["weight"]
    cost = [
        diffmj.Distance(
            f"body:{ball}", f"body:{carrier}", to_pos=diffmj.Reference(time, path), weight=weight
        )
        for ball, path in zip(scene.BALLS, points, strict=True)
    ]
    sim = diffmj.Simulator(scene.model(scene.Instance()) if nominal else real)
    planner = diffmj.Planner(sim, cost, **TASK["planner"], seed=seed, nthread=nthread)
    execute = TASK["execution"]["execute"]
    key = sim.keyframe_state(TASK["start"]["key"])
    heights = [real.jnt_qposadr[real.body(ball).jntadr[0]] + 2 for ball in scene.BALLS]
    run = diffmj.run_mpc(
        planner,
        key.qpos,
        key.qvel,
        ctrl=np.full(sim.nu, scene.CONTROLS[0]),
        nstep=steps * execute,
        execute=execute,
        sim=diffmj.Simulator(real),
        done=lambda run: bool(min(run.qpos[-1][heights]) < scene.LOW),
    )
    score, distances = scene.score(real, instance, run.qpos[execute::execute])
    return Run(score, distances, run.seconds)


def draw(found: dict[str, list[Run]]):
    figure, axes = plt.subplots(1, len(found), figsize=(5 * len(found), 4), squeeze=False)
    for axis, (name, runs) in zip(axes[0], found.items(), strict=True):
        for run in runs:
            time = scene.DT * (1 + np.arange(len(run.distances)))
            axis.semilogy(time, 1000 * run.distances.max(axis=1), color=common.BLUE, lw=0.8)
        axis.axhline(1000 * scene.NEAR, color=common.GREY, lw=0.8)
        axis.set(title=name, xlabel="time [s]", ylabel="farther ball from its target [mm]")
    return figure


def main(argv=None):
    options = common.arguments(__doc__, argv)
    if not scene.available():
        sys.exit("baoding: needs MyoSuite; pip install myosuite")
    expected, checks = common.expected(__file__), common.Checks()
    bounds = expected["quick" if options.quick else "full"]
    found: dict[str, list[Run]] = {}

    def add(name: str, instance, seed: int, nominal: bool = False) -> None:
        run = play(instance, seed, bounds["steps"], nominal, options.nthread)
        found.setdefault(name, []).append(run)
        print(
            f"{name}, {seed}: score {run.score:.3f}, {len(run.distances)} steps, "
            f"{run.seconds:.0f} s of planning",
            flush=True,
        )

    for seed in range(bounds["runs"]):
        add("phase 1", scene.Instance(), seed)
        if not options.quick:
            add("phase 2", scene.draw(seed), seed)
            add("phase 2, nominal balls", scene.draw(seed), seed, nominal=True)
    numbers = {
        name: {"score": float(np.mean([x.score for x in runs])), "runs": len(runs)}
        for name, runs in found.items()
    }
    checks.above("phase 1: score", numbers["phase 1"]["score"], bounds["score"])
    common.write(options.out / "baoding", numbers, checks, {}, baoding=draw(found))
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
