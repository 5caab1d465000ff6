#include "stages/oracle.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/position/constraint_onset.h"
#include "stages/probes.h"
#include "stages/sensors/sensors.h"

namespace diffmj {
namespace {

// Contact forces bend on the scale of solimp's width, a millimetre, and their curvature jumps at
// its midpoint: positions take small steps, two of them, and extrapolate. (Measured over the zoo:
// 1e-6 loses five digits where the curvature jumps nearby, 1e-8 loses them to rounding.)
// Without constraints everything is smooth. Velocities, activations and controls enter almost
// linearly.
constexpr double kPositionStep = 1e-7;
constexpr double kFreePositionStep = 1e-5;
constexpr double kSmallestStep = 1e-9;
constexpr double kVelocityStep = 1e-5;
constexpr double kStep = 1e-6;
// Parameters, relative to their size; contact forces bend in them as in positions.
constexpr double kParameterStep = 1e-6;
constexpr double kFreeParameterStep = 1e-4;

enum class From { kPosition, kVelocity, kActuation };  // the first stage an input moves

void run_stages(const mjModel* m, double onset, mjData* d, From from) {
  if (from <= From::kPosition) {
    mj_fwdPosition(CollidingModel(m), d);
    apply_constraint_onset(m, d, onset);
  }
  if (from <= From::kVelocity) mj_fwdVelocity(m, d);
  mj_fwdActuation(m, d);
  mj_fwdAcceleration(m, d);
}

// J and M as full matrices, y, friction loss and friction of contacts: what a no-slip pass reads
void read_noslip(const mjModel* m, const mjData* d, CVec y, NoslipInputs& out) {
  const auto nv = static_cast<int>(m->nv);
  out.J.setZero(d->nefc, nv);
  for (int i = 0; i < d->nefc; i++) {
    if (!mj_isSparse(m)) {
      out.J.row(i) = Eigen::Map<const Eigen::RowVectorXd>(d->efc_J + i * nv, nv);
      continue;
    }
    for (int k = d->efc_J_rowadr[i]; k < d->efc_J_rowadr[i] + d->efc_J_rownnz[i]; k++) {
      out.J(i, d->efc_J_colind[k]) = d->efc_J[k];
    }
  }
  out.M.resize(nv, nv);
  read_mass_matrix(m, d, out.M);
  out.y.assign(y.begin(), y.end());
  out.frictionloss.assign(d->efc_frictionloss, d->efc_frictionloss + d->nefc);
  out.friction.resize(static_cast<size_t>(d->ncon));
  for (int c = 0; c < d->ncon; c++) {
    std::copy_n(d->contact[c].friction, 5, out.friction[static_cast<size_t>(c)].begin());
  }
}

// what its cotangents make of the way from the base to d; rows that appear have none
double noslip_change(const mjData* d, const NoslipInputs& now, const Workspace& workspace) {
  const Noslip& pass = workspace.noslip;
  const NoslipInputs& base = workspace.probes.noslip_base;
  const auto nv = now.M.rows();
  const Eigen::Map<const Matrix> M_bar(workspace.projection.M_bar.data(), nv, nv);
  const Eigen::Map<const Matrix> J_bar(workspace.projection.J_bar.data(), base.J.rows(), nv);
  double sum = M_bar.cwiseProduct(now.M - base.M).sum();
  for (int i = 0; i < d->nefc; i++) {
    const int at = workspace.probes.rows.base_row(i);
    if (at < 0) continue;
    const auto row = static_cast<size_t>(i), of = static_cast<size_t>(at);
    sum += J_bar.row(at).dot(now.J.row(i) - base.J.row(at)) +
           pass.y_bar[of] * (now.y[row] - base.y[of]) +
           pass.frictionloss_bar[of] * (now.frictionloss[row] - base.frictionloss[of]);
    // of a pyramid J has all of the friction
    const int contact = d->efc_id[i];
    if (d->efc_type[i] != mjCNSTR_CONTACT_ELLIPTIC || d->contact[contact].efc_address != i)
      continue;
    const auto c = static_cast<size_t>(contact),
               b = static_cast<size_t>(workspace.probes.rows.base_id(at));
    for (size_t k = 0; k < 5; k++) {
      sum += pass.friction_bar[b][k] * (now.friction[c][k] - base.friction[b][k]);
    }
  }
  return sum;
}

// Sensors at a, with constraint forces f; d must hold the stages.
void read_sensors(const StageModel& impl, const mjModel* m, CVec qacc, CVec f, mjData* d,
                  Eigen::VectorXd& out) {
  mjModel precise = *m;  // of the pointers
  precise.opt.ccd_tolerance = impl.tight()->opt.ccd_tolerance;
  precise.opt.ccd_iterations = impl.tight()->opt.ccd_iterations;
  const ColliderScope scope(nullptr);
  mj_call("mj_sensorAcc", [&] {
    std::copy(qacc.begin(), qacc.end(), d->qacc);
    std::copy(f.begin(), f.end(), d->efc_force);
    evaluate_sensors(&precise, d);
  });
  out = ConstVectorMap(d->sensordata, m->nsensordata);
}

// Outputs at the input now in d. gradient: rows keep the zone they have at the base, and rows that
// appear carry no force, so that the derivative is that of the side the forward pass is on, however
// near the next zone or contact is. Returns false if a row of the base has vanished.
bool evaluate(const StageModel& impl, const mjModel* m, const OracleProblem& problem, From from,
              ProbeOutputs& out, Workspace& workspace) {
  mjData* d = workspace.data.get();
  mj_call("mj_fwdPosition", [&] { run_stages(m, impl.options.adaptive.onset, d, from); });

  workspace.probes.y.resize(static_cast<size_t>(d->nefc));
  workspace.probes.f.resize(static_cast<size_t>(d->nefc));
  const Vec y = workspace.probes.y, f = workspace.probes.f;
  mj_call("mj_mulJacVec", [&] {
    mj_mulM(m, d, out.Ma.data(), problem.qacc.data());
    if (d->nefc == 0) return;
    mj_mulJacVec(m, d, y.data(), problem.qacc.data());
    mju_subFrom(y.data(), d->efc_aref, d->nefc);
  });
  const bool all_rows = workspace.probes.rows.match(d);
  out.force = 0;
  if (problem.noslip && &out == &workspace.probes.base) {
    read_noslip(m, d, y, workspace.probes.noslip_base);
  } else if (problem.noslip) {
    read_noslip(m, d, y, workspace.probes.noslip_probe);
    out.force = noslip_change(d, workspace.probes.noslip_probe, workspace);
  }
  for (int i = 0; i < d->nefc; i += constraint_rows_at(d, i)) {
    const int base = workspace.probes.rows.base_row(i);
    const Zone zone =
        base >= 0 ? workspace.newton.zone[static_cast<size_t>(base)] : Zone::kSatisfied;
    constraint_force(d, zone, y, i, f);
    for (int k = 0; k < constraint_rows_at(d, i) && base >= 0 && !problem.force_bar.empty(); k++) {
      out.force += problem.force_bar[static_cast<size_t>(base + k)] * f[static_cast<size_t>(i + k)];
    }
  }
  mj_call("mj_mulJacTVec", [&] {
    mju_zero(d->qfrc_constraint, impl.nv);
    if (d->nefc > 0) mj_mulJacTVec(m, d, d->qfrc_constraint, f.data());
  });
  if (!problem.sensor_bar.empty()) {
    read_sensors(impl, m, problem.qacc, f, d, out.sensordata);
  }
  for (int i = 0; i < impl.nv; i++) {
    out.g[i] = out.Ma[i] - d->qfrc_smooth[i] - d->qfrc_constraint[i];
  }
  if (!problem.mass_vector.empty()) {
    mj_call("mj_mulM", [&] { mj_mulM(m, d, out.Ma.data(), problem.mass_vector.data()); });
  }
  std::copy(d->act_dot, d->act_dot + impl.na, out.act_dot.data());
  if (!problem.F.empty() || problem.act_next) {
    if (!problem.act_from.empty()) {
      std::copy(problem.act_from.begin(), problem.act_from.end(), d->act);
      std::copy(problem.act_dot_from.begin(), problem.act_dot_from.end(), d->act_dot);
    }
    advance_with_force(impl, m, problem.F, out.b, out.act_next, workspace);
  }
  return all_rows;
}

// gains and time constants of controllers that are 0 switch a state of theirs off, tausmooth that
// is 0 the blend of time constants, friction loss that is 0 its row
bool is_switch(const mjModel* m, Parameter id, int entry) {
  if (id == Parameter::kDofFrictionloss) return true;
  int actuator = 0;
  if (id == Parameter::kActuatorGainprm) {
    actuator = entry / mjNGAIN;
  } else if (id == Parameter::kActuatorDynprm) {
    actuator = entry / mjNDYN;
    if (m->actuator_dyntype[actuator] == mjDYN_MUSCLE) return entry % mjNDYN == 2;
  } else {
    return false;
  }
  const int type = m->actuator_gaintype[actuator];
  return type == mjGAIN_DCMOTOR || type == mjGAIN_PID;
}

// what actuators on a joint add to the armature of its dofs
double actuator_armature(const mjModel* m, int joint) {
  double sum = 0;
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const bool on_joint =
        m->actuator_trntype[i] == mjTRN_JOINT || m->actuator_trntype[i] == mjTRN_JOINTINPARENT;
    if (!on_joint || m->actuator_trnid[2 * i] != joint) continue;
    const double gear = m->actuator_gear[6 * m->actuator_outadr[i]];
    sum += gear * gear * m->actuator_armature[i];
  }
  return sum;
}

// of ½ vᵀ M v among the sensors
double kinetic_energy_cotangent(const mjModel* m, CVec sensor_bar) {
  double sum = 0;
  for (int i = 0; i < static_cast<int>(m->nsensor) && !sensor_bar.empty(); i++) {
    if (m->sensor_type[i] != mjSENS_E_KINETIC) continue;
    sum += sensor_bar[static_cast<size_t>(m->sensor_adr[i])];
  }
  return sum;
}

double dot(const Matrix* weights, Eigen::Index row, const Eigen::VectorXd& plus,
           const Eigen::VectorXd& minus) {
  return weights ? weights->row(row).dot((plus - minus).transpose()) : 0.0;
}

// the multipliers' weighted sum of out - base, one number per cotangent
void contract(const OracleMultipliers& w, CVec sensor_bar, const ProbeOutputs& out,
              const ProbeOutputs& base, Eigen::Ref<Eigen::VectorXd> sum) {
  const double sensors =
      sensor_bar.empty() ? 0 : eigen(sensor_bar).dot(out.sensordata - base.sensordata);
  for (Eigen::Index row = 0; row < sum.size(); row++) {
    sum[row] = out.force - base.force + sensors - dot(w.lambda, row, out.g, base.g) +
               dot(w.mu, row, out.Ma, base.Ma) + dot(w.b_bar, row, out.b, base.b) +
               dot(w.act_dot_bar, row, out.act_dot, base.act_dot) +
               dot(w.act_next_bar, row, out.act_next, base.act_next);
  }
}

}  // namespace

