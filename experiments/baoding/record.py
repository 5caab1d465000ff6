"""Recorded episodes of baoding balls: recorded.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from experiments.baoding.scene import STEPS

FOLDER = Path(__file__).parent
COMMAND = "python -m experiments.baoding.run --record"
# what the planner knows, by name; phase 1 has no other balls than the nominal ones
KINDS = ("phase 1", "phase 2", "phase 2, nominal balls")
FILMED = {"phase 1": 0, "phase 2": 0}  # seeds of the runs whose motions are kept


@dataclass
class Run:
    """An episode, until its end or until a ball falls."""

    kind: str
    seed: int  # phase 1: of the planner; phase 2: of the instance and the planner
    score: float  # share of the episode's control steps
    farther: list[float]  # [mm], after every control step: the farther ball from its target
    processor: float  # [s] of planning and execution, of all cores
    costs: list[float]  # of the first and the last plan


@dataclass
class Motion:
    """States of a run after every control step, the start included."""

    seed: int
    qpos: list[list[float]]


@dataclass
class Record:
    task: dict  # start, cost, planner and execution of task.toml
    command: str
    machine: str
    scenes: dict[str, dict] = field(default_factory=dict)  # by phase: manipulation.sums()
    runs: list[Run] = field(default_factory=list)
    motions: dict[str, Motion] = field(default_factory=dict)  # by kind, of the seeds in FILMED

    @staticmethod
    def load(folder: Path = FOLDER) -> Record:
        x = json.loads((folder / "recorded.json").read_text())
        runs = [Run(**run) for run in x.pop("runs")]
        motions = {kind: Motion(**motion) for kind, motion in x.pop("motions").items()}
        return Record(**x, runs=runs, motions=motions)

    def save(self, folder: Path = FOLDER) -> None:
        """One line per run, and per state of a motion."""
        self.runs.sort(key=lambda x: (KINDS.index(x.kind), x.seed))
        head = {key: getattr(self, key) for key in ("task", "command", "machine", "scenes")}
        rows = ",\n".join(json.dumps(asdict(run)) for run in self.runs)
        motions = []
        for kind, x in sorted(self.motions.items()):
            states = ",\n".join(json.dumps(row) for row in x.qpos)
            motions.append(f'"{kind}": {{"seed": {x.seed}, "qpos": [\n{states}\n]}}')
        text = f'{json.dumps(head)[:-1]},\n"runs": [\n{rows}\n],\n'
        text += '"motions": {\n' + ",\n".join(motions) + "\n}}\n"
        (folder / "recorded.json").write_text(text)

    def of(self, kind: str) -> list[Run]:
        return [x for x in self.runs if x.kind == kind]

    def run(self, kind: str, seed: int) -> Run | None:
        return next((x for x in self.of(kind) if x.seed == seed), None)

    def add(self, run: Run, motion: Motion) -> None:
        self.runs.append(run)
        if FILMED.get(run.kind) == run.seed:
            self.motions[run.kind] = motion

    def changed(self, task: dict, scenes: dict[str, dict]) -> list[str]:
        """What is no longer as it was when this was recorded, in words."""
        out = [f"{key} of task.toml" for key in task if self.task.get(key) != task[key]]
        for phase, now in scenes.items():
            was = self.scenes[phase]
            fields = [x for x in now if not np.isclose(was.get(x, np.nan), now[x], rtol=1e-6)]
            out += [f"{x} of the scene of {phase}" for x in fields]
        return out


def summary(runs: list[Run]) -> dict:
    """Numbers for the page; words: all of them."""
    if not runs:
        return {"runs": 0, "words": "not run"}
    scores = np.array([x.score for x in runs])
    fell = sum(len(x.farther) < STEPS for x in runs)
    out = {
        "runs": len(runs),
        "score": float(scores.mean()),
        "least": float(scores.min()),
        "most": float(scores.max()),
        "fell": fell,
        "processor": float(np.median([x.processor for x in runs])),
    }
    out["words"] = (
        f"{out['score']:.2f} ({out['least']:.2f} to {out['most']:.2f}; {len(runs)} runs, a ball "
        f"fell in {fell}; {out['processor']:.0f} s of processor time each)"
    )
    return out
