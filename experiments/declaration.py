"""What an experiment says about itself: about.toml in its folder. Nothing else lists experiments.

order = 30                  place on the page
title = "..."
see = "..."                 one sentence: what to look for
paper = "figure 3"          where the paper has it
film = "..."                optional: caption of a film; film.py in the folder has film()
[[figures]]                 file = "speeds" (of speeds.png), caption = "..."
[[numbers]]                 what = "...", ours = "cube.reference.loss" (a path into numbers.json),
                            paper = "...", format = ".3f", unit = "m"

A "note" among the numbers is shown below the title: what a reader has to know about this run.
"""

from __future__ import annotations

import importlib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent
REQUIRED = {"order", "title", "see", "paper", "figures"}
KNOWN = REQUIRED | {"numbers", "film"}
TABLES = {"figures": {"file", "caption"}, "numbers": {"what", "ours"}}
OPTIONAL = {"figures": set(), "numbers": {"paper", "format", "unit"}}


@dataclass(frozen=True)
class Experiment:
    name: str  # of its folder
    order: int
    title: str
    see: str
    paper: str
    figures: list[dict]
    numbers: list[dict] = field(default_factory=list)
    film: str = ""

    def module(self, name: str = "run") -> ModuleType:
        return importlib.import_module(f"experiments.{self.name}.{name}")


def load(folder: Path) -> Experiment:
    """The declaration in a folder. ValueError: it lacks a key, or has one that nothing reads."""
    path = folder / "about.toml"
    about = tomllib.loads(path.read_text())
    _require(path, about, REQUIRED, KNOWN)
    for table, keys in TABLES.items():
        for row in about.get(table, []):
            needed = keys | {"paper"} if table == "numbers" and about["paper"] else keys
            _require(f"{path}, {table}", row, needed, keys | OPTIONAL[table])
    return Experiment(folder.name, **about)


def experiments() -> list[Experiment]:
    """All there are, in the order of the page."""
    found = [load(path.parent) for path in FOLDER.glob("*/about.toml")]
    return sorted(found, key=lambda x: (x.order, x.name))


def lookup(numbers: dict, path: str):
    """The number at a path of keys with dots between them. A key may not contain a dot."""
    for key in path.split("."):
        if key not in numbers:
            raise KeyError(f"'{path}': no '{key}' among {', '.join(map(str, numbers))}")
        numbers = numbers[key]
    return numbers


def _require(where, row: dict, required: set, known: set) -> None:
    if missing := required - row.keys():
        raise ValueError(f"{where}: {', '.join(sorted(missing))} missing")
    if unknown := row.keys() - known:
        raise ValueError(
            f"{where}: unknown {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}"
        )
