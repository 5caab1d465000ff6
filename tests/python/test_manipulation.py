"""Tasks of manipulation: their scenes, and the record of their runs."""

import json
import os
import subprocess
import sys
import tomllib

import mujoco
import numpy as np
import pytest
from PIL import Image

from experiments import comparison, declaration, film, manipulation
from experiments.comparison import Record
from experiments.manipulation import METHODS, Motion, Run

TASKS = ("ball_swap", "cube_in_hand", "cube_on_table", "tennis", "quadruped")


def needs_models(name):
    """Skips a test of a task whose models are not here."""
    if needed := manipulation.missing(name):
        required = "MyoSuite" in needed and "DIFFMJ_REQUIRE_MYOSUITE" in os.environ
        assert not required, "no package myosuite"
        pytest.skip(f"no {needed}")


def a_run(method="hybrid", seed=0, solved=1.0, error=0.5, variant="turn"):
    return Run(variant, method, seed, solved, [0.0, 1.0], [9.0, error], [0, 8], [0, 4], [3.0])


def a_motion(run):
    return Motion(run.variant, run.method, run.seed, 0.01, [[0.0, run.seed], [1.0, run.seed]])


class StandIn:
    """A task whose runs are solved if their seed is even."""

    variant = "turn"

    def __init__(self):
        self.calls = []
        self.file = {"start": {}, "cost": [], "execution": {"execute": 8}}
        self.options, self.sizes = {"horizon": 3}, {"geom_size": 0.5}

    def settings(self, method):
        return self.options | method.planner

    def numbers(self):
        return self.sizes

    def run(self, method, seed, seconds, nthread):
        self.calls.append((method.name, seed))
        run = a_run(method.name, seed, None if seed % 2 else 1.0 + seed)
        return run, a_motion(run)


class Options:
    machine, nthread = "a machine", 1


def test_a_record_goes_on_where_it_ended(tmp_path):
    task = StandIn()
    methods = [x for x in METHODS if x.name in ("hybrid", "sampling, 64")]
    comparison.record(tmp_path, [task], methods[1:], [0, 1], 1.0, Options)
    comparison.record(tmp_path, [task], methods, [0, 1, 2], 1.0, Options)
    assert sorted(task.calls) == sorted((m.name, seed) for m in methods for seed in range(3))
    kept = Record.load(tmp_path)
    assert [(x.method, x.seed) for x in kept.runs] == [
        (name, seed) for name in ("sampling, 64", "hybrid") for seed in range(3)
    ]
    assert kept.machine == "a machine"
    # of the soonest solution, not of the last; and of samples
    assert kept.motions["best"] == a_motion(a_run("hybrid", 0))
    assert kept.motions["sampling"].method == "sampling, 64"


def test_the_motions_that_are_kept():
    kept = Record({}, "", "")
    for x in (
        a_run("hybrid", 0, None),
        a_run("gradient", 1, 0.9),
        a_run("hybrid", 2, 1.4),
        a_run("sampling, 256", 3, None),
        a_run("sampling, 64", 4, 0.2),
    ):
        kept.add(x, a_motion(x))
    assert [kept.motions[x].seed for x in ("best", "sampling")] == [1, 3]


def test_a_record_of_another_task_is_refused(tmp_path):
    task = StandIn()
    comparison.record(tmp_path, [task], METHODS[:1], [0], 1.0, Options)
    first, second = METHODS[:2]

    def refused(what):
        with pytest.raises(ValueError, match=what):
            comparison.record(tmp_path, [task], [first], [1], 1.0, Options)

    task.options = {"horizon": 4}
    refused("another task: the options of gradient changed")
    # a method without runs may have others
    comparison.record(tmp_path, [task], [second], [0], 1.0, Options)
    task.options = {"horizon": 3}
    task.sizes = {"geom_size": 0.5 + 1e-9}  # another processor
    comparison.record(tmp_path, [task], [first], [1], 1.0, Options)
    task.sizes = {"geom_size": 0.51}
    refused("geom_size of the scene 'turn' changed")
    task.file = task.file | {"execution": {"execute": 16}}
    refused("execution of task.toml, geom_size")


def test_table():
    runs = [a_run(seed=0, solved=1.0), a_run(seed=1, solved=3.0), a_run(seed=2, solved=None)]
    methods = [x for x in METHODS if x.name in ("gradient", "hybrid")]
    rows = comparison.table(runs, ["turn"], methods)["turn"]
    assert rows["hybrid"]["words"] == "2 of 3; 800 steps, 4 s of processor time"
    assert rows["gradient"]["words"] == "not run"
    assert comparison.table([runs[2]], ["turn"], methods)["turn"]["hybrid"]["words"] == "0 of 1"


