// One mj_step, x' = f(x, u), and its pullback: the exact adjoint of MuJoCo's integrators.
//
//   Euler, implicit, implicitfast:   b = Mhat⁻¹ M a,  v' = v + h b,  q' = q ⊕ h v'
//     Mhat = M                 without damping (b = a)
//            M + h B           Euler with damping, B diagonal
//            M - h D           implicit: D = ∂(qfrc_smooth)/∂v, in implicitfast without rne's part
//   RK4: docs/derivations/steps.md
//   act' = next(act, act_dot): exact filters, clamping
//
// Derivation in docs/derivations/steps.md.
#ifndef DIFFMJ_INTEGRATE_STEP_H_
#define DIFFMJ_INTEGRATE_STEP_H_

#include <span>

#include "integrate/step_model.h"
#include "mj/view.h"
#include "stages/step_input.h"
#include "stages/workspace.h"

namespace diffmj {

// Cotangents of a step, one row each.
struct StepBar {
  Matrix next;           // 2 nv + na, in: of (q', v', act')
  Matrix x;              // 2 nv + na, added to: of (q, v, act)
  Matrix ctrl;           // nu, added to
  Matrix ctrl_end = {};  // nu, added to: where controls are linear, of the next row
  Matrix qfrc_applied;   // nv, added to
  Matrix xfrc_applied;   // 6 nbody, added to; no columns: not wanted
  CVec efc_force = {};   // in: of the step's constraint forces, of one cotangent; empty: 0
  CVec sensordata = {};  // in: of the sensors at its start, of one cotangent; empty: 0
  const PoseBar* poses = nullptr;  // in: of the poses at its start, of one cotangent; null: 0
  ParameterBar params = {};        // added to, of one cotangent
  // Instead of params: one for each cotangent, all of the same fields, none of them the oracle's.
  std::span<const ParameterBar> row_params = {};

  bool wants(Parameter p) const {
    return row_params.empty() ? params.wants(p) : row_params[0].wants(p);
  }

  void resize(const StepModel& impl, int ncotangent, bool xfrc);
};

// qacc is the acceleration at the start of the step, as the forward pass had it. Mocap poses are
// read from the workspace's mjData.
void step_pullback(const StepModel& impl, const StepInput& in, CVec qacc, StepBar& bar,
                   Workspace& workspace);

// mj_step with forces from distance (Cfd::forward), from the state and inputs in `in`; the result
// is in the workspace's mjData.
void cfd_step(const StepModel& impl, const StepInput& in, Workspace& workspace);
void cfd_rk4_step(const StepModel& impl, const StepInput& in, Workspace& workspace);

// StepBar::sensordata can be part of the pullback of the step whose start they are at; where it
// cannot, they are pulled back on their own (adjoint/sensors.h).
bool step_takes_sensors(const StepModel& impl, CVec sensordata_bar);

// StepBar::poses likewise; the poses that the step needs anyway serve both.
bool step_takes_poses(const StepModel& impl);

// What it does on each of the gradient paths (setup/differentiation.cc).
void analytic_step_pullback(const StepModel& impl, const StepInput& in, CVec qacc, StepBar& bar,
                            Workspace& workspace);
void oracle_step_pullback(const StepModel& impl, const StepInput& in, CVec qacc, StepBar& bar,
                          Workspace& workspace);
void rk4_step_pullback(const StepModel& impl, const StepInput& in, CVec qacc, StepBar& bar,
                       Workspace& workspace);
// Differences of mj_step itself, with the solver at machine precision: for models whose solution is
// not a root of inverse dynamics.
void differences_step_pullback(const StepModel& impl, const StepInput& in, CVec qacc, StepBar& bar,
                               Workspace& workspace);

// Runs the stages of RK4 again, from the warm start they had: mj_step keeps only the last of them.
// Each leaves its state, solution and slope in workspace.stages, and its stages in an mjData of its
// own, except with forces from distance.
void rk4_stages(const StepModel& impl, const StepInput& in, Workspace& workspace);
// What stage i of them reads.
StepInput rk4_stage_input(const StepModel& impl, const StepInput& in, size_t i,
                          const Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STEP_H_
