"""Planners on a task of manipulation: runs, their record, table, figure and film.

A run of all methods from all starts takes hours. `python -m experiments.ball_swap.run --record` adds
those that are missing to recorded.json beside it, one after the other, and can be interrupted. The
page shows that record, marked as such, and a short run of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from experiments import common
from experiments.manipulation import METHODS, Method, Motion, Run, Task, available

BEST, SAMPLING = "best", "sampling"  # motions that are kept


@dataclass
class Record:
    """What recorded.json has: runs of the task as it was, and two motions to be shown."""

    task: dict  # task.toml
    command: str
    machine: str
    runs: list[Run] = field(default_factory=list)
    motions: dict[str, Motion] = field(default_factory=dict)

    @staticmethod
    def load(folder: Path) -> Record:
        x = json.loads((folder / "recorded.json").read_text())
        runs = [Run(**run) for run in x.pop("runs")]
        motions = {name: Motion(**motion) for name, motion in x.pop("motions").items()}
        return Record(**x, runs=runs, motions=motions)

    def save(self, folder: Path) -> None:
        """One line per run, and per state of a motion."""
        self.runs.sort(key=lambda x: (x.variant, [m.name for m in METHODS].index(x.method), x.seed))
        rows = ",\n".join(json.dumps(asdict(run)) for run in self.runs)
        motions = ",\n".join(f'"{k}": {_motion(x)}' for k, x in sorted(self.motions.items()))
        head = {"task": self.task, "command": self.command, "machine": self.machine}
        text = json.dumps(head)[:-1] + f',\n"runs": [\n{rows}\n],\n"motions": {{\n{motions}\n}}}}\n'
        (folder / "recorded.json").write_text(text)

    def run(self, variant: str, method: str, seed: int) -> Run | None:
        key = variant, method, seed
        return next((x for x in self.runs if (x.variant, x.method, x.seed) == key), None)

    def add(self, run: Run, motion: Motion) -> None:
        """The motions: of the run that solves the task soonest, and of the most samples."""
        self.runs.append(run)
        name = SAMPLING if run.method.startswith("sampling") else BEST
        kept = self.motions.get(name)
        if kept is None or _rank(run) < _rank(self.run(kept.variant, kept.method, kept.seed)):
            self.motions[name] = motion


def _rank(run: Run) -> tuple:
    order = [x.name for x in METHODS].index(run.method)
    if run.method.startswith("sampling"):
        return (-order, run.seed)
    return (np.inf if run.solved is None else run.solved, run.errors[-1])


def _motion(x: Motion) -> str:
    rows = ",\n".join(json.dumps(row) for row in x.qpos)
    head = {key: value for key, value in asdict(x).items() if key != "qpos"}
    return json.dumps(head)[:-1] + f', "qpos": [\n{rows}\n]}}'


def compare(
    tasks: Iterable[Task], methods: Iterable[Method], seeds: Iterable[int], seconds: float, nthread
):
    """Yields runs and their motions, and prints a line for each."""
    for task in tasks:
        for method in methods:
            for seed in seeds:
                x, motion = task.run(method, seed, seconds, nthread)
                end = "not solved" if x.solved is None else f"solved after {x.solved:.2f} s"
                print(
                    f"{task.variant}, {method.name}, seed {seed}: {end} of motion, "
                    f"{x.spent[-1]:.1f} s of planning, error {x.errors[-1]:.2f}",
                    flush=True,
                )
                yield x, motion


def record(folder: Path, tasks: list[Task], methods, seeds, seconds: float, options) -> None:
    """Adds the runs that recorded.json does not have. ValueError: it is of another task file."""
    if (folder / "recorded.json").exists():
        kept = Record.load(folder)
        if kept.task != tasks[0].file:
            raise ValueError(f"{folder / 'recorded.json'} is of another task.toml: delete it first")
    else:
        command = f"python -m experiments.{folder.name}.run --record"
        kept = Record(tasks[0].file, command, options.machine)
    for task in tasks:
        for method in methods:
            missing = [i for i in seeds if kept.run(task.variant, method.name, i) is None]
            for x in compare([task], [method], missing, seconds, options.nthread):
                kept.add(*x)
                kept.save(folder)


def table(runs: list[Run]) -> dict:
    """By variant and method: runs, solved ones, medians of motion and planning until then."""
    out: dict = {}
    for x in runs:
        out.setdefault(x.variant, {}).setdefault(x.method, []).append(x)
    for rows in out.values():
        for method, own in rows.items():
            solved = [x for x in own if x.solved is not None]
            found = {
                "runs": len(own),
                "solved": len(solved),
                "error": float(np.median([x.errors[-1] for x in own])),
                "motion": float(np.median([x.solved for x in solved])) if solved else None,
                "planning": float(np.median([x.spent[-1] for x in solved])) if solved else None,
                "processor": float(np.median([x.processor[-1] for x in solved]))
                if solved
                else None,
            }
            rows[method] = found
    return out


def _on_grid(x, y, grid: np.ndarray) -> np.ndarray:
    """The last value until each point; a run that has ended keeps it."""
    return np.asarray(y)[np.maximum(np.searchsorted(x, grid, side="right") - 1, 0)]


def draw(runs: list[Run], title: str):
    """Median and range of the errors over the motion, and over the time of planning."""
    variants = list(dict.fromkeys(x.variant for x in runs))
    figure, axes = plt.subplots(
        len(variants), 2, figsize=(12, 3.8 * len(variants)), sharey=True, squeeze=False
    )
    for (left, right), variant in zip(axes, variants, strict=True):
        for method in METHODS:
            own = [x for x in runs if x.method == method.name and x.variant == variant]
            if not own:
                continue
            spans = [(left, [x.time for x in own], 0.0), (right, [x.spent for x in own], 0.1)]
            for axis, over, first in spans:
                last = max(t[-1] for t in over)
                grid = np.geomspace(first, last, 300) if first else np.linspace(0, last, 300)
                y = np.array([_on_grid(t, x.errors, grid) for t, x in zip(over, own, strict=True)])
                axis.plot(grid, np.median(y, axis=0), color=method.colour, label=method.name)
                axis.fill_between(grid, y.min(0), y.max(0), color=method.colour, alpha=0.15, lw=0)
        for axis in (left, right):
            axis.axhline(1, color=common.GREY, lw=0.8)
            axis.set_yscale("log")
        name = title if len(variants) == 1 else f"{title}: {variant}"
        left.set(xlabel="time of the motion [s]", ylabel="error, solved below 1", title=name)
        right.set(xlabel="time of planning, two cores [s]", xscale="log")
    axes[0, 0].legend(fontsize=8)
    return figure


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true", help="add missing runs to recorded.json")
    parser.add_argument("--methods", nargs="+", help="of the record, some alone")
    parser.add_argument("--variants", nargs="+", help="of the record, some alone")
    parser.add_argument("--seeds", type=int, help="of the record, the first ones alone")
    parser.add_argument("--machine", default="", help="to be noted in a new record")


def main(file: str, doc: str, argv, title: str) -> int:
    """Of the experiment in the folder of a file."""
    options = common.arguments(doc, argv, _options)
    name = Path(file).parent.name
    if not available():
        sys.exit(f"{name}: needs MyoSuite; pip install myosuite")
    expected, checks = common.expected(file), common.Checks()
    full, bounds = expected["full"], expected["quick" if options.quick else "full"]
    methods = [x for x in METHODS if x.name in (options.methods or bounds["methods"])]
    tasks = [Task(name, variant) for variant in options.variants or full["variants"]]
    if options.record:
        seeds = range(options.seeds or full["seeds"])
        record(Path(file).parent, tasks, methods, seeds, full["seconds"], options)
        return 0
    runs = [x for x, _ in compare(tasks, methods, range(bounds["seeds"]), bounds["seconds"], options.nthread)]
    found = table(runs)
    for x in runs if options.quick else ():
        what = f"{x.variant}, {x.method}: cost of the last plan over that of the first"
        checks.below(what, x.costs[-1] / x.costs[0], 1)
    for variant, solved in ({} if options.quick else expected["solved"]).items():
        for method, least in solved.items():
            what = f"{variant}, {method}: solved"
            checks.above(what, found[variant][method]["solved"], least - 0.5)
    folder = options.out / name
    common.write(folder, {"table": found}, checks, {}, **{name: draw(runs, title)})
    (folder / "runs.json").write_text(json.dumps([asdict(x) for x in runs]) + "\n")
    return checks.report()
