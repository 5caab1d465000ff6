"""The documentation: links lead somewhere, code runs."""

import doctest
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import diffmj
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import PENDULUM

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "examples", "experiments", "scenarios", "bench", "tests/testdata")
PAGES = [
    *ROOT.glob("*.md"),
    # those of the site link to where it has pages: its build checks them
    *(x for f in FOLDERS for x in (ROOT / f).rglob("*.md") if ROOT / "docs/site" not in x.parents),
]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", x.lower()).replace(" ", "-") for x in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda x: str(x.relative_to(ROOT)))
def test_links(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for link in LINK.findall(text):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: no such file"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def test_code_in_the_house_style_is_of_the_tree():
    """Each block names a file, and its lines are lines of that file, in their order."""
    blocks = re.findall(r"```cpp\n// (\S+)\n(.*?)```", (ROOT / "STYLE.md").read_text(), re.DOTALL)
    assert len(blocks) > 8
    for path, code in blocks:
        lines = iter((ROOT / path).read_text().splitlines())
        for line in code.splitlines():
            assert any(line == x for x in lines), f"{path} has no line, or not there: {line}"


def test_examples_of_identification_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, _, _ = (ROOT / "docs" / "identification.md").read_text().partition("## Beside mujoco")
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, names)
    assert (tmp_path / "report.html").exists()
    assert names["fit"].values == pytest.approx({"elbow/damping[0]": 0.1, "bob/mass": 0.8}, 1e-3)


BALL = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 0.1"/>
    <body pos="0 0 0.3"><joint type="slide" axis="0 0 1"/><geom name="ball" size="0.1"/></body>
  </worldbody>
</mujoco>
"""
WITH_EXAMPLES = sorted(
    x.stem for x in Path(diffmj.__file__).parent.glob("*.py") if ">>>" in x.read_text()
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_docstrings(name, tmp_path, monkeypatch):
    module = importlib.import_module(f"diffmj.{name}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pendulum.xml").write_text(PENDULUM)
    (tmp_path / "ball.xml").write_text(BALL)
    failed, tried = doctest.testmod(module, extraglobs={"diffmj": diffmj, "np": np})
    assert tried > 0
    assert failed == 0


def test_docstrings_have_examples():
    assert len(WITH_EXAMPLES) >= 7


def test_notebooks_are_stored_without_outputs_and_run(notebook):
    """As the site runs them."""
    names: dict = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [] and cell["execution_count"] is None
        exec("".join(cell["source"]), names)


@pytest.fixture(params=sorted((ROOT / "docs/tutorials").glob("*.ipynb")), ids=lambda x: x.stem)
def notebook(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    yield json.loads(request.param.read_text())
    plt.close("all")


# What the code on the pages takes for granted: an arm with a hand, and states to start from.
ROBOT = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="1 1 0.1"/>
    <site name="goal" pos="0.3 0 0.4"/>
    <body name="arm" pos="0 0 0.5">
      <joint name="shoulder" axis="0 1 0" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.02"/>
      <body name="hand" pos="0.25 0 0">
        <joint name="elbow" axis="0 1 0" damping="0.1"/>
        <inertial pos="0.1 0 0" mass="0.5" diaginertia="0.002 0.002 0.002"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
        <site name="tip" pos="0.2 0 0"/><site name="hand" pos="0.1 0 0"/>
        <site name="ball" pos="0.2 0 0.02"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="shoulder" ctrlrange="-2 2"/><motor joint="elbow" ctrlrange="-1 1"/>
  </actuator>
  <sensor><accelerometer name="imu" site="tip"/></sensor>
  <keyframe><key name="home" qpos="0.2 -0.3"/></keyframe>
</mujoco>
"""
GIVEN = """
import diffmj, diffmj.jax, jax, mujoco
import numpy as np

jax.config.update("jax_enable_x64", True)
sim = diffmj.Simulator("model.xml")
qpos, qvel, act = np.array([0.2, -0.3]), np.array([0.1, 0.0]), np.zeros(0)
ctrl = 0.1 * np.ones((40, 2))
other = qvel + 1e-3
traj = sim.rollout(qpos, qvel, ctrl=ctrl)
tip, ball, hand, up, goal = 1, 3, 2, np.array([0, 0, 1.0]), np.array([0.3, 0, 0.4])
measured = recorded = traj.sensor("imu") + 0.01
bar = np.zeros_like(traj.qpos)
throws = np.tile(qvel, (4, 1))
cost = diffmj.Cost([diffmj.SiteDistance("hand", "goal")])
"""
# pages whose code was not run elsewhere; shorter runs are enough here
SHORTER = {"nstep=1000": "nstep=32", "horizon=128": "horizon=32", "horizon=100": "horizon=30"}
CODE_PAGES = (
    "README.md",
    "docs/tour.md",
    "docs/gradients.md",
    "docs/planning.md",
    "docs/linearize.md",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", CODE_PAGES)
def test_code_of_the_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    for name in ("model.xml", "hand.xml", "arm.xml"):
        (tmp_path / name).write_text(ROBOT)
    names: dict = {}
    exec(GIVEN, names)
    traj = names["sim"].rollout(names["qpos"], names["qvel"], ctrl=names["ctrl"])
    rows = np.vstack((names["ctrl"], names["ctrl"][-1:]))
    log = diffmj.Recording(traj.time, qpos=traj.qpos, qvel=traj.qvel, ctrl=rows)
    for i in range(5):
        log.to_csv(tmp_path / f"log{i}.csv")
    names["logs"] = [f"log{i}.csv" for i in range(5)]
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for code in blocks:
        # PyTorch and Ray have pages, and tests, of their own
        for part in code.split("\n\n") if "diffmj.torch" in code else [code]:
            if "torch" in part or "diffmj.ray" in part:
                continue
            for long, short in SHORTER.items():
                part = part.replace(long, short)
            exec(part, dict(names))


def test_commands_of_the_tour_run(tmp_path):
    (tmp_path / "model.xml").write_text(ROBOT)
    text = (ROOT / "docs/tour.md").read_text()
    commands = re.findall(r"^\$ (diffmj (?:check|grad|rollout) .*?)(?:  #.*)?$", text, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command.partition(">")[0])]
        environment = os.environ | {"PYTHONPATH": str(Path(diffmj.__file__).parents[1])}
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout


def test_the_smallest_task_file_runs(tmp_path):
    text = (ROOT / "docs/planning.md").read_text()
    (task,) = re.findall(r"```toml\n(model = .*?)```", text, re.DOTALL)
    (tmp_path / "arm.xml").write_text(ROBOT)
    (tmp_path / "task.toml").write_text(task + "[execution]\nnstep = 8\n[planner]\nhorizon = 10\n")
    words = [sys.executable, "-m", "diffmj", "plan", "task.toml", "--no-film"]
    environment = os.environ | {"PYTHONPATH": str(Path(diffmj.__file__).parents[1])}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
