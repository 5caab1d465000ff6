"""Poses along a trajectory, and losses that use them."""

import diffmj
import mujoco
import numpy as np
import pytest
from conftest import ARM, PENDULUM, key_data, load, may_fall_back, ridders

# one row of each
ROWS = {
    "xpos": "nbody, 3",
    "xquat": "nbody, 4",
    "site_xpos": "nsite, 3",
    "subtree_com": "nbody, 3",
    "geom_xpos": "ngeom, 3",
    "xmat": "nbody, 3, 3",
    "site_xmat": "nsite, 3, 3",
    "geom_xmat": "ngeom, 3, 3",
    "body_linvel": "nbody, 3",
    "body_angvel": "nbody, 3",
    "site_linvel": "nsite, 3",
    "site_angvel": "nsite, 3",
}
POSES = tuple(ROWS)


def start(sim: diffmj.Simulator, nstep: int = 20, seed: int = 0) -> dict[str, np.ndarray]:
    """A state in motion, and controls."""
    rng = np.random.default_rng(seed)
    return {
        "qpos": sim.default_state().qpos,
        "qvel": rng.standard_normal(sim.nv),
        "ctrl": 0.1 * rng.standard_normal((nstep, sim.nu)),
    }


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["joints_ball", "humanoid", "eq_weld", "contact_plane"])
@may_fall_back
def test_poses_are_those_of_mujoco(name):
    model = load(name)
    sim = diffmj.Simulator(model)
    traj = sim.rollout(**vars(sim.keyframe_state("test")), nstep=20)
    data = key_data(model)
    assert traj.xpos.shape == traj.subtree_com.shape == (21, sim.nbody, 3)
    assert traj.xquat.shape == (21, sim.nbody, 4)
    assert traj.site_xpos.shape == (21, sim.nsite, 3)
    assert traj.geom_xpos.shape == (21, sim.ngeom, 3)
    assert traj.xmat.shape == (21, sim.nbody, 3, 3)
    assert traj.site_xmat.shape == (21, sim.nsite, 3, 3)
    assert traj.geom_xmat.shape == (21, sim.ngeom, 3, 3)
    assert traj.body_linvel.shape == traj.body_angvel.shape == (21, sim.nbody, 3)
    assert traj.site_linvel.shape == traj.site_angvel.shape == (21, sim.nsite, 3)
    assert (sim.nsite, sim.ngeom) == (model.nsite, model.ngeom)
    velocity = np.zeros(6)
    for i, (qpos, qvel) in enumerate(zip(traj.qpos, traj.qvel, strict=True)):
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        for pose in POSES[:8]:
            x = getattr(traj, pose)[i]
            np.testing.assert_array_equal(x, getattr(data, pose).reshape(x.shape))
        for kind, n, name in (
            (mujoco.mjtObj.mjOBJ_XBODY, sim.nbody, "body"),
            (mujoco.mjtObj.mjOBJ_SITE, sim.nsite, "site"),
        ):
            for k in range(n):
                mujoco.mj_objectVelocity(model, data, kind, k, velocity, 0)
                np.testing.assert_array_equal(getattr(traj, f"{name}_angvel")[i, k], velocity[:3])
                np.testing.assert_array_equal(getattr(traj, f"{name}_linvel")[i, k], velocity[3:])


def test_arrays(arm):
    traj = arm.rollout(**start(arm))
    for pose in POSES:
        x = getattr(traj, pose)
        assert x.dtype == np.float64
        assert x.flags.c_contiguous
        assert not x.flags.writeable
        assert getattr(traj, pose) is x
    tip = arm.rollout(**start(arm)).site_xpos  # the trajectory is gone
    for _ in range(3):  # memory that could be reused
        arm.rollout(**start(arm, seed=1)).site_xpos.sum()
    np.testing.assert_array_equal(tip, traj.site_xpos)
    assert diffmj.Simulator(PENDULUM).rollout(nstep=3).site_xpos.shape == (4, 0, 3)


