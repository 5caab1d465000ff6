"""Planners on a task: runs, their record, table, figure and film.

Runs of all methods from all starts take hours. `python -m experiments.ball_swap.run --record` adds
the missing ones to recorded.json in its folder, one after the other, and can be interrupted. The
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

from experiments import common, film
from experiments.manipulation import METHODS, TIMESTEP, Method, Motion, Run, Task, missing

BEST, SAMPLING = "best", "sampling"  # motions that are kept
RECORDED = ("start", "cost", "execution")  # of task.toml


@dataclass
class Record:
    """What recorded.json has: runs of the task as it was, and two motions to be shown."""

    task: dict  # start, cost and execution of task.toml
    command: str
    machine: str
    planners: dict[str, dict] = field(default_factory=dict)  # by method: Task.settings()
    scenes: dict[str, dict] = field(default_factory=dict)  # by variant: Task.numbers()
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
        parts = [json.dumps(head)[1:-1]]
        for name, x in (("planners", self.planners), ("scenes", self.scenes)):
            lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(x[key])}" for key in sorted(x))
            parts.append(f'"{name}": {{\n{lines}\n}}')
        parts += [f'"runs": [\n{rows}\n]', f'"motions": {{\n{motions}\n}}']
        text = "{" + ",\n".join(parts) + "}\n"
        (folder / "recorded.json").write_text(text)

    def run(self, variant: str, method: str, seed: int) -> Run | None:
        key = variant, method, seed
        return next((x for x in self.runs if (x.variant, x.method, x.seed) == key), None)

    def changed(self, task: Task, methods: Iterable[Method]) -> list[str]:
        """What is no longer as it was when this was recorded, in words."""
        out = [f"{key} of task.toml" for key in self.task if self.task[key] != task.file[key]]
        for method in methods:
            if self.planners.get(method.name, (x := task.settings(method))) != x:
                out.append(f"the options of {method.name}")
        now = task.numbers()
        was = self.scenes.get(task.variant, now)
        fields = [x for x in now if not np.isclose(was.get(x, np.nan), now[x], rtol=1e-6)]
        out += [f"{x} of the scene '{task.variant}'" for x in fields]
        return out

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
                end = "not solved in" if x.solved is None else "solved after"
                print(
                    f"{task.variant}, {method.name}, seed {seed}: {end} {x.time[-1]:.2f} s of "
                    f"motion, {x.spent[-1]:.1f} s of planning, error {x.errors[-1]:.2f}",
                    flush=True,
                )
                yield x, motion


def record(folder: Path, tasks: list[Task], methods, seeds, seconds: float, options) -> None:
    """Adds the runs that recorded.json does not have. ValueError: it is of another task."""
    if (folder / "recorded.json").exists():
        kept = Record.load(folder)
    else:
        command = f"python -m experiments.{folder.name}.run --record"
        kept = Record({x: tasks[0].file[x] for x in RECORDED}, command, options.machine)
    for task in tasks:
        if changed := kept.changed(task, methods):
            raise ValueError(
                f"{folder / 'recorded.json'} is of another task: {', '.join(changed)} changed; "
                "delete the file, or the runs that this concerns"
            )
    for task in tasks:
        kept.scenes.setdefault(task.variant, task.numbers())
        for method in methods:
            kept.planners.setdefault(method.name, task.settings(method))
            missing = [i for i in seeds if kept.run(task.variant, method.name, i) is None]
            for x in compare([task], [method], missing, seconds, options.nthread):
                kept.add(*x)
                kept.save(folder)


def table(runs: Iterable[Run], variants: Iterable[str], methods: Iterable[Method]) -> dict:
    """By variant and method: runs, solved ones, medians of these, and all that in words."""
    return {
        variant: {
            method.name: _summary(
                [x for x in runs if (x.variant, x.method) == (variant, method.name)]
            )
            for method in methods
        }
        for variant in variants
    }


def _summary(runs: list[Run]) -> dict:
    solved = [x for x in runs if x.solved is not None]
    out = {"runs": len(runs), "solved": len(solved), "words": "not run"}
    if runs:
        out["error"] = float(np.median([x.errors[-1] for x in runs]))
        out["words"] = f"{len(solved)} of {len(runs)}"
    if solved:
        out["motion"] = float(np.median([x.solved for x in solved]))
        out["processor"] = float(np.median([x.processor[-1] for x in solved]))
        steps = round(out["motion"] / TIMESTEP)
        out["words"] += f"; {steps} steps, {out['processor']:.0f} s of processor time"
    return out


def draw(recorded: list[Run], live: list[Run], order: list[str], title: str):
    """Median and range of recorded errors over the motion, and over the time of planning; runs of
    now are dashed.

    Args:
        order: of the variants, those without runs included.
    """
    variants = [x for x in order if any(x == run.variant for run in [*recorded, *live])]
    figure, axes = plt.subplots(
        len(variants), 2, figsize=(12, 3.8 * len(variants)), sharey=True, squeeze=False
    )
    for (left, right), variant in zip(axes, variants, strict=True):
        for method in METHODS:
            key = variant, method.name
            own = [x for x in recorded if (x.variant, x.method) == key]
            if own:
                label = f"{method.name} ({len(own)})"
                over = [x.time for x in own]
                grid = np.linspace(0, max(x[-1] for x in over), 300)
                y = [np.interp(grid, t, x.errors) for t, x in zip(over, own, strict=True)]
                _range(left, grid, y, color=method.colour, label=label)
                over = [x.processor for x in own]
                grid = np.geomspace(1, max(x[-1] for x in over), 300)
                y = [_so_far(grid, t, x.errors) for t, x in zip(over, own, strict=True)]
                _range(right, grid, y, color=method.colour, label=label)
            for x in (x for x in live if (x.variant, x.method) == key):
                look = {"color": method.colour, "lw": 2, "ls": "--"}
                left.plot(x.time, x.errors, **look)
                right.plot(x.processor, x.errors, drawstyle="steps-post", **look)
        for axis in (left, right):
            axis.axhline(1, color=common.GREY, lw=0.8)
            axis.set_yscale("log")
        name = title if len(variants) == 1 else f"{title}: {variant}"
        left.set(xlabel="time of the motion [s]", ylabel="error, solved below 1", title=name)
        left.set_xlim(left=0)
        right.set(xlabel="processor time of planning [s]", xscale="log")
        right.set_xlim(left=1)
        left.legend(fontsize=8)
    return figure


def _so_far(grid: np.ndarray, x, y) -> np.ndarray:
    """The last value until each point."""
    return np.asarray(y)[np.maximum(np.searchsorted(x, grid, side="right") - 1, 0)]


def _range(axis, grid: np.ndarray, y: list[np.ndarray], color: str, label: str) -> None:
    axis.plot(grid, np.median(y, axis=0), color=color, label=label)
    axis.fill_between(grid, np.min(y, axis=0), np.max(y, axis=0), color=color, alpha=0.15, lw=0)


def motions(name: str, **camera) -> list[film.Motion]:
    """The film of a task: its best recorded run, and as much of the one with the most samples."""
    if needed := missing(name):
        sys.exit(f"the scene needs {needed}")
    kept = Record.load(Path(__file__).parent / name)
    out: list[film.Motion] = []
    for x in (kept.motions[key] for key in (BEST, SAMPLING) if key in kept.motions):
        qpos = np.array(x.qpos[: len(out[0].qpos)] if out else x.qpos)
        solved = kept.run(x.variant, x.method, x.seed).solved is not None
        label = f"{x.method}: {'solved' if solved else 'not solved'}"
        time, model = x.interval * np.arange(len(qpos)), Task(name, x.variant).model
        out.append(film.Motion(model, time, qpos, label=label, plain=True, **camera))
    return out


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true", help="add missing runs to recorded.json")
    parser.add_argument("--methods", nargs="+", help="some alone")
    parser.add_argument("--variants", nargs="+", help="some alone")
    parser.add_argument("--seeds", type=int, help="so many alone")
    parser.add_argument("--first-seed", type=int, default=0, help="of these; default: 0")
    parser.add_argument("--machine", default="", help="to be noted in a new record")


def main(file: str, doc: str, argv, title: str) -> int:
    """Of the experiment in the folder of a file. expected.toml says what is recorded, and what a
    run plans now, for comparison."""
    options = common.arguments(doc, argv, _options)
    home = Path(file).parent
    needed = missing(home.name)
    if needed and not options.quick:
        sys.exit(f"{home.name}: needs {needed}")
    expected, checks = common.expected(file), common.Checks()
    chosen = expected["record" if options.record else "quick" if options.quick else "full"]
    methods = [x for x in METHODS if x.name in (options.methods or chosen["methods"])]
    first, count = options.first_seed, options.seeds or chosen["seeds"]
    seeds = range(first, first + count)
    variants = [] if needed else options.variants or chosen["variants"]
    tasks = [Task(home.name, x) for x in variants]
    if options.record:
        record(home, tasks, methods, seeds, chosen["seconds"], options)
        return 0
    live = [x for x, _ in compare(tasks, methods, seeds, chosen["seconds"], options.nthread)]
    kept = Record.load(home)
    recorded = expected["record"]
    columns = [x for x in METHODS if x.name in recorded["methods"]]
    found = table(kept.runs, recorded["variants"], columns)
    if options.quick:
        for x in live:
            what = f"{x.variant}, {x.method}, now: cost of the last plan over that of the first"
            checks.below(what, x.costs[-1] / x.costs[0], 1)
    else:
        solved = sum(x.solved is not None for x in live)
        checks.above("solved now", solved, chosen["solved"] - 0.5)
    for variant, least in expected["solved"].items():
        for method, n in least.items():
            what = f"{variant}, {method}, recorded: solved"
            checks.above(what, found[variant][method]["solved"], n - 0.5)
    for variant, names in expected.get("unsolved", {}).items():
        for method in names:
            what = f"{variant}, {method}, recorded: solved"
            checks.below(what, found[variant][method]["solved"], 0.5)
    numbers = {"note": note(kept, live, needed), "solved": found}
    tables = {"runs": rows(kept.runs, live)}
    figure = draw(kept.runs, live, recorded["variants"], title)
    common.write(options.out / home.name, numbers, checks, tables, errors=figure)
    return checks.report()


def note(kept: Record, live: list[Run], needed: str) -> str:
    """What a reader has to know about the page's figure, film and table.

    Args:
        needed: what is missing here to plan.
    """
    words = (
        f"Recorded: figure, film and table are of runs on {kept.machine}; {kept.command} repeats "
        "them, in hours. The table has medians of the runs that solve it: steps of 2.5 ms until "
        "then, and processor time of planning, that of all cores together. "
    )
    if not live:
        return words + f"Nothing was planned for this page, which needs {needed}."
    names = ", ".join(dict.fromkeys(x.method for x in live))
    return words + (
        f"Dashed in the figure: {sum(x.time[-1] for x in live):.2f} s of motion that were planned "
        f"for this page ({names}), with {sum(x.processor[-1] for x in live):.0f} s of processor "
        "time."
    )


def rows(kept: list[Run], live: list[Run]) -> dict:
    """For a CSV."""
    runs = [*kept, *live]
    return {
        "made": ["recorded"] * len(kept) + ["now"] * len(live),
        "variant": [x.variant for x in runs],
        "method": [x.method for x in runs],
        "seed": [x.seed for x in runs],
        "solved after [s of motion]": ["" if x.solved is None else x.solved for x in runs],
        "last error": [x.errors[-1] for x in runs],
        "processor time [s]": [x.processor[-1] for x in runs],
        "clock [s]": [x.spent[-1] for x in runs],
    }
