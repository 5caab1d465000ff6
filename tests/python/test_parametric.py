"""Simulators as a function of what an MJCF says, and gradients in that."""

import pickle

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import load, ridders

CUBE = """<mujoco><option timestep="0.004"/>
  <default><geom solref="0.03 1.1"/></default>
  <worldbody><geom name="floor" type="plane" size="2 2 0.1" friction="0.2 0.005 0.0001"/>
    <body name="cube" pos="0 0 0.09"><freejoint/>
      <geom name="cube" type="box" size="0.1 0.1 0.1"/>
      <body name="arm" pos="0.1 0 0.1"><joint name="hinge" axis="0 1 0.3" damping="0.1"/>
        <geom name="arm" type="capsule" size="0.02 0.1" pos="0.1 0 0"/></body></body>
  </worldbody></mujoco>"""
CART = """<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
  <body><joint name="x" type="slide" axis="1 0 0" damping="0.5"/>
    <geom name="cart" size="0.1" mass="3"/><site name="tip" pos="0.1 0 0"/></body></worldbody>
  <actuator><motor joint="x"/></actuator></mujoco>"""
STATE = {
    "qpos": np.array([0, 0, 0.095, 0.99, 0.08, -0.05, 0, 0.3]),
    "qvel": np.array([0.3, 0.2, -0.3, 0.4, -0.2, 0.1, 0.5]),
    "nstep": 5,
}
ATTRIBUTES = ["hinge/damping", "geom:cube/size", "default.geom/solref[0]"]


def side(values: dict[str, float]) -> mujoco.MjSpec:
    """A cube of one length."""
    spec = mujoco.MjSpec.from_string(CUBE)
    spec.geom("cube").size = [values["side"] / 2] * 3
    spec.joint("hinge").damping = [values["damping"], 0, 0]
    return spec


@pytest.mark.smoke
def test_attributes():
    family = diffmj.ParametricSimulator(CUBE, ATTRIBUTES)
    sizes = [f"geom:cube/size[{i}]" for i in range(3)]
    assert family.names == ["hinge/damping[0]", *sizes, "default.geom/solref[0]"]
    assert family.start == dict(zip(family.names, [0.1, 0.1, 0.1, 0.1, 0.03], strict=True))
    sim = family.at({"hinge/damping": 0.2, "geom:cube/size": [0.1, 0.11, 0.12]})
    spec = mujoco.MjSpec.from_string(CUBE)
    spec.joint("hinge").damping[0] = 0.2
    spec.geom("cube").size = [0.1, 0.11, 0.12]
    expected = diffmj.Simulator(spec.compile()).rollout(**STATE)
    assert np.array_equal(sim.rollout(**STATE).qpos, expected.qpos)
    assert "hinge/damping[0]" in repr(family)


@pytest.mark.parametrize("source", ["attributes", "function"])
def test_gradient_matches_differences_of_recompiled_rollouts(source):
    if source == "attributes":
        family = diffmj.ParametricSimulator(CUBE, ATTRIBUTES)
    else:
        family = diffmj.ParametricSimulator(side, {"side": 0.2, "damping": 0.1})
    rng = np.random.default_rng(0)
    weight = rng.standard_normal(7)
    traj = family.at().rollout(**STATE)
    grad = family.backward(traj, final={"qvel": weight})
    assert list(grad) == family.names
    theta = np.array(list(family.start.values()))
    for i, name in enumerate(family.names):

        def loss(h: float, i: int = i) -> float:
            moved = theta.copy()
            moved[i] += h * theta[i]
            return weight @ family.at(moved).tightened().rollout(**STATE).qvel[-1]

        expected, error = ridders(loss, 1e-4)
        assert grad[name] * theta[i] == pytest.approx(expected, rel=1e-5, abs=max(1e-7, 10 * error))


def test_tightened_simulators_keep_their_parameters():
    family = diffmj.ParametricSimulator(CUBE, ["hinge/damping"])
    sim = family.at({"hinge/damping": 0.3})
    bar = {"final": {"qvel": np.ones(7)}}
    tight = family.backward(sim.tightened().rollout(**STATE), **bar)
    assert tight == pytest.approx(family.backward(sim.rollout(**STATE), **bar), rel=1e-6)


def test_batch():
    family = diffmj.ParametricSimulator(CUBE, ["hinge/damping"])
    sim = family.at({"hinge/damping": 0.3})
    batch = sim.rollout(**{**STATE, "qvel": np.stack([STATE["qvel"], 2 * STATE["qvel"]])})
    bar = np.ones_like(batch.qvel)
    grad = family.backward(batch, qvel=bar)["hinge/damping[0]"]
    assert grad.shape == (2,)
    one = family.backward(sim.rollout(**STATE), qvel=bar[0])["hinge/damping[0]"]
    assert grad[0] == one


