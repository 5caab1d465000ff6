// The pullback of the stages of an explicit Runge-Kutta step, the last one first: what MuJoCo's RK4
// (integrate/rk4.cc) and the methods of integrate/runge_kutta.h have in common.
//
//   u_i = h Σ_j A_ij k_j,   q_i = q ⊕ u_i,   v_i = v + h Σ_j A_ij a_j
//   a_i, wdot_i = F(x_i),   k_i = dexpinv(u_i) v_i
#ifndef DIFFMJ_INTEGRATE_STAGES_PULLBACK_H_
#define DIFFMJ_INTEGRATE_STAGES_PULLBACK_H_

#include "integrate/manifold.h"
#include "integrate/step.h"
#include "integrate/tableau.h"
#include "stages/workspace.h"

namespace diffmj {

// The position and velocity after the step: q' = q ⊕ h Σ b_i k_i, v' = v + h Σ b_i a_i. Sets k_bar
// and a_bar of the stages and adds to bar.x; makes u_bar and x_bar of the stages zero.
void step_end_pullback(const StepModel& impl, const Tableau& tableau, double h, StepBar& bar,
                       Workspace& workspace);

// field(i, stage) pulls (a_bar, act_dot_bar) back through F and adds to stage.x_bar;
// activations(i, stage) does what act_i = act_i(act, act_dot_j) asks for.
template <class Field, class Activations>
void stages_pullback(const StepModel& impl, const Tableau& tableau, double h,
                     bool corrects_rotations, StepBar& bar, Workspace& workspace, Field&& field,
                     Activations&& activations) {
  const mjModel* m = impl.mj();
  const int nv = impl.nv;
  size_t n = tableau.nstage;
  while (tableau.b[n - 1] == 0) n--;  // the stage that the next step begins with
  for (size_t i = n; i-- > 0;) {
    Workspace::Stage& stage = workspace.stages[i];
    field(i, stage);
    for (Eigen::Index c = 0; c < bar.x.rows(); c++) {
      const Vec u_bar = row_part(stage.u_bar, c, 0, nv), v_bar = row_part(stage.x_bar, c, nv, nv);
      const CVec k_bar = row_part(stage.k_bar, c, 0, nv);
      if (corrects_rotations) {
        stage_velocity_pullback(m, stage.u, stage.qvel, k_bar, u_bar, v_bar);
      } else {
        eigen(v_bar) += eigen(k_bar);
      }
      integrate_pos_pullback(m, stage.u, row_part(stage.x_bar, c, 0, nv), row_part(bar.x, c, 0, nv),
                             u_bar);
    }
    bar.x.middleCols(nv, nv) += stage.x_bar.middleCols(nv, nv);
    for (size_t j = 0; j < i; j++) {
      if (tableau.A[i][j] == 0) continue;
      Workspace::Stage& before = workspace.stages[j];
      before.k_bar += h * tableau.A[i][j] * stage.u_bar;
      before.a_bar += h * tableau.A[i][j] * stage.x_bar.middleCols(nv, nv);
    }
    activations(i, stage);
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STAGES_PULLBACK_H_
