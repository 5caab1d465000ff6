"""The layers of src/, by the table in docs/pipeline.md: who includes whom."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
LAYER = re.compile(r"^\| \((\d+)\) [^|]*\| ([^|]*)\|", re.MULTILINE)


def read_layers(text: str) -> dict[str, int]:
    """The folders of src/ in the table, with the number of their layer."""
    layers = {}
    for number, directories in LAYER.findall(text):
        for folder in re.findall(r"`src/(\w+)`", directories):
            layers[folder] = int(number)
    return layers


def includes(src: Path) -> list[tuple[Path, Path]]:
    """Pairs of files below src, each with one that it includes; paths are relative to src."""
    out = []
    for file in sorted(src.rglob("*")):
        if file.suffix not in (".h", ".cc"):
            continue
        for name in INCLUDE.findall(file.read_text()):
            for found in (src / name, file.parent / name):
                if found.is_file():
                    out.append((file.relative_to(src), found.resolve().relative_to(src.resolve())))
                    break
    return out


def cycles(arrows: set[tuple[str, str]]) -> list[str]:
    """Folders that include each other, directly or on the way, one line per folder."""
    reach: dict[str, set[str]] = {}
    for a, b in arrows:
        reach.setdefault(a, set()).add(b)
    changed = True
    while changed:
        changed = False
        for seen in reach.values():
            further = set().union(*(reach.get(b, set()) for b in seen)) - seen
            changed |= bool(further)
            seen |= further
    return [f"{a} is on a cycle" for a in sorted(reach) if a in reach[a]]


def faults(src: Path, layers: dict[str, int]) -> list[str]:
    """What does not keep to the layers, one line each."""
    out = []
    for file in sorted(src.rglob("*")):
        if file.suffix in (".h", ".cc") and file.relative_to(src).parts[0] not in layers:
            out.append(f"{file.relative_to(src)} is in no layer")
    arrows = set()
    for file, included in includes(src):
        a, b = file.parts[0], included.parts[0]
        if a == b or a not in layers or b not in layers:
            continue
        arrows.add((a, b))
        if layers[b] >= layers[a]:
            out.append(f"{file} ({layers[a]}) includes {included} ({layers[b]})")
    return out + cycles(arrows)


def test_every_layer_includes_only_those_before_it():
    layers = read_layers((ROOT / "docs" / "pipeline.md").read_text())
    folders = {x.name for x in (ROOT / "src").iterdir() if x.is_dir()}
    assert set(layers) == folders
    assert faults(ROOT / "src", layers) == []


def test_the_surface_uses_public_headers_only():
    headers = {x.name for x in (ROOT / "src").iterdir()}
    for folder in ("include", "src/cli", "python/src", "examples"):
        for file in (ROOT / folder).rglob("*.[hc]*"):
            for name in INCLUDE.findall(file.read_text()):
                assert name.split("/")[0] not in headers - {file.parent.name}, f"{file}: {name}"


@pytest.fixture
def tree(tmp_path):
    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


TABLE = """
| layer | directory | what it does |
| --- | --- | --- |
| (1) base | `src/low` | |
| (2) beside | `src/left`, `src/right` | |
| (2) beside too | `src/other` | |
"""


def test_faults_are_found(tree):
    layers = read_layers(TABLE)
    assert layers == {"low": 1, "left": 2, "right": 2, "other": 2}
    good = {"low/a.h": "", "left/b.cc": '#include "low/a.h"\n#include "b.h"', "left/b.h": ""}
    assert faults(tree(good), layers) == []
    assert faults(tree({"low/c.cc": '#include "left/b.h"'}), layers) == [
        "low/c.cc (1) includes left/b.h (2)",
        "left is on a cycle",
        "low is on a cycle",
    ]


def test_layers_of_one_number_and_files_beside_folders(tree):
    layers = read_layers(TABLE)
    src = tree({"left/b.h": "", "right/c.cc": '  #  include "left/b.h"', "new/d.h": ""})
    (src / "main.cc").write_text('#include "left/b.h"')
    assert faults(src, layers) == [
        "main.cc is in no layer",
        "new/d.h is in no layer",
        "right/c.cc (2) includes left/b.h (2)",
    ]


def test_the_umbrella_header_includes_every_public_header():
    folder = ROOT / "include" / "diffmj"
    included = re.findall(r'#include "diffmj/(\w+\.h)"', (folder / "diffmj.h").read_text())
    assert sorted(included) == sorted(x.name for x in folder.glob("*.h") if x.name != "diffmj.h")
    # in an order in which each header comes after those that it needs
    for i, name in enumerate(included):
        needed = re.findall(r'#include "diffmj/(\w+\.h)"', (folder / name).read_text())
        assert set(needed) <= set(included[:i]), name


def test_the_gradient_path_is_chosen_once():
    """Options name it, setup chooses it, check compares two of them, the surface reports it."""
    asks = {
        str(file.relative_to(ROOT / "src"))
        for file in (ROOT / "src").rglob("*.[hc]*")
        if re.search(r"GradientPath::k|gradient_path\(\) [!=]=", file.read_text())
    }
    assert asks == {
        "check/check.cc",
        "cli/cmd_check.cc",
        "model/option_names.cc",
        "setup/differentiation.cc",
        "setup/model_impl.cc",
        "stages/differentiation.h",
    }
