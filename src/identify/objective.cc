// Objective: the loss of segments and its gradient in parameters.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/rotation.h"
#include "diffmj/error.h"
#include "diffmj/fit.h"
#include "diffmj/observables.h"
#include "mj/view.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// Cotangents of a segment's loss, with the arrays they look into.
struct SegmentCotangents {
  std::vector<double> qpos_tangent, qvel, act, sensordata;
  std::map<std::string, std::vector<double>> observables;
  double loss = 0;

  Cotangents view(const std::vector<std::string>& params) const {
    Cotangents out{.qpos_tangent = qpos_tangent, .qvel = qvel, .act = act};
    for (const auto& [name, bar] : observables) out.*observable(name).cotangent = bar;
    out.sensordata = sensordata;
    out.params = params;
    return out;
  }
};

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

SegmentCotangents cotangents_of(const Model& model, const Segment& segment, const Trajectory& t,
                                bool gradient) {
  SegmentCotangents out;
  const std::vector<std::vector<double>> r = residuals(model, segment, t);
  for (size_t k = 0; k < segment.targets.size(); k++) {
    const Target& target = segment.targets[k];
    std::vector<double> bar(r[k].size());
    for (size_t i = 0; i < bar.size(); i++) {
      bar[i] = target.weights[i] * r[k][i];
      out.loss += 0.5 * bar[i] * r[k][i];
    }
    if (!gradient) continue;
    const std::string& name = target.observable;
    std::vector<double>* to = name == "qpos"         ? &out.qpos_tangent
                              : name == "qvel"       ? &out.qvel
                              : name == "act"        ? &out.act
                              : name == "sensordata" ? &out.sensordata
                                                     : &out.observables[name];
    const int width = name == "qpos"         ? t.nv
                      : name == "qvel"       ? t.nv
                      : name == "act"        ? t.na
                      : name == "sensordata" ? model.nsensordata()
                                             : observable(name).size(model);
    if (to->empty()) to->resize(at(t.nstep + 1) * at(width));
    for (int i = 0; i <= segment.length; i++) {
      double* row = to->data() + at(i * segment.substeps) * at(width) + target.offset;
      const double *row_r = r[k].data() + at(i) * at(target.nweight),
                   *row_bar = bar.data() + at(i) * at(target.nweight);
      if (target.quaternion) {
        // the simulated one is recorded exp(r)
        mjtNum q[4];
        mju_copy4(q, target.values.data() + at(i) * at(target.width));
        mju_quatIntegrate(q, row_r, 1);
        quaternion_cotangent_to_ambient(q, dexpinv(-Vector3(row_r), Vector3(row_bar)), row);
      } else if (name == "qpos") {
        position_pullback(model.mj(), row_r, row_bar, row);
      } else {
        for (int j = 0; j < target.width; j++) row[j] += row_bar[j];
      }
    }
  }
  return out;
}

bool reads_sensors(const Segment& segment) {
  return std::any_of(segment.targets.begin(), segment.targets.end(),
                     [](const Target& x) { return x.observable == "sensordata"; });
}

}  // namespace

Objective::Objective(ParametricModel family, std::vector<Segment> segments)
    : family_(std::make_shared<const ParametricModel>(std::move(family))),
      segments_(std::make_shared<const std::vector<Segment>>(std::move(segments))) {
  if (segments_->empty()) {
    throw InputError("Objective: there are no segments; use shorter ones, or another rule");
  }
}

Objective::Value Objective::evaluate(std::span<const double> theta, bool gradient,
                                     std::span<const int> which,
                                     const RolloutOptions& options) const {
  const Model model = family_->at(theta);
  // by number of steps, in the order of the segments
  std::map<int, std::vector<int>> groups;
  const int n = which.empty() ? nsegment() : static_cast<int>(which.size());
  for (int i = 0; i < n; i++) {
    const int k = which.empty() ? i : which[at(i)];
    if (k < 0 || k >= nsegment()) {
      throw InputError("Objective: there is no segment " + std::to_string(k) + " of " +
                       std::to_string(nsegment()));
    }
    const Segment& segment = (*segments_)[at(k)];
    groups[segment.length * segment.substeps].push_back(k);
  }
  ParametricModel::Jacobian jacobian;
  if (gradient) jacobian = family_->jacobian(theta, options.nthread);

  Value out;
  Gradient sum;
  int count = 0;
  for (const auto& [nstep, members] : groups) {
    std::vector<RolloutInput> inputs;
    RolloutOptions run = options;
    for (const int k : members) {
      inputs.push_back(segment_input((*segments_)[at(k)]));
      run.sensors = run.sensors || reads_sensors((*segments_)[at(k)]);
    }
    std::vector<Trajectory> rollouts = rollout_batch(model, inputs, nstep, run);
    std::vector<SegmentCotangents> bars;
    std::vector<Trajectory> good;
    for (size_t i = 0; i < members.size(); i++) {
      if (!rollouts[i].ok()) {
        if (out.nfailed++ == 0) out.message = rollouts[i].message;
        continue;
      }
      bars.push_back(cotangents_of(model, (*segments_)[at(members[i])], rollouts[i], gradient));
      out.loss += bars.back().loss;
      count++;
      if (gradient) good.push_back(std::move(rollouts[i]));
    }
    if (!gradient) continue;
    std::vector<Cotangents> cotangents;
    for (const SegmentCotangents& bar : bars) cotangents.push_back(bar.view(jacobian.fields()));
    for (const Gradient& g : rollout_pullback_batch(model, good, cotangents, options)) {
      if (!g.message.empty()) throw RolloutError("Objective: " + g.message);
      for (const auto& [name, values] : g.params) {
        std::vector<double>& to = sum.params[name];
        to.resize(values.size());
        for (size_t k = 0; k < values.size(); k++) to[k] += values[k];
      }
    }
  }
  if (count == 0) {
    throw RolloutError("Objective: the rollouts of all segments failed; the first: " + out.message);
  }
  out.loss /= count;
  if (gradient) {
    out.gradient = jacobian.pullback(sum);
    for (double& x : out.gradient) x /= count;
  }
  return out;
}

std::vector<double> Objective::residuals(std::span<const double> theta,
                                         const RolloutOptions& options) const {
  const Model model = family_->at(theta);
  std::vector<double> out;
  for (const Segment& segment : *segments_) {
    RolloutOptions run = options;
    run.sensors = reads_sensors(segment);
    const Trajectory t =
        rollout(model, segment_input(segment), segment.length * segment.substeps, run);
    if (!t.ok()) {
      for (const Target& x : segment.targets) {
        out.insert(out.end(), x.weights.size(), std::numeric_limits<double>::quiet_NaN());
      }
      continue;
    }
    const std::vector<std::vector<double>> r = diffmj::residuals(model, segment, t);
    for (size_t k = 0; k < r.size(); k++) {
      for (size_t i = 0; i < r[k].size(); i++) {
        out.push_back(std::sqrt(segment.targets[k].weights[i]) * r[k][i]);
      }
    }
  }
  return out;
}

}  // namespace diffmj
