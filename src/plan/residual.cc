// Residuals of joints, controls, forces and sensors.
#include "plan/residual.h"

#include <algorithm>
#include <utility>

#include "base/names.h"
#include "base/rotation.h"
#include "base/suggestion.h"
#include "diffmj/error.h"
#include "diffmj/sensors.h"
#include "plan/reference.h"
#include "record/trajectory.h"

namespace diffmj {
namespace {

Vec bar_row(std::vector<double>& x, int i, int width) {
  return Vec(x).subspan(static_cast<size_t>(i) * static_cast<size_t>(width),
                        static_cast<size_t>(width));
}

// that of a quantity, or the default
template <class Quantity>
TargetRows target_of(const std::string& who, const Quantity& of, std::vector<double> otherwise) {
  return {who, "target", of.target, of.reference, std::move(otherwise)};
}
template <class Quantity>
TargetRows target_of(const std::string& who, const Quantity& of, size_t size) {
  return target_of(who, of, std::vector<double>(size, 0.0));
}

std::vector<int> elements(const std::string& who, const Model& model, int type, int count,
                          const std::vector<std::string>& names) {
  std::vector<int> out;
  for (int i = 0; i < count && names.empty(); i++) out.push_back(i);
  for (const std::string& name : names) out.push_back(element_id(who, model, type, name));
  if (out.empty()) {
    throw InputError(who + ": the model has no " + mju_type2Str(type) + "; leave the term out");
  }
  return out;
}

// numbers in ctrl of these actuators
std::vector<int> controls(const std::string& who, const Model& model,
                          const std::vector<std::string>& names) {
  const mjModel* m = model.mj();
  std::vector<int> out;
  for (const int i : elements(who, model, mjOBJ_ACTUATOR, static_cast<int>(m->nactuator), names)) {
    for (int k = 0; k < m->actuator_ctrlnum[i]; k++) out.push_back(m->actuator_ctrladr[i] + k);
  }
  return out;
}

struct JointRange {
  int qpos, nq, dof, nv;  // first and number
  bool ball, free;
};
std::vector<JointRange> joint_ranges(const std::string& who, const Model& model,
                                     const std::vector<std::string>& names) {
  const mjModel* m = model.mj();
  std::vector<JointRange> out;
  for (const int j : elements(who, model, mjOBJ_JOINT, static_cast<int>(m->njnt), names)) {
    const int type = m->jnt_type[j];
    out.push_back({.qpos = m->jnt_qposadr[j],
                   .nq = type == mjJNT_FREE   ? 7
                         : type == mjJNT_BALL ? 4
                                              : 1,
                   .dof = m->jnt_dofadr[j],
                   .nv = type == mjJNT_FREE   ? 6
                         : type == mjJNT_BALL ? 3
                                              : 1,
                   .ball = type == mjJNT_BALL,
                   .free = type == mjJNT_FREE});
  }
  return out;
}

class JointPositionResidual : public Residual {
 public:
  JointPositionResidual(const std::string& who, const Model& model, const JointPosition& of)
      : joints_(joint_ranges(who, model, of.joints)) {
    std::vector<double> qpos0;
    for (const JointRange& j : joints_) {
      qpos0.insert(qpos0.end(), model.mj()->qpos0 + j.qpos, model.mj()->qpos0 + j.qpos + j.nq);
      size_ += j.nv;
    }
    target_ = target_of(who, of, qpos0);
    size_t at = 0;
    for (const JointRange& j : joints_) {
      if (j.ball || j.free) target_.normalize(at + (j.free ? 3 : 0));
      at += static_cast<size_t>(j.nq);
    }
  }
  void value(const Model&, const Trajectory& t, const Poses&, int i, Vec r) const override {
    const double* q = row(t.qpos, i, t.nq).data();
    const TargetRows::Row target = target_.at(t.time[static_cast<size_t>(i)]);
    size_t at = 0;
    double* to = r.data();
    for (const JointRange& j : joints_) {
      const int place = j.free ? 3 : j.ball ? 0 : 1;  // numbers that are no rotation
      for (int k = 0; k < place; k++) {
        to[k] = q[j.qpos + k] - target[at + static_cast<size_t>(k)];
      }
      if (j.free || j.ball) {
        mjtNum unit[4], quat[4];
        mju_copy4(unit, q + j.qpos + place);
        mju_normalize4(unit);
        target.quat(at + static_cast<size_t>(place), quat);
        mju_subQuat(to + place, unit, quat);
      }
      to += j.nv;
      at += static_cast<size_t>(j.nq);
    }
  }
  void pullback(const Model&, const Trajectory& t, const Poses&, int i, CVec r, CVec r_bar,
                CostBars& bars) const override {
    const Vec bar = bar_row(bars.qpos_tangent, i, t.nv);
    size_t from = 0;
    for (const JointRange& j : joints_) {
      const int place = j.free ? 3 : j.ball ? 0 : 1;
      double* to = &bar[static_cast<size_t>(j.dof)];
      for (int k = 0; k < place; k++) to[k] += r_bar[from + static_cast<size_t>(k)];
      if (j.free || j.ball) {
        // q = target exp(r), q turns by w: dr = Jr(r)⁻¹ w
        const size_t at = from + static_cast<size_t>(place);
        Eigen::Map<Vector3>(to + place) +=
            dexpinv(-Vector3(r.data() + at), Vector3(r_bar.data() + at));
      }
      from += static_cast<size_t>(j.nv);
    }
  }
  void jacobian(JacobianPlace&, CVec r, JacobianRows& out) const override {
    size_t from = 0;
    for (const JointRange& j : joints_) {
      const int place = j.free ? 3 : j.ball ? 0 : 1;
      for (int k = 0; k < place; k++) {
        out.add(j.dof + k, 1);
        out.end_row();
      }
      if (j.free || j.ball) {
        // row k of Jr(r)⁻¹ is Jr(r)⁻ᵀ e_k
        const Vector3 turn(r.data() + from + place);
        for (int k = 0; k < 3; k++) {
          const Vector3 values = dexpinv(-turn, Vector3::Unit(k));
          for (int c = 0; c < 3; c++) out.add(j.dof + place + c, values[c]);
          out.end_row();
        }
      }
      from += static_cast<size_t>(j.nv);
    }
  }
  std::vector<std::vector<double> CostBars::*> bars() const override {
    return {&CostBars::qpos_tangent};
  }

