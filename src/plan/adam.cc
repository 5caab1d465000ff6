#include "plan/adam.h"

#include <algorithm>
#include <cmath>

namespace diffmj {
namespace {

// Descent through contacts may rise and fall again; after this many steps it has left its valley.
constexpr int kPatience = 3;

}  // namespace

AdamRun::AdamRun(std::vector<double> start, const PlanOptions& options, const AdamMoments& moments,
                 double rate_factor)
    : options_(&options),
      z_(std::move(start)),
      moments_(moments),
      rate_(options.rate * rate_factor) {
  if (moments_.count == 0) forget();
}

void AdamRun::forget() {
  moments_.first.assign(z_.size(), 0.0);
  moments_.second.assign(z_.size(), 0.0);
  moments_.count = 0;
}

// the factor on a gradient of this norm: it is no longer than clip times the median of those before
double AdamRun::clipped(double norm) {
  double factor = 1;
  if (options_->clip > 0 && !norms_.empty()) {
    std::vector<double> sorted = norms_;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2),
                     sorted.end());
    const double most = options_->clip * sorted[sorted.size() / 2];
    if (most > 0 && norm > most) factor = most / norm;
  }
  norms_.push_back(norm * factor);
  return factor;
}

void AdamRun::step(bool ok, double cost, const std::vector<double>& gradient,
                   const PlanVariables& variables) {
  if (ok && (cost < cost_ || best_.empty())) {
    cost_ = cost;
    best_ = z_;
    if (!gradient.empty()) best_gradient_ = gradient;
  }
  if (ok && std::isnan(first_)) first_ = cost;
  worse_ = ok && cost > first_ ? worse_ + 1 : 0;
  if (ok && worse_ < kPatience) {
    if (!gradient.empty()) descend(gradient, variables);
  } else if (best_gradient_.empty()) {
    alive_ = ok;
  } else {
    restart(variables);
  }
}

void AdamRun::restart(const PlanVariables& variables) {
  if (best_gradient_.empty()) return;
  z_ = best_;
  first_ = cost_;
  worse_ = 0;
  rate_ /= 2;
  forget();
  descend(best_gradient_, variables);
}

void AdamRun::descend(const std::vector<double>& g, const PlanVariables& variables) {
  const CVec scale = variables.scale();
  double norm = 0;
  for (size_t i = 0; i < g.size(); i++) norm += g[i] * g[i] * scale[i] * scale[i];
  norm = std::sqrt(norm);
  if (norm == 0) return;
  const double factor = clipped(norm);

  moments_.count++;
  std::vector<double>&m = moments_.first, &v = moments_.second;
  const double b1 = options_->beta1, b2 = options_->beta2, c1 = 1 - std::pow(b1, moments_.count),
               c2 = 1 - std::pow(b2, moments_.count);
  for (size_t i = 0; i < g.size(); i++) {
    // in units of the scale; relative to the whole gradient, so that eps has no unit
    const double x = factor * g[i] * scale[i];
    m[i] = b1 * m[i] + (1 - b1) * x;
    v[i] = b2 * v[i] + (1 - b2) * x * x;
    const double eps = 1e-8 * norm;
    z_[i] -= rate_ * scale[i] * (m[i] / c1) / (std::sqrt(v[i] / c2) + eps);
  }
  variables.clip(z_);
}

}  // namespace diffmj