void evaluate_stages(const StageModel& impl, const StepInput& in, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  workspace.constraint.onset = impl.options.adaptive.onset;
  mj_call("mj_fwdPosition", [&] {
    write_input(m, d, in);
    run_stages(m, impl.options.adaptive.onset, d, From::kPosition);
    if (in.suppression) in.suppression->suppress(d, true);
  });
}

void advance_with_force(const StageModel& impl, const mjModel* m, CVec F, Eigen::VectorXd& b,
                        Eigen::VectorXd& act_next, Workspace& workspace) {
  mjData* d = workspace.data.get();
  const double time = d->time;
  mju_copy(workspace.probes.saved_qpos.data(), d->qpos, impl.nq);
  mju_copy(workspace.probes.saved_qvel.data(), d->qvel, impl.nv);
  mju_copy(workspace.probes.saved_act.data(), d->act, impl.na);

  // b is linear in F: a force so large that v' - v = h b keeps all its digits
  constexpr double kLargeForce = 1e8;
  const double size = F.empty() ? 0 : eigen(F).lpNorm<Eigen::Infinity>();
  const double scale = size > 0 ? kLargeForce / size : 1;
  mj_call("mj_Euler", [&] {
    mju_zero(d->qacc, impl.nv);
    mju_zero(d->qfrc_constraint, impl.nv);
    copy_or_zero(F, d->qfrc_smooth, impl.nv);
    mju_scl(d->qfrc_smooth, d->qfrc_smooth, scale, impl.nv);
    if (impl.advance == Advance::kExplicit && !F.empty()) {
      // without damping mj_Euler reads the acceleration
      mj_solveM(m, d, d->qacc, d->qfrc_smooth, 1);
    }
    if (impl.advance == Advance::kImplicit) {
      mj_implicit(m, d);
    } else {
      mj_Euler(m, d);
    }
  });
  for (int i = 0; i < impl.nv; i++) {
    b[i] = (d->qvel[i] - workspace.probes.saved_qvel[static_cast<size_t>(i)]) /
           (m->opt.timestep * scale);
  }
  std::copy(d->act, d->act + impl.na, act_next.data());
  d->time = time;
  mju_copy(d->qpos, workspace.probes.saved_qpos.data(), impl.nq);
  mju_copy(d->qvel, workspace.probes.saved_qvel.data(), impl.nv);
  mju_copy(d->act, workspace.probes.saved_act.data(), impl.na);
}

