"""mujoco.sysid's problems with diffmj's derivatives."""

import functools
import subprocess
import sys

import diffmj
import diffmj.sysid
import mujoco
import mujoco.rollout
import numpy as np
import pytest
import scipy.optimize
from mujoco import sysid

ARM = """<mujoco><option timestep="0.005" integrator="implicitfast"/><worldbody>
  <body name="upper"><joint name="shoulder" axis="0 1 0" damping="0.4"/>
    <geom name="rod" type="capsule" size="0.03" fromto="0 0 0 0 0 -0.4" mass="1"/>
    <body name="lower" pos="0 0 -0.4">
      <joint name="elbow" axis="0 1 0.2" damping="0.2" frictionloss="0.05"/>
      <geom name="bob" type="box" size="0.05 0.08 0.1" mass="0.5"/></body></body>
  </worldbody>
  <actuator><motor name="m1" joint="shoulder"/><motor name="m2" joint="elbow"/></actuator>
  <sensor><jointpos name="q1" joint="shoulder"/><jointpos name="q2" joint="elbow"/>
    <jointvel name="v1" joint="shoulder"/><jointvel name="v2" joint="elbow"/>
    <jointactuatorfrc name="t1" joint="shoulder"/></sensor></mujoco>"""

BALL = """<mujoco><option timestep="0.004" cone="elliptic" integrator="implicitfast"
    tolerance="0" iterations="30"/><worldbody>
  <geom name="floor" type="plane" size="5 5 0.1"/>
  <body name="ball" pos="0 0 0.0995"><freejoint name="free"/>
    <geom name="ball" size="0.1" mass="2"/><site name="mark" pos="0.1 0 0"/></body></worldbody>
  <actuator><motor name="push" joint="free" gear="1 0 0 0 0 0"/>
    <motor name="turn" joint="free" gear="0 0 0 0 0 1"/></actuator>
  <contact><pair name="sole" geom1="ball" geom2="floor" friction="0.1 0.1 0.005 0.0001 0.0001"/>
  </contact>
  <sensor><framepos name="mark" objtype="site" objname="mark"/>
    <gyro name="gyro" site="mark"/><framequat name="quat" objtype="body" objname="ball"/></sensor>
  </mujoco>"""


def setter(path: str, attribute: str, index: int | None = None):
    """Writes a parameter into an attribute of a named element."""
    kind, name = path.split(":")

    def modify(spec: mujoco.MjSpec, param: "sysid.Parameter") -> None:
        element = getattr(spec, kind)(name)
        if index is None:
            setattr(element, attribute, param.value[0])
        else:
            getattr(element, attribute)[index] = param.value[0]

    return modify


ARM_PARAMETERS = {
    "bob": (0.5, 0.05, 3.0, setter("geom:bob", "mass")),
    "shoulder": (0.4, 0.01, 4.0, setter("joint:shoulder", "damping", 0)),
    "friction": (0.05, 1e-3, 1.0, setter("joint:elbow", "frictionloss")),
    "length": (0.4, 0.2, 0.6, setter("body:lower", "pos", 2)),
}


def record(xml: str, seconds: float, amplitude: list[float], noise: float = 0.0, seed: int = 0):
    """A motion with noisy sensors; its times are those of mujoco.sysid's own tests."""
    spec = mujoco.MjSpec.from_string(xml)
    model = spec.compile()
    data = mujoco.MjData(model)
    if "ball" in xml:
        mujoco.mj_step(model, data, 500)  # until it rests
        data.qvel[:2] = 2, 0.5  # slides all the time
        data.time = 0
    times = np.arange(int(seconds / model.opt.timestep)) * model.opt.timestep
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 6, model.nu)
    ctrl = np.array(amplitude) * np.sin(2 * np.pi * (0.8 + phase / 6) * times[:, None] + phase)
    state = sysid.create_initial_state(model, data.qpos, data.qvel, data.act)
    states, sensors = mujoco.rollout.rollout(model, data, state, ctrl[:-1])
    sensors = sensors[0] + noise * rng.standard_normal(sensors[0].shape)
    return (
        spec,
        state,
        sysid.TimeSeries(times, ctrl),
        sysid.TimeSeries.from_names(states[0][:, 0], sensors, model),
    )


