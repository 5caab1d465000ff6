#include "record/solver_limit.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/text.h"
#include "mj/call.h"
#include "stages/acceleration/constraint_solve.h"

namespace diffmj {
namespace {

// A residual that matters, in units of the constraint forces. Solvers that stop by their own
// tolerance leave 1e-6 and less; public models whose iterations are cut short leave 0.01 to 0.5.
constexpr double kResidual = 1e-3;

bool at_limit(const mjModel* m, const mjData* d) {
  const int* niter = d->solver_niter;
  const int n = std::clamp(d->nisland, 1, +mjNISLAND);
  return d->nefc > 0 &&
         std::any_of(niter, niter + n, [&](int k) { return k >= m->opt.iterations; });
}

}  // namespace

SolverResidual solver_residual(const mjModel* m, const mjData* d, CVec qacc,
                               std::vector<double>& scratch) {
  const auto nv = qacc.size(), nefc = static_cast<size_t>(d->nefc);
  scratch.assign(2 * (nv + nefc), 0.0);
  const Vec all(scratch), Ma = all.first(nv), JTf = all.subspan(nv, nv),
                          y = all.subspan(2 * nv, nefc), f = all.last(nefc);
  mj_call("mj_mulM", [&] {
    mj_mulM(m, d, Ma.data(), qacc.data());
    if (nefc > 0) mj_mulJacVec(m, d, y.data(), qacc.data());
  });
  for (size_t i = 0; i < nefc; i++) y[i] -= d->efc_aref[i];
  for (int i = 0; i < d->nefc; i += constraint_rows_at(d, i)) {
    constraint_force(d, constraint_zone(d, y, i), y, i, f);
  }
  if (nefc > 0) mj_call("mj_mulJacTVec", [&] { mj_mulJacTVec(m, d, JTf.data(), f.data()); });
  double residual = 0;
  for (size_t k = 0; k < nv; k++) residual += std::pow(Ma[k] - d->qfrc_smooth[k] - JTf[k], 2);
  return {.residual = std::sqrt(residual),
          .inertial = eigen(CVec(Ma)).norm(),
          .constraints = eigen(CVec(JTf)).norm()};
}

void SolverLimit::look(const mjModel* m, const mjData* d, int i) {
  if (!at_limit(m, d)) return;
  // mj_step leaves there what its solver found last; qacc of RK4 is a mean
  const SolverResidual found =
      solver_residual(m, d, CVec(d->qacc_warmstart, static_cast<size_t>(m->nv)), scratch_);
  if (!(found.residual > kResidual * found.constraints)) return;
  if (count_ == 0) first_ = i;
  count_++;
  const double share = found.residual / found.constraints;
  if (share < worst_) return;
  worst_ = share;
  worst_step_ = i;
}

void SolverLimit::warn(const mjModel* m, int nstep, std::vector<Warning>& warnings) const {
  if (count_ == 0) return;
  warnings.push_back(
      {.text = text("the constraint solver stopped at iterations = %d before it converged in %d of "
                    "%d steps; in step %d what it left is %.2g %% of the constraint forces; the "
                    "gradient is that of the converged solution, not of these steps; use more "
                    "iterations (MuJoCo's default is 100)",
                    m->opt.iterations, count_, nstep, worst_step_, 100 * worst_),
       .first_step = first_,
       .count = count_,
       .kind = WarningKind::kSolver});
}

}  // namespace diffmj
