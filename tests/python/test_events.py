"""Events of adaptive steps: what they warn of, and rollouts that are full of them."""

import warnings

import diffmj
import pytest

FALL = """<mujoco><worldbody>
  <geom name="floor" type="plane" size="5 5 .1"/>
  <body pos="0 0 .1"><joint type="slide" axis="0 0 1"/><geom name="ball" size=".1"/></body>
</worldbody></mujoco>"""


def test_warnings_about_the_gradient_are_python_warnings():
    # a ball that falls from 20 nm above the floor
    sim = diffmj.Simulator(FALL, integrator="tsit5", rtol=1e-8, atol=1e-8, interval=0.01)
    with pytest.warns(diffmj.GrazingWarning, match="contact of .* and geom 'ball'") as caught:
        traj = sim.rollout(qpos=[2e-8], nstep=2)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the line that asked for the rollout
    (warning,) = traj.warnings
    assert (warning.kind, warning.first_step) == ("grazing", 0)
    assert warning.text == str(caught[0].message)

    # of a batch one, which says how many
    with pytest.warns(diffmj.GrazingWarning, match="2 of 3 rollouts; rollout 0: ") as caught:
        sim.rollout(qpos=[[2e-8], [0.01], [1e-8]], nstep=2)
    assert len(caught) == 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.rollout(qpos=[0.01], nstep=2)
    for category in (diffmj.GrazingWarning, diffmj.ChatterWarning):
        assert issubclass(category, diffmj.GradientWarning)
        assert issubclass(category, UserWarning)
        assert category.__module__ == "diffmj"


TOPPLE = """<mujoco><worldbody>
  <geom name="floor" type="plane" size="5 5 .1"/>
  <body pos="0 0 .1"><freejoint/><geom name="rod" type="capsule" size=".05 .05"/></body>
</worldbody></mujoco>"""
TOPPLE_START = {"qvel": [0.3, 0, 0, 0, 3, 0], "nstep": 150}


def test_chatter_is_a_warning_that_says_what_to_use():
    sim = diffmj.Simulator(TOPPLE, integrator="tsit5", rtol=1e-5, atol=1e-5)
    with pytest.warns(diffmj.ChatterWarning) as caught:
        traj = sim.rollout(**TOPPLE_START)
    (text,) = [str(w.message) for w in caught if w.category is diffmj.ChatterWarning]
    assert "contact of geom 'floor' and geom 'rod'" in text
    assert "events per second" in text
    (warning,) = [w for w in traj.warnings if w.kind == "chatter"]
    assert warning.text == text
    assert warning.count <= len(traj.integrator.events)

    # check says it too
    report = sim.check(**TOPPLE_START, directions=1)
    assert [w.text for w in report.warnings if w.kind == "chatter"] == [text]
    assert text[:60] in " ".join(str(report).split())

    # what it advises has none
    soft = "<default><geom solimp='0 .95 .001'/></default><worldbody>"
    for other in (
        diffmj.Simulator(TOPPLE, integrator="model"),
        diffmj.Simulator(
            TOPPLE.replace("<worldbody>", soft), integrator="tsit5", rtol=1e-5, atol=1e-5
        ),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", diffmj.ChatterWarning)
            other.rollout(**TOPPLE_START)
