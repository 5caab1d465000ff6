"""What the experiments share: their command line, the toss, checks, files, and a look."""

from __future__ import annotations

import argparse
import csv
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import diffmj
import matplotlib.pyplot as plt
import numpy as np

SCENARIOS = Path(__file__).parent.parent / "scenarios"
INTERVAL = 0.01  # [s] between rows of an adaptive rollout, and the largest step it may take

# Okabe and Ito's colours, told apart with any colour vision
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "0.55"

matplotlib.rcParams.update(
    {
        "font.size": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "savefig.dpi": 130,
    }
)


def arguments(
    doc: str,
    argv: list[str] | None,
    add: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
) -> argparse.Namespace:
    """The command line: what every experiment understands, and what `add` adds."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer points, looser tolerances")
    parser.add_argument("--nthread", type=int, default=0, help="of batches; 0: one per core")
    parser.add_argument("--out", type=Path, default="out/experiments", help="where files go")
    add(parser)
    return parser.parse_args(argv)


def expected(run: str) -> dict:
    """The numbers beside an experiment: expected.toml in the folder of the file `run`."""
    return tomllib.loads(Path(run).with_name("expected.toml").read_text())


def adaptive(scene: str, tolerance: float, method: str = "tsit5", **options) -> diffmj.Simulator:
    """A scene under an adaptive method, with one tolerance for everything."""
    settings = {"interval": INTERVAL, "max_steps": 1_000_000} | options
    return diffmj.Simulator(
        SCENARIOS / scene, integrator=method, rtol=tolerance, atol=tolerance, **settings
    )


def toss(sim: diffmj.Simulator, u0, seconds: float = 1.0) -> diffmj.Trajectory:
    """A throw at vertical speed u0 [m/s]; with an array of speeds a batch."""
    start = sim.keyframe_state("throw")
    qvel = np.empty((*np.shape(u0), sim.nv))
    qvel[...] = start.qvel
    qvel[..., 2] = u0
    return sim.rollout(start.qpos, qvel, nstep=round(seconds / sim.interval))


def final_y(trajectory: diffmj.Trajectory):
    """The loss of a toss [m]."""
    return trajectory.qpos[..., -1, 1]


def final_y_gradient(trajectory: diffmj.Trajectory):
    """d(final y)/d(u0) [s], by one backward pass."""
    bar = np.zeros_like(trajectory.qpos)
    bar[..., -1, 1] = 1
    return trajectory.backward(qpos=bar).qvel[..., 2]


def final_y_differences(sim: diffmj.Simulator, u0, h: float):
    """The same by central differences."""
    return (final_y(toss(sim, u0 + h)) - final_y(toss(sim, u0 - h))) / (2 * h)


def relative(x, reference):
    return np.abs(x - reference) / np.abs(reference)


def power(x: float) -> str:
    """A step or tolerance in words: 1e-6."""
    return f"{x:.0e}".replace("e-0", "e-")


def step_table(name: str, trajectories: dict) -> dict:
    """Start and size of every step of rollouts, by what `name` says: for a CSV."""
    rows = [
        (key, start, size)
        for key, x in trajectories.items()
        for start, size in zip(x.integrator.time[:-1], np.diff(x.integrator.time), strict=True)
    ]
    return dict(zip((name, "time [s]", "step [s]"), zip(*rows, strict=True), strict=True))


class Checks:
    """Measured numbers against bounds; an experiment ends with `return checks.report()`."""

    def __init__(self):
        self.rows: list[dict] = []

    def below(self, what: str, measured: float, bound: float) -> None:
        self._add(what, measured, "<", bound, measured < bound)

    def above(self, what: str, measured: float, bound: float) -> None:
        self._add(what, measured, ">", bound, measured > bound)

    def _add(self, what: str, measured: float, sign: str, bound: float, ok: bool) -> None:
        self.rows.append(
            {
                "what": what,
                "measured": float(measured),
                "bound": f"{sign} {bound:g}",
                "ok": bool(ok),
            }
        )

    def report(self) -> int:
        """Prints what was missed. Returns the exit code."""
        missed = [row for row in self.rows if not row["ok"]]
        print(f"\n{len(self.rows)} checks, {len(missed)} missed")
        for row in missed:
            print(f"  {row['what']}: {row['measured']:.4g}, expected {row['bound']}")
        return 1 if missed else 0


def write(folder: Path, numbers: dict, checks: Checks, tables: dict, **figures) -> None:
    """numbers.json, one CSV per table (its columns by their names) and one PNG per figure."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"diffmj": diffmj.__version__, "mujoco": diffmj.mujoco_version}
    text = json.dumps(
        {"versions": about, "numbers": numbers, "checks": checks.rows}, indent=1, default=_plain
    )
    (folder / "numbers.json").write_text(text + "\n")
    for name, columns in tables.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(columns)
            rows.writerows(zip(*columns.values(), strict=True))
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png")
        plt.close(figure)
        print(f"wrote {folder / name}.png")


def _plain(x):
    """numpy's types for JSON."""
    return x.tolist()
