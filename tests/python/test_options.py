"""Options of simulators and planners: one list, as keywords and in objects."""

import inspect
import pickle
import re

import diffmj
import numpy as np
import pytest
from conftest import CUBE, PENDULUM
from diffmj import _diffmj

METHODS = (
    diffmj.Tsit5, diffmj.Dopri5, diffmj.Dopri8, diffmj.Bosh3, diffmj.Heun, diffmj.Midpoint,
    diffmj.Ralston, diffmj.ExplicitEuler, diffmj.Rodas4p, diffmj.Auto,
)  # fmt: skip
COLLIDERS = (diffmj.Smooth, diffmj.SmoothBackward, diffmj.SmoothField)
OPTIONS = {x.name: x for x in _diffmj.model_options()}
PLANNER = {x for x in vars(_diffmj.PlanOptions) if not x.startswith("_")}


def keywords(function) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "unknown"}


# ---------------------------------------------------------------- one list


@pytest.mark.smoke
def test_keywords_are_those_of_the_list():
    assert keywords(diffmj.Simulator) == {*OPTIONS, "model", "nthread", "cfd"}
    runge_kutta = {x.name for x in OPTIONS.values() if x.runge_kutta}
    for method in METHODS:
        assert keywords(method) == runge_kutta
    for collider in COLLIDERS:
        assert keywords(collider) == {"smoothness"}
    law = {x.name for x in _diffmj.cfd_law_options()}
    others = {x.name for x in _diffmj.cfd_options()}
    assert keywords(diffmj.Cfd) == law | others | {"geoms", "pairs"}


def test_objects_are_those_of_the_list():
    def is_method(name):
        try:
            step = ("interval", 0.1) if name == "auto" else ("step", 0.1)
            _diffmj.ModelOptions([("integrator", name), step], None)
        except diffmj.InputError:
            return False
        return True

    choices = OPTIONS["integrator"].choices
    assert {x.method for x in METHODS} == {x for x in choices if is_method(x)}
    assert {x.mode for x in COLLIDERS} == set(OPTIONS["collisions"].choices) - {"mujoco"}


def test_no_keyword_has_a_default_of_its_own():
    functions = (diffmj.Simulator, *METHODS, *COLLIDERS)
    for function in functions:
        for name, parameter in inspect.signature(function).parameters.items():
            if name in OPTIONS:
                assert parameter.default is None, name
    for name, parameter in inspect.signature(diffmj.Planner).parameters.items():
        if name in PLANNER:
            assert parameter.default is None, name


def test_documented_defaults_are_those_of_the_list():
    text = " ".join((diffmj.Simulator.__init__.__doc__ + diffmj.RungeKutta.__doc__).split())
    for name, info in OPTIONS.items():
        entry = re.search(rf"(?<= ){name}(?:, \w+)?: .*?(?= \w+(?:, \w+)?: |$)", text)
        assert entry is not None, name
        if info.kind == "choice":
            assert f'"{info.default_text}" (default)' in entry[0], entry[0]
        elif info.default is not None and np.all(np.isfinite(info.default)):
            # "default 1e-06 and 1e-08" where two are explained together
            default = rf"[Dd]efault (\S+ and )?{re.escape(info.default_text)}\b"
            assert re.search(default, entry[0]), entry[0]


def test_planner_keywords_are_those_of_the_options():
    grouped = {"beta1", "beta2", "controls", "forces", "velocity", "evaluate_by"}
    others = {"sim", "cost", "decide", "betas", "pool"}
    assert keywords(diffmj.Planner) == (PLANNER - grouped) | others


# ---------------------------------------------------------------- objects and keywords


@pytest.mark.parametrize("method", METHODS)
def test_an_object_and_keywords_are_the_same(method):
    options = {"interval": 0.02, "rtol": 1e-5, "pid": (0.1, 0.3, 0), "adjoint": "interpolated"}
    if method is diffmj.ExplicitEuler:
        options["step"] = 1e-3
    one = diffmj.Simulator(PENDULUM, integrator=method(**options))
    other = diffmj.Simulator(PENDULUM, method.method, **options)
    assert one.integrator == other.integrator == method.method
    for name in OPTIONS:
        assert one._model.options.get(name) == other._model.options.get(name)
    a, b = (sim.rollout(qpos=[0.3], nstep=2) for sim in (one, other))
    np.testing.assert_array_equal(a.qpos, b.qpos)
    copy = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(copy.rollout(qpos=[0.3], nstep=2).qpos, a.qpos)


