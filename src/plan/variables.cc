#include "plan/variables.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <limits>

namespace diffmj {

PlanVariables::PlanVariables(const Model& model, const PlanOptions& o)
    : cubic_(o.knots && o.interpolation == Interpolation::kCubic),
      nu_(o.controls ? model.nu() : 0),
      nforce_(o.forces ? model.nv() : 0),
      nvelocity_(o.velocity ? model.nv() : 0),
      spline_(o.horizon, o.knots, o.interpolation),
      noise_(o.noise, spline_.knots()) {
  const mjModel* m = model.mj();
  constexpr double kFree = std::numeric_limits<double>::infinity();
  const auto add = [&](double low, double high, double scale) {
    low_.push_back(low);
    high_.push_back(high);
    scale_.push_back(scale);
  };
  for (int k = 0; k < spline_.knots(); k++) {
    for (int j = 0; j < nu_; j++) {
      const double *range = m->actuator_ctrlrange + 2 * static_cast<ptrdiff_t>(j),
                   half = 0.5 * (range[1] - range[0]);
      if (m->actuator_ctrllimited[j] && half > 0) {
        add(range[0], range[1], half);
      } else if (m->actuator_ctrllimited[j]) {
        add(range[0], range[1], 0);  // one value
      } else {
        add(-kFree, kFree, 1);
      }
    }
  }
  force_ = scale_.size();
  for (int k = 0; k < spline_.knots() * nforce_; k++) {
    add(-o.force_limit, o.force_limit, o.force_scale);
  }
  velocity_ = scale_.size();
  for (int k = 0; k < nvelocity_; k++) add(-kFree, kFree, o.velocity_scale);
}

std::vector<double> PlanVariables::zero() const {
  std::vector<double> z(size(), 0.0);
  clip(z);
  return z;
}

bool PlanVariables::release_end(Vec z) const {
  const auto n = static_cast<size_t>(nu_), end = static_cast<size_t>(spline_.knots()) * n;
  if (n == 0) return false;
  const std::vector<double> last(z.begin() + static_cast<ptrdiff_t>(end - n),
                                 z.begin() + static_cast<ptrdiff_t>(end)),
      neutral = zero();
  bool changed = false;
  for (size_t begin = end; begin > 0; begin -= n) {
    const Vec knot = z.subspan(begin - n, n);
    if (!std::equal(last.begin(), last.end(), knot.begin())) break;
    for (size_t j = 0; j < n; j++) {
      changed = changed || knot[j] != neutral[begin - n + j];
      knot[j] = neutral[begin - n + j];
    }
  }
  return changed;
}

void PlanVariables::set(CVec rows, size_t begin, int width, Vec z) const {
  const auto n = static_cast<size_t>(width), knots = static_cast<size_t>(spline_.knots());
  if (rows.empty() || n == 0) return;
  const Vec part = z.subspan(begin, knots * n);
  if (rows.size() == n) {
    for (size_t k = 0; k < knots; k++) std::copy(rows.begin(), rows.end(), &part[k * n]);
  } else {
    spline_.sample(rows, width, part);
  }
}
void PlanVariables::set_ctrl(CVec rows, Vec z) const {
  set(rows, 0, nu_, z);
  clip(z);
}
void PlanVariables::set_forces(CVec rows, Vec z) const {
  set(rows, force_, nforce_, z);
  clip(z);
}
void PlanVariables::set_velocity(CVec qvel, Vec z) const {
  if (nvelocity_ > 0) std::copy(qvel.begin(), qvel.end(), &z[velocity_]);
}

void PlanVariables::inputs(CVec z, PlanInputs& out) const {
  const auto nstep = static_cast<size_t>(spline_.nstep());
  const auto rows = [&](size_t begin, int width, std::vector<double>& to) {
    const size_t n = static_cast<size_t>(width);
    to.resize(nstep * n);
    if (n == 0) return;
    spline_.values(z.subspan(begin, static_cast<size_t>(spline_.knots()) * n), width, to);
    if (!cubic_) return;
    for (size_t i = 0; i < to.size(); i++) {
      to[i] = std::clamp(to[i], low_[begin + i % n], high_[begin + i % n]);
    }
  };
  rows(0, nu_, out.ctrl);
  rows(force_, nforce_, out.qfrc_applied);
  out.qvel.assign(z.begin() + static_cast<ptrdiff_t>(velocity_), z.end());
}

void PlanVariables::pullback(CVec z, const PlanInputs& bars, Vec z_bar,
                             std::vector<double>& scratch) const {
  const auto rows = [&](size_t begin, int width, const std::vector<double>& bar) {
    const size_t n = static_cast<size_t>(width), size = static_cast<size_t>(spline_.knots()) * n;
    if (n == 0) return;
    if (!cubic_) {
      spline_.pullback(bar, width, z_bar.subspan(begin, size));
      return;
    }
    scratch.resize(bar.size());
    spline_.values(z.subspan(begin, size), width, scratch);
    for (size_t i = 0; i < bar.size(); i++) {
      const bool inside = scratch[i] >= low_[begin + i % n] && scratch[i] <= high_[begin + i % n];
      scratch[i] = inside ? bar[i] : 0;
    }
    spline_.pullback(scratch, width, z_bar.subspan(begin, size));
  };
  rows(0, nu_, bars.ctrl);
  rows(force_, nforce_, bars.qfrc_applied);
  for (size_t i = 0; i < static_cast<size_t>(nvelocity_); i++) z_bar[velocity_ + i] += bars.qvel[i];
}

void PlanVariables::clip(Vec z) const {
  for (size_t i = 0; i < z.size(); i++) z[i] = std::clamp(z[i], low_[i], high_[i]);
}

void PlanVariables::shift(double steps, Vec z) const {
  shift_moments(steps, z);
  clip(z);
}

void PlanVariables::shift_moments(double steps, Vec z) const {
  const auto knots = static_cast<size_t>(spline_.knots());
  if (nu_ > 0) spline_.shift(steps, nu_, z.first(knots * static_cast<size_t>(nu_)));
  if (nforce_ > 0) {
    spline_.shift(steps, nforce_, z.subspan(force_, knots * static_cast<size_t>(nforce_)));
  }
}

void PlanVariables::add_noise(RandomNormal& random, double sigma, Vec z) const {
  const auto rows = [&](size_t begin, int width) {
    noise_.add(random, sigma, CVec(scale_).subspan(begin, static_cast<size_t>(width)),
               z.data() + begin);
  };
  rows(0, nu_);
  rows(force_, nforce_);
  for (size_t i = velocity_; i < z.size(); i++) z[i] += sigma * scale_[i] * random.next();
  clip(z);
}

}  // namespace diffmj