 private:
  std::vector<JointRange> joints_;
  TargetRows target_;
};

// Entries of qvel, ctrl or qfrc_applied from their targets.
class EntriesResidual : public Residual {
 public:
  EntriesResidual(std::vector<double> Trajectory::*from, std::vector<double> CostBars::*to,
                  int width, std::vector<int> entries, TargetRows target, bool of_steps)
      : from_(from),
        to_(to),
        width_(width),
        entries_(std::move(entries)),
        target_(std::move(target)) {
    size_ = static_cast<int>(entries_.size());
    of_steps_ = of_steps;
    first_ = of_steps ? 0 : 1;
  }
  void value(const Model&, const Trajectory& t, const Poses&, int i, Vec r) const override {
    // an input that was held, or not given
    const CVec x = of_steps_ ? input_row(t.*from_, i, width_) : row(t.*from_, i, width_);
    const TargetRows::Row target = target_.at(t.time[static_cast<size_t>(i)]);
    for (size_t k = 0; k < entries_.size(); k++) {
      r[k] = (x.empty() ? 0 : x[static_cast<size_t>(entries_[k])]) - target[k];
    }
  }
  void pullback(const Model&, const Trajectory&, const Poses&, int i, CVec, CVec r_bar,
                CostBars& bars) const override {
    const Vec bar = bar_row(bars.*to_, i, width_);
    for (size_t k = 0; k < entries_.size(); k++) bar[static_cast<size_t>(entries_[k])] += r_bar[k];
  }
  void jacobian(JacobianPlace& place, CVec, JacobianRows& out) const override {
    for (const int entry : entries_) {
      if (to_ == &CostBars::qvel) out.add(place.model.nv() + entry, 1);
      if (to_ == &CostBars::ctrl) out.add(place.ntangent() + entry, 1);
      out.end_row();  // of forces nothing: they are not decided
    }
  }
  std::vector<std::vector<double> CostBars::*> bars() const override { return {to_}; }

 private:
  std::vector<double> Trajectory::*from_;
  std::vector<double> CostBars::*to_;
  int width_;
  std::vector<int> entries_;
  TargetRows target_;
};

class ControlRateResidual : public Residual {
 public:
  ControlRateResidual(const Model& model, std::vector<int> entries)
      : width_(model.nu()), entries_(std::move(entries)) {
    size_ = static_cast<int>(entries_.size());
    of_steps_ = true;
  }
  void value(const Model& model, const Trajectory& t, const Poses&, int i, Vec r) const override {
    const CVec x = input_row(t.ctrl, i, width_), before = input_row(t.ctrl, i - 1, width_);
    for (size_t k = 0; k < entries_.size(); k++) {
      const auto at = static_cast<size_t>(entries_[k]);
      r[k] = x.empty() ? 0 : (x[at] - before[at]) / model.interval();
    }
  }
  void pullback(const Model& model, const Trajectory&, const Poses&, int i, CVec, CVec r_bar,
                CostBars& bars) const override {
    const Vec x = bar_row(bars.ctrl, i, width_), before = bar_row(bars.ctrl, i - 1, width_);
    for (size_t k = 0; k < entries_.size(); k++) {
      const auto at = static_cast<size_t>(entries_[k]);
      x[at] += r_bar[k] / model.interval();
      before[at] -= r_bar[k] / model.interval();
    }
  }
  void jacobian(JacobianPlace& place, CVec, JacobianRows& out) const override {
    for (const int entry : entries_) {
      out.add(place.ntangent() + entry, 1 / place.model.interval());
      out.end_row();
    }
  }
  bool of_change() const override { return true; }
  std::vector<std::vector<double> CostBars::*> bars() const override { return {&CostBars::ctrl}; }