void next_activation_pullback(const StageModel& impl, CVec act, CVec act_dot,
                              const Matrix& act_next_bar, Eigen::Ref<Matrix> act_bar,
                              Matrix& act_dot_bar, Workspace& workspace) {
  mjData* d = workspace.data.get();
  ProbeOutputs &plus = workspace.probes.probe, &minus = workspace.probes.base;
  const auto next = [&](int j, double da, double ddot, ProbeOutputs& out) {
    std::copy(act.begin(), act.end(), d->act);
    std::copy(act_dot.begin(), act_dot.end(), d->act_dot);
    d->act[j] += da;
    d->act_dot[j] += ddot;
    advance_with_force(impl, impl.mj(), {}, out.b, out.act_next, workspace);
  };
  for (int j = 0; j < impl.na; j++) {
    next(j, kStep, 0, plus);
    next(j, -kStep, 0, minus);
    for (Eigen::Index row = 0; row < act_next_bar.rows(); row++) {
      act_bar(row, j) += dot(&act_next_bar, row, plus.act_next, minus.act_next) / (2 * kStep);
    }
    const double h = kStep * std::max(1.0, std::abs(act_dot[static_cast<size_t>(j)]));
    next(j, 0, h, plus);
    next(j, 0, -h, minus);
    for (Eigen::Index row = 0; row < act_next_bar.rows(); row++) {
      act_dot_bar(row, j) += dot(&act_next_bar, row, plus.act_next, minus.act_next) / (2 * h);
    }
  }
}