def test_errors():
    with pytest.raises(diffmj.InputError, match="no element 'knee'; it has cube"):
        diffmj.ParametricSimulator(CUBE, ["knee/damping"])
    with pytest.raises(diffmj.InputError, match=r"expected a list: \['hinge/damping'\]"):
        diffmj.ParametricSimulator(CUBE, "hinge/damping")
    with pytest.raises(diffmj.InputError, match="start is not a dict"):
        diffmj.ParametricSimulator(side, ["side"])
    with pytest.raises(diffmj.InputError, match="the function returned a int"):
        diffmj.ParametricSimulator(lambda values: 3, {"side": 1.0})
    family = diffmj.ParametricSimulator(CUBE, ["hinge/damping"])
    with pytest.raises(diffmj.InputError, match="no parameter 'hinge/armature'; there are"):
        family.at({"hinge/armature": 1})
    with pytest.raises(diffmj.InputError, match=r"shape \(2,\), expected \(1,\)"):
        family.at([1, 2])
    with pytest.raises(diffmj.InputError, match="not finite"):
        family.at([np.nan])
    with pytest.raises(diffmj.InputError, match="not of a simulator that"):
        family.backward(diffmj.Simulator(CUBE).rollout(**STATE), final={"qvel": np.ones(7)})
    gap = diffmj.ParametricSimulator(CUBE, {"geom:cube/gap": 0.0})
    with pytest.raises(diffmj.UnsupportedError, match="changes geom_gap of geom 'cube'"):
        gap.backward(gap.at().rollout(**STATE), final={"qvel": np.ones(7)})

    def fails(values: dict[str, float]) -> mujoco.MjSpec:
        if values["side"] != 0.2:
            raise RuntimeError("no such cube")
        return side({**values, "damping": 0.1})

    def rounds(values: dict[str, float]) -> mujoco.MjSpec:
        return side({"side": float(f"{values['side']:g}"), "damping": 0.1})

    rounded = diffmj.ParametricSimulator(rounds, {"side": 0.2})
    with pytest.raises(diffmj.InputError, match="'side': the model does not change smoothly"):
        rounded.backward(rounded.at().rollout(**STATE), final={"qvel": np.ones(7)})
    idle = diffmj.ParametricSimulator(lambda values: side({"side": 0.2, "damping": 1}), {"x": 1.0})
    with pytest.raises(diffmj.InputError, match="parameter 'x' changes nothing in the model"):
        idle.backward(idle.at().rollout(**STATE), final={"qvel": np.ones(7)})

    def tetrahedron(values: dict[str, float]) -> mujoco.MjSpec:
        spec = mujoco.MjSpec.from_string(CUBE)
        corners = values["size"] * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]])
        spec.add_mesh(name="tetrahedron", uservert=corners.ravel())
        body = spec.worldbody.add_body(pos=[1, 0, 0.3])
        body.add_freejoint()
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="tetrahedron", mass=1)
        return spec

    # vertices act on contacts and have no gradient: masses and frames alone would be half of it
    mesh = diffmj.ParametricSimulator(tetrahedron, {"size": 0.1})
    traj = mesh.at().rollout(nstep=1)
    with pytest.raises(diffmj.UnsupportedError, match="'size' changes mesh_vert"):
        mesh.backward(traj, final={"qvel": np.ones(13)})
    # a friction loss of 0 has no row
    loss = diffmj.ParametricSimulator(CUBE, ["hinge/frictionloss"])
    with pytest.raises(diffmj.InputError, match=r"dof_frictionloss\[6\] is 0, where MuJoCo leaves"):
        loss.backward(loss.at().rollout(**STATE), final={"qvel": np.ones(7)})
    # what MjSpec.compile raises, with the parameter's name
    negative = diffmj.ParametricSimulator(
        lambda values: side({**values, "damping": 0.1}), {"side": 0.2}
    )
    with pytest.raises(diffmj.MujocoError, match="the model cannot be built"):
        negative.at({"side": -1})
    broken = diffmj.ParametricSimulator(fails, {"side": 0.2})
    with pytest.raises(RuntimeError, match="no such cube"):
        broken.at({"side": 0.3})


