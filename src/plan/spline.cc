#include "plan/spline.h"

#include <algorithm>
#include <cmath>

namespace diffmj {

Spline::Spline(int nstep, std::optional<int> knots, Interpolation interpolation)
    : knots_(knots.value_or(nstep)), interpolation_(interpolation) {
  // a knot that is held covers as many steps as any other; else the first and last are at the ends
  spacing_ = interpolation == Interpolation::kZero
                 ? static_cast<double>(nstep) / knots_
                 : static_cast<double>(std::max(nstep - 1, 1)) / std::max(knots_ - 1, 1);
  rows_.reserve(static_cast<size_t>(nstep));
  for (int i = 0; i < nstep; i++) rows_.push_back(weights(i / spacing_, interpolation));
}

Spline::Weights Spline::weights(double at, Interpolation interpolation) const {
  at = std::clamp(at, 0.0, static_cast<double>(knots_ - 1));
  // 1e-9: rounding of a time that is a knot's
  const int k = std::min(static_cast<int>(at + 1e-9), knots_ - 1);
  const double u = std::max(at - k, 0.0);
  if (interpolation == Interpolation::kZero || k == knots_ - 1 || u < 1e-9) return {k, 1, {1}};
  if (interpolation == Interpolation::kLinear) return {k, 2, {1 - u, u}};

  // Hermite: p = h00 p0 + h10 m0 + h01 p1 + h11 m1, slopes m of the neighbours' difference
  const double h00 = (1 + 2 * u) * (1 - u) * (1 - u), h10 = u * (1 - u) * (1 - u),
               h01 = u * u * (3 - 2 * u), h11 = u * u * (u - 1);
  std::array<double, 4> w = {0, h00, h01, 0};  // of knots k - 1 .. k + 2
  if (k > 0) {
    w[0] -= 0.5 * h10;
    w[2] += 0.5 * h10;
  } else {
    w[1] -= h10;
    w[2] += h10;
  }
  if (k + 2 < knots_) {
    w[1] -= 0.5 * h11;
    w[3] += 0.5 * h11;
  } else {
    w[1] -= h11;
    w[2] += h11;
  }
  // those that are there
  if (k == 0) std::rotate(w.begin(), w.begin() + 1, w.end());
  const int first = std::max(k - 1, 0), last = std::min(k + 2, knots_ - 1);
  return {first, last - first + 1, w};
}

void Spline::row(CVec knots, int width, int i, Vec to) const {
  const auto n = static_cast<size_t>(width);
  const Weights& x = row_weights(i);
  std::fill(to.begin(), to.end(), 0.0);
  for (int k = 0; k < x.count; k++) {
    const double w = x.w[static_cast<size_t>(k)];
    const double* from = &knots[static_cast<size_t>(x.first + k) * n];
    for (size_t j = 0; j < n; j++) to[j] += w * from[j];
  }
}

void Spline::values(CVec knots, int width, Vec rows) const {
  const auto n = static_cast<size_t>(width);
  for (int i = 0; i < nstep(); i++) {
    row(knots, width, i, rows.subspan(static_cast<size_t>(i) * n, n));
  }
}

void Spline::pullback(CVec rows_bar, int width, Vec knots_bar) const {
  const auto n = static_cast<size_t>(width);
  for (size_t i = 0; i < rows_.size(); i++) {
    for (int k = 0; k < rows_[i].count; k++) {
      const double w = rows_[i].w[static_cast<size_t>(k)];
      double* to = &knots_bar[static_cast<size_t>(rows_[i].first + k) * n];
      for (size_t j = 0; j < n; j++) to[j] += w * rows_bar[i * n + j];
    }
  }
}

void Spline::shift(double steps, int width, Vec knots) const {
  const auto n = static_cast<size_t>(width);
  const std::vector<double> old(knots.begin(), knots.end());
  // knots that are held, too, move by parts of their length
  const Interpolation between =
      interpolation_ == Interpolation::kCubic ? Interpolation::kCubic : Interpolation::kLinear;
  for (size_t i = 0; i < static_cast<size_t>(knots_); i++) {
    const Weights x = weights(static_cast<double>(i) + steps / spacing_, between);
    for (size_t j = 0; j < n; j++) {
      knots[i * n + j] = 0;
      for (int k = 0; k < x.count; k++) {
        knots[i * n + j] +=
            x.w[static_cast<size_t>(k)] * old[static_cast<size_t>(x.first + k) * n + j];
      }
    }
  }
}

void Spline::sample(CVec rows, int width, Vec knots) const {
  const auto n = static_cast<size_t>(width);
  for (int k = 0; k < knots_; k++) {
    const int step =
        std::min(static_cast<int>(std::ceil(k * spacing_ - 1e-9)), static_cast<int>(nstep()) - 1);
    std::copy_n(&rows[static_cast<size_t>(step) * n], n, &knots[static_cast<size_t>(k) * n]);
  }
}

}  // namespace diffmj