void oracle_pullback(const StageModel& impl, const OracleProblem& problem,
                     const OracleMultipliers& multipliers, Matrix& x_bar, Matrix& ctrl_bar,
                     Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  if (d->efm_active) {
    throw Error("oracle_pullback: the solver's metric is not the mass matrix");  // see choose_path
  }
  workspace.probes.rows.set_base(d);
  evaluate(impl, m, problem, From::kActuation, workspace.probes.base, workspace);

  // samples: the contraction at four places; sample(k, ...) fills the k-th, where set moved the
  // input, and returns whether all rows of the base are still there
  Eigen::MatrixXd& samples = workspace.probes.samples;
  samples.resize(x_bar.rows(), 4);
  const auto sample = [&](Eigen::Index k, From from, auto&& set) {
    write_input(m, d, problem.in);
    set();
    const bool all_rows = evaluate(impl, m, problem, from, workspace.probes.probe, workspace);
    contract(multipliers, problem.sensor_bar, workspace.probes.probe, workspace.probes.base,
             samples.col(k));
    return all_rows;
  };
  const auto central = [&](From from, double h, Eigen::Index j, Matrix& bar, auto&& move) {
    sample(0, from, [&] { move(h); });
    sample(1, from, [&] { move(-h); });
    bar.col(j) += (samples.col(0) - samples.col(1)) / (2 * h);
  };
  const auto scaled = [](double h, double x) { return h * std::max(1.0, std::abs(x)); };

  // controls and activations
  for (int j = 0; j < impl.nu; j++) {
    const double u = problem.in.ctrl.empty() ? 0.0 : problem.in.ctrl[static_cast<size_t>(j)];
    const double h = scaled(kStep, u), shift = control_shift(impl, j, u, h);
    central(From::kActuation, h, j, ctrl_bar, [&](double s) { d->ctrl[j] += shift + s; });
  }
  for (int j = 0; j < impl.na; j++) {
    const double shift = activation_shift(impl, j, problem.in.act[static_cast<size_t>(j)], kStep);
    central(From::kActuation, kStep, 2 * impl.nv + j, x_bar,
            [&](double s) { d->act[j] += shift + s; });
  }

  // velocities
  for (int j = 0; j < impl.nv; j++) {
    central(From::kVelocity, scaled(kVelocityStep, problem.in.qvel[static_cast<size_t>(j)]),
            impl.nv + j, x_bar, [&](double s) { d->qvel[j] += s; });
  }

  // positions: two steps on either side, extrapolated; only the side on which no row vanishes, or
  // smaller steps if there is none
  const double step = workspace.newton.zone.empty() ? kFreePositionStep : kPositionStep;
  for (int j = 0; j < impl.nv; j++) {
    const auto at = [&](Eigen::Index k, double s) {
      return sample(k, From::kPosition, [&] {
        std::fill(workspace.probes.direction.begin(), workspace.probes.direction.end(), 0.0);
        workspace.probes.direction[static_cast<size_t>(j)] = s;
        mj_integratePos(m, d->qpos, workspace.probes.direction.data(), 1);
      });
    };
    const double size = position_size(impl, j, problem.in.qpos);
    for (double h = step * size;; h /= 10) {
      // all four samples are needed, whatever the first ones say
      const std::array<bool, 4> all_rows = {at(0, h), at(1, -h), at(2, 2 * h), at(3, -2 * h)};
      const bool plus = all_rows[0] && all_rows[2], minus = all_rows[1] && all_rows[3];
      if (!plus && !minus && h > kSmallestStep * size) continue;
      if (plus == minus) {
        x_bar.col(j) +=
            (8 * (samples.col(0) - samples.col(1)) - samples.col(2) + samples.col(3)) / (12 * h);
      } else if (plus) {
        x_bar.col(j) += (4 * samples.col(0) - samples.col(2)) / (2 * h);
      } else {
        x_bar.col(j) -= (4 * samples.col(1) - samples.col(3)) / (2 * h);
      }
      break;
    }
  }
}