def test_batch(arm):
    inputs = start(arm)
    speeds = np.stack([inputs["qvel"], -inputs["qvel"], 0 * inputs["qvel"]])
    batch = arm.rollout(**(inputs | {"qvel": speeds}))
    assert batch.xpos.shape == (3, 21, 4, 3)
    assert batch.site_xpos.shape == (3, 21, 2, 3)
    assert batch.geom_xmat.shape == (3, 21, arm.ngeom, 3, 3)
    for name in ("time", "qpos", "qvel", "qacc", *POSES):
        assert not getattr(batch, name).flags.writeable
    weights = np.random.default_rng(1).standard_normal(batch.site_xpos.shape)
    turns = np.random.default_rng(2).standard_normal(batch.geom_xmat.shape)
    gradients = batch.backward(site_xpos=weights, site_linvel=weights, geom_xmat=turns)
    for i, qvel in enumerate(speeds):
        single = arm.rollout(**(inputs | {"qvel": qvel}))
        for pose in POSES:
            np.testing.assert_array_equal(getattr(batch, pose)[i], getattr(single, pose))
        gradient = single.backward(site_xpos=weights[i], site_linvel=weights[i], geom_xmat=turns[i])
        np.testing.assert_array_equal(gradients.qvel[i], gradient.qvel)
        np.testing.assert_array_equal(gradients.ctrl[i], gradient.ctrl)


def test_rows_that_a_failed_rollout_did_not_reach(cube):
    force = np.zeros((2, 50, 6))
    force[0, 10:, 2] = 1e10
    with pytest.warns(RuntimeWarning, match="1 of 2"):
        batch = cube.rollout(qfrc_applied=force)
    done = batch.completed[0]
    assert batch.xpos.shape == (2, 51, 2, 3)
    for pose in POSES:
        x = getattr(batch, pose)
        assert np.isfinite(x[0, : done + 1]).all()
        assert np.isnan(x[0, done + 1 :]).all()
        assert np.isfinite(x[1]).all()
    # as with a loss of the states: NaN for the one that failed, and no harm to the other
    gradient = batch.backward(xpos=2 * batch.xpos, params=["body_mass"])
    alone = cube.rollout(qfrc_applied=force[1])
    expected = alone.backward(xpos=2 * alone.xpos, params=["body_mass"])
    assert np.isnan(gradient.qvel[0]).all()
    assert np.isnan(gradient.params["body_mass"][0]).all()
    np.testing.assert_array_equal(gradient.qvel[1], expected.qvel)
    np.testing.assert_array_equal(gradient.params["body_mass"][1], expected.params["body_mass"])


def test_failed_rollout_is_readable(cube):
    with pytest.raises(diffmj.RolloutError) as caught:
        cube.rollout(qfrc_applied=np.full(6, 1e10), nstep=50)
    traj = caught.value.trajectory
    assert traj.xpos.shape == (traj.nstep + 1, 2, 3)
    np.testing.assert_array_equal(traj.xpos[:, 1], traj.qpos[:, :3])


@pytest.mark.smoke
@pytest.mark.parametrize("pose", POSES)
def test_gradient_matches_differences(arm, pose):
    inputs, rng = start(arm), np.random.default_rng(2)
    traj = arm.rollout(**inputs)
    weights = rng.standard_normal(getattr(traj, pose).shape)
    grad = traj.backward(**{pose: weights})
    model = mujoco.MjModel.from_xml_string(ARM)
    for _ in range(3):
        d = {name: rng.standard_normal(x.shape) for name, x in inputs.items() if name != "qpos"}
        d["qpos"] = rng.standard_normal(arm.nv)

        def loss(h, d=d):
            moved = {name: x + h * d[name] for name, x in inputs.items() if name != "qpos"}
            qpos = inputs["qpos"].copy()
            mujoco.mj_integratePos(model, qpos, d["qpos"], h)
            return np.sum(weights * getattr(arm.rollout(qpos=qpos, **moved), pose))

        numeric, error_bar = ridders(loss, step=1e-2)
        adjoint = grad.qpos_tangent @ d["qpos"] + grad.qvel @ d["qvel"]
        adjoint += np.sum(grad.ctrl * d["ctrl"])
        scale = max(abs(adjoint), abs(numeric), 1)
        assert error_bar < 1e-7 * scale
        assert abs(adjoint - numeric) < 1e-6 * scale


