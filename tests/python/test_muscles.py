"""MyoSuite's models, and muscles."""

import diffmj
import mujoco
import numpy as np
from conftest import may_fall_back, mj_rollout


@may_fall_back
def test_rollouts_of_myosuite_are_mj_step(myo_model):
    sim = diffmj.Simulator(myo_model)
    data = mujoco.MjData(myo_model)
    if myo_model.nkey:
        mujoco.mj_resetDataKeyframe(myo_model, data, 0)
    ctrl = np.random.default_rng(0).uniform(0, 0.5, (20, sim.nu))
    start = {"qpos": data.qpos.copy(), "qvel": data.qvel.copy(), "act": data.act.copy()}
    mocap = {"mocap_pos": data.mocap_pos.copy(), "mocap_quat": data.mocap_quat.copy()}
    traj = sim.rollout(**start, ctrl=ctrl, **(mocap if myo_model.nmocap else {}))
    rows = mj_rollout(myo_model, data, len(ctrl), ctrl)
    for name in ("qpos", "qvel", "act"):
        np.testing.assert_array_equal(getattr(traj, name), rows[name])
