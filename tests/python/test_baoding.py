"""MyoChallenge's baoding balls: scene, targets and score are those of MyoSuite; and the record."""

import json
import os

import mujoco
import numpy as np
import pytest

from experiments.baoding import record, run, scene
from experiments.baoding.record import Motion, Record, Run


@pytest.fixture(autouse=True)
def needs_myosuite():
    if not scene.available():
        assert "DIFFMJ_REQUIRE_MYOSUITE" not in os.environ, "no package myosuite"
        pytest.skip("no package myosuite")


def at_targets(model, instance, offset=(0, 0, 0), steps=scene.STEPS):
    """qpos at the ends of control steps, with the first ball so far from its target [m]."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_kinematics(model, data)
    carrier, height = scene.palm(model)
    frame = data.body(carrier)
    qpos = np.tile(data.qpos, (steps, 1))
    for k, path in enumerate(scene.targets(instance, height)[1]):
        begin = model.jnt_qposadr[model.body(scene.BALLS[k]).jntadr[0]]
        points = frame.xpos + path[:steps] @ frame.xmat.reshape(3, 3).T
        qpos[:, begin : begin + 3] = points + (np.array(offset) if k == 0 else 0)
    return qpos


def test_score():
    instance = scene.Instance()
    model = scene.model(instance)
    score, distances = scene.score(model, instance, at_targets(model, instance))
    assert score == 1
    assert distances == pytest.approx(np.zeros((scene.STEPS, 2)), abs=1e-12)
    assert scene.score(model, instance, at_targets(model, instance, (0, 0.0149, 0)))[0] == 1
    assert scene.score(model, instance, at_targets(model, instance, (0, 0.0151, 0)))[0] == 0
    # an episode that ends early is divided by its full length
    assert scene.score(model, instance, at_targets(model, instance, steps=50))[0] == 0.25
    # nothing counts after a ball has fallen
    qpos = at_targets(model, instance)
    qpos[100] = at_targets(model, instance, (0, 0, -0.3))[100]
    score, distances = scene.score(model, instance, qpos)
    assert score == 0.5
    assert len(distances) == 101


def test_the_balls_do_not_start_at_their_targets():
    instance = scene.Instance()
    model = scene.model(instance)
    _, distances = scene.score(model, instance, model.key("start").qpos[None])
    assert 1000 * distances[0] == pytest.approx([25.4, 37.2], abs=0.1)


def test_one_revolution():
    instance = scene.Instance(direction=-1, period=4.0)
    time, points = scene.targets(instance, -0.02)
    turn = round(instance.period / scene.DT)
    for path in points:
        assert path[turn] == pytest.approx(path[0])
        x, y = path[:turn, :2].T - np.array(scene.CENTRE)[:, None]
        assert np.hypot(x / instance.radius[0], y / instance.radius[1]) == pytest.approx(1)
        assert np.all(np.diff(np.unwrap(np.arctan2(y, x))) < 0)  # clockwise
    assert time[0] == scene.DT
    still = scene.targets(scene.Instance(direction=0), -0.02)[1]
    assert np.ptp(still[0], axis=0) == pytest.approx(np.zeros(3))


def test_plans_follow_points_ahead_of_the_targets():
    instance = scene.Instance()
    model = scene.model(instance)
    time, points = scene.targets(instance, scene.palm(model)[1])
    for k, (early, path) in enumerate(scene.files(model, instance).values()):
        late = np.interp(1.0, time, points[k][:, 0])
        assert np.interp(1.0 - scene.LEAD, early, path[:, 0]) == pytest.approx(late)


def test_instances_of_phase_2():
    drawn = [scene.draw(seed) for seed in range(60)]
    assert drawn[3] == scene.draw(3)
    assert {x.direction for x in drawn} == {-1, 0, 1}
    for name, low, high in (
        ("period", 4, 6),
        ("size", 0.018, 0.024),
        ("mass", 0.03, 0.3),
        ("angle", 0, 2 * np.pi),
    ):
        x = np.array([getattr(instance, name) for instance in drawn])
        assert low <= x.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < x.max() <= high
    model = scene.model(drawn[0])
    for k, ball in enumerate(scene.BALLS):
        assert model.geom(ball).size[0] == drawn[0].size[k]
        assert model.geom(ball).friction == pytest.approx(drawn[0].friction[k])
        assert model.body(ball).mass[0] == drawn[0].mass[k]


@pytest.mark.parametrize(
    "name, seed", [("myoChallengeBaodingP1-v1", 0), ("myoChallengeBaodingP2-v1", 0)]
)
def test_states_and_score_are_those_of_the_environment(name, seed):
    """MyoSuite's environments need packages that its models do not."""
    try:
        from myosuite.utils import gym

        environment = gym.make(name, seed=seed).unwrapped
    except ImportError:
        pytest.skip("MyoSuite's environments need gymnasium, flatten_dict and gitpython")
    environment.reset()
    model = environment.mj_model
    balls = [model.geom(ball).id for ball in scene.BALLS]
    direction = {"HOLD": 0, "BAODING_CW": -1, "BAODING_CCW": 1}[environment.which_task.name]
    turn = abs(environment.goal[1][0])
    instance = scene.Instance(
        direction=direction,
        angle=environment.ball_1_starting_angle,
        period=2 * np.pi * environment.dt / turn if turn else 5.0,
        radius=(environment.x_radius, environment.y_radius),
        size=tuple(model.geom_size[balls, 0]),
        mass=tuple(model.body_mass[model.geom_bodyid[balls]]),
        friction=tuple(tuple(x) for x in model.geom_friction[balls]),
    )
    own = scene.model(instance)
    data = mujoco.MjData(own)
    mujoco.mj_resetDataKeyframe(own, data, 0)
    random = np.random.default_rng(0)
    qpos, solved, distances = [], 0, []
    for _ in range(scene.STEPS):
        action = random.uniform(-1, -0.3, own.nu)
        info = environment.step(action)[-1]
        solved += bool(info["solved"])
        distances.append([-info["rwd_dict"][f"pos_dist_{k}"] for k in (1, 2)])
        data.ctrl = 1 / (1 + np.exp(-5 * (action - 0.5)))
        mujoco.mj_step(own, data, round(scene.DT / own.opt.timestep))
        np.testing.assert_array_equal(data.qpos, environment.mj_data.qpos)
        qpos.append(data.qpos.copy())
        if info["done"]:
            break
    score, found = scene.score(own, instance, np.array(qpos))
    assert score == solved / scene.STEPS
    np.testing.assert_allclose(found, distances, atol=1e-12)