def test_pose_and_state_cotangents_add(arm):
    traj = arm.rollout(**start(arm))
    rng = np.random.default_rng(3)
    names = ("qpos", "qvel", *POSES)
    weights = {name: rng.standard_normal(getattr(traj, name).shape) for name in names}
    total = traj.backward(**weights)
    parts = [traj.backward(**{name: w}) for name, w in weights.items()]
    for field in ("qpos", "qpos_tangent", "qvel", "ctrl", "qfrc_applied"):
        expected = sum(getattr(part, field) for part in parts)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(getattr(total, field), expected, atol=1e-11 * scale)


def test_closed_form_of_a_pendulum(pendulum):
    # no step: the derivative of the centre of mass of a rod, 0.25 (-sin q, 0, -cos q)
    traj = pendulum.rollout(qpos=[0.4], nstep=0)
    np.testing.assert_allclose(
        traj.subtree_com[0, 1], [-0.25 * np.sin(0.4), 0, -0.25 * np.cos(0.4)]
    )
    np.testing.assert_allclose(traj.xquat[0, 1], [np.cos(0.2), 0, np.sin(0.2), 0], atol=1e-15)
    for pose, row, expected in [
        ("subtree_com", [1, 0, 0], -0.25 * np.cos(0.4)),
        ("subtree_com", [0, 0, 1], 0.25 * np.sin(0.4)),
        ("xquat", [1, 0, 0, 0], -0.5 * np.sin(0.2)),
        ("xpos", [1, 1, 1], 0),
    ]:
        weights = np.zeros_like(getattr(traj, pose))
        weights[0, 1] = row
        grad = traj.backward(**{pose: weights})
        np.testing.assert_allclose(grad.qpos, [expected], atol=1e-12)


@pytest.mark.parametrize(("pose", "row"), ROWS.items())
def test_wrong_shape(arm, pose, row):
    traj = arm.rollout(**start(arm, nstep=3))
    right = getattr(traj, pose)
    for wrong in (right[1:], right[..., :2], right.reshape(4, -1), right[None], right[-1]):
        with pytest.raises(diffmj.InputError, match=f"{pose} has shape.*\\(nstep \\+ 1, {row}\\)"):
            traj.backward(**{pose: wrong})
    batch = arm.rollout(qvel=np.zeros((2, arm.nv)), nstep=3)
    with pytest.raises(diffmj.InputError, match=rf"\(B, nstep \+ 1, {row}\) = \(2, 4, "):
        batch.backward(**{pose: right})
    with pytest.raises(diffmj.InputError, match=pose):
        traj.backward(**{pose: np.full_like(right, np.nan)})


@pytest.mark.parametrize("integrator", ["implicitfast", "RK4"])
@pytest.mark.parametrize("pose", POSES[4:])
def test_gradient_of_other_integrators(pose, integrator):
    sim = diffmj.Simulator(ARM, integrator)
    inputs, rng = start(sim, nstep=5), np.random.default_rng(4)
    traj = sim.rollout(**inputs)
    weights = rng.standard_normal(getattr(traj, pose).shape)
    grad = traj.backward(**{pose: weights})
    d = rng.standard_normal(sim.nv)

    def loss(h):
        moved = inputs | {"qvel": inputs["qvel"] + h * d}
        return np.sum(weights * getattr(sim.rollout(**moved), pose))

    numeric, error_bar = ridders(loss, step=1e-2)
    scale = max(abs(numeric), 1)
    assert error_bar < 1e-7 * scale
    assert abs(grad.qvel @ d - numeric) < 1e-6 * scale