@pytest.mark.parametrize("name", TASKS)
def test_what_is_recorded_is_this_task(name):
    """Runs of settings that are no longer those of the task must not be on the page."""
    folder = declaration.FOLDER / name
    kept = Record.load(folder)
    file = tomllib.loads((folder / "task.toml").read_text())
    assert kept.task == {x: file[x] for x in comparison.RECORDED}
    assert {x.method for x in kept.runs} <= kept.planners.keys()
    assert {x.variant for x in kept.runs} <= kept.scenes.keys()
    keys = [(x.variant, x.method, x.seed) for x in kept.runs]
    assert len(set(keys)) == len(keys) > 0
    for x in kept.runs:
        assert len(x.time) == len(x.errors) == len(x.spent) == len(x.processor)
        assert x.solved is None or (x.errors[-1] < 1 and x.solved == pytest.approx(x.time[-1]))
    for motion in kept.motions.values():
        run = kept.run(motion.variant, motion.method, motion.seed)
        assert motion.interval * (len(motion.qpos) - 1) == pytest.approx(run.time[-1], abs=0.011)


@pytest.mark.parametrize("name", TASKS)
def test_what_is_recorded_is_this_scene(name):
    """scene.py, the options of methods and the models of others may change, too."""
    needs_models(name)
    kept = Record.load(declaration.FOLDER / name)
    methods = [x for x in METHODS if x.name in kept.planners]
    for variant in kept.scenes:
        assert kept.changed(manipulation.Task(name, variant), methods) == []


def test_a_changed_scene_is_noticed():
    needs_models("cube_on_table")
    task = manipulation.Task("cube_on_table")
    kept = Record({x: task.file[x] for x in comparison.RECORDED}, "", "")
    kept.scenes[task.variant] = task.numbers()
    task.model.geom("table").friction[0] += 1e-3
    assert kept.changed(task, []) == ["geom_friction of the scene 'left'"]


@pytest.mark.parametrize("name", TASKS)
def test_the_page_shows_the_record_without_models(name, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "missing", lambda name: "a package")
    run = declaration.load(declaration.FOLDER / name).module()
    assert run.main(["--quick", "--out", str(tmp_path)]) == 0
    numbers = json.loads((tmp_path / name / "numbers.json").read_text())["numbers"]
    assert numbers["note"].startswith("Recorded:")
    assert "Nothing was planned for this page, which needs a package." in numbers["note"]
    for row in declaration.load(declaration.FOLDER / name).numbers:
        assert declaration.lookup(numbers, row["ours"])
    with pytest.raises(SystemExit, match="needs a package"):
        run.main(["--out", str(tmp_path)])


@pytest.mark.parametrize("name", TASKS)
def test_scenes_have_what_the_task_files_name(name):
    needs_models(name)
    task = manipulation.Task(name)
    for term in task.file["cost"]:
        for key in ("of", "to"):
            if not isinstance(term.get(key), str):
                continue
            kind, _, what = term[key].partition(":")
            assert getattr(task.model, kind)(what).id >= 0
    start = task.start(seed=1)
    errors = task.scene.errors(task.model, start["qpos"][None])
    assert errors.shape[0] == 1
    assert errors.max() > 1, "it would be solved from the start"


def test_the_ball_misses_both_hands():
    """Otherwise tennis would have a gradient without contacts from distance."""
    needs_models("tennis")
    task = manipulation.Task("tennis")
    model, data = task.model, mujoco.MjData(task.model)
    ball = model.geom("ball").id
    touchable = np.flatnonzero((model.geom_contype > 0) & (model.geom_bodyid > 0))
    palm = None
    for seed in range(5):
        start = task.start(seed)
        data.qpos, data.qvel, data.act = start["qpos"], start["qvel"], start["act"]
        data.ctrl = start["ctrl"]
        closest = np.inf
        for _ in range(160):
            mujoco.mj_step(model, data)
            for geom in touchable[touchable != ball]:
                distance = mujoco.mj_geomDistance(model, data, ball, geom, 1.0, None)
                closest = min(closest, distance)
        assert closest > 0.02
        palm = data.body("thirdmc").xpos.copy()
    # muscles hold the arm: with all of them at rest it falls by 0.29 m in 0.5 s
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_kinematics(model, data)
    assert np.linalg.norm(data.body("thirdmc").xpos - palm) < 0.05


def test_motions_beside_each_other(tmp_path):
    renderer = film.backend()
    if not renderer:
        pytest.skip("neither EGL nor OSMesa: MuJoCo cannot render")
    code = """
import sys, mujoco, numpy as np
from experiments import film
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><body><joint type='slide'/><geom size='.1'/></body></worldbody></mujoco>")
def motion(end, label):
    time = np.linspace(0, end, 5)
    return film.Motion(model, time, time[:, None], label=label, moments=(0.0, end), plain=True)
data = film.pictures(motion(0.2, "a"), motion(0.4, "b"))
for name, data in zip(("strip.png", "film.webp"), data):
    open(f"{sys.argv[1]}/{name}", "wb").write(data)
"""
    environment = os.environ | film.variables(renderer)
    command = [sys.executable, "-c", code, tmp_path]
    subprocess.run(command, env=environment, check=True, cwd=declaration.FOLDER.parent)
    height, width = film.SIZE
    strip = Image.open(tmp_path / "strip.png")
    assert strip.size == (2 * width + film.GAP, 2 * height + film.GAP)
    with Image.open(tmp_path / "film.webp") as moving:
        assert moving.size == (2 * width + film.GAP, height)
        assert moving.n_frames == round(0.4 * film.FRAMES_PER_SECOND)
