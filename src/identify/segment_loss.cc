// Residuals of a segment and their cotangents.
#include "identify/segment_loss.h"

#include <mujoco/mujoco.h>

#include <algorithm>

#include "base/rotation.h"
#include "diffmj/error.h"
#include "diffmj/observables.h"
#include "diffmj/sensors.h"
#include "identify/quantities.h"
#include "mj/call.h"
#include "record/tape.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

int width_of(const Model& model, const std::string& name) {
  return name == "qpos"         ? model.nv()  // in the tangent
         : name == "qvel"       ? model.nv()
         : name == "act"        ? model.na()
         : name == "sensordata" ? model.nsensordata()
                                : observable(name).size(model);
}

// r = q ⊖ recorded: what the tangent of q receives, joint by joint
void position_pullback(const mjModel* m, const double* r, const double* r_bar, double* to) {
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int type = m->jnt_type[j];
    int dof = m->jnt_dofadr[j];
    if (type == mjJNT_FREE) {
      for (int k = 0; k < 3; k++) to[dof + k] += r_bar[dof + k];
      dof += 3;
    }
    if (type == mjJNT_FREE || type == mjJNT_BALL) {
      // u' = Jr(u)⁻¹ ω
      Eigen::Map<Vector3>(to + dof) += dexpinv(-Vector3(r + dof), Vector3(r_bar + dof));
    } else {
      to[dof] += r_bar[dof];
    }
  }
}

}  // namespace

SegmentCotangents::SegmentCotangents(const Model& model, const Segment& segment)
    : model_(model), segment_(segment) {
  const int rows = segment.length * segment.substeps + 1;
  for (const Target& x : segment.targets) {
    bars_[x.observable].resize(at(rows) * at(width_of(model, x.observable)));
  }
}

void SegmentCotangents::clear() {
  for (auto& [name, bar] : bars_) std::fill(bar.begin(), bar.end(), 0.0);
}

void SegmentCotangents::add(const Target& target, int i, const double* r, const double* r_bar) {
  const int width = width_of(model_, target.observable);
  double* row =
      bars_.at(target.observable).data() + at(i * segment_.substeps) * at(width) + target.offset;
  if (target.quaternion) {
    // the simulated one is recorded exp(r)
    mjtNum q[4];
    mju_copy4(q, target.values.data() + at(i) * at(target.width));
    mju_quatIntegrate(q, r, 1);
    quaternion_cotangent_to_ambient(q, dexpinv(-Vector3(r), Vector3(r_bar)), row);
  } else if (target.observable == "qpos") {
    position_pullback(model_.mj(), r, r_bar, row);
  } else {
    for (int j = 0; j < target.width; j++) row[j] += r_bar[j];
  }
}

Cotangents SegmentCotangents::view(const std::vector<std::string>& params) const {
  Cotangents out;
  for (const auto& [name, bar] : bars_) {
    if (name == "qpos") {
      out.qpos_tangent = bar;
    } else if (name == "qvel") {
      out.qvel = bar;
    } else if (name == "act") {
      out.act = bar;
    } else if (name == "sensordata") {
      out.sensordata = bar;
    } else {
      out.*observable(name).cotangent = bar;
    }
  }
  out.params = params;
  return out;
}

bool reads_sensors(const Segment& segment) {
  return std::any_of(segment.targets.begin(), segment.targets.end(),
                     [](const Target& x) { return x.observable == "sensordata"; });
}

std::vector<std::vector<double>> residuals(const Model& model, const Segment& segment,
                                           const Trajectory& t) {
  if (!is_made_with(model, t)) {
    throw InputError("residuals: the trajectory was made with another model");
  }
  if (t.nstep != segment.length * segment.substeps) {
    throw InputError("residuals: the trajectory has " + std::to_string(t.nstep) +
                     " steps, expected " + std::to_string(segment.length * segment.substeps) +
                     " (length x substeps)");
  }
  std::map<std::string, std::vector<double>> simulated;
  for (const Target& x : segment.targets) {
    if (simulated.count(x.observable)) continue;
    simulated[x.observable] = x.observable == "qpos"         ? t.qpos
                              : x.observable == "qvel"       ? t.qvel
                              : x.observable == "act"        ? t.act
                              : x.observable == "sensordata" ? sensordata(model, t)
                                                             : poses(model, t, {x.observable}).*
                                                                   observable(x.observable).values;
  }
  std::vector<std::vector<double>> out;
  for (const Target& x : segment.targets) {
    const std::vector<double>& rows = simulated[x.observable];
    const int columns = static_cast<int>(rows.size()) / (t.nstep + 1);
    std::vector<double> r(x.weights.size());
    for (int i = 0; i <= segment.length; i++) {
      const double* y = row_of(rows, i * segment.substeps, columns).data() + x.offset;
      const double* target = row_of(x.values, i, x.width).data();
      const auto to = row_of(r, i, x.nweight);
      if (x.quaternion) {
        mju_subQuat(to.data(), y, target);
      } else if (x.observable == "qpos") {
        mj_call("mj_differentiatePos",
                [&] { mj_differentiatePos(model.mj(), to.data(), 1, target, y); });
      } else {
        for (size_t j = 0; j < to.size(); j++) to[j] = y[j] - target[j];
      }
      const auto weights = row_of(x.weights, i, x.nweight);
      for (size_t j = 0; j < to.size(); j++) {
        if (weights[j] == 0) to[j] = 0;
      }
    }
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace diffmj
