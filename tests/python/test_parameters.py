"""Gradients in the model's parameters, against differences of rollouts of an edited model."""

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import ARM, PENDULUM, ZOO, ridders

NSTEP = 20


def field(model: mujoco.MjModel, name: str) -> np.ndarray:
    """The array of a field, which can be written to."""
    return model.opt.gravity if name == "opt.gravity" else getattr(model, name)


def start(sim: diffmj.Simulator) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "qpos": sim.default_state().qpos,
        "qvel": rng.standard_normal(sim.nv),
        "ctrl": rng.standard_normal((NSTEP, sim.nu)),
    }


def cotangents(traj: diffmj.Trajectory) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    names = ("qpos", "qvel", "site_xpos")
    return {name: rng.standard_normal(getattr(traj, name).shape) for name in names}


def difference(name: str, index: tuple[int, ...], inputs, weights) -> float:
    """Of the loss, as one entry of the field moves."""
    original = field(mujoco.MjModel.from_xml_string(ARM), name).copy()
    size = max(abs(original[index]), 0.1)

    def loss(h: float) -> float:
        model = mujoco.MjModel.from_xml_string(ARM)
        field(model, name)[index] += h * size
        traj = diffmj.Simulator(model).rollout(**inputs)
        return sum(np.sum(w * getattr(traj, x)) for x, w in weights.items())

    slope, error_bar = ridders(loss, step=1e-2)
    assert error_bar < 1e-6 * max(abs(slope), 1)
    return slope / size


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("body_mass", [(1,), (2,), (3,)]),
        ("dof_damping", [(6,), (7,), (9,)]),
        ("opt.gravity", [(0,), (1,), (2,)]),
        ("actuator_gear", [(0, 0), (1, 0), (1, 1), (1, 2)]),
    ],
)
@pytest.mark.parametrize("path", ["analytic", "oracle"])
def test_matches_differences(name, entries, path):
    model = mujoco.MjModel.from_xml_string(ARM)
    sim = diffmj.Simulator(model, gradient_path=path)
    inputs = start(sim)
    traj = sim.rollout(**inputs)
    weights = cotangents(traj)
    gradient = traj.backward(**weights, params=[name]).params[name]
    assert gradient.shape == field(model, name).shape
    for index in entries:
        numeric = difference(name, index, inputs, weights)
        assert abs(numeric) > 1e-3  # an entry that matters
        scale = max(abs(numeric), np.abs(gradient).max(), 1)
        assert abs(gradient[index] - numeric) < 1e-6 * scale, (index, gradient[index], numeric)


def test_names_and_shapes(arm):
    names = diffmj.parameter_names()
    assert {"body_mass", "dof_damping", "opt.gravity", "actuator_gear"} <= set(names)
    model = mujoco.MjModel.from_xml_string(ARM)
    traj = arm.rollout(**start(arm))
    weights = cotangents(traj)
    gradient = traj.backward(**weights, params=names)
    assert list(gradient.params) == names
    for name in names:
        assert gradient.params[name].shape == field(model, name).shape, name
        # one at a time, in any container, it is the same
        alone = traj.backward(**weights, params=(name,))
        np.testing.assert_array_equal(alone.params[name], gradient.params[name])
        np.testing.assert_array_equal(alone.qvel, gradient.qvel)
    assert traj.backward(**weights).params == {}
    np.testing.assert_array_equal(traj.backward(**weights).ctrl, gradient.ctrl)


@pytest.mark.smoke
def test_batch(arm):
    inputs = start(arm)
    speeds = np.stack([inputs["qvel"], -inputs["qvel"], 0 * inputs["qvel"]])
    batch = arm.rollout(**(inputs | {"qvel": speeds}))
    weights = cotangents(batch)
    names = ["body_mass", "opt.gravity", "actuator_gear"]
    params = batch.backward(**weights, params=names).params
    assert [params[x].shape for x in names] == [(3, 4), (3, 3), (3, 2, 6)]
    for i, qvel in enumerate(speeds):
        single = arm.rollout(**(inputs | {"qvel": qvel}))
        one = single.backward(**{x: w[i] for x, w in weights.items()}, params=names).params
        for name in names:
            np.testing.assert_array_equal(params[name][i], one[name])


def test_closed_form_of_a_free_fall():
    mjcf = """<mujoco><option timestep="0.01"/><worldbody><body><joint type="slide" axis="0 0 1"/>
      <geom size="0.1" mass="2"/></body></worldbody></mujoco>"""
    n, h = 50, 0.01
    traj = diffmj.Simulator(mjcf).rollout(nstep=n)
    final = np.zeros_like(traj.xpos)
    final[-1, 1, 2] = 1
    params = traj.backward(xpos=final, params=["opt.gravity", "body_mass"]).params
    np.testing.assert_allclose(params["opt.gravity"], [0, 0, h * h * n * (n + 1) / 2], rtol=1e-12)
    np.testing.assert_allclose(params["body_mass"], 0, atol=1e-12)


def test_wrong_names(pendulum):
    traj = pendulum.rollout(nstep=3)
    weights = np.ones((4, 1))
    with pytest.raises(diffmj.InputError, match=r"'body_mas' is not known.*body_mass.*opt.gravity"):
        traj.backward(qpos=weights, params=["body_mass", "body_mas"])
    with pytest.raises(diffmj.InputError, match=r"params is a string.*params=\['body_mass'\]"):
        traj.backward(qpos=weights, params="body_mass")
    with pytest.raises(diffmj.InputError, match="params contains 7"):
        traj.backward(qpos=weights, params=[7])
    with pytest.raises(diffmj.InputError, match="params is 7, expected a list"):
        traj.backward(qpos=weights, params=7)
    with pytest.raises(diffmj.InputError, match=r"at least one of qpos,.*subtree_com"):
        traj.backward(params=["body_mass"])
    batch = pendulum.rollout(qpos=[[0.1], [0.2]], nstep=3)
    with pytest.raises(diffmj.InputError, match="'nothing' is not known"):
        batch.backward(qpos=np.ones((2, 4, 1)), params=["nothing"])


def test_not_by_differences_of_mj_step():
    sim = diffmj.Simulator(PENDULUM, gradient_path="differences")
    traj = sim.rollout(nstep=3)
    assert traj.backward(qpos=np.ones((4, 1))).params == {}
    with pytest.raises(diffmj.UnsupportedError, match="parameters"):
        traj.backward(qpos=np.ones((4, 1)), params=["body_mass"])


def test_in_contact_by_the_oracle(cube):
    # the gradient in gravity of a cube that lands: both paths take the oracle there
    other = diffmj.Simulator(ZOO / "contact_plane.xml")
    for sim, state in [(cube, {"nstep": 150}), (other, vars(other.keyframe_state("test")))]:
        traj = sim.rollout(**({"nstep": 20} | state))
        assert traj.steps.ncon.max() > 0
        gradient = traj.backward(qpos=np.ones_like(traj.qpos), params=["opt.gravity"])
        assert np.abs(gradient.params["opt.gravity"]).max() > 0