@pytest.mark.parametrize("name", ["site_pos", "geom_pos", "geom_quat", "body_pos", "jnt_axis"])
def test_parameters_match_differences(name):
    model = mujoco.MjModel.from_xml_string(ARM)
    # frames that coincide with their body's take a short cut that leaves geom_pos out
    for same in (model.geom_sameframe, model.site_sameframe, model.body_sameframe):
        same[:] = 0
    sim = diffmj.Simulator(model)
    inputs, rng = start(sim, nstep=3), np.random.default_rng(5)
    traj = sim.rollout(**inputs)
    weights = {x: rng.standard_normal(getattr(traj, x).shape) for x in POSES}
    gradient = traj.backward(**weights, params=[name]).params[name]
    field = getattr(model, name)
    at, direction = field.copy(), rng.standard_normal(field.shape)
    if name == "body_pos":
        direction[0] = 0

    def loss(h):
        field[...] = at + h * direction
        if name in ("geom_quat", "jnt_axis"):
            field[...] /= np.linalg.norm(field, axis=-1, keepdims=True)
        moved = diffmj.Simulator(model).rollout(**inputs)
        return sum(float(np.sum(w * getattr(moved, x))) for x, w in weights.items())

    numeric, error_bar = ridders(loss, step=1e-3)
    assert error_bar < 1e-7 * max(abs(numeric), 1)
    assert abs(np.sum(gradient * direction) - numeric) < 1e-6 * max(abs(numeric), 1)