def parameters(table: dict, start: float = 1.5) -> "sysid.ParameterDict":
    out = sysid.ParameterDict()
    for name, (nominal, lower, upper, modifier) in table.items():
        out.add(sysid.Parameter(name, nominal, lower, upper, modifier=modifier))
        out[name].value[:] = start * nominal
    if "length" in out:
        out["length"].modifier = lambda spec, p: setattr(
            spec.body("lower"), "pos", [0, 0, -p.value[0]]
        )
        out["length"].value[:] = 0.42
    return out


def arm(noise: float = 0.0, n: int = 2) -> "sysid.ModelSequences":
    motions = [record(ARM, 0.5 + 0.1 * (i % 2), [3, 1.5], noise, seed=i) for i in range(n)]
    return sysid.ModelSequences(
        "arm",
        motions[0][0],
        [f"motion {i}" for i in range(n)],
        [x[1] for x in motions],
        [x[2] for x in motions],
        [x[3] for x in motions],
    )


def slide() -> "sysid.ModelSequences":
    spec, state, control, sensors = record(BALL, 0.2, [5, 1.5])
    return sysid.ModelSequences("ball", spec, "slide", state, control, sensors)


BALL_PARAMETERS = {
    "sole": (0.1, 0.01, 2.0, setter("pair:sole", "friction", 0)),
    "mass": (2.0, 0.5, 5.0, setter("geom:ball", "mass")),
    "solref": (0.02, 0.01, 0.1, setter("pair:sole", "solref", 0)),
}


def theirs(residual_fn, params) -> np.ndarray:
    return np.concatenate([x.ravel() for x in residual_fn(params.as_vector(), params.copy())[0]])


def differences(residual_fn, params, step: float = 1e-4) -> np.ndarray:
    """Central differences of mujoco.sysid's residual, extrapolated once."""
    x = params.as_vector()

    def residual(x):
        return np.concatenate([r.ravel() for r in residual_fn(x, params.copy())[0]])

    columns = []
    for k in range(x.size):
        e = np.zeros(x.size)
        e[k] = step * max(abs(x[k]), 1e-2)
        one, half = ((residual(x + s * e) - residual(x - s * e)) / (2 * s * e[k]) for s in (1, 0.5))
        columns.append((4 * half - one) / 3)
    return np.column_stack(columns)


def check(residual_fn, params, tolerance: float = 1e-6):
    residual, jacobian = diffmj.sysid.jacobian(params, residual_fn)
    expected = theirs(residual_fn, params)
    assert np.abs(residual - expected).max() <= 1e-12 * np.abs(expected).max()
    numeric = differences(residual_fn, params)
    scale = np.abs(numeric).max(axis=0)
    assert np.all(scale > 0)
    assert (np.abs(jacobian - numeric).max(axis=0) / scale).max() < tolerance
    return jacobian


@pytest.mark.smoke
def test_residual_and_jacobian_of_an_arm():
    check(sysid.build_residual_fn(models_sequences=[arm(0.01)]), parameters(ARM_PARAMETERS))


def test_residual_and_jacobian_through_contact():
    check(sysid.build_residual_fn(models_sequences=[slide()]), parameters(BALL_PARAMETERS, 1.1))


