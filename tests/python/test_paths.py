"""Gradient paths: which one a model takes, and what is said about it."""

import warnings

import diffmj
import numpy as np
import pytest
from conftest import ARM, PENDULUM, ZOO, load

ADHESION = ZOO / "adhesion.xml"


@pytest.mark.smoke
def test_fallback_is_announced_once():
    with pytest.warns(diffmj.FallbackWarning) as caught:
        sim = diffmj.Simulator(ADHESION)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the line of the user
    text = str(caught[0].message)
    assert sim.gradient_path == "oracle"
    assert "body transmission (adhesion)" in sim.gradient_path_reason
    for part in ("'oracle'", "'analytic'", sim.gradient_path_reason, "fallback=False"):
        assert part in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = sim.keyframe_state("test")
        traj = sim.rollout(**vars(state), nstep=3)
        traj.backward(qpos=np.ones_like(traj.qpos))
        sim.tightened()
    assert issubclass(diffmj.FallbackWarning, UserWarning)
    assert diffmj.FallbackWarning.__module__ == "diffmj"


@pytest.mark.smoke
def test_fallback_is_refused():
    with pytest.raises(diffmj.UnsupportedError, match=r"adhesion.*fallback"):
        diffmj.Simulator(ADHESION, fallback=False)
    with pytest.raises(diffmj.UnsupportedError, match="integrator discrete"):
        diffmj.Simulator(ARM, integrator="discrete", fallback=False, gradient_path="oracle")
    assert diffmj.Simulator(ARM, fallback=False).gradient_path == "analytic"


def test_a_path_that_was_asked_for_is_not_announced():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model, path in [(ADHESION, "oracle"), (ADHESION, "differences"), (ARM, "differences")]:
            for fallback in (True, False):
                sim = diffmj.Simulator(model, gradient_path=path, fallback=fallback)
                assert sim.gradient_path == path
        for asked, taken in (("differences", path), ("oracle", "oracle")):
            sim = diffmj.Simulator(ZOO / "noslip.xml", gradient_path=asked)
            assert sim.gradient_path == taken
    with pytest.warns(diffmj.FallbackWarning, match=r"'differences'.*'oracle'.*discrete"):
        diffmj.Simulator(ARM, integrator="discrete", gradient_path="oracle")


@pytest.mark.parametrize("model", [PENDULUM, ADHESION, load("act_basic")])
def test_unknown_path(model):
    for path in ("implicit", ""):
        with pytest.raises(
            diffmj.InputError,
            match=f"path '{path}' is not known; use analytic, oracle or differences",
        ):
            diffmj.Simulator(model, gradient_path=path)


def gradient_of(sim: diffmj.Simulator, **inputs) -> diffmj.Gradient:
    traj, rng = sim.rollout(**inputs), np.random.default_rng(0)
    names = ("qpos", "qvel", "act", "xpos")
    weights = {x: rng.standard_normal(getattr(traj, x).shape) for x in names}
    return traj.backward(**weights)


@pytest.mark.smoke
@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicit", "implicitfast"])
def test_paths_agree(integrator):
    rng = np.random.default_rng(1)
    sims = {
        path: diffmj.Simulator(ARM, integrator=integrator, gradient_path=path)
        for path in ("analytic", "oracle", "differences")
    }
    inputs = {"qvel": rng.standard_normal(10), "ctrl": rng.standard_normal((20, 2))}
    gradients = {path: gradient_of(sim, **inputs) for path, sim in sims.items()}
    for path, tolerance in (("oracle", 1e-6), ("differences", 1e-5)):
        for name in ("qpos", "qpos_tangent", "qvel", "ctrl", "qfrc_applied"):
            expected = getattr(gradients["analytic"], name)
            np.testing.assert_allclose(
                getattr(gradients[path], name), expected, atol=tolerance * np.abs(expected).max()
            )


@pytest.mark.parametrize("name", ["act_basic", "joints_ball", "contact_plane", "springs_poly"])
def test_oracle_agrees_on_the_zoo(name):
    model = load(name, tight=True)
    sims = [diffmj.Simulator(model, gradient_path=x) for x in ("analytic", "oracle")]
    assert [sim.gradient_path for sim in sims] == ["analytic", "oracle"]
    state = vars(sims[0].keyframe_state("test"))
    a, b = (gradient_of(sim, **state, nstep=10) for sim in sims)
    for field in ("qpos", "qpos_tangent", "qvel", "act", "ctrl", "qfrc_applied"):
        x, y = getattr(a, field), getattr(b, field)
        np.testing.assert_allclose(x, y, atol=1e-6 * (1 + np.abs(y).max(initial=0)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gradient_path": "differences"}, "use gradient_path analytic or oracle"),
        ({"integrator": "discrete"}, "integrator discrete"),
    ],
)
def test_what_differences_do_not_have_is_refused_with_a_remedy_or_a_reason(options, says):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", diffmj.FallbackWarning)
        sim = diffmj.Simulator(ARM, **options)
    traj = sim.rollout(nstep=3)
    force = np.ones(traj.steps[1].nefc)
    for refused in (
        lambda: traj.constraint_forces(1),
        lambda: traj.backward(efc_force={1: force}),
        lambda: traj.backward(qpos=np.ones_like(traj.qpos), params=["body_mass"]),
        lambda: traj.forward(params={"body_mass": np.ones(sim.nbody)}),
    ):
        with pytest.raises(diffmj.UnsupportedError, match=f"differences.*{says}"):
            refused()
