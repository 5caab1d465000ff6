"""Parameters of a model from recordings."""

import diffmj
import mujoco
import numpy as np
import pytest

ARM = """<mujoco><option timestep="0.005"/><worldbody>
  <body><joint name="shoulder" axis="0 1 0" damping="0.2"/>
    <geom name="rod" type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1"/>
    <body pos="0 0 -0.5"><joint name="elbow" axis="0 1 0" damping="0.05"/>
      <geom name="bob" type="box" size="0.05 0.08 0.03" mass="0.5"/><site name="tip"/></body></body>
  </worldbody><actuator><motor joint="shoulder"/></actuator>
  <sensor><gyro name="gyro" site="tip"/></sensor></mujoco>"""
TRUTH = {"shoulder/damping[0]": 0.3, "elbow/damping[0]": 0.1, "bob/mass": 0.8}
BOUNDS = dict.fromkeys(TRUTH, (0, 10))


def recordings(n: int = 4, noise: float = 0.0) -> list[diffmj.Recording]:
    sim = diffmj.ParametricSimulator(ARM, list(TRUTH)).at(TRUTH)
    rng = np.random.default_rng(0)
    out = []
    for i in range(n):
        ctrl = 3 * np.repeat(np.sin(0.3 * np.arange(20) + i), 2)[:, None]
        traj = sim.rollout(rng.standard_normal(2), rng.standard_normal(2), ctrl=ctrl, sensors=True)
        out.append(
            diffmj.Recording(
                traj.time[::2],
                qpos=traj.qpos[::2] + noise * rng.standard_normal((21, 2)),
                qvel=traj.qvel[::2],
                ctrl=np.append(ctrl[::2], np.nan)[:, None],
                sensors={"gyro": traj.sensor("gyro")[::2]},
                name=f"swing {i}",
            )
        )
    return out


@pytest.mark.smoke
def test_lbfgs_finds_the_parameters_again():
    fit = diffmj.identify(
        ARM, list(TRUTH), recordings(), bounds=BOUNDS, segment=5, method="lbfgs", held_out=0.25
    )
    assert fit.values == pytest.approx(TRUTH, rel=1e-3)
    assert not fit.interrupted and not fit.undetermined
    assert fit.held_out[1] < 1e-4 * fit.held_out[0]
    assert fit.loss < 1e-4 * fit.history[0].loss
    assert fit.history[0].values == pytest.approx(fit.family.start)
    assert "bob/mass" in str(fit)
    # the simulator of the fit reproduces a recording
    one = diffmj.segments(fit.simulator, recordings(1), 20)[0]
    residual = one.residuals(fit.simulator.rollout(**one.inputs))
    assert np.abs(residual["qpos"]).max() < 1e-3


def test_errors_may_be_left_out():
    arguments = {"bounds": BOUNDS, "segment": 5, "iterations": 2}
    fits = [
        diffmj.identify(ARM, list(TRUTH), recordings(), **arguments, errors=x)
        for x in (True, False)
    ]
    assert fits[0].values == fits[1].values
    assert all(x > 0 for x in fits[0].errors.values()) and "±" in str(fits[0])
    assert all(np.isnan(x) for x in fits[1].errors.values()) and "±" not in str(fits[1])
    assert np.isnan(fits[1].correlation).all() and fits[1].undetermined == []


def test_adam_reduces_the_loss_and_is_reproducible():
    seen = []
    arguments = {"bounds": BOUNDS, "segment": 5, "iterations": 15, "minibatch": 6, "seed": 3}
    first = diffmj.identify(
        ARM, list(TRUTH), recordings(), **arguments, progress=lambda i, loss: seen.append((i, loss))
    )
    assert [i for i, _ in seen] == list(range(16))
    assert first.loss < first.history[0].loss
    for nthread in (1, 3):
        again = diffmj.identify(ARM, list(TRUTH), recordings(), **arguments, nthread=nthread)
        assert again.values == first.values


def test_errors_of_the_estimate_cover_the_truth():
    fit = diffmj.identify(
        ARM, list(TRUTH), recordings(8, 1e-3), bounds=BOUNDS, segment=5, method="lbfgs"
    )
    for name, value in TRUTH.items():
        assert 0 < fit.errors[name] < 0.2 * value
        assert abs(fit.values[name] - value) < 5 * fit.errors[name]
    assert fit.correlation.shape == (3, 3)


