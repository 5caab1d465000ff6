"""What the Python tests share: models, a plain loop of mj_step, and the one place that takes
differences."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import diffmj
import mujoco
import numpy as np
import pytest

ZOO = Path(__file__).parent.parent / "testdata" / "zoo"

PENDULUM = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body>
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge"/></actuator>
  <keyframe><key name="tilted" time="0.5" qpos="0.3" qvel="-0.2" ctrl="0.1"/></keyframe>
</mujoco>
"""

CUBE = """
<mujoco>
  <option timestep="0.002"/>
  <default><geom solref="0.02 1" solimp="0 0.95 0.01 0.5 2"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1"/>
    <body pos="0 0 0.2" quat="0.9 0.3 -0.2 0.2"><freejoint name="free"/>
      <geom name="cube" type="box" size="0.05 0.05 0.05" density="100"/></body>
  </worldbody>
</mujoco>
"""


# an arm of two links that reaches for a goal
REACHING_ARM = """<mujoco><option timestep="0.005"/><worldbody>
  <body pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.5"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="1"/>
    <body name="forearm" pos="0 0 -0.4"><joint name="elbow" axis="0 1 0" damping="0.3"/>
      <geom name="rod" type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="0.5"/>
      <site name="tip" pos="0 0 -0.4"/></body></body>
  <site name="goal" pos="0.5 0 1"/></worldbody>
  <actuator><motor name="a" joint="shoulder" ctrllimited="true" ctrlrange="-12 12"/>
    <motor name="b" joint="elbow" ctrllimited="true" ctrlrange="-6 6"/></actuator>
  <sensor><gyro name="gyro" site="tip"/></sensor></mujoco>"""

# four balls on one axis, the first of which has a motor: each is near to the others
BALLS_IN_A_ROW = (
    "<mujoco><worldbody>"
    + "".join(
        f'<body pos="{0.12 * i} 0 0"><joint name="x{i}" type="slide"/>'
        f'<geom name="ball{i}" size=".05" mass="1"/></body>'
        for i in range(4)
    )
    + '</worldbody><actuator><motor joint="x0" ctrlrange="-1 1"/></actuator></mujoco>'
)

SLIDER = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body mocap="true" name="target" pos="0.1 0 0"/>
    <body name="mass"><joint name="x" type="slide" axis="1 0 0" stiffness="5"/>
      <geom name="ball" size="0.1"/><site name="tip" pos="0 0 0.1"/></body>
  </worldbody>
  <actuator><motor joint="x" gear="100"/></actuator>
  <sensor><jointvel joint="x"/></sensor>
</mujoco>
"""
DIVERGES = 1e10  # a force that sends the slider out of MuJoCo's range


# Links whose inertia is off their joints, so that MuJoCo stores nothing that depends on masses; it
# flies (the first body) and swings, and no constraint acts.
ARM = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <body name="base" pos="0 0 1" quat="0.9 0.3 -0.2 0.2">
      <freejoint/>
      <geom type="box" size="0.1 0.08 0.05" pos="0.03 -0.02 0.04" contype="0" conaffinity="0"/>
      <site name="top" pos="0.05 0.02 0.1"/>
      <body name="upper" pos="0.1 0.05 0">
        <joint name="shoulder" type="ball" damping="0.02"/>
        <geom type="capsule" fromto="0.02 0.01 0 0.3 0.05 0.02" size="0.03" contype="0"
          conaffinity="0"/>
        <body name="lower" pos="0.3 0.05 0.02" quat="1 0.1 0.2 0">
          <joint name="elbow" axis="0.1 1 0.2" damping="0.05" stiffness="0.3" armature="0.001"/>
          <geom type="capsule" fromto="0.01 0 0.01 0.25 0.02 -0.05" size="0.02" contype="0"
            conaffinity="0"/>
          <site name="tip" pos="0.25 0.02 -0.05"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="elbow" joint="elbow" gear="0.7"/>
    <motor name="shoulder" joint="shoulder" gear="0.2 0.1 -0.3"/>
  </actuator>
</mujoco>
"""


