#include "adjoint/sensors.h"

#include <algorithm>
#include <cmath>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/noslip.h"
#include "stages/probes.h"
#include "stages/sensors/sensors.h"
#include "stages/surrogate_field.h"

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
    if (impl.has_surrogate_field()) {
      constrained = surrogate_evaluate(impl, in, qacc, workspace);
      field_qacc = workspace.field_qacc;
    } else {
      vector_field_evaluate(impl, in, qacc, constrained, workspace);
    }
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

  Matrix &a_bar = workspace.a_bar, &lambda = workspace.lambda, &mu = workspace.mu;
  a_bar.setZero(1, nv);
  lambda.setZero(1, nv);
  eigen(row_part(a_bar, 0, 0, nv)) += eigen(CVec(scratch.qacc));
  const CVec force_bar = needs.force ? CVec(scratch.force) : CVec();
  const bool noslip = constrained && has_noslip(m);
  OracleMultipliers multipliers;
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
  Matrix& a_bar = workspace.a_bar;
  a_bar.setZero(1, nv);
  if (needs.acceleration) {
    oracle_sensors_to_acceleration(impl, problem, row_part(a_bar, 0, 0, nv), workspace);
  }
  vector_field_pullback(impl, problem, a_bar, {}, bar, workspace);
}

// central differences of mj_forward with its sensors
void differences_pullback_of_state(const ModelImpl& impl, const StepInput& in, CVec sensordata_bar,
                                   const VectorFieldBar& bar, Workspace& workspace) {
  constexpr double kStep = 1e-5;  // the solver's own noise is differenced too
  const mjModel* m = impl.tight();
  mjData* d = workspace.data.get();
  const int nv = impl.nv;
  const auto value = [&](auto&& move) {
    mj_call("mj_forward", [&] {
      write_input(m, d, in);
      move();
      mj_forward(CollidingModel(m), d);
    });
    const ColliderScope scope(nullptr);
    mj_call("mj_sensorAcc", [&] { evaluate_sensors(m, d); });
    double sum = 0;
    for (size_t k = 0; k < sensordata_bar.size(); k++) sum += sensordata_bar[k] * d->sensordata[k];
    return sum;
  };
  const auto column = [&](double size, double shift, Eigen::Index j, Matrix& to, auto&& move) {
    const double h = kStep * size;
    to(0, j) += (value([&] { move(shift + h); }) - value([&] { move(shift - h); })) / (2 * h);
  };
  const auto size = [](CVec x, int j) {
    return x.empty() ? 1 : std::max(1.0, std::abs(x[static_cast<size_t>(j)]));
  };
  for (int j = 0; j < nv; j++) {
    column(position_size(impl, j, in.qpos), 0, j, bar.x, [&](double s) {
      std::fill(workspace.direction.begin(), workspace.direction.end(), 0.0);
      workspace.direction[static_cast<size_t>(j)] = s;
      mj_integratePos(m, d->qpos, workspace.direction.data(), 1);
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

}  // namespace

void state_sensors_pullback(const ModelImpl& impl, const StepInput& in, CVec sensordata_bar,
                            const VectorFieldBar& bar, Workspace& workspace) {
  const SensorNeeds needs(impl.mj(), sensordata_bar);
  if (!needs.any) return;
  switch (impl.path) {
    case GradientPath::kAnalytic: {
      if (!needs.oracle) {
        analytic_pullback_of_state(impl, in, sensordata_bar, needs, bar, workspace);
        break;
      }
      std::vector<double> analytic(sensordata_bar.size()), oracle(sensordata_bar.size());
      split_sensors(impl.mj(), sensordata_bar, analytic, oracle);
      oracle_pullback_of_state(impl, in, oracle, SensorNeeds(impl.mj(), oracle), bar, workspace);
      state_sensors_pullback(impl, in, analytic, bar, workspace);
      break;
    }
    case GradientPath::kOracle:
      oracle_pullback_of_state(impl, in, sensordata_bar, needs, bar, workspace);
      break;
    case GradientPath::kDifferences:
      differences_pullback_of_state(impl, in, sensordata_bar, bar, workspace);
      break;
  }
}

}  // namespace diffmj