 private:
  int width_;
  std::vector<int> entries_;
};

class SensorResidual : public Residual {
 public:
  SensorResidual(const std::string& who, const Model& model, const SensorValue& of)
      : range_(sensor_range(model, of.sensor)) {
    size_ = range_.dim;
    sensors_ = true;
    target_ = target_of(who, of, static_cast<size_t>(size_));
  }
  void value(const Model& model, const Trajectory& t, const Poses&, int i, Vec r) const override {
    const CVec x = row(t.sensordata, i, model.nsensordata());
    const TargetRows::Row target = target_.at(t.time[static_cast<size_t>(i)]);
    for (size_t k = 0; k < r.size(); k++) {
      r[k] = x[static_cast<size_t>(range_.adr) + k] - target[k];
    }
  }
  void pullback(const Model& model, const Trajectory&, const Poses&, int i, CVec, CVec r_bar,
                CostBars& bars) const override {
    const Vec bar = bar_row(bars.sensordata, i, model.nsensordata());
    for (size_t k = 0; k < r_bar.size(); k++) bar[static_cast<size_t>(range_.adr) + k] += r_bar[k];
  }
  void jacobian(JacobianPlace& place, CVec, JacobianRows& out) const override {
    for (int k = 0; k < size_; k++) {
      const CVec values = place.sensor_row(range_.adr + k);
      for (size_t c = 0; c < values.size(); c++) out.add(static_cast<int>(c), values[c]);
      out.end_row();
    }
  }
  std::vector<std::vector<double> CostBars::*> bars() const override {
    return {&CostBars::sensordata};
  }

 private:
  SensorRange range_;
  TargetRows target_;
};

std::unique_ptr<Residual> make(const std::string& who, const Model& model, const Distance& of) {
  return make_distance(who, model, of);
}
std::unique_ptr<Residual> make(const std::string& who, const Model& model, const Orientation& of) {
  return make_orientation(who, model, of);
}
std::unique_ptr<Residual> make(const std::string& who, const Model& model,
                               const FrameVelocity& of) {
  return make_frame_velocity(who, model, of);
}
std::unique_ptr<Residual> make(const std::string& who, const Model& model,
                               const JointPosition& of) {
  return std::make_unique<JointPositionResidual>(who, model, of);
}
std::unique_ptr<Residual> make(const std::string& who, const Model& model,
                               const JointVelocity& of) {
  std::vector<int> dofs;
  for (const JointRange& j : joint_ranges(who, model, of.joints)) {
    for (int k = 0; k < j.nv; k++) dofs.push_back(j.dof + k);
  }
  return std::make_unique<EntriesResidual>(&Trajectory::qvel, &CostBars::qvel, model.nv(), dofs,
                                           target_of(who, of, dofs.size()), false);
}
std::unique_ptr<Residual> make(const std::string& who, const Model& model,
                               const ControlEffort& of) {
  const std::vector<int> entries = controls(who, model, of.actuators);
  return std::make_unique<EntriesResidual>(&Trajectory::ctrl, &CostBars::ctrl, model.nu(), entries,
                                           target_of(who, of, entries.size()), true);
}
std::unique_ptr<Residual> make(const std::string& who, const Model& model, const ControlRate& of) {
  return std::make_unique<ControlRateResidual>(model, controls(who, model, of.actuators));
}
std::unique_ptr<Residual> make(const std::string&, const Model& model, const ForceEffort&) {
  std::vector<int> dofs;
  for (int i = 0; i < model.nv(); i++) dofs.push_back(i);
  return std::make_unique<EntriesResidual>(&Trajectory::qfrc_applied, &CostBars::qfrc_applied,
                                           model.nv(), dofs,
                                           TargetRows(std::vector<double>(dofs.size(), 0.0)), true);
}
std::unique_ptr<Residual> make(const std::string& who, const Model& model, const SensorValue& of) {
  return std::make_unique<SensorResidual>(who, model, of);
}

}  // namespace

int element_id(const std::string& who, const Model& model, int type, const std::string& name) {
  const mjModel* m = model.mj();
  const int id = mj_name2id(m, type, name.c_str());
  if (id >= 0) return id;
  std::vector<std::string> known;
  const int count = type == mjOBJ_SITE    ? model.nsite()
                    : type == mjOBJ_BODY  ? model.nbody()
                    : type == mjOBJ_GEOM  ? model.ngeom()
                    : type == mjOBJ_JOINT ? static_cast<int>(m->njnt)
                                          : static_cast<int>(m->nactuator);
  for (int i = 0; i < count; i++) {
    const char* other = mj_id2name(m, type, i);
    if (other && *other) known.emplace_back(other);
  }
  throw InputError(who + ": the model has no " + mju_type2Str(type) + " '" + name + "'" +
                   (known.empty() ? "; none of them has a name" : "; it has " + joined(known)) +
                   did_you_mean(name, known));
}

std::unique_ptr<Residual> make_residual(const std::string& who, const Model& model,
                                        const CostQuantity& of) {
  return std::visit([&](const auto& x) { return make(who, model, x); }, of);
}

}  // namespace diffmj