def test_with_parameters():
    model = load("humanoid")
    sim = diffmj.Simulator(model)
    state = vars(sim.keyframe_state("test"))
    friction = 0.5 * model.geom_friction
    slippery = sim.with_parameters({"geom_friction": friction})
    model.geom_friction[:] = friction
    expected = diffmj.Simulator(model).rollout(**state, nstep=10)
    assert np.array_equal(slippery.rollout(**state, nstep=10).qpos, expected.qpos)
    with pytest.raises(diffmj.InputError, match=r"geom_friction has shape \(3,\), expected"):
        sim.with_parameters({"geom_friction": [1, 2, 3]})
    with pytest.raises(diffmj.InputError, match="parameter 'friction' is not known"):
        sim.with_parameters({"friction": 1})
    with pytest.raises(diffmj.InputError, match="expected a dict"):
        sim.with_parameters([1])


def test_every_rollout_has_parameters_of_its_own():
    family = diffmj.ParametricSimulator(CART, ["cart/mass", "x/damping[0]"])
    masses = np.array([1.0, 2.0, 4.0])
    sim = family.at({"cart/mass": masses})
    traj = sim.rollout(ctrl=[1.0], nstep=20, sensors=True)
    assert traj.batch == 3
    qpos_bar = np.zeros((3, 21, 1))
    qpos_bar[:, -1] = 1
    gradient = family.backward(traj, qpos=qpos_bar)
    for i, mass in enumerate(masses):
        one = family.at({"cart/mass": mass})
        single = one.rollout(ctrl=[1.0], nstep=20)
        assert np.array_equal(single.qpos, traj.qpos[i])
        assert np.array_equal(single.site_xpos, traj.site_xpos[i])
        expected = family.backward(single, qpos=qpos_bar[0])
        assert {k: x[i] for k, x in gradient.items()} == pytest.approx(expected, rel=1e-12)
    # pickles with its models
    again = pickle.loads(pickle.dumps(traj))
    assert np.array_equal(again.backward(qpos=qpos_bar).ctrl, traj.backward(qpos=qpos_bar).ctrl)
    with pytest.raises(diffmj.InputError, match="a batch of 2, but the simulator has parameters"):
        sim.rollout(qpos=np.zeros((2, 1)), nstep=3)
    with pytest.raises(diffmj.InputError, match="for each of 3 rollouts"):
        sim.linearize()
    for use in (
        lambda: diffmj.Planner(sim, diffmj.Cost([diffmj.ControlEffort()])),
        lambda: diffmj.segments(sim, [], 3),
        lambda: diffmj.Recording([0.0, 1.0], qpos=[0.0, 1.0]).with_bodies(sim, "world"),
    ):
        with pytest.raises(diffmj.InputError, match="for each of 3 rollouts"):
            use()
    with pytest.raises(diffmj.InputError, match="batches differ"):
        family.at({"cart/mass": masses, "x/damping": [0.1, 0.2]})
    with pytest.raises(diffmj.InputError, match=r"expected \(2,\), or \(B, 2\)"):
        family.at(np.zeros((3, 3)))


def test_fields_of_every_rollout():
    sim = diffmj.Simulator(CART)
    mass = np.array([[0.0, 1.0], [0.0, 2.0]])
    many = sim.with_parameters({"body_mass": mass, "opt.gravity": [0.1, 0, 0]})
    traj = many.rollout(qvel=np.array([[1.0], [2.0]]), nstep=5)
    gradient = traj.backward(final={"qpos": np.ones((2, 1))}, params=["body_mass"])
    for i in range(2):
        one = sim.with_parameters({"body_mass": mass[i], "opt.gravity": [0.1, 0, 0]})
        single = one.rollout(qvel=[i + 1.0], nstep=5)
        assert np.array_equal(single.qpos, traj.qpos[i])
        expected = single.backward(final={"qpos": np.ones(1)}, params=["body_mass"])
        assert np.array_equal(expected.params["body_mass"], gradient.params["body_mass"][i])
    with pytest.raises(diffmj.InputError, match="for each of 2 rollouts"):
        many.with_parameters({"body_mass": mass[0]})
    with pytest.raises(diffmj.InputError, match="with values for every rollout"):
        sim.with_parameters({"body_mass": np.zeros((2, 3))})


def test_a_parameter_that_is_given_twice_is_refused():
    arm = """
    <mujoco><worldbody><body><joint name="e" damping="0.1"/><geom name="b" size="0.1"/></body>
    </worldbody></mujoco>"""
    for names in (["e/damping[0]", "e/damping[0]"], ["b/size", "b/size[0]"]):
        with pytest.raises(diffmj.InputError, match="is given twice"):
            diffmj.ParametricSimulator(arm, names)