def pytest_configure(config: pytest.Config) -> None:
    # a test that leaves the fast path, or whose rollouts fail, says so
    config.addinivalue_line("filterwarnings", "error::diffmj.FallbackWarning")
    config.addinivalue_line("filterwarnings", "error::RuntimeWarning")


# of tests on models of the zoo that may or may not have the fast path
may_fall_back = pytest.mark.filterwarnings("ignore::diffmj.FallbackWarning")


def supported_zoo() -> list[str]:
    """Names of the zoo's models that this MuJoCo loads and diffmj takes."""
    names = []
    for path in sorted(ZOO.glob("*.xml")):
        newer = path.stem.startswith("v4_") and int(mujoco.__version__.split(".")[0]) < 4
        if not newer and "springyield" not in path.stem:
            names.append(path.stem)
    return names


def myo_files() -> dict[str, str]:
    """MyoSuite's models by name, as paths within its package: those the C++ tests use."""
    lines = (ZOO.parent / "myo_models.txt").read_text().splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: path for name, _, path in rows}


def load_myo(name: str) -> mujoco.MjModel:
    """One of MyoSuite's models; its package is found but never imported."""
    spec = importlib.util.find_spec("myosuite")
    if spec is None:
        # `make test` installs it; who builds without our set-up may do without
        assert "DIFFMJ_REQUIRE_MYOSUITE" not in os.environ, "no package myosuite"
        pytest.skip("no package myosuite: `make setup` installs it")
    return mujoco.MjModel.from_xml_path(str(Path(spec.origin).parent / myo_files()[name]))


def load(name: str, tight: bool = False) -> mujoco.MjModel:
    """A model of the zoo; tight: solver at machine precision, as differences need."""
    model = mujoco.MjModel.from_xml_path(str(ZOO / f"{name}.xml"))
    return tighten(model) if tight else model


def tighten(model: mujoco.MjModel) -> mujoco.MjModel:
    """Runs the solver to convergence and without warm start, or differences measure its noise."""
    model.opt.tolerance = 0
    model.opt.iterations = 500
    model.opt.ls_tolerance = 1e-10
    model.opt.ls_iterations = 200
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
    return model


def key_data(model: mujoco.MjModel, key: str = "test") -> mujoco.MjData:
    """MjData at a keyframe."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key(key).id)
    return data


def mj_rollout(
    model: mujoco.MjModel, data: mujoco.MjData, nstep: int, ctrl: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """The loop that a user would write; ctrl is (nstep, nu), or None to keep what data has."""
    rows: dict[str, list] = {"time": [], "qpos": [], "qvel": [], "act": [], "qacc": []}

    def record() -> None:
        rows["time"].append(data.time)
        for name in ("qpos", "qvel", "act"):
            rows[name].append(getattr(data, name).copy())

    record()
    for i in range(nstep):
        if ctrl is not None:
            data.ctrl[:] = ctrl[i]
        mujoco.mj_step(model, data)
        rows["qacc"].append(data.qacc.copy())
        record()
    return {name: np.array(values) for name, values in rows.items()}


def ridders(f: Callable[[float], float], step: float = 1e-5) -> tuple[float, float]:
    """df/dh at 0 by extrapolated central differences, and their own estimate of the error."""
    table = [[]]
    best, error = np.nan, np.inf
    for i in range(6):
        h = step / 2**i
        row = [(f(h) - f(-h)) / (2 * h)]
        for j, previous in enumerate(table[-1] if i else []):
            row.append(row[j] + (row[j] - previous) / (4 ** (j + 1) - 1))
            estimate = max(abs(row[j + 1] - row[j]), abs(row[j + 1] - previous))
            if estimate < error:
                best, error = row[j + 1], estimate
        table.append(row)
    return best, error


class Problem:
    """A random linear loss of all states of a rollout of mj_step, and its derivative along a
    random direction in (qpos, qvel, act, every ctrl)."""

    def __init__(self, model: mujoco.MjModel, nstep: int, key: str = "test", seed: int = 0):
        self.model, self.nstep, self.key = model, nstep, key
        self.rng = np.random.default_rng(seed)
        data = key_data(model, key)
        self.ctrl = np.tile(data.ctrl, (nstep, 1))
        self.ctrl += 0.01 * self.rng.standard_normal(self.ctrl.shape)
        self.weights = {
            name: self.rng.standard_normal((nstep + 1, getattr(model, size)))
            for name, size in (("qpos", "nq"), ("qvel", "nv"), ("act", "na"))
        }

    def start(self) -> dict[str, np.ndarray]:
        data = key_data(self.model, self.key)
        return {"qpos": data.qpos, "qvel": data.qvel, "act": data.act, "ctrl": self.ctrl} | (
            {"mocap_pos": data.mocap_pos, "mocap_quat": data.mocap_quat}
            if self.model.nmocap
            else {}
        )

    def direction(self) -> dict[str, np.ndarray]:
        m = self.model
        shapes = {"qpos": m.nv, "qvel": m.nv, "act": m.na, "ctrl": self.ctrl.shape}
        return {name: self.rng.standard_normal(shape) for name, shape in shapes.items()}

    def loss(self, direction: dict[str, np.ndarray], h: float) -> float:
        data = key_data(self.model, self.key)
        mujoco.mj_integratePos(self.model, data.qpos, direction["qpos"], h)
        data.qvel += h * direction["qvel"]
        data.act += h * direction["act"]
        rows = mj_rollout(self.model, data, self.nstep, self.ctrl + h * direction["ctrl"])
        return sum(float(np.sum(w * rows[name])) for name, w in self.weights.items())

    def difference(self, direction: dict[str, np.ndarray]) -> tuple[float, float]:
        return ridders(lambda h: self.loss(direction, h))


def fallen(sim: diffmj.Simulator) -> np.ndarray:
    return sim.keyframe_state("fallen").qpos


def resident() -> float:
    """Megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096e-6


