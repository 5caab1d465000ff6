#include "adjoint/sensors.h"

#include <algorithm>
#include <cmath>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/noslip.h"
#include "stages/evaluate_stages.h"
#include "stages/input_differences.h"
#include "stages/position/constraint_onset.h"
#include "stages/sensors/sensors.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

// M λ = a_bar
void mass_solve(const mjModel* m, mjData* d, CVec a_bar, Vec lambda) {
  mj_call("mj_solveM", [&] {
    mj_factorM(m, d);
    mj_solveM(m, d, lambda.data(), a_bar.data(), 1);
  });
}

void analytic_pullback_of_state(const ModelImpl& impl, const StepInput& in, CVec sensordata_bar,
                                const SensorNeeds& needs, const VectorFieldBar& bar,
                                Workspace& workspace) {
  const mjModel* m = impl.mj();
  const int nv = impl.nv;
  mjData* d = workspace.data.get();
  SensorScratch& scratch = workspace.sensors;
  const ParameterBar rest = oracle_parameters(m, bar.params, sensordata_bar);
  const bool through_dynamics = needs.acceleration || rest.any();
  const ColliderScope scope(impl.backward_collider());

  std::vector<double> qacc(static_cast<size_t>(nv), 0.0);
  CVec field_qacc = qacc;
  bool constrained = needs.rows;
  if (through_dynamics) {
    {
      const ColliderScope own(impl.collider());
      EvaluationTimes times;
      vector_field(impl, in, workspace, times);
      std::copy_n(d->qacc, nv, qacc.begin());
      constrained = d->nefc > 0;
    }
    const BackwardField field = backward_field_evaluate(impl, in, qacc, constrained, workspace);
    constrained = field.constrained;
    field_qacc = field.qacc;
  } else {
    evaluate_analytic(impl, in, constrained, workspace);
  }

  std::fill(scratch.qacc.begin(), scratch.qacc.end(), 0.0);
  scratch.force.assign(constrained ? static_cast<size_t>(d->nefc) : size_t{0}, 0.0);
  sensors_pullback(
      impl, {.in = in, .qacc = qacc, .constrained = constrained}, sensordata_bar, needs,
      {.qpos = row_part(bar.x, 0, 0, nv),
       .qvel = row_part(bar.x, 0, nv, nv),
       .act = row_part(bar.x, 0, 2 * nv, impl.na),
       .ctrl = row_part(bar.ctrl, 0, 0, impl.nu),
       .xfrc_applied = row_part(bar.xfrc_applied, 0, 0, static_cast<int>(bar.xfrc_applied.cols())),
       .qacc = scratch.qacc,
       .force = scratch.force,
       .params = analytic_parameters(m, bar.params, sensordata_bar)},
      workspace);
  if (!through_dynamics) return;

  Matrix &a_bar = workspace.step.a_bar, &lambda = workspace.step.lambda, &mu = workspace.step.mu;
  a_bar.setZero(1, nv);
  lambda.setZero(1, nv);
  eigen(row_part(a_bar, 0, 0, nv)) += eigen(CVec(scratch.qacc));
  const CVec force_bar = needs.force ? CVec(scratch.force) : CVec();
  const bool noslip = constrained && has_noslip(m);
  Multipliers multipliers;
  if (noslip) {
    if (rest.any() && needs.acceleration) {
      throw UnsupportedError(
          "the gradient of sensors of accelerations and forces in parameters without an analytic "
          "pullback is unavailable with a no-slip pass; set noslip_iterations to 0");
    }
    mu.setZero(1, nv);
    mass_solve(m, d, row_part(a_bar, 0, 0, nv), row_part(mu, 0, 0, nv));
    multipliers.mu = &mu;
    field_qacc = workspace.noslip.qacc;
    noslip_pullback(impl, row_part(mu, 0, 0, nv), force_bar, row_part(a_bar, 0, 0, nv), workspace);
  } else if (!force_bar.empty()) {
    constraint_force_to_acceleration(m, d, force_bar, row_part(a_bar, 0, 0, nv), workspace);
  }
  if (constrained) {
    solve_lambda(impl, a_bar, lambda, workspace);
  } else {
    mass_solve(m, d, row_part(a_bar, 0, 0, nv), row_part(lambda, 0, 0, nv));
  }
  analytic_field_pullback(impl,
                          {.in = in,
                           .qacc = field_qacc,
                           .b = noslip ? CVec(qacc) : CVec(),
                           .act_from = {},
                           .act_dot_from = {},
                           .constrained = constrained,
                           .force_bar = force_bar,
                           .has_metric = false,
                           .sensor_bar = sensordata_bar},
                          lambda, multipliers, bar, workspace);
}

