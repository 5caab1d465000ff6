"""MyoChallenge's baoding balls: that scene, targets and score are those of MyoSuite."""

import os

import mujoco
import numpy as np
import pytest

from experiments.baoding import scene


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
