// Scratch of one thread: an mjData and what the pullbacks of a step need. Nothing in it outlives a
// call; it is sized once, only buffers with one entry per constraint row may grow.
#ifndef DIFFMJ_STAGES_WORKSPACE_H_
#define DIFFMJ_STAGES_WORKSPACE_H_

#include <vector>

#include "mj/handle.h"
#include "mj/view.h"
#include "model/compiled_model.h"
#include "stages/acceleration/actuation_scratch.h"
#include "stages/acceleration/newton_scratch.h"
#include "stages/acceleration/projection_scratch.h"
#include "stages/cfd/scratch.h"
#include "stages/position/collision/pair.h"
#include "stages/position/kinematics.h"
#include "stages/position/tendon.h"
#include "stages/probe_scratch.h"
#include "stages/sensors/scratch.h"
#include "stages/stage_records.h"

namespace diffmj {

class Workspace;
// After an error of MuJoCo, which left in the middle of something: mj_resetData, but for mocap
// poses.
void reset_keeping_mocap(const CompiledModel& model, Workspace& workspace);

class Workspace {
 public:
  // nplace: for Runge-Kutta stages, and the state after them.
  Workspace(const CompiledModel& model, size_t nplace);

  MjDataPtr data;
  int model_id = 0;  // of the model that used it last

  // parts of the dynamics
  NewtonScratch newton;
  Sweep sweep;
  struct {
    RowsBar rows;
    std::vector<Violation> violation;  // nefc: of contacts from distance; empty: pos - margin, 1
    std::vector<double> J_lambda;      // nefc
    std::vector<ContactBar> contacts;  // ncon: what other stages leave; empty: nothing
    double onset = 0;  // [m or rad] over which contacts and limits set in (constraint_onset.h)
  } constraint;
  CfdScratch cfd;
  Projection projection;
  Noslip noslip;
  SensorScratch sensors;
  ActuationScratch actuation;
  struct {
    std::vector<TendonBar> bars;  // ntendon
    TendonFits fits;
    std::vector<double> y;  // nv
  } tendon;
  ProbeScratch probes;
  std::vector<double> field_qacc;       // nv: the last solution of a surrogate field; empty: none
  std::vector<double> lambda_gravcomp;  // nv
  std::vector<double> zero;             // nv

  // a step: one row per cotangent that is pulled back at once
  struct {
    std::vector<double> F;              // nv: M a
    Matrix response;                    // nv x nv: row i is b of F = e_i
    Matrix a_bar, b_bar, mu, lambda;    // ncotangent x nv
    Matrix act_next_bar, act_dot_bar;   // ncotangent x na
    std::vector<double> body_jacobian;  // 6 x nv
  } step;
  struct {  // terms of its metric, nv each
    std::vector<double> b, difference_ab, v_plus_b, v_minus_b, armature_bar;
  } metric;
  StepDifferenceScratch differences;

  // Runge-Kutta: the stages of a step, and for methods of ours the state after it
  struct Stage {
    std::vector<double> qpos, qvel, act, qacc, act_dot;  // nq, nv, na, nv, na
    std::vector<double> u, k;                            // nv: position increment, slope
    std::vector<double> dq, dv, dw;  // nv, nv, na: of a linearly implicit method, instead of rates
    std::vector<double> ctrl;        // nu
    int nefc = 0, ncon = 0;
    size_t active = 0;  // which constraints carry force, as a hash (mj/active_set.h)
    MjDataPtr data;     // of RK4; made when first needed
    Matrix k_bar, a_bar, act_dot_bar, u_bar, x_bar;  // ncotangent x ...

    void resize(const CompiledModel& model);
  };
  std::vector<Stage> stages;
  StageRecords rk4_records;                     // of a step of RK4 that was made again
  Stage between;                                // a state within a step
  std::vector<double> error, x0_size, x1_size;  // nv: error of a step, what it is relative to
  Matrix ctrl_bar;                              // ncotangent x nu: of a stage
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_WORKSPACE_H_
