#include "plan/adam.h"

#include <algorithm>
#include <cmath>

namespace diffmj {
namespace {

// Descent through contacts may rise and fall again; after this many steps it has left its valley.
constexpr int kPatience = 3;

}  // namespace

AdamRun::AdamRun(std::vector<double> start, const PlanOptions& options)
    : options_(&options),
      z_(std::move(start)),
      m_(z_.size(), 0.0),
      v_(z_.size(), 0.0),
      rate_(options.rate) {}

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
  const bool back = !ok || worse_ >= kPatience;
  if (back) {
    if (best_gradient_.empty()) {
      alive_ = ok;
      return;
    }
    z_ = best_;
    first_ = cost_;
    worse_ = 0;
    rate_ /= 2;
    std::fill(m_.begin(), m_.end(), 0.0);
    std::fill(v_.begin(), v_.end(), 0.0);
    count_ = 0;
  }
  const std::vector<double>& g = back ? best_gradient_ : gradient;
  if (g.empty()) return;
  const CVec scale = variables.scale();
  double norm = 0;
  for (size_t i = 0; i < g.size(); i++) norm += g[i] * g[i] * scale[i] * scale[i];
  norm = std::sqrt(norm);
  if (norm == 0) return;
  const double factor = clipped(norm);

  count_++;
  const double b1 = options_->beta1, b2 = options_->beta2, c1 = 1 - std::pow(b1, count_),
               c2 = 1 - std::pow(b2, count_);
  for (size_t i = 0; i < g.size(); i++) {
    // in units of the scale; relative to the whole gradient, so that eps has no unit
    const double x = factor * g[i] * scale[i];
    m_[i] = b1 * m_[i] + (1 - b1) * x;
    v_[i] = b2 * v_[i] + (1 - b2) * x * x;
    const double eps = 1e-8 * norm;
    z_[i] -= rate_ * scale[i] * (m_[i] / c1) / (std::sqrt(v_[i] / c2) + eps);
  }
  variables.clip(z_);
}

}  // namespace diffmj
