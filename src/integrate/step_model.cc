#include "integrate/step_model.h"

#include <algorithm>
#include <utility>

#include "integrate/tableau.h"
#include "stages/position/kinematics.h"

namespace diffmj {

MetricPattern::MetricPattern(const mjModel* m) {
  const bool fast = m->opt.integrator == mjINT_IMPLICITFAST;
  begin.push_back(0);
  for (int i = 0; i < static_cast<int>(m->nv); i++) {
    const int body = m->dof_bodyid[i], first = m->body_dofadr[body];
    if (fast && is_lone_free_body(m, body)) {
      if (i == first) free_bodies.push_back(body);
      for (int j = first; j < i; j++) column.push_back(j);
    } else if (!metric_is_diagonal(m, i)) {
      for (int p = m->D_rowadr[i]; m->D_colind[p] < i; p++) column.push_back(m->D_colind[p]);
    }
    begin.push_back(column.size());
  }
}

StepModel::StepModel(std::shared_ptr<mjModel> compiled, const StepMethod& method,
                     const ModelOptions& asked)
    : StageModel(std::move(compiled), method.tableau != nullptr, asked),
      tableau(method.tableau),
      stiff_tableau(method.stiff_tableau),
      interval(method.interval),
      metric_pattern(mj()) {}

size_t StepModel::nplace() const {
  if (!tableau) return kRk4.nstage;
  return std::max(tableau->nk, stiff_tableau ? stiff_tableau->nk : 0) + 1;
}

}  // namespace diffmj
