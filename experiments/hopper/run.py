"""A hopper learns to run: by gradients through the simulator (SHAC) and without them (PPO), at
equal processor time.

    PYTHONPATH=build/python:. .venv-torch/bin/python -m experiments.hopper.run

Writes curves.json and curves.png to out/experiments/hopper. Both learners have the same hoppers,
networks and starts; each has settings of its own. Time is that of the processor, without the
evaluations between.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from . import ppo, shac, task

LEARNERS = {"SHAC": shac.train, "PPO": ppo.train}


def learn(name: str, seed: int, seconds: float, nevaluate: int) -> list[dict]:
    """The learning curve, one row per evaluation."""
    rows, used, following = [], 0.0, 0.0
    learner = LEARNERS[name](seed=seed)
    while used < seconds:
        begin = time.process_time()
        policy, decisions = next(learner)
        used += time.process_time() - begin
        if used < following:
            continue
        following += seconds / nevaluate
        value, distance = task.evaluate(policy)
        row = {"seconds": used, "decisions": decisions, "return": value, "distance": distance}
        rows.append({key: round(x, 3) for key, x in row.items()})
        print(f"  {name} {seed}: {used:5.0f} s, return {value:6.1f}, {distance:5.2f} m", flush=True)
    return rows


def draw(curves: dict[str, list[list[dict]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    colors = {"SHAC": "tab:blue", "PPO": "tab:orange"}
    for axis, key, label in zip(
        axes,
        ("return", "distance"),
        ("return of an episode of 4 s", "distance in it [m]"),
        strict=True,
    ):
        for name, runs in curves.items():
            for k, rows in enumerate(runs):
                x, y = [row["seconds"] for row in rows], [row[key] for row in rows]
                axis.plot(x, y, color=colors[name], label=name if k == 0 else None)
        axis.set_xlabel("processor time of learning [s]")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120, help="of the processor, per learner")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--evaluations", type=int, default=12)
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--out", type=Path, default=Path("out/experiments/hopper"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # the networks are small; hoppers have threads of their own
    options.out.mkdir(parents=True, exist_ok=True)
    curves = {
        name: [
            learn(name, seed, options.seconds, options.evaluations) for seed in range(options.seeds)
        ]
        for name in options.learners
    }
    (options.out / "curves.json").write_text(json.dumps(curves, indent=1) + "\n")
    draw(curves, options.out / "curves.png")


if __name__ == "__main__":
    main()