@pytest.mark.parametrize("collider", COLLIDERS)
def test_colliders_as_an_object(collider):
    one = diffmj.Simulator(CUBE, collisions=collider(2e-3))
    other = diffmj.Simulator(CUBE, collisions=collider.mode, smoothness=2e-3)
    assert (one.collisions, one.smoothness) == (other.collisions, other.smoothness)
    assert (one.collisions, one.smoothness) == (collider.mode, 2e-3)
    default = diffmj.Simulator(CUBE, collisions=collider())
    assert default.smoothness == OPTIONS["smoothness"].default


def test_both_at_once_are_refused():
    with pytest.raises(
        diffmj.InputError, match=r"rtol is given beside integrator=Tsit5.*inside: Tsit5\(rtol=0.1\)"
    ):
        diffmj.Simulator(PENDULUM, diffmj.Tsit5(), rtol=0.1)
    with pytest.raises(diffmj.InputError, match=r"rtol, step are given.*Heun\(rtol=0.1, step=1\)"):
        diffmj.Simulator(PENDULUM, diffmj.Heun(atol=1), rtol=0.1, step=1)
    with pytest.raises(diffmj.InputError, match=r"smoothness is given beside collisions=Smooth"):
        diffmj.Simulator(CUBE, collisions=diffmj.Smooth(), smoothness=0.1)


def test_an_object_may_stand_beside_other_options():
    sim = diffmj.Simulator(
        CUBE,
        integrator=diffmj.Tsit5(rtol=1e-8, interval=0.02),
        collisions=diffmj.Smooth(1e-3),
        cfd=diffmj.Cfd(width=0.1),
        gradient_path="analytic",
    )
    assert (sim.integrator, sim.interval, sim.collisions) == ("tsit5", 0.02, "smooth")


def test_wrong_objects():
    with pytest.raises(diffmj.InputError, match=r"integrator is the class Tsit5; use Tsit5\(\)"):
        diffmj.Simulator(PENDULUM, diffmj.Tsit5)
    with pytest.raises(diffmj.InputError, match="use one of its subclasses"):
        diffmj.Simulator(PENDULUM, diffmj.RungeKutta())
    with pytest.raises(diffmj.InputError, match="rtol is -1, expected a number ≥ 0"):
        diffmj.Simulator(PENDULUM, diffmj.Tsit5(rtol=-1))
    with pytest.raises(diffmj.InputError, match="smoothness is 0, expected a width > 0"):
        diffmj.Simulator(CUBE, collisions=diffmj.Smooth(0))


# ---------------------------------------------------------------- names


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(TypeError, match=r"'rtoll'; did you mean 'rtol'?"):
        diffmj.Simulator(PENDULUM, "tsit5", rtoll=1e-8)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'gravity'$"):
        diffmj.Simulator(PENDULUM, gravity=3)
    with pytest.raises(diffmj.InputError, match=r"'smoth' is not known; did you mean 'smooth'?"):
        diffmj.Simulator(PENDULUM, collisions="smoth")


def test_the_old_name_of_the_gradient_path():
    with pytest.raises(TypeError, match="path was renamed; use gradient_path='oracle'"):
        diffmj.Simulator(PENDULUM, path="oracle")


def test_threads():
    assert diffmj.Simulator(PENDULUM).nthread is None
    assert diffmj.Simulator(PENDULUM, nthread=0).nthread is None  # one per core, too
    assert diffmj.Simulator(PENDULUM, nthread=3).nthread == 3
    batch = diffmj.Simulator(PENDULUM, nthread=0).rollout(qpos=[[0.1], [0.2]], nstep=3)
    assert batch.batch == 2