void oracle_pullback_of_state(const ModelImpl& impl, const StepInput& in, CVec sensordata_bar,
                              const SensorNeeds& needs, const VectorFieldBar& bar,
                              Workspace& workspace) {
  const int nv = impl.nv;
  if (needs.acceleration && has_noslip(impl.mj())) {
    throw UnsupportedError(
        "the gradient of sensors of accelerations and forces by the oracle is unavailable with a "
        "no-slip pass; set noslip_iterations to 0");
  }
  std::vector<double> qacc(static_cast<size_t>(nv));
  EvaluationTimes times;
  vector_field(impl, in, workspace, times);
  std::copy_n(workspace.data->qacc, nv, qacc.begin());
  evaluate_stages(impl, in, workspace);
  solution_factorize(impl, qacc, workspace);
  const OracleProblem problem{.in = in,
                              .qacc = qacc,
                              .F = {},
                              .act_from = {},
                              .act_dot_from = {},
                              .sensor_bar = sensordata_bar};
  Matrix& a_bar = workspace.step.a_bar;
  a_bar.setZero(1, nv);
  if (needs.acceleration) {
    oracle_sensors_to_acceleration(impl, problem, row_part(a_bar, 0, 0, nv), workspace);
  }
  oracle_field_pullback(impl, problem, a_bar, {}, bar, workspace);
}

// differences of mj_forward with its sensors
void differences_pullback_of_state(const ModelImpl& impl, const StepInput& in, CVec sensordata_bar,
                                   const VectorFieldBar& bar, Workspace& workspace) {
  const mjModel* m = impl.tight();
  mjData* d = workspace.data.get();
  const auto sensors = [&](auto&& move, Vec values) {
    mj_call("mj_forward", [&] {
      write_input(m, d, in);
      move();
      forward_with_onset(CollidingModel(m), d, impl.options.adaptive.onset);
    });
    const ColliderScope scope(nullptr);
    mj_call("mj_sensorAcc", [&] { evaluate_sensors(m, d); });
    std::copy_n(d->sensordata, values.size(), values.begin());
    return d->nefc;
  };
  std::vector<double> center(sensordata_bar.size()), plus = center, minus = center;
  const Matrix s_bar = eigen(sensordata_bar).transpose();
  input_differences_pullback(impl, in, s_bar, bar,
                             {center, plus, minus, workspace.differences.difference}, sensors,
                             workspace);
}

}  // namespace

void state_sensors_pullback(const ModelImpl& impl, const StepInput& in, CVec sensordata_bar,
                            const VectorFieldBar& bar, Workspace& workspace) {
  const SensorNeeds needs(impl.mj(), sensordata_bar);
  if (!needs.any) return;
  if (!needs.stages) {
    joint_sensors_pullback(impl.mj(), sensordata_bar, row_part(bar.x, 0, 0, impl.nv),
                           row_part(bar.x, 0, impl.nv, impl.nv));
    return;
  }
  if (!impl.differentiation.of_field) {
    differences_pullback_of_state(impl, in, sensordata_bar, bar, workspace);
  } else if (!impl.differentiation.of_stages) {
    oracle_pullback_of_state(impl, in, sensordata_bar, needs, bar, workspace);
  } else if (!needs.oracle) {
    analytic_pullback_of_state(impl, in, sensordata_bar, needs, bar, workspace);
  } else {
    std::vector<double> analytic(sensordata_bar.size()), oracle(sensordata_bar.size());
    split_sensors(impl.mj(), sensordata_bar, analytic, oracle);
    oracle_pullback_of_state(impl, in, oracle, SensorNeeds(impl.mj(), oracle), bar, workspace);
    state_sensors_pullback(impl, in, analytic, bar, workspace);
  }
}

}  // namespace diffmj