void oracle_sensors_to_acceleration(const StageModel& impl, const OracleProblem& problem, Vec a_bar,
                                    Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  std::vector<double> a(problem.qacc.begin(), problem.qacc.end());
  workspace.probes.y.resize(static_cast<size_t>(d->nefc));
  workspace.probes.f.resize(static_cast<size_t>(d->nefc));
  const Vec y = workspace.probes.y, f = workspace.probes.f;
  const auto value = [&](Eigen::VectorXd& out) {
    if (d->nefc > 0) {
      mj_call("mj_mulJacVec", [&] {
        mj_mulJacVec(m, d, y.data(), a.data());
        mju_subFrom(y.data(), d->efc_aref, d->nefc);
      });
    }
    for (int i = 0; i < d->nefc; i += constraint_rows_at(d, i)) {
      constraint_force(d, workspace.newton.zone[static_cast<size_t>(i)], y, i, f);
    }
    read_sensors(impl, m, a, f, d, out);
  };
  Eigen::VectorXd &plus = workspace.probes.probe.sensordata,
                  &minus = workspace.probes.base.sensordata;
  for (size_t j = 0; j < a.size(); j++) {
    const double center = a[j], h = kVelocityStep * std::max(1.0, std::abs(center));
    a[j] = center + h;
    value(plus);
    a[j] = center - h;
    value(minus);
    a[j] = center;
    a_bar[j] += eigen(problem.sensor_bar).dot(plus - minus) / (2 * h);
  }
}

