#include "plan/jacobian.h"

#include <algorithm>

#include "adjoint/sensors.h"
#include "mj/call.h"
#include "record/input.h"
#include "record/sensordata.h"
#include "record/trajectory.h"
#include "setup/model_impl.h"
#include "stages/sensors/sensors.h"

namespace diffmj {

JacobianPlace::JacobianPlace(const Model& model_, const Trajectory& trajectory_,
                             const Poses& poses_)
    : model(model_), trajectory(trajectory_), poses(poses_) {
  linear_.resize(3 * static_cast<size_t>(model.nv()));
  angular_.resize(linear_.size());
  row_.resize(static_cast<size_t>(model.ntangent() + model.nu()));
  unit_.resize(static_cast<size_t>(model.nsensordata()));
}

void JacobianPlace::move(int state) {
  state_ = state;
  frames_ready_ = motion_ready_ = false;
}

const mjData* JacobianPlace::frames() {
  if (!frames_) {
    frames_.emplace(model.impl());
    reset_data(model, trajectory.mocap_pos, trajectory.mocap_quat, **frames_);
  }
  mjData* d = (*frames_)->data.get();
  if (frames_ready_) return d;
  mj_call("mj_kinematics", [&] {
    mju_copy(d->qpos, row(trajectory.qpos, state_, trajectory.nq).data(), trajectory.nq);
    mj_kinematics(model.mj(), d);
    mj_comPos(model.mj(), d);
  });
  frames_ready_ = true;
  return d;
}

JacobianPlace::PointJacobian JacobianPlace::point(int body, const double* at) {
  mj_jac(model.mj(), frames(), linear_.data(), angular_.data(), at, body);
  return {linear_.data(), angular_.data()};
}

const double* JacobianPlace::subtree(int body) {
  frames();
  mj_jacSubtreeCom(model.mj(), (*frames_)->data.get(), linear_.data(), body);
  return linear_.data();
}

CVec JacobianPlace::pose_row(const PoseBar& bar) {
  const mjModel* m = model.mj();
  const mjData* d = frames();
  Workspace& workspace = **frames_;
  Sweep& sweep = workspace.sweep;
  const auto nv = static_cast<size_t>(model.nv());
  if (!motion_ready_) {
    body_accelerations(m, d, row(trajectory.qvel, state_, trajectory.nv), workspace.zero,
                       Vector3::Zero(), sweep);
    motion_ready_ = true;
  }
  sweep.clear();
  std::fill(row_.begin(), row_.end(), 0.0);
  poses_pullback(m, d, bar, sweep, {});
  kinematics_pullback(m, d, sweep, Vec(row_).first(nv), Vec(row_).subspan(nv, nv), {});
  return CVec(row_).first(static_cast<size_t>(model.ntangent()));
}

CVec JacobianPlace::sensor_row(int k) {
  const ModelImpl& impl = model.impl();
  if (!sensors_) {
    sensors_.emplace(impl);
    reset_data(model, trajectory.mocap_pos, trajectory.mocap_quat, **sensors_);
  }
  // what a surrogate field starts from must not depend on what came before
  (*sensors_)->field_qacc.clear();
  std::fill(unit_.begin(), unit_.end(), 0.0);
  unit_[static_cast<size_t>(k)] = 1;
  mask_cutoff(model.mj(), row(trajectory.sensordata, state_, model.nsensordata()), unit_);
  bar_.resize(impl, 1, false);
  state_sensors_pullback(impl, state_input(trajectory, state_), unit_,
                         {bar_.x, bar_.ctrl, bar_.qfrc_applied, bar_.xfrc_applied}, **sensors_);
  const auto n = bar_.x.size();
  std::copy_n(bar_.x.data(), n, row_.begin());
  std::copy_n(bar_.ctrl.data(), bar_.ctrl.size(), row_.begin() + n);
  return row_;
}

}  // namespace diffmj
