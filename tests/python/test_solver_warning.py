"""Solvers that stop at opt.iterations: the gradient is not that of such steps, and a warning says
so."""

import warnings

import diffmj
import pytest

BOXES = """
<mujoco>
  <option iterations="{iterations}"/>
  <worldbody>
    <geom type="plane" size="2 2 .1"/>
    <body pos="0 0 .1"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos=".03 0 .31"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos="0 .02 .52"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
  </worldbody>
</mujoco>"""


def test_iterations_that_are_too_few_are_a_warning():
    sim = diffmj.Simulator(BOXES.format(iterations=1))
    with pytest.warns(diffmj.SolverWarning, match="iterations = 1 before it converged") as caught:
        traj = sim.rollout(nstep=50)
    (entry,) = (w for w in traj.warnings if w.kind == "solver")
    assert str(caught[0].message) == entry.text
    assert issubclass(diffmj.SolverWarning, diffmj.GradientWarning)
    with pytest.warns(diffmj.SolverWarning, match="3 of 3 rollouts; rollout 0: "):
        sim.rollout(qvel=[[0.0] * 18] * 3, nstep=50)


def test_a_solver_that_converges_is_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traj = diffmj.Simulator(BOXES.format(iterations=100)).rollout(nstep=50)
    assert not traj.warnings