void oracle_linearize(const StageModel& impl, const OracleProblem& problem, Workspace& workspace) {
  workspace.probes.rows.set_base(workspace.data.get());
  evaluate(impl, impl.mj(), problem, From::kActuation, workspace.probes.base, workspace);
}

void oracle_pushforward(const StageModel& impl, const OracleProblem& problem, CVec x_dot, Vec a_dot,
                        Vec act_dot_dot, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  const auto nv = static_cast<size_t>(impl.nv), na = static_cast<size_t>(impl.na);
  const CVec q_dot = x_dot.first(nv), v_dot = x_dot.subspan(nv, nv), w_dot = x_dot.last(na);

  // the longest step that is small for every part of the state
  double size = 0;
  const auto measure = [&size](CVec part, double step) {
    for (const double value : part) size = std::max(size, std::abs(value) / step);
  };
  measure(q_dot, workspace.newton.zone.empty() ? kFreePositionStep : kPositionStep);
  measure(v_dot, kVelocityStep);
  measure(w_dot, kStep);
  std::fill(a_dot.begin(), a_dot.end(), 0.0);
  std::fill(act_dot_dot.begin(), act_dot_dot.end(), 0.0);
  if (!(size > 0)) return;

  double h = 1 / size;
  const auto sample = [&] {
    write_input(m, d, problem.in);
    for (size_t k = 0; k < nv; k++) {
      workspace.probes.direction[k] = h * q_dot[k];
      d->qvel[k] += h * v_dot[k];
    }
    for (size_t k = 0; k < na; k++) d->act[k] += h * w_dot[k];
    mj_integratePos(m, d->qpos, workspace.probes.direction.data(), 1);
    return evaluate(impl, m, problem, From::kPosition, workspace.probes.probe, workspace);
  };
  if (!sample()) {
    h = -h;
    sample();
  }
  // workspace.step.F: g's own
  for (size_t k = 0; k < nv; k++) {
    const auto i = static_cast<Eigen::Index>(k);
    workspace.step.F[k] = -(workspace.probes.probe.g[i] - workspace.probes.base.g[i]) / h;
  }
  newton_solve(workspace, workspace.step.F, a_dot);
  for (size_t k = 0; k < na; k++) {
    const auto j = static_cast<Eigen::Index>(k);
    act_dot_dot[k] = (workspace.probes.probe.act_dot[j] - workspace.probes.base.act_dot[j]) / h;
  }
}

namespace {

// Differences of the contraction of all outputs, one entry of a parameter at a time.
class ParameterDifferences {
 public:
  ParameterDifferences(const StageModel& impl, const OracleProblem& problem,
                       const OracleMultipliers& multipliers, Workspace& workspace)
      : impl_(impl),
        problem_(problem),
        multipliers_(multipliers),
        workspace_(workspace),
        m_(movable_model(impl, workspace)),
        d_(workspace.data.get()),
        excess_(impl.nv),
        still_(impl.nv),
        kinetic_bar_(kinetic_energy_cotangent(m_, problem.sensor_bar)) {
    mj_call("mj_fwdPosition", [&] {
      write_input(m_, d_, problem.in);
      run_stages(m_, impl.options.adaptive.onset, d_, From::kPosition);
    });
    workspace.probes.rows.set_base(d_);
    evaluate(impl, m_, problem, From::kActuation, workspace.probes.base, workspace);
    b0_ = workspace.probes.base.b;
    step_ = workspace.newton.zone.empty() ? kFreeParameterStep : kParameterStep;
  }

  double of(const ParameterField& field, int entry) {
    ParameterProbe probe(m_, field, entry);
    const double h = step_ * probe.scale();
    const double value = field.data(m_)[entry];
    if (value == 0 && is_switch(m_, field.id, entry)) return 0;
    double f[4];
    const auto at = [&](int k, double x) {
      probe.move(x);
      return sample(f[k]);
    };
    // both samples are taken, whatever the first finds
    const auto side = [&](int k, double x) {
      const bool near = at(k, x), far = at(k + 1, 2 * x);
      return near && far;
    };
    // gradient: damping that is 0 takes the side above; a row that vanishes, the other side
    const bool one_sided = value == 0 && field.id == Parameter::kDofDamping;
    const bool above = side(0, h), below = !one_sided && side(2, -h);
    if (above == below && !one_sided) return (8 * (f[0] - f[2]) - f[1] + f[3]) / (12 * h);
    double base = 0;
    probe.move(0);
    sample(base);
    return above || one_sided ? (4 * f[0] - f[1] - 3 * base) / (2 * h)
                              : -(4 * f[2] - f[3] - 3 * base) / (2 * h);
  }

