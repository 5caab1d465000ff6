// What derivatives by differences keep in a workspace: of inverse dynamics (stages/oracle.h), and
// of whole steps (integrate/step.h).
#ifndef DIFFMJ_STAGES_PROBE_SCRATCH_H_
#define DIFFMJ_STAGES_PROBE_SCRATCH_H_

#include <Eigen/Core>
#include <array>
#include <vector>

#include "mj/handle.h"
#include "mj/row_match.h"
#include "mj/view.h"
#include "model/compiled_model.h"

namespace diffmj {

// Outputs at one input.
struct ProbeOutputs {
  Eigen::VectorXd g, Ma, b;           // nv
  Eigen::VectorXd act_dot, act_next;  // na
  double force = 0;                   // force_bar · f
  Eigen::VectorXd sensordata;         // nsensordata, if it has a cotangent
};

// Inputs of a no-slip pass.
struct NoslipInputs {
  Matrix J, M;                                  // nefc x nv, nv x nv
  std::vector<double> y, frictionloss;          // nefc
  std::vector<std::array<double, 5>> friction;  // ncon
};

struct ProbeScratch {
  explicit ProbeScratch(const CompiledModel& model);

  ProbeOutputs base, probe;  // at the input itself, and at a perturbed one
  NoslipInputs noslip_base, noslip_probe;
  Eigen::MatrixXd samples;   // ncotangent x 4
  std::vector<double> y, f;  // nefc
  RowMatch rows;
  std::vector<double> direction;                                         // nv
  std::vector<double> saved_qpos, saved_qvel, saved_act, saved_act_dot;  // state to come back to
  MjModelPtr model;            // a copy whose parameters may be moved; made when first needed
  MjModelPtr collision_model;  // the same of the tight model, for sizes of geoms
};

// Differences of whole steps.
struct StepDifferenceScratch {
  explicit StepDifferenceScratch(const CompiledModel& model);

  std::vector<double> next_qpos;                                    // nq
  std::vector<double> tangent_center, tangent_plus, tangent_minus;  // 2 nv + na
  Eigen::VectorXd difference;                                       // 2 nv + na
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_PROBE_SCRATCH_H_
