"""Events of adaptive steps: what they warn of, and rollouts that are full of them."""

import warnings

import diffmj
import numpy as np
import pytest

CEILING = """<mujoco><worldbody>
  <geom name="ceiling" type="plane" size="5 5 .1" zaxis="0 0 -1" pos="0 0 1"/>
  <body pos="0 0 .5"><joint type="slide" axis="0 0 1"/><geom name="ball" size=".1"/></body>
</worldbody></mujoco>"""


def test_warnings_about_the_gradient_are_python_warnings():
    # at the top of its flight the ball just reaches the ceiling
    speed = np.sqrt(2 * 9.81 * (0.4 + 2e-8))
    sim = diffmj.Simulator(CEILING, integrator="tsit5", rtol=1e-8, atol=1e-8, interval=speed / 9.81)
    with pytest.warns(diffmj.GrazingWarning, match="contact of .* and geom 'ball'") as caught:
        traj = sim.rollout(qvel=[speed], nstep=2)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the line that asked for the rollout
    (warning,) = traj.warnings
    assert (warning.kind, warning.first_step) == ("grazing", 0)
    assert warning.text == str(caught[0].message)

    # of a batch one, which says how many
    with pytest.warns(diffmj.GrazingWarning, match="2 of 3 rollouts; rollout 0: ") as caught:
        sim.rollout(qvel=[[speed], [0.0], [speed]], nstep=2)
    assert len(caught) == 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.rollout(qvel=[0.0], nstep=2)
    for category in (diffmj.GrazingWarning, diffmj.ChatterWarning):
        assert issubclass(category, diffmj.GradientWarning)
        assert issubclass(category, UserWarning)
        assert category.__module__ == "diffmj"
