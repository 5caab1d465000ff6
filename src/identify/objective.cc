// Objective: the loss of segments and its gradient in parameters.
#include <cmath>
#include <deque>
#include <map>

#include "diffmj/error.h"
#include "diffmj/fit.h"
#include "identify/residual_loss.h"
#include "identify/segment_loss.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// The loss of a segment, and its cotangents.
double loss_of(const Model& model, const Segment& segment, const Trajectory& t,
               const ResidualLoss& kind, SegmentCotangents* cotangents) {
  double loss = 0;
  const std::vector<std::vector<double>> r = residuals(model, segment, t);
  std::vector<double> bar;
  for (size_t k = 0; k < segment.targets.size(); k++) {
    const Target& target = segment.targets[k];
    bar.resize(at(target.nweight));
    for (int i = 0; i <= segment.length; i++) {
      const size_t row = at(i) * at(target.nweight);
      for (size_t j = 0; j < bar.size(); j++) {
        const double weight = target.weights[row + j], x = std::sqrt(weight) * r[k][row + j];
        const BentResidual bent = bend(kind, x);
        loss += 0.5 * bent.value * bent.value;
        bar[j] = std::sqrt(weight) * bent.slope * bent.value;
      }
      if (cotangents) cotangents->add(target, i, r[k].data() + row, bar.data());
    }
  }
  return loss;
}

}  // namespace

Objective::Objective(ParametricModel family, std::vector<Segment> segments, ResidualLoss loss)
    : family_(std::make_shared<const ParametricModel>(std::move(family))),
      segments_(std::make_shared<const std::vector<Segment>>(std::move(segments))),
      loss_(loss) {
  if (!(loss.scale > 0 && std::isfinite(loss.scale))) {
    throw InputError("Objective: the scale of the loss is " + std::to_string(loss.scale) +
                     ", expected more than 0");
  }
  if (segments_->empty()) {
    throw InputError(
        "Objective: the list of segments is empty; use shorter segments, or another rule");
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
    std::deque<SegmentCotangents> bars;
    std::vector<Trajectory> good;
    for (size_t i = 0; i < members.size(); i++) {
      if (!rollouts[i].ok()) {
        if (out.nfailed++ == 0) out.message = rollouts[i].message;
        continue;
      }
      const Segment& segment = (*segments_)[at(members[i])];
      if (gradient) bars.emplace_back(model, segment);
      out.loss += loss_of(model, segment, rollouts[i], loss_, gradient ? &bars.back() : nullptr);
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

}  // namespace diffmj
