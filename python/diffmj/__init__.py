"""Gradients of MuJoCo rollouts through contact.

    sim = diffmj.Simulator("model.xml")
    traj = sim.rollout(qpos, qvel, ctrl=ctrl)  # MuJoCo's own steps, bit for bit
    grad = traj.backward(qpos=dloss_dqpos)     # d(loss)/d(input), one backward pass
    grad.qpos, grad.qvel, grad.ctrl

A loss may also use poses and velocities (`traj.site_xpos`, `traj.body_linvel`, ...) and constraint
forces (`traj.constraint_forces`). If it depends only on the last state, use `final`. Gradients with
respect to fields of the model are available, too:

    grad = traj.backward(final={"site_xpos": dloss_dsite_xpos}, params=["body_mass"])
    grad.params["body_mass"]

For adaptive steps, which are accurate through stiff contact, choose another integrator:

    sim = diffmj.Simulator("model.xml", integrator=diffmj.Tsit5(rtol=1e-8, atol=1e-8))

Contacts from distance give a gradient that points towards contact before geoms touch, and leave the
simulation unchanged:

    sim = diffmj.Simulator("model.xml", cfd=diffmj.Cfd(width=0.1))

`Simulator.check` tells whether the gradient of a model is right at a state.
"""

from ._require_mujoco import require_mujoco as _require_mujoco

__path__.insert(0, _require_mujoco())  # where the extension for the installed MuJoCo is

from . import _diffmj as _diffmj  # noqa: E402
from ._cfd import Cfd  # noqa: E402
from ._check import CheckDirection, CheckReport, ConstraintKinks, Kink  # noqa: E402
from ._cost import (  # noqa: E402
    ControlEffort,
    ControlRate,
    Cost,
    CostBatch,
    Distance,
    ForceEffort,
    FrameVelocity,
    JointPosition,
    JointVelocity,
    Orientation,
    OwnCost,
    Reference,
    SensorValue,
    SiteDistance,
    Term,
)
from ._errors import (  # noqa: E402
    ChatterWarning,
    DivergedError,
    Error,
    FallbackWarning,
    GradientWarning,
    GrazingWarning,
    InputError,
    JumpWarning,
    MujocoError,
    OutOfMemoryError,
    RolloutError,
    SolverWarning,
    StepBudgetError,
    StepSizeError,
    StiffWarning,
    UnsupportedError,
)
from ._fit import Fit, FitIteration, TargetError  # noqa: E402
from ._identify import identify  # noqa: E402
from ._inputs import State  # noqa: E402
from ._mpc import MpcPlan, MpcRun, run_mpc  # noqa: E402
from ._options import (  # noqa: E402
    Auto,
    Bosh3,
    Dopri5,
    Dopri8,
    ExplicitEuler,
    Heun,
    Midpoint,
    Ralston,
    Rodas4p,
    RungeKutta,
    Smooth,
    SmoothBackward,
    SmoothField,
    Tsit5,
)
from ._parametric import ParametricSimulator  # noqa: E402
from ._plan import Plan, PlanIteration, Planner  # noqa: E402
from ._plot import plot_steps  # noqa: E402
from ._recording import (  # noqa: E402
    Recording,
    estimate_velocities,
    resample,
    split,
)
from ._records import (  # noqa: E402
    ConstraintForces,
    Contact,
    Event,
    Gradient,
    IntegratorRecord,
)
from ._segments import Segment, Target, segments  # noqa: E402
from ._simulator import Simulator  # noqa: E402
from ._trajectory import Trajectory, parameter_names  # noqa: E402
from ._warnings import Warning as Warning  # noqa: E402

__version__: str = _diffmj.version()
mujoco_version: str = _diffmj.mujoco_version_compiled()

# without Warning: "from diffmj import *" must not hide Python's own
__all__ = [
    "Auto",
    "Bosh3",
    "Cfd",
    "ChatterWarning",
    "CheckDirection",
    "CheckReport",
    "ConstraintForces",
    "ConstraintKinks",
    "Contact",
    "ControlEffort",
    "ControlRate",
    "Cost",
    "CostBatch",
    "Distance",
    "DivergedError",
    "Dopri5",
    "Dopri8",
    "Error",
    "Event",
    "ExplicitEuler",
    "FallbackWarning",
    "Fit",
    "FitIteration",
    "ForceEffort",
    "FrameVelocity",
    "Gradient",
    "GradientWarning",
    "GrazingWarning",
    "Heun",
    "InputError",
    "IntegratorRecord",
    "JointPosition",
    "JointVelocity",
    "JumpWarning",
    "Kink",
    "Midpoint",
    "MpcPlan",
    "MpcRun",
    "MujocoError",
    "Orientation",
    "OutOfMemoryError",
    "OwnCost",
    "ParametricSimulator",
    "Plan",
    "PlanIteration",
    "Planner",
    "Ralston",
    "Recording",
    "Reference",
    "Rodas4p",
    "RolloutError",
    "RungeKutta",
    "Segment",
    "SensorValue",
    "Simulator",
    "SiteDistance",
    "Smooth",
    "SmoothBackward",
    "SmoothField",
    "SolverWarning",
    "State",
    "StepBudgetError",
    "StepSizeError",
    "StiffWarning",
    "Target",
    "TargetError",
    "Term",
    "Trajectory",
    "Tsit5",
    "UnsupportedError",
    "__version__",
    "estimate_velocities",
    "identify",
    "mujoco_version",
    "parameter_names",
    "plot_steps",
    "resample",
    "run_mpc",
    "segments",
    "split",
]
