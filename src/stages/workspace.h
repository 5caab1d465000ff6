// Scratch of one thread: an mjData and what the pullbacks of a step need. Nothing in it outlives a
// call; it is sized once, only buffers with one entry per constraint row may grow.
#ifndef DIFFMJ_STAGES_WORKSPACE_H_
#define DIFFMJ_STAGES_WORKSPACE_H_

#include <Eigen/Core>
#include <array>
#include <vector>

#include "mj/handle.h"
#include "mj/row_match.h"
#include "mj/view.h"
#include "model/compiled_model.h"
#include "stages/acceleration/projection_scratch.h"
#include "stages/cfd/scratch.h"
#include "stages/position/collision/pair.h"
#include "stages/position/kinematics.h"
#include "stages/position/tendon.h"
#include "stages/sensors/scratch.h"

namespace diffmj {

enum class Zone : int;  // stages/acceleration/constraint_solve.h

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

  // constraint_solve: Newton matrix (its Cholesky factor after factorize), one row's non-zeros
  Matrix H;                                    // nv x nv
  std::vector<int> factor_row, factor_column;  // the factor's non-zeros, last row first
  std::vector<double> y;                       // nefc
  std::vector<Zone> zone;                      // nefc, set at the first row of a zone
  std::vector<int> row_column;                 // up to 6 rows of up to nv
  std::vector<double> row_value;               // "
  std::vector<double> H_lambda;                // nv

  // oracle: outputs at the input itself and at a perturbed one, their contractions
  struct Outputs {
    Eigen::VectorXd g, Ma, b;           // nv
    Eigen::VectorXd act_dot, act_next;  // na
    double force = 0;                   // force_bar · f
    Eigen::VectorXd sensordata;         // nsensordata, if it has a cotangent
  };
  Outputs base, probe;
  struct NoslipInputs {                           // of a no-slip pass
    Matrix J, M;                                  // nefc x nv, nv x nv
    std::vector<double> y, frictionloss;          // nefc
    std::vector<std::array<double, 5>> friction;  // ncon
  };
  NoslipInputs noslip_base, noslip_probe;
  Eigen::MatrixXd samples;               // ncotangent x 4
  std::vector<double> probe_y, probe_f;  // nefc
  RowMatch rows;
  std::vector<double> direction;  // nv

  // advance: state to come back to
  std::vector<double> saved_qpos, saved_qvel, saved_act, saved_act_dot;  // nq, nv, na, na

  // steps: one row per cotangent that is pulled back at once
  std::vector<double> F;              // nv: M a
  Matrix response;                    // nv x nv: row i is b of F = e_i
  Matrix a_bar, b_bar, mu, lambda;    // ncotangent x nv
  Matrix act_next_bar, act_dot_bar;   // ncotangent x na
  std::vector<double> body_jacobian;  // 6 x nv

  // analytic stages
  Sweep sweep;
  struct RowsBar {                           // nefc
    std::vector<double> J_lambda, J_a, J_v;  // of a row's products with λ, a and v
    std::vector<double> aref;
    std::vector<double> pos;  // of efc_pos, through aref, the impedance and so R
  };
  RowsBar rows_bar;
  // What aref has for a violation, and its slope in pos. Of contacts from distance; empty: pos -
  // margin, 1.
  struct Violation {
    double value = 0, slope = 1;
  };
  std::vector<Violation> violation;  // nefc
  // [m or rad] Over which contacts and limits set in (stages/position/constraint_onset.h).
  double onset = 0;
  CfdScratch cfd;
  Projection projection;
  Noslip noslip;
  std::vector<double> noslip_a_bar;     // nv
  std::vector<ContactBar> contact_bar;  // ncon: what other stages leave; empty: nothing
  SensorScratch sensors;
  std::vector<double> field_qacc;  // nv: the last solution of a surrogate field; empty: none yet
  std::vector<TendonBar> tendons;  // ntendon
  TendonFits tendon_fits;
  std::vector<double> tendon_y;                                                 // nv
  std::vector<double> J_lambda;                                                 // nefc
  std::vector<double> lambda_actuation, lambda_gravcomp;                        // nv
  std::vector<double> actuation_y, actuation_moment;                            // 3 nv, nv
  std::vector<double> actuation_act_dot_bar, actuation_act, actuation_act_dot;  // na
  std::vector<double> actuation_force, actuation_force_bar, actuation_length_bar,
      actuation_velocity_bar;                                           // nout
  std::vector<double> actuation_step, actuation_center, actuation_psi;  // nactuator
  std::vector<double> b, difference_ab, v_plus_b, v_minus_b, zero;      // nv: the metric's terms
  std::vector<double> armature_bar;                                     // nv
  MjModelPtr probe_model;      // a copy whose parameters may be moved; made when first needed
  MjModelPtr collision_model;  // the same of the tight model, for sizes of geoms

  // step differences
  std::vector<double> next_qpos;                                    // nq
  std::vector<double> tangent_center, tangent_plus, tangent_minus;  // 2 nv + na
  Eigen::VectorXd difference;                                       // 2 nv + na

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
  Stage between;                                // a state within a step
  std::vector<double> error, x0_size, x1_size;  // nv: error of a step, what it is relative to
  Matrix ctrl_bar;                              // ncotangent x nu: of a stage
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_WORKSPACE_H_
