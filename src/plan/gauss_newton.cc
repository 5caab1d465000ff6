#include "plan/gauss_newton.h"

#include <algorithm>

#include "plan/bound.h"
#include "plan/jacobian.h"

namespace diffmj {
namespace {

struct Scratch {
  std::vector<double> r, r_bar, h;
  JacobianRows rows;
};

void clear(int n, int nu, bool sensors, CostExpansion& out) {
  out.x.setZero(n);
  out.u.setZero(nu);
  out.xx.setZero(n, n);
  out.uu.setZero(nu);
  out.uu_rest.setZero(sensors ? nu : 0, sensors ? nu : 0);
  out.ux.setZero(sensors ? nu : 0, sensors ? n : 0);
  out.change.setZero(nu);
  out.change_change.setZero(nu);
}

// gradient += b j,  Hessian += h j jᵀ  of a row j
void add_row(const JacobianRows& rows, int k, double b, double h, bool change, CostExpansion& out) {
  const auto n = static_cast<int>(out.x.size());
  const size_t begin = rows.begin[static_cast<size_t>(k)],
               end = rows.begin[static_cast<size_t>(k) + 1];
  for (size_t p = begin; p < end; p++) {
    const int row = rows.column[p];
    const double value = rows.value[p];
    if (change) {
      out.change[row - n] += b * value;
      out.change_change[row - n] += h * value * value;
      continue;
    }
    (row < n ? out.x[row] : out.u[row - n]) += b * value;
    for (size_t q = begin; q < end; q++) {
      const int column = rows.column[q];
      const double product = h * value * rows.value[q];
      if (row < n) {
        // of (x, u) the other half, ux, is added to
        if (column < n) out.xx(row, column) += product;
      } else if (column < n) {
        out.ux(row - n, column) += product;
      } else if (row == column) {
        out.uu[row - n] += product;
      } else {
        out.uu_rest(row - n, column - n) += product;
      }
    }
  }
}

void expand_state(const Cost::Bound& cost, int i, JacobianPlace& place, Scratch& s,
                  CostExpansion& out) {
  const Model& model = place.model;
  const Trajectory& t = place.trajectory;
  clear(model.ntangent(), model.nu(), cost.sensors, out);
  place.move(i);
  for (const Cost::Bound::Term& x : cost.terms) {
    const CostTerm& term = x.term;
    const Residual& residual = *x.residual;
    // the factors of Cost::Bound::evaluate
    const int end = residual.of_steps() ? t.nstep : t.nstep + 1;
    const double factor = term.weight / t.nstep + (i == end - 1 ? term.terminal : 0);
    if (i < residual.first() || i >= end || factor == 0) continue;
    const auto size = static_cast<size_t>(residual.size());
    s.r.resize(size);
    s.r_bar.resize(size);
    s.h.resize(size);
    residual.value(model, t, place.poses, i, s.r);
    norm_pullback(term.norm, term.scale, s.r, s.r_bar);
    norm_curvature(term.norm, term.scale, s.r, s.h);
    s.rows.clear();
    residual.jacobian(place, s.r, s.rows);
    for (size_t k = 0; k < size; k++) {
      add_row(s.rows, static_cast<int>(k), factor * s.r_bar[k], factor * s.h[k],
              residual.of_change(), out);
    }
  }
}

}  // namespace

bool has_change(const Cost& cost) {
  const auto& terms = cost.bound().terms;
  return std::any_of(terms.begin(), terms.end(), [](const Cost::Bound::Term& x) {
    return x.residual->of_change() && x.term.weight > 0;
  });
}

void expand_cost(const Model& model, const Cost& cost, const Trajectory& t, const Poses& poses,
                 std::optional<int> nthread, StopSignal& stop, std::vector<CostExpansion>& out) {
  out.resize(static_cast<size_t>(t.nstep) + 1);
  // a few states at a time: what a thread needs for them is made once
  constexpr int kChunk = 16;
  const int n = t.nstep + 1, nchunk = (n + kChunk - 1) / kChunk;
  parallel_for(nchunk, nthread, stop, [&](int chunk, StopSignal& s) {
    JacobianPlace place(model, t, poses);
    Scratch scratch;
    for (int i = kChunk * chunk; i < std::min(n, kChunk * (chunk + 1)); i++) {
      if (s.poll()) return;
      expand_state(cost.bound(), i, place, scratch, out[static_cast<size_t>(i)]);
    }
  });
}

}  // namespace diffmj