def test_a_function_and_bad_arguments():
    def build(values):
        spec = mujoco.MjSpec.from_string(ARM)
        spec.geom("bob").mass = values["mass"]
        return spec

    data = recordings(2)
    fit = diffmj.identify(
        build, {"mass": 0.6}, data, bounds={"mass": (0, 5)}, method="lbfgs", segment=5, iterations=5
    )
    assert fit.loss < fit.history[0].loss
    with pytest.raises(diffmj.InputError, match="method is 'newton', expected one of adam"):
        diffmj.identify(ARM, ["bob/mass"], data, method="newton")
    with pytest.raises(diffmj.InputError, match="there are no recordings"):
        diffmj.identify(ARM, ["bob/mass"], [])
    with pytest.raises(diffmj.InputError, match="bounds has 'mass', expected names among"):
        diffmj.identify(ARM, ["bob/mass"], data, bounds={"mass": (0, 1)})
    for method in ("adam", "lbfgs"):
        with pytest.raises(
            diffmj.InputError, match=r"'bob/mass' starts at 0.5.*between its bounds"
        ):
            diffmj.identify(ARM, ["bob/mass"], data, bounds={"bob/mass": (1, 2)}, method=method)
    with pytest.raises(diffmj.InputError, match="no segment of 100 intervals"):
        diffmj.identify(ARM, ["bob/mass"], data, segment=100)


def test_what_the_data_do_not_determine_is_a_warning():
    ball = """<mujoco><worldbody><body name="ball"><freejoint/>
      <geom name="ball" size="0.1" mass="1"/></body></worldbody></mujoco>"""
    traj = diffmj.Simulator(ball).rollout(nstep=20)
    recording = diffmj.Recording(traj.time, qpos=traj.qpos, qvel=traj.qvel)
    with pytest.warns(RuntimeWarning, match="do not determine geom:ball/mass"):
        fit = diffmj.identify(
            ball, ["geom:ball/mass", "option/gravity[2]"], recording, segment=10, iterations=2
        )
    assert fit.errors["geom:ball/mass"] == np.inf


def test_levenberg_marquardt_that_found_no_minimum_is_a_warning():
    def slider(floor: float) -> str:
        return f"""<mujoco><option viscosity="1"/><worldbody>
          <geom type="plane" size="9 9 1" pos="0 0 {floor}"/>
          <body pos="0 0 0.1"><joint type="slide" axis="1 0 0"/>
            <geom name="ball" size="0.05" mass="0.1"/></body></worldbody></mujoco>"""

    # the drag asks for a ball of 0.12, but one of more than 0.1 meets the floor, which stops it
    real = diffmj.ParametricSimulator(slider(-1), ["geom:ball/size[0]"]).at([0.12])
    traj = real.rollout(qvel=[1.0], nstep=60)
    recording = diffmj.Recording(traj.time, qpos=traj.qpos, qvel=traj.qvel)
    problem = (slider(0), ["geom:ball/size[0]"], recording)
    given = {"segment": 20, "method": "lm", "errors": False}
    with pytest.warns(RuntimeWarning, match=r"does not fall along its gradient .* loss jumps"):
        fit = diffmj.identify(*problem, iterations=100, **given)
    assert not fit.converged
    assert fit.values["geom:ball/size[0]"] == pytest.approx(0.1, rel=1e-3)
    with pytest.warns(RuntimeWarning, match="had not converged after 1 iterations; allow more"):
        diffmj.identify(*problem, iterations=1, **given)


@pytest.mark.smoke
def test_levenberg_marquardt_takes_few_iterations():
    fit = diffmj.identify(
        ARM, list(TRUTH), recordings(), bounds=BOUNDS, segment=5, method="lm", held_out=0.25
    )
    assert fit.values == pytest.approx(TRUTH, rel=1e-6)
    assert fit.converged and len(fit.history) < 12
    after = fit.target_errors(held_out=True)
    assert set(after) == {"qpos", "qvel", "sensor:gyro"}
    assert all(x.after < 1e-4 * x.before for x in after.values())


@pytest.mark.parametrize("method", ["lm", "lbfgs"])
def test_a_robust_loss_keeps_outliers_from_deciding(method, tmp_path):
    spoiled = []
    for x in recordings():
        gyro = x.sensors["gyro"].copy()
        gyro[3::7] += 3  # glitches
        spoiled.append(
            diffmj.Recording(x.time, qpos=x.qpos, qvel=x.qvel, ctrl=x.ctrl, sensors={"gyro": gyro})
        )
    arguments = {"bounds": BOUNDS, "segment": 5, "method": method, "targets": ["sensor:gyro"]}
    plain = diffmj.identify(ARM, list(TRUTH), spoiled, **arguments)
    fit = diffmj.identify(
        ARM, list(TRUTH), spoiled, **arguments, loss="cauchy", loss_scale=0.02, iterations=300
    )
    worst = [max(abs(x.values[k] / TRUTH[k] - 1) for k in TRUTH) for x in (plain, fit)]
    assert worst[0] > 0.05 and worst[1] < 2e-3
    assert "loss cauchy" in fit.report(tmp_path / "report.html").read_text()
    with pytest.raises(diffmj.InputError, match="use linear, soft_l1, huber or cauchy"):
        diffmj.identify(ARM, list(TRUTH), spoiled, **arguments, loss="robust")
    with pytest.raises(diffmj.InputError, match="scale of the loss is 0"):
        diffmj.identify(ARM, list(TRUTH), spoiled, **arguments, loss="huber", loss_scale=0)


