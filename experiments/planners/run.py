"""Four planners on three tasks: cost over what was spent on the plan.

A cup must push a puck around a wall; an arm must reach; a humanoid that was pushed must keep
standing on one leg. Every planner makes one plan from the same twenty starts, on two cores:
gradients from two starts at once. The time it takes is counted in rollouts, so that the numbers do
not depend on the machine: two at once count as one, and with their gradients as 2.3. iLQR begins
with the best of as many samples as a round of the others has; an iteration of it counts 5 beside
its rollouts.
"""

import sys
import warnings

import diffmj
import matplotlib.pyplot as plt
import numpy as np

from experiments import common
from experiments.planners.tasks import TASKS, Task

METHODS = ("gradient", "sampling", "hybrid", "ilqr")
COLOURS = {
    "gradient": common.BLUE,
    "sampling": common.ORANGE,
    "hybrid": common.GREEN,
    "ilqr": common.PURPLE,
}
CORES = 2
GRADIENT = 2.3  # rollouts that one with its gradient is worth
# rollouts that linearizing (two cores) and the backward pass (one) of iLQR are worth
LINEARIZED = 5
SAMPLES = 24  # in a round
ITERATIONS = 8  # of hybrid, in the first round


def spent(history, method: str) -> np.ndarray:
    """Rollouts, as many at once as there are cores, until the end of every iteration."""
    rollouts = np.ceil([x.rollouts / CORES for x in history])
    gradients = [not x.sampled and not x.linearized and method != "ilqr" for x in history]
    linearized = [x.linearized for x in history]
    return np.cumsum(
        rollouts * np.where(gradients, GRADIENT, 1) + LINEARIZED * np.array(linearized)
    )


def plan(task: Task, method: str, seed: int, budget: int, nthread: int) -> diffmj.Plan:
    sim = task.simulator()
    effort = {
        "gradient": {"iterations": int(budget / GRADIENT), "starts": CORES},
        "sampling": {"samples": SAMPLES, "iterations": CORES * budget // SAMPLES + 1},
        # no round is smaller than the first: as many as fit, if all are like it
        "hybrid": {
            "samples": SAMPLES,
            "iterations": ITERATIONS,
            "refined": 1,
            "rounds": budget // 32 + 1,
        },
        # it ends by itself
        "ilqr": {"starts": SAMPLES, "iterations": budget // LINEARIZED},
    }[method]
    planner = diffmj.Planner(
        sim,
        task.cost,
        method,
        horizon=task.horizon,
        knots=task.knots,
        rate=task.rate,
        sigma=task.sigma,
        seed=seed,
        nthread=nthread,
        **effort,
    )
    with warnings.catch_warnings():
        # samples that diverge are left out, which is not news here
        warnings.simplefilter("ignore", RuntimeWarning)
        return planner.plan(**task.start(sim, seed))


def curve(history, method: str, first: float, grid: np.ndarray) -> np.ndarray:
    """The smallest cost until every number of rollouts in the grid; first: before any."""
    at = np.searchsorted(spent(history, method), grid, side="right")
    return np.array([first, *(x.cost for x in history)])[at]


def measure(task: Task, seeds: int, budget: int, nthread: int) -> dict:
    """Of every method costs (seeds, grid), and the seconds of all its plans at the grid."""
    grid = np.unique(np.round(np.geomspace(2, budget, 80)).astype(int))
    out = {"grid": grid, "cost": {}, "seconds": {}}
    sim = task.simulator()
    for method in METHODS:
        rows, rate = [], []
        for seed in range(seeds):
            still = diffmj.Planner(sim, task.cost, horizon=task.horizon, iterations=0)
            first = still.plan(**task.start(sim, seed)).cost
            found = plan(task, method, seed, budget, nthread)
            rows.append(curve(found.history, method, first, grid))
            rate.append(found.history[-1].seconds / spent(found.history, method)[-1])
        out["cost"][method] = np.array(rows)
        out["seconds"][method] = np.median(rate) * grid
    return out


def draw(results: dict):
    figure, axes = plt.subplots(2, len(results), figsize=(4.6 * len(results), 7), sharey="col")
    for column, (name, x) in zip(axes.T, results.items(), strict=True):
        for method in METHODS:
            costs = x["cost"][method]
            for axis, over in zip(column, (x["grid"], x["seconds"][method]), strict=True):
                axis.plot(over, np.median(costs, 0), color=COLOURS[method], lw=2, label=method)
                axis.fill_between(
                    over, costs.min(0), costs.max(0), color=COLOURS[method], alpha=0.2, lw=0
                )
                axis.set(xscale="log", yscale="log")
                axis.xaxis.set_minor_formatter("")
        column[0].set(title=name, xlabel="time in rollouts, two at once")
        column[1].set(xlabel="computing time [s]")
    for axis in axes[:, 0]:
        axis.set_ylabel("cost of the plan")
    axes[0, 0].legend()
    return figure


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    bounds = expected["quick" if options.quick else "full"]
    results, numbers, rows = {}, {}, []
    for task in TASKS:
        budget = task.quick if options.quick else task.budget
        x = results[task.name] = measure(task, bounds["seeds"], budget, options.nthread)
        final = {method: float(np.median(x["cost"][method][:, -1])) for method in METHODS}
        better = min(final["gradient"], final["sampling"])
        scene, ratio = task.scene.removesuffix(".xml"), final["hybrid"] / better
        by_ilqr = final["ilqr"] / better
        numbers[scene] = final | {"ratio": ratio, "ilqr_ratio": by_ilqr}
        print(f"{task.name}: " + ", ".join(f"{k} {v:.4g}" for k, v in final.items()))
        checks.below(f"{task.name}: hybrid over the better", ratio, bounds["ratio"][scene])
        if scene in bounds["ilqr"]:
            checks.below(f"{task.name}: iLQR over the better", by_ilqr, bounds["ilqr"][scene])
        for method in METHODS:
            for seed, costs in enumerate(x["cost"][method]):
                pairs = zip(x["grid"], costs, strict=True)
                rows += [(task.name, method, seed, *pair) for pair in pairs]
    # each of the two is far behind on one task: otherwise nothing is shown
    for scene, method in (("pusher", "gradient"), ("arm", "sampling"), ("one_leg", "sampling")):
        behind = numbers[scene][method] / numbers[scene]["hybrid"]
        checks.above(f"{scene}: {method} over hybrid", behind, bounds["behind"])
    head = ("task", "planner", "seed", "rollouts", "cost")
    common.write(
        options.out / "planners",
        numbers,
        checks,
        {"costs": dict(zip(head, zip(*rows, strict=True), strict=True))},
        planners=draw(results),
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
