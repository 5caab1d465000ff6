// Objective: the loss of segments and its gradient in parameters.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

#include "base/require.h"
#include "diffmj/error.h"
#include "diffmj/fit.h"
#include "identify/residual_loss.h"
#include "identify/segment_loss.h"
#include "model/parameters.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }
int nstep_of(const Segment& segment) { return segment.length * segment.substeps; }

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
        const RobustResidual y = robust_residual(kind, x);
        loss += 0.5 * y.value * y.value;
        bar[j] = std::sqrt(weight) * y.slope * y.value;
      }
      if (cotangents) cotangents->add(target, i, r[k].data() + row, bar.data());
    }
  }
  return loss;
}

// Of values that were computed elsewhere.
void require_sizes(const Model& model, const std::vector<std::string>& fields,
                   const SegmentValue& value) {
  for (const std::string& field : fields) {
    const auto found = value.params.find(field);
    const size_t size = found == value.params.end() ? 0 : found->second.size(),
                 expected = at(parameter_field(field).size(model.mj()));
    require_size("Objective", ("the gradient in " + field).c_str(), size, expected, expected,
                 std::to_string(expected));
  }
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

std::vector<SegmentValue> segment_values(const Model& model,
                                         std::span<const Segment* const> segments,
                                         const ResidualLoss& loss, bool gradient,
                                         const std::vector<std::string>& fields,
                                         const RolloutOptions& options) {
  std::vector<SegmentValue> out(segments.size());
  std::map<int, std::vector<size_t>> groups;  // by number of steps
  for (size_t i = 0; i < segments.size(); i++) groups[nstep_of(*segments[i])].push_back(i);
  for (const auto& [nstep, members] : groups) {
    std::vector<RolloutInput> inputs;
    RolloutOptions run = options;
    for (const size_t i : members) {
      inputs.push_back(segment_input(*segments[i]));
      run.sensors = run.sensors || reads_sensors(*segments[i]);
    }
    std::vector<Trajectory> rollouts = rollout_batch(model, inputs, nstep, run);
    std::deque<SegmentCotangents> bars;
    std::vector<Trajectory> good;
    std::vector<size_t> of;  // the segment of each good rollout
    for (size_t k = 0; k < members.size(); k++) {
      SegmentValue& value = out[members[k]];
      value.ok = rollouts[k].ok();
      if (!value.ok) {
        value.message = rollouts[k].message;
        continue;
      }
      const Segment& segment = *segments[members[k]];
      if (gradient) bars.emplace_back(model, segment);
      value.loss = loss_of(model, segment, rollouts[k], loss, gradient ? &bars.back() : nullptr);
      if (!gradient) continue;
      good.push_back(std::move(rollouts[k]));
      of.push_back(members[k]);
    }
    if (!gradient) continue;
    std::vector<Cotangents> cotangents;
    for (const SegmentCotangents& bar : bars) cotangents.push_back(bar.view(fields));
    std::vector<Gradient> gradients = rollout_pullback_batch(model, good, cotangents, options);
    for (size_t k = 0; k < gradients.size(); k++) {
      if (!gradients[k].message.empty()) throw RolloutError("Objective: " + gradients[k].message);
      out[of[k]].params = std::move(gradients[k].params);
      out[of[k]].cfd = gradients[k].cfd;
    }
  }
  return out;
}

Objective::Value Objective::evaluate(std::span<const double> theta, bool gradient,
                                     std::span<const int> which,
                                     const RolloutOptions& options) const {
  const Model model = family_->at(theta);
  std::vector<int> numbers(which.begin(), which.end());
  if (numbers.empty()) {
    numbers.resize(segments_->size());
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  std::vector<const Segment*> all;
  for (const int k : numbers) {
    if (k < 0 || k >= nsegment()) {
      throw InputError("Objective: there is no segment " + std::to_string(k) + " of " +
                       std::to_string(nsegment()));
    }
    all.push_back(&(*segments_)[at(k)]);
  }
  ParametricModel::Jacobian jacobian;
  if (gradient) jacobian = family_->jacobian(theta, options.nthread);
  const std::vector<SegmentValue> values =
      elsewhere_ ? elsewhere_(model, numbers, gradient, jacobian.fields())
                 : segment_values(model, all, loss_, gradient, jacobian.fields(), options);
  if (values.size() != all.size()) {
    throw InputError("Objective: there are values of " + std::to_string(values.size()) +
                     " segments, expected " + std::to_string(all.size()));
  }

  // sums are taken by number of steps, then in the order of the segments
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return nstep_of(*all[a]) < nstep_of(*all[b]); });
  Value out;
  Gradient sum;
  int count = 0;
  for (const size_t i : order) {
    const SegmentValue& value = values[i];
    if (!value.ok) {
      if (out.nfailed++ == 0) out.message = value.message;
      continue;
    }
    if (elsewhere_) require_sizes(model, jacobian.fields(), value);
    out.loss += value.loss;
    out.cfd += value.cfd;
    count++;
    for (const auto& [name, numbers_of] : value.params) {
      std::vector<double>& to = sum.params[name];
      to.resize(numbers_of.size());
      for (size_t k = 0; k < to.size(); k++) to[k] += numbers_of[k];
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