def step_differences(model: mujoco.MjModel, h: float = 1e-6) -> tuple[np.ndarray, np.ndarray]:
    """A and B of one mj_step at the keyframe "test", by central differences."""
    nv, n = model.nv, 2 * model.nv + model.na

    def step(dx: np.ndarray, du: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        data = key_data(model)
        mujoco.mj_integratePos(model, data.qpos, dx[:nv], 1)
        data.qvel += dx[nv : 2 * nv]
        data.act += dx[2 * nv :]
        data.ctrl += du
        mujoco.mj_step(model, data)
        return data.qpos, np.concatenate((data.qvel, data.act))

    def column(dx: np.ndarray, du: np.ndarray) -> np.ndarray:
        plus, minus, position = step(h * dx, h * du), step(-h * dx, -h * du), np.zeros(nv)
        mujoco.mj_differentiatePos(model, position, 2 * h, minus[0], plus[0])
        return np.concatenate((position, (plus[1] - minus[1]) / (2 * h)))

    a = [column(x, np.zeros(model.nu)) for x in np.eye(n)]
    b = [column(np.zeros(n), u) for u in np.eye(model.nu)]
    return np.stack(a, axis=1), np.stack(b, axis=1)


def along(gradient: diffmj.Gradient, direction: dict[str, np.ndarray]) -> float:
    """The gradient times a direction."""
    return float(
        gradient.qpos_tangent @ direction["qpos"]
        + gradient.qvel @ direction["qvel"]
        + gradient.act @ direction["act"]
        + np.sum(gradient.ctrl * direction["ctrl"])
    )


@pytest.fixture(params=myo_files())
def myo_model(request: pytest.FixtureRequest) -> mujoco.MjModel:
    """Every one of MyoSuite's models in turn."""
    return load_myo(request.param)


@pytest.fixture
def arm() -> diffmj.Simulator:
    return diffmj.Simulator(ARM)


@pytest.fixture
def pendulum() -> diffmj.Simulator:
    return diffmj.Simulator(PENDULUM)


@pytest.fixture
def cube() -> diffmj.Simulator:
    return diffmj.Simulator(CUBE)


def cap_is_said(fn: Callable[[], object]) -> bool:
    """Whether a call warns, once, that there are more contacts from distance than max_contacts."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fn()
    count = sum("max_contacts" in str(x.message) for x in said)
    assert count <= 1
    return count == 1
