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