def same(a: diffmj.Gradient, b: diffmj.Gradient) -> None:
    for field in ("qpos", "qpos_tangent", "qvel", "act", "ctrl", "qfrc_applied"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
    assert a.params.keys() == b.params.keys()
    for name, x in a.params.items():
        np.testing.assert_array_equal(x, b.params[name])


STATES = ("qpos", "qpos_tangent", "qvel")


def final_weights(traj: diffmj.Trajectory) -> tuple[dict, dict]:
    """A row of every cotangent, and the same in arrays of all rows."""
    rng = np.random.default_rng(6)
    last, full = {}, {}
    for name in (*STATES, *POSES):
        like = traj.qvel if name == "qpos_tangent" else getattr(traj, name)
        full[name] = np.zeros_like(like)
        at = (slice(None), -1) if traj.batch else -1
        full[name][at] = rng.standard_normal(full[name][at].shape)
        last[name] = full[name][at]
    return last, full


@pytest.mark.smoke
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4", "tsit5"])
@pytest.mark.parametrize("batched", [False, True])
def test_final_is_the_full_cotangent_with_zeros(integrator, batched):
    sim = diffmj.Simulator(ARM, integrator)
    inputs = start(sim, nstep=6)
    if batched:
        inputs["qvel"] = np.stack([inputs["qvel"], -inputs["qvel"]])
    traj = sim.rollout(**inputs)
    last, full = final_weights(traj)
    params = ["body_mass", "site_pos", "geom_quat"]
    same(traj.backward(final=last, params=params), traj.backward(**full, params=params))
    for name in last:
        same(traj.backward(final={name: last[name]}), traj.backward(**{name: full[name]}))


@pytest.mark.parametrize("batched", [False, True])
def test_final_adds_to_the_other_rows(arm, batched):
    inputs = start(arm, nstep=6)
    if batched:
        inputs["qvel"] = np.stack([inputs["qvel"], -inputs["qvel"]])
    traj = arm.rollout(**inputs)
    last, full = final_weights(traj)
    running = {x: np.ones_like(getattr(traj, x)) for x in ("qvel", "site_linvel")}
    before = {name: x.copy() for name, x in running.items()}
    both = traj.backward(**running, final={x: last[x] for x in ("qvel", "xmat")})
    whole = {
        "qvel": running["qvel"] + full["qvel"],
        "site_linvel": running["site_linvel"],
        "xmat": full["xmat"],
    }
    same(both, traj.backward(**whole))
    for name, x in running.items():
        np.testing.assert_array_equal(x, before[name])


def test_final_beside_constraint_forces(cube):
    traj = cube.rollout(nstep=200)
    touch = int(np.argmax(traj.steps.nefc > 0))
    force = {touch: np.ones(traj.steps.nefc[touch])}
    assert force[touch].size > 0
    full = np.zeros_like(traj.qvel)
    full[-1] = 1
    same(
        traj.backward(final={"qvel": np.ones(6)}, efc_force=force),
        traj.backward(qvel=full, efc_force=force),
    )


def test_final_of_a_rollout_that_failed(cube):
    force = np.zeros((2, 50, 6))
    force[0, 10:, 2] = 1e10
    with pytest.warns(RuntimeWarning, match="1 of 2"):
        batch = cube.rollout(qfrc_applied=force)
    gradient = batch.backward(final={"body_linvel": 2 * batch.body_linvel[:, -1]})
    alone = cube.rollout(qfrc_applied=force[1])
    expected = alone.backward(final={"body_linvel": 2 * alone.body_linvel[-1]})
    assert np.isnan(gradient.qvel[0]).all()
    np.testing.assert_array_equal(gradient.qvel[1], expected.qvel)


def test_wrong_final(arm):
    traj = arm.rollout(**start(arm, nstep=3))
    batch = arm.rollout(qvel=np.zeros((2, arm.nv)), nstep=3)

    def refused(match, final, of=traj):
        with pytest.raises(diffmj.InputError, match=match):
            of.backward(final=final)

    refused(r"final has 'site_pos', expected names among qpos,.*site_angvel", {"site_pos": [0]})
    refused(r"final has 'params'", {"params": ["body_mass"]})
    refused(r"final is a list, expected a dict", [1, 2])
    refused(r"at least one of qpos.*final", {})
    refused(r"final\['qvel'\] has shape \(4, 10\), expected \(nv,\) = \(10,\)", {"qvel": traj.qvel})
    refused(
        r"final\['xmat'\] has shape \(4, 9\), expected \(nbody, 3, 3\) = \(4, 3, 3\)",
        {"xmat": np.zeros((4, 9))},
    )
    refused(
        r"final\['qvel'\] has shape \(10,\), expected \(B, nv\) = \(2, 10\)",
        {"qvel": np.zeros(10)},
        batch,
    )
    row = np.zeros((2, 3))
    row[1, 2] = np.nan
    refused(r"final\['site_linvel'\]\[1, 2\] is nan", {"site_linvel": row})


def test_only_what_is_read_is_kept(arm):
    traj = arm.rollout(**start(arm))
    traj.xpos.sum()
    assert {x for x in POSES if x in vars(traj)} == {"xpos"}


@pytest.mark.parametrize("observable", ["qpos", "qvel", "sensordata", *POSES])
def test_a_loss_of_an_early_state_is_that_of_a_shorter_rollout(observable):
    sim = diffmj.Simulator(load("sensors"))
    inputs = start(sim)
    inputs["ctrl"][:] = inputs["ctrl"][0]  # a sensor of forces depends on the control at its state
    long = sim.rollout(**inputs)
    shape = getattr(long, observable).shape[1:]
    bar = np.random.default_rng(1).standard_normal(shape)
    rows = np.zeros((21, *shape))
    rows[8] = bar
    short = sim.rollout(**(inputs | {"ctrl": inputs["ctrl"][:8]}))
    for params in ((), ("body_mass",)):
        early = long.backward(**{observable: rows}, params=params)
        final = short.backward(final={observable: bar}, params=params)
        for name in ("qpos", "qvel", "act"):
            np.testing.assert_allclose(
                getattr(early, name), getattr(final, name), rtol=1e-9, atol=1e-12
            )
        np.testing.assert_allclose(early.ctrl.sum(0), final.ctrl.sum(0), rtol=1e-9, atol=1e-9)
        assert not early.ctrl[9:].any()