def test_starting_states_are_estimated():
    data = recordings(4, noise=0.02)
    arguments = {"bounds": BOUNDS, "segment": 10, "method": "lm", "targets": ["qpos"]}
    plain = diffmj.identify(ARM, list(TRUTH), data, **arguments)
    fit = diffmj.identify(ARM, list(TRUTH), data, **arguments, estimate_starts=True)
    assert fit.starts.shape == (8, 4) and plain.starts is None
    assert fit.loss < plain.loss
    with pytest.raises(diffmj.InputError, match="estimate_starts needs Levenberg-Marquardt"):
        diffmj.identify(ARM, list(TRUTH), data, estimate_starts=True)


def test_checkpoints_go_on(tmp_path):
    arguments = {"bounds": BOUNDS, "segment": 5, "minibatch": 6}
    whole = diffmj.identify(ARM, list(TRUTH), recordings(), **arguments, iterations=8)
    path = tmp_path / "fit.txt"
    for n in (3, 8):
        fit = diffmj.identify(
            ARM,
            list(TRUTH),
            recordings(),
            **arguments,
            iterations=n,
            checkpoint=path,
            resume=True,
        )
    assert fit.values == whole.values
    with pytest.raises(diffmj.InputError, match="belongs to another problem"):
        diffmj.identify(
            ARM, list(TRUTH), recordings(), segment=5, checkpoint=path, resume=True, seed=1
        )


def test_report_and_fitted_model(tmp_path):
    def build(values):
        spec = mujoco.MjSpec.from_string(ARM)
        spec.geom("bob").mass = values["mass"]
        return spec

    arguments = {"segment": 5, "method": "lm", "held_out": 0.25}
    fits = [
        diffmj.identify(ARM, list(TRUTH), recordings(), bounds=BOUNDS, **arguments),
        diffmj.identify(build, {"mass": 0.6}, recordings(), **arguments),
        diffmj.identify(ARM, ["bob/mass"], recordings(), segment=5, method="lbfgs"),
        diffmj.identify(lambda v: build(v).compile(), {"mass": 0.6}, recordings(), **arguments),
    ]
    for i, fit in enumerate(fits):
        text = fit.report(tmp_path / "report.html", title="Arm & hand").read_text()
        assert "<h1>Arm &amp; hand</h1>" in text and "nan" not in text
        assert ("Recordings held out" in text) == (fit.held_out is not None)
        for name in fit.values:
            assert name in text
        if i == 3:
            with pytest.raises(diffmj.InputError, match="makes an MjModel"):
                _ = fit.spec
            continue
        assert "MJCF" in text
        mass = list(fit.values.values())[-1]
        assert fit.spec.geom("bob").mass == pytest.approx(mass, rel=1e-5)
        fit.save(tmp_path / "fitted.xml")
        model = mujoco.MjModel.from_xml_path(str(tmp_path / "fitted.xml"))
        assert model.body_mass[2] == pytest.approx(mass, rel=1e-5)
    with pytest.raises(diffmj.InputError, match="cannot be written"):
        fits[0].report(tmp_path / "missing" / "report.html")


def test_an_error_on_the_way_keeps_the_best():
    # without bounds large steps lead to a negative mass
    with pytest.warns(RuntimeWarning, match="the fit ended after iteration"):
        fit = diffmj.identify(ARM, ["bob/mass"], recordings(), segment=5, rate=2.0)
    assert fit.message and fit.loss <= fit.history[0].loss

    def progress(iteration, loss):
        raise ValueError("stop here")

    with pytest.raises(ValueError, match="stop here"):
        diffmj.identify(ARM, ["bob/mass"], recordings(), segment=5, progress=progress)


def test_progress_is_a_line(capsys):
    diffmj.identify(ARM, ["bob/mass"], recordings(1), segment=5, iterations=3, progress=True)
    assert "3/3  loss" in capsys.readouterr().err