def a_run(kind="phase 1", seed=0, score=0.5, steps=scene.STEPS):
    return Run(kind, seed, score, [10.0] * steps, 60.0, [2.0, 1.0])


def test_a_record(tmp_path):
    kept = Record({"cost": []}, "a command", "a machine", {"phase 1": {"geom_size": 0.5}})
    for kind, seed in (("phase 2", 1), ("phase 1", 0), ("phase 2", 0), ("phase 1", 1)):
        kept.add(a_run(kind, seed), Motion(seed, [[0.0, seed]]))
    kept.save(tmp_path)
    again = Record.load(tmp_path)
    assert again == kept
    order = [("phase 1", 0), ("phase 1", 1), ("phase 2", 0), ("phase 2", 1)]
    assert [(x.kind, x.seed) for x in again.runs] == order
    assert again.run("phase 2", 1) == a_run("phase 2", 1)
    assert again.run("phase 2", 2) is None
    # of seeds that were named before, not of the best
    assert {kind: x.seed for kind, x in again.motions.items()} == record.FILMED


def test_a_record_of_another_task_is_noticed():
    kept = Record({"cost": [1]}, "", "", {"phase 1": {"geom_size": 0.5}})
    assert kept.changed({"cost": [1]}, {"phase 1": {"geom_size": 0.5 + 1e-9}}) == []
    assert kept.changed({"cost": [2]}, {"phase 1": {"geom_size": 0.51}}) == [
        "cost of task.toml",
        "geom_size of the scene of phase 1",
    ]


def test_summary():
    words = record.summary([a_run(score=0.8), a_run(score=0.4, steps=100)])["words"]
    expected = "0.60 (0.40 to 0.80; 2 runs, a ball fell in 1; 60 s of processor time each)"
    assert words == expected
    assert record.summary([])["words"] == "not run"


def test_what_is_recorded_is_this_task_and_this_scene():
    kept = Record.load()
    assert kept.changed({x: run.TASK[x] for x in run.RECORDED}, run.scenes()) == []
    for kind in record.KINDS:
        seeds = [x.seed for x in kept.of(kind)]
        assert seeds == list(range(len(seeds)))
    for x in kept.runs:
        near = sum(1 for distance in x.farther if distance < 1000 * scene.NEAR)
        assert x.score == pytest.approx(near / scene.STEPS, abs=0.011)


def test_motions_that_are_recorded_have_the_scores_of_their_runs():
    kept = Record.load()
    assert kept.motions
    for kind, motion in kept.motions.items():
        seed = motion.seed
        assert seed == record.FILMED[kind]
        instance = run.instance_of(kind, seed)
        qpos = np.array(motion.qpos)
        score, distances = scene.score(scene.model(instance), instance, qpos[1:])
        recorded = kept.run(kind, seed)
        assert score == pytest.approx(recorded.score, abs=0.011)  # states have four digits
        assert 1000 * distances.max(axis=1) == pytest.approx(np.array(recorded.farther), abs=0.5)


def test_the_page_shows_the_record_without_models(tmp_path, monkeypatch):
    monkeypatch.setattr(run.manipulation, "missing", lambda name: "a package")
    assert run.main(["--quick", "--out", str(tmp_path)]) == 0
    numbers = json.loads((tmp_path / "baoding/numbers.json").read_text())["numbers"]
    assert numbers["note"].startswith("Recorded:")
    assert "Nothing was planned for this page, which needs a package." in numbers["note"]
    with pytest.raises(SystemExit, match="needs a package"):
        run.main(["--out", str(tmp_path)])


def test_marks_are_at_the_targets():
    instance = scene.draw(0)
    model = scene.model(instance)
    qpos = at_targets(model, instance, steps=30)
    shown, states = scene.with_marks(instance, np.concatenate([qpos[:1], qpos]))
    data = mujoco.MjData(shown)
    data.qpos = states[20]
    mujoco.mj_kinematics(shown, data)
    for k, ball in enumerate(scene.BALLS):
        assert data.body(f"target{k + 1}").xpos == pytest.approx(data.body(ball).xpos, abs=1e-9)
