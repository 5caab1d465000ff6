// Differences of MuJoCo's own calls in the state and the inputs: what is left where nothing else
// has a derivative.
#ifndef DIFFMJ_STAGES_INPUT_DIFFERENCES_H_
#define DIFFMJ_STAGES_INPUT_DIFFERENCES_H_

#include <algorithm>
#include <cmath>

#include "stages/probes.h"
#include "stages/vector_field.h"

namespace diffmj {

// Room for three samples of a function of y.size() numbers, and their difference.
struct DifferenceScratch {
  Vec center, plus, minus;
  Eigen::VectorXd& difference;
};

// Adds y_bar · ∂y/∂input to bar, one row per row of y_bar. value(move, y) evaluates y at the input
// in the workspace's mjData that move() has changed, and returns the number of constraint rows.
// Inputs are written by value itself, before it calls move.
//
// gradient: where rows appear or vanish on one side, the other side alone is taken; at the bound of
// a clamp, the inside (stages/probes.h).
template <class Value>
void input_differences_pullback(const StageModel& impl, const StepInput& in, const Matrix& y_bar,
                                const VectorFieldBar& bar, const DifferenceScratch& scratch,
                                Value&& value, Workspace& workspace) {
  // larger than the oracle's: the solver's own noise is differenced too
  constexpr double kStep = 1e-5;
  mjData* d = workspace.data.get();
  const int nv = impl.nv;
  const int rows = value([] {}, scratch.center);
  const auto column = [&](double size, double shift, Eigen::Index j, Matrix& to, auto&& move) {
    const double h = kStep * size;
    const bool up = value([&] { move(shift + h); }, scratch.plus) == rows;
    const bool down = value([&] { move(shift - h); }, scratch.minus) == rows;
    const bool one_sided = shift == 0 && up != down;
    const CVec high = one_sided && !up ? scratch.center : scratch.plus;
    const CVec low = one_sided && !down ? scratch.center : scratch.minus;
    scratch.difference = (eigen(high) - eigen(low)) / (one_sided ? h : 2 * h);
    to.col(j).noalias() += y_bar * scratch.difference;
  };
  const auto size = [](CVec x, int j) {
    return x.empty() ? 1 : std::max(1.0, std::abs(x[static_cast<size_t>(j)]));
  };

  for (int j = 0; j < nv; j++) {
    column(position_size(impl, j, in.qpos), 0, j, bar.x, [&](double s) {
      std::fill(workspace.probes.direction.begin(), workspace.probes.direction.end(), 0.0);
      workspace.probes.direction[static_cast<size_t>(j)] = s;
      mj_integratePos(impl.mj(), d->qpos, workspace.probes.direction.data(), 1);
    });
    column(size(in.qvel, j), 0, nv + j, bar.x, [&](double s) { d->qvel[j] += s; });
    column(size(in.qfrc_applied, j), 0, j, bar.qfrc_applied,
           [&](double s) { d->qfrc_applied[j] += s; });
  }
  for (int j = 0; j < impl.na; j++) {
    column(1, activation_shift(impl, j, in.act[static_cast<size_t>(j)], kStep), 2 * nv + j, bar.x,
           [&](double s) { d->act[j] += s; });
  }
  for (int j = 0; j < impl.nu; j++) {
    const double u = in.ctrl.empty() ? 0.0 : in.ctrl[static_cast<size_t>(j)];
    column(size(in.ctrl, j), control_shift(impl, j, u, kStep * size(in.ctrl, j)), j, bar.ctrl,
           [&](double s) { d->ctrl[j] += s; });
  }
  for (int j = 6; j < static_cast<int>(bar.xfrc_applied.cols()); j++) {
    column(size(in.xfrc_applied, j), 0, j, bar.xfrc_applied,
           [&](double s) { d->xfrc_applied[j] += s; });
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_INPUT_DIFFERENCES_H_