@pytest.mark.parametrize(
    "options",
    [
        {"resample_true": False},
        {"sensor_weights": {"q1": 3.0, "v2": 0.1}},
        {"enabled_observations": [("q2", sysid.SignalType.MjSensor)]},
        {"n_threads": 1},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_of_the_residual(options):
    motion = arm(0.01, 1)
    if options.get("resample_true") is False:
        # one more row of sensors than of predictions: that of the initial state
        rows = motion.sensordata[0]
        times = np.append(rows.times, rows.times[-1] + 0.005)
        data = np.vstack([rows.data[:1], rows.data])
        sensors = sysid.TimeSeries(times, data, rows.signal_mapping)
        motion = sysid.ModelSequences(
            "arm", motion.spec, "motion", motion.initial_state, motion.control, sensors
        )
    check(sysid.build_residual_fn(models_sequences=[motion], **options), parameters(ARM_PARAMETERS))


def transform(params) -> "sysid.SignalTransform":
    """A delay, a gain and a bias of sensors."""
    for name, value, upper in (("delay", 0.0123, 0.03), ("gain", 1.1, 2.0), ("bias", 0.02, 0.1)):
        params.add(sysid.Parameter(name, value, 0.0, upper))
    out = sysid.SignalTransform()
    out.delay("q*", params["delay"])
    out.gain("v*", params["gain"], target="predicted")
    out.bias("t*", params["bias"], target="predicted")
    out.set_sensor_weights({"q1": 2.0})
    return out


def test_signal_transform():
    params = parameters(ARM_PARAMETERS)
    signals = transform(params)
    residual_fn = sysid.build_residual_fn(
        models_sequences=[arm(0.01, 1)], modify_residual=signals.apply
    )
    check(residual_fn, params)
    # gradients agree with the Jacobian: the transpose of a delay, a gain and a bias
    residual, jacobian = diffmj.sysid.jacobian(params, residual_fn)
    _, result = diffmj.sysid.optimize(
        params, residual_fn, "diffmj-lbfgs", verbose=False, max_iters=1, final_jacobian=False
    )
    assert result.jac is None and result.fun < 0.5 * residual @ residual
    problem = diffmj.sysid.derivatives(params, residual_fn, nthread=1)
    loss, gradient = problem.gradient(params.as_vector())
    assert loss == pytest.approx(0.5 * residual @ residual, rel=1e-12)
    assert gradient == pytest.approx(jacobian.T @ residual, rel=1e-6)


def test_states_as_observations():
    """Positions of a free body: quaternions from the tangent space."""
    spec, state, control, sensors = record(BALL, 0.2, [5, 1.5])
    model = spec.compile()
    mapping = {"ball_qpos": (sysid.SignalType.MjStateQPos, np.arange(7))}
    states, _ = mujoco.rollout.rollout(model, mujoco.MjData(model), state, control.data[:-1])
    noise = 0.01 * np.random.default_rng(0).standard_normal((len(states[0]), 7))
    measured = sysid.TimeSeries(sensors.times, states[0][:, 1:8] + noise, mapping)
    motion = sysid.ModelSequences(
        "ball", spec, "slide", state, control, measured, allow_missing_sensors=True
    )
    params = parameters(BALL_PARAMETERS, 1.1)
    residual_fn = sysid.build_residual_fn(models_sequences=[motion])
    jacobian, residual = check(residual_fn, params), theirs(residual_fn, params)
    loss, gradient = diffmj.sysid.derivatives(params, residual_fn, nthread=1).gradient(
        params.as_vector()
    )
    assert loss == pytest.approx(0.5 * residual @ residual, rel=1e-12)
    assert gradient == pytest.approx(jacobian.T @ residual, rel=1e-6)


def test_several_models_and_frozen_parameters():
    """A parameter of one model changes nothing in another."""
    params = parameters(ARM_PARAMETERS)
    params.update(parameters(BALL_PARAMETERS, 1.1))
    params["friction"].frozen = True

    def only(kind, modifier):
        return lambda spec, p: modifier(spec, p) if spec.geom(kind) is not None else None

    for name in ARM_PARAMETERS:
        params[name].modifier = only("bob", params[name].modifier)
    for name in BALL_PARAMETERS:
        params[name].modifier = only("ball", params[name].modifier)
    residual_fn = sysid.build_residual_fn(models_sequences=[arm(0.01), slide()])
    jacobian = check(residual_fn, params)
    assert jacobian.shape[1] == 6
    rows = len(theirs(sysid.build_residual_fn(models_sequences=[arm(0.01)]), params))
    assert not jacobian[:rows, 3:].any() and not jacobian[rows:, :3].any()


@pytest.mark.parametrize("optimizer", ["mujoco", "scipy", "scipy_parallel_fd", "diffmj-lbfgs"])
def test_the_same_answer_as_mujoco_sysid(optimizer):
    residual_fn = sysid.build_residual_fn(models_sequences=[arm(0.01)])
    params = parameters(ARM_PARAMETERS)
    start = params.as_vector()
    expected, reference = sysid.optimize(params, residual_fn, "scipy", verbose=False)
    found, result = diffmj.sysid.optimize(
        params, residual_fn, optimizer, verbose=False, max_iters=300
    )
    assert np.array_equal(params.as_vector(), start)
    assert type(found) is type(expected) and type(result) is type(reference)
    assert found.as_vector() == pytest.approx(expected.as_vector(), rel=2e-4)
    assert np.array_equal(found.as_vector(), result.x)
    assert result.jac.shape == reference.jac.shape
    assert result.jac == pytest.approx(reference.jac, rel=1e-2, abs=1e-2)
    residuals, _, _ = residual_fn(result.x, found)
    covariance, intervals = sysid.calculate_intervals(residuals, result.jac)
    assert np.all(np.isfinite(covariance)) and np.all(intervals > 0)
    evaluations = result.extras["evaluations"]
    assert evaluations["gradient" if optimizer == "diffmj-lbfgs" else "jacobian"] > 1


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_losses_are_those_of_scipy(loss):
    residual_fn = sysid.build_residual_fn(models_sequences=[arm(0.01)])
    params = parameters(ARM_PARAMETERS)
    problem = diffmj.sysid.derivatives(params, residual_fn)
    x, scale = params.as_vector(), 0.02
    value, gradient = problem.gradient(x, loss, scale)
    fun = problem.residual(x)
    assert 0.1 < (np.abs(fun) > scale).mean() < 0.9
    scipys = scipy.optimize.least_squares(
        lambda _: fun, [0.0], jac=lambda _: np.ones((fun.size, 1)), loss=loss, f_scale=scale,
        max_nfev=1,
    )  # fmt: skip
    assert value == pytest.approx(scipys.cost, rel=1e-12)
    ends = [problem.gradient(x + s * 1e-6 * np.eye(len(x))[0], loss, scale)[0] for s in (1, -1)]
    assert gradient[0] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


def test_robust_fits_agree():
    residual_fn = sysid.build_residual_fn(models_sequences=[arm(0.01)])
    arguments = {"verbose": False, "loss": "cauchy", "f_scale": 0.02, "max_iters": 300}
    found = [
        diffmj.sysid.optimize(parameters(ARM_PARAMETERS), residual_fn, optimizer, **arguments)[1].x
        for optimizer in ("scipy", "diffmj-lbfgs")
    ]
    assert found[1] == pytest.approx(found[0], rel=2e-4)
    with pytest.raises(diffmj.InputError, match="loss is 'lorentz'"):
        diffmj.sysid.optimize(
            parameters(ARM_PARAMETERS), residual_fn, "diffmj-lbfgs", loss="lorentz", verbose=False
        )


def test_through_contact():
    residual_fn = sysid.build_residual_fn(models_sequences=[slide()])
    table = {name: BALL_PARAMETERS[name] for name in ("sole", "mass")}
    params = parameters(table, 1.3)
    found, _ = diffmj.sysid.optimize(params, residual_fn, "mujoco", verbose=False)
    assert found.as_vector() == pytest.approx(params.as_nominal_vector(), rel=1e-6)


def test_partial_of_residual():
    motion = arm(0.01, 1)
    partial = functools.partial(sysid.residual, models_sequences=[motion])
    check(partial, parameters(ARM_PARAMETERS))


def falls_back(match: str, residual_fn, params):
    """The warning says why, the answer is mujoco.sysid's, and gradients alone are an error."""
    expected, _ = sysid.optimize(params, residual_fn, "scipy", verbose=False, max_iters=3)
    with pytest.warns(diffmj.FallbackWarning, match=match):
        found, _ = diffmj.sysid.optimize(params, residual_fn, "scipy", verbose=False, max_iters=3)
    assert np.array_equal(found.as_vector(), expected.as_vector())
    with pytest.raises(diffmj.UnsupportedError, match=match):
        diffmj.sysid.optimize(params, residual_fn, "diffmj-lbfgs", verbose=False)
    with pytest.raises((diffmj.UnsupportedError, diffmj.InputError), match=match):
        diffmj.sysid.jacobian(params, residual_fn)


def test_what_cannot_be_differentiated_falls_back():
    motion = arm(0.01, 1)
    params = parameters(ARM_PARAMETERS)
    built = sysid.build_residual_fn(models_sequences=[motion])

    def regularised(x, params):
        residuals, _, _ = built(x, params)
        return [*residuals, 0.1 * (np.asarray(x) - 1).reshape(len(x), -1).squeeze()], None, None

    falls_back(r"residual_fn \(.*regularised\) is not what", regularised, params)

    def steps(**kwargs):
        del kwargs["param_dicts"]
        return sysid.sysid_rollout(**kwargs)

    custom = sysid.build_residual_fn(models_sequences=[motion], custom_rollout=steps)
    falls_back(r"custom_rollout \(steps\) is not a rollout", custom, params)


def test_a_parameter_without_a_gradient_falls_back():
    table = {**ARM_PARAMETERS, "gap": (0.01, 0.0, 0.1, setter("geom:bob", "gap"))}
    residual_fn = sysid.build_residual_fn(models_sequences=[arm(0.01, 1)])
    falls_back("'gap' changes geom_gap of geom 'bob'", residual_fn, parameters(table))


def test_a_sensor_without_a_gradient_falls_back():
    xml = BALL.replace("</sensor>", '<rangefinder name="range" site="mark"/></sensor>')
    spec, state, control, sensors = record(xml, 0.1, [20, 1.5], noise=0.01)
    motion = sysid.ModelSequences("ball", spec, "slide", state, control, sensors)
    residual_fn = sysid.build_residual_fn(models_sequences=[motion])
    falls_back("sensor 'range'", residual_fn, parameters(BALL_PARAMETERS, 1.1))


def test_a_residual_of_the_users():
    """A function of signals: the Jacobian takes its derivative along the tangents; gradients alone
    cannot."""
    params = parameters(ARM_PARAMETERS)

    def squares(params, predicted, measured, model, return_pred_all, state=None, **_):
        measured = sysid.apply_delayed_ts_window(measured, predicted, 0.0, 0.0)
        predicted = predicted.resample(measured.times)
        return (measured.data**2 - predicted.data**2), predicted, measured

    residual_fn = sysid.build_residual_fn(models_sequences=[arm(0.01, 1)], modify_residual=squares)
    check(residual_fn, params)
    with pytest.raises(diffmj.UnsupportedError, match="does more than to resample"):
        diffmj.sysid.optimize(params, residual_fn, "diffmj-lbfgs", verbose=False)


def test_errors():
    residual_fn = sysid.build_residual_fn(models_sequences=[arm(0.01, 1)])
    params = parameters(ARM_PARAMETERS)
    with pytest.raises(diffmj.InputError, match="optimizer is 'newton', expected one of mujoco"):
        diffmj.sysid.optimize(params, residual_fn, "newton")
    for name in ARM_PARAMETERS:
        params[name].frozen = True
    found, result = diffmj.sysid.optimize(params, residual_fn, verbose=False)
    assert found.size == 0 and result.x.size == 0


def test_import_without_mujoco_sysid():
    """A MuJoCo whose mujoco.sysid lacks its dependencies: the module is there, and empty."""
    code = """
import sys, types, mujoco
sys.modules["mujoco.sysid"] = mujoco.sysid = types.ModuleType("mujoco.sysid")
import diffmj
try:
    import diffmj.sysid
except ImportError as error:
    assert "pip install 'mujoco[sysid]'" in str(error), error
else:
    raise SystemExit("it was imported")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_warnings_at_the_start(caplog):
    residual_fn = sysid.build_residual_fn(models_sequences=[arm(0.01, 1)])
    params = parameters(ARM_PARAMETERS)
    params["bob"].value[:] = 0.05
    with caplog.at_level("WARNING", logger="absl"):
        diffmj.sysid.optimize(
            params, residual_fn, "scipy", verbose=False, check_conditioning=True, max_iters=1
        )
    assert any("1 of 4 parameters start at a bound" in x.message for x in caplog.records)
    assert not any("cond(J^T J)" in x.message for x in caplog.records)