 private:
  static mjModel* movable_model(const StageModel& impl, Workspace& workspace) {
    if (!workspace.probes.model) workspace.probes.model = movable_copy(impl.mj());
    return workspace.probes.model.get();
  }

  // M of dofs with body_simple is a constant of the model: what inverse dynamics says is missing
  // of M x, in excess_
  void find_excess(const double* x) {
    mj_call("mj_rne", [&] {
      mju_copy(d_->qacc, x, impl_.nv);
      mj_rne(m_, d_, 1, excess_.data());
      mju_zero(d_->qacc, impl_.nv);
      mj_rne(m_, d_, 1, still_.data());
      excess_ -= still_;
      mj_mulM(m_, d_, still_.data(), x);
    });
    for (int i = 0; i < impl_.nv; i++) {
      const double armature = m_->dof_armature[i] + actuator_armature(m_, m_->dof_jntid[i]);
      excess_[i] = m_->dof_simplenum[i] > 0 ? excess_[i] + armature * x[i] - still_[i] : 0;
    }
  }

  // the contraction at the parameter as it is now, and whether all rows of the base are there
  bool sample(double& total) {
    write_input(m_, d_, problem_.in);
    const bool all_rows =
        evaluate(impl_, m_, problem_, From::kPosition, workspace_.probes.probe, workspace_);
    Eigen::VectorXd sum(1);
    contract(multipliers_, problem_.sensor_bar, workspace_.probes.probe, workspace_.probes.base,
             sum);
    find_excess(problem_.qacc.data());
    total = sum[0];
    if (multipliers_.lambda) total -= multipliers_.lambda->row(0).dot(excess_);
    if (multipliers_.mu) {
      if (!problem_.mass_vector.empty()) find_excess(problem_.mass_vector.data());
      total += multipliers_.mu->row(0).dot(excess_);
    }
    if (problem_.noslip) {
      const Eigen::Map<const Matrix> M_bar(workspace_.projection.M_bar.data(), impl_.nv, impl_.nv);
      for (int i = 0; i < impl_.nv; i++) {
        if (m_->dof_simplenum[i] == 0) continue;
        const Eigen::VectorXd unit = Eigen::VectorXd::Unit(impl_.nv, i);
        find_excess(unit.data());
        total += M_bar.row(i).dot(excess_);
      }
    }
    if (kinetic_bar_ != 0) {
      const ConstVectorMap qvel = eigen(problem_.in.qvel);
      find_excess(qvel.data());
      total += kinetic_bar_ / 2 * qvel.dot(excess_);
    }
    if (multipliers_.mu && multipliers_.b_bar) {
      find_excess(b0_.data());
      total -= multipliers_.mu->row(0).dot(excess_);
    }
    return all_rows;
  }

  const StageModel& impl_;
  const OracleProblem& problem_;
  const OracleMultipliers& multipliers_;
  Workspace& workspace_;
  mjModel* m_;
  mjData* d_;
  Eigen::VectorXd excess_, still_, b0_;  // nv
  double kinetic_bar_, step_ = 0;
};

}  // namespace

void oracle_parameters_pullback(const StageModel& impl, const OracleProblem& problem,
                                const OracleMultipliers& multipliers, const ParameterBar& params,
                                Workspace& workspace) {
  if (!params.any()) return;
  ParameterDifferences differences(impl, problem, multipliers, workspace);
  for (const ParameterField& field : parameter_fields()) {
    const Vec bar = params[field.id];
    for (int entry = 0; entry < static_cast<int>(bar.size()); entry++) {
      bar[static_cast<size_t>(entry)] += differences.of(field, entry);
    }
  }
}

}  // namespace diffmj
