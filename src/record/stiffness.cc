#include "record/stiffness.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/position/tendon.h"
#include "stages/position/transmission.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

// What is worth a warning: so much of the time, and so many steps, also for each interval. What
// decays has no part in the motion after so many of its time constants, and costs steps for
// nothing; an oscillation has one, and is worth a warning if it costs very many.
constexpr double kShare = 0.25, kPerInterval = 2, kTimeConstants = 20;
constexpr int kCount = 50, kVeryMany = 1000;
// Constant steps beyond the limit: perturbations grow by so much more than the motion lets them.
const double kGrowth = std::log(10.0);

std::string short_number(double x) { return text("%.3g", x); }

// of x k(x), k(x) = linear + Σ_i poly_i |x|^i
double stiffness_slope(double linear, const mjtNum* poly, double x) {
  double slope = linear, power = 1;
  for (int i = 0; i < mjNPOLY; i++) {
    power *= std::abs(x);
    slope += (i + 2) * poly[i] * power;
  }
  return slope;
}

int actuator_of(const mjModel* m, int out) {
  int i = 0;
  while (out >= m->actuator_outadr[i] + m->actuator_outnum[i]) i++;
  return i;
}

}  // namespace

Stiffness::Stiffness(const Model& model, Workspace& workspace)
    : model_(model), impl_(model.impl()), workspace_(workspace), stability_(impl_, workspace) {
  mode_.qpos.resize(static_cast<size_t>(impl_.nq));
  for (auto* x : {&mode_.qvel, &mode_.qacc}) x->resize(static_cast<size_t>(impl_.nv));
  mode_.act.resize(static_cast<size_t>(impl_.na));
  mode_.ctrl.resize(static_cast<size_t>(impl_.nu));
  mode_.direction.resize(static_cast<size_t>(2 * impl_.nv + impl_.na));
}

void Stiffness::look(double h, const StepStart& start, const IntervalInput& in) {
  stability_.look(h, start, in);
  remembers_ = false;
}

double Stiffness::limited(int i, double h, const StepStart& start, const IntervalInput& in) {
  limits_ = h > stability_.limit();
  if (!limits_) return h;
  if (!remembers_) remember(i, start, in);
  return stability_.limit();
}

void Stiffness::remember(int i, const StepStart& start, const IntervalInput& in) {
  const auto keep = [](CVec from, std::vector<double>& to) {
    std::copy(from.begin(), from.end(), to.begin());
  };
  mode_.interval = i;
  mode_.time = start.time;
  keep(start.qpos, mode_.qpos);
  keep(start.qvel, mode_.qvel);
  keep(start.act, mode_.act);
  keep(start.qacc, mode_.qacc);
  keep(stability_.direction(), mode_.direction);
  for (int j = 0; j < impl_.nu; j++) {
    mode_.ctrl[static_cast<size_t>(j)] = in.control(start.time, j);
  }
  mode_.qfrc_applied = in.qfrc_applied;
  mode_.xfrc_applied = in.xfrc_applied;
  mode_.eigenvalue = stability_.eigenvalue();
  mode_.limit = stability_.limit();
  if (first_ < 0) first_ = i;
  remembers_ = true;
}

void Stiffness::follow(double h) {
  stability_.follow();
  made_++;
  growth_ += stability_.growth(h);
  if (!limits_) return;
  count_++;
  time_ += h;
}

std::string Stiffness::constraint_name(int row) const {
  const mjData* d = workspace_.data.get();
  const int id = d->efc_id[row];
  switch (d->efc_type[row]) {
    case mjCNSTR_EQUALITY:
      return model_.element_name(mjOBJ_EQUALITY, id);
    case mjCNSTR_FRICTION_DOF:
      return "the friction loss of " + model_.dof_name(id);
    case mjCNSTR_FRICTION_TENDON:
      return "the friction loss of " + model_.element_name(mjOBJ_TENDON, id);
    case mjCNSTR_LIMIT_JOINT:
      return "the limit of " + model_.element_name(mjOBJ_JOINT, id);
    case mjCNSTR_LIMIT_TENDON:
      return "the limit of " + model_.element_name(mjOBJ_TENDON, id);
    default:
      break;
  }
  const mjContact& contact = d->contact[id];
  const auto side = [&](int k) {
    return contact.geom[k] >= 0 ? model_.element_name(mjOBJ_GEOM, contact.geom[k])
                                : model_.element_name(mjOBJ_FLEX, contact.flex[k]);
  };
  return "the contact of " + side(0) + " and " + side(1);
}

// A filter's own rate is the eigenvalue; velocities follow it, and have no part in it.
bool Stiffness::is_activation(int& which) {
  const int nv = impl_.nv, na = impl_.na;
  if (na == 0) return false;
  const double* w = mode_.direction.data() + 2 * nv;
  which = static_cast<int>(
      std::max_element(w, w + na, [](double a, double b) { return std::abs(a) < std::abs(b); }) -
      w);
  if (w[which] == 0) return false;
  const mjModel* m = impl_.mj();
  mjData* d = workspace_.data.get();
  constexpr double kStep = 1e-6;
  double rate = 0;
  mj_call("mj_fwdActuation", [&] {
    const double before = d->act_dot[which];
    d->act[which] += kStep;
    mj_fwdActuation(m, d);
    rate = (d->act_dot[which] - before) / kStep;
    d->act[which] -= kStep;
    mj_fwdActuation(m, d);
  });
  return std::abs(rate - mode_.eigenvalue) < 0.1 * std::abs(mode_.eigenvalue);
}

// Which element does most work along the direction ξ of velocities: forces change by
//   ∂f/∂v ξ + ∂f/∂q ξ/λ
Stiffness::Cause Stiffness::find_cause() {
  const mjModel* m = impl_.mj();
  mjData* d = workspace_.data.get();
  const int nv = impl_.nv;
  const StepInput in{.time = mode_.time,
                     .qpos = mode_.qpos,
                     .qvel = mode_.qvel,
                     .act = mode_.act,
                     .qacc_warmstart = mode_.qacc,
                     .ctrl = mode_.ctrl,
                     .qfrc_applied = mode_.qfrc_applied,
                     .xfrc_applied = mode_.xfrc_applied};
  mj_call("mj_forward", [&] {
    write_input(m, d, in);
    mj_forward(CollidingModel(m), d);
  });
  int activation = 0;
  if (is_activation(activation)) {
    const int i = impl_.act_actuator[static_cast<size_t>(activation)];
    return {"the activation of " + model_.element_name(mjOBJ_ACTUATOR, i),
            "a longer time constant of it (dyntype filterexact has no limit)"};
  }

  const CVec xi = CVec(mode_.direction).subspan(static_cast<size_t>(nv), static_cast<size_t>(nv));
  const double size = std::max(std::abs(mode_.eigenvalue), 1e-9);
  std::vector<double> M_xi(xi.size());
  mj_call("mj_mulM", [&] { mj_mulM(m, d, M_xi.data(), xi.data()); });
  int dof = 0;
  double energy = 0;
  for (int k = 0; k < nv; k++) {
    const auto share = [&](int j) {
      return xi[static_cast<size_t>(j)] * M_xi[static_cast<size_t>(j)];
    };
    if (share(k) > share(dof)) dof = k;
    energy += share(k);
  }
  const auto joint_name = [&](int j) { return model_.element_name(mjOBJ_JOINT, j); };
  const std::string joint = joint_name(m->dof_jntid[dof]);

  double most = 0.1 * size * energy;
  Cause cause{joint, "more inertia there"};
  const auto offer = [&](double power, auto&& what, const char* remedy) {
    if (!(std::abs(power) > most)) return;
    most = std::abs(power);
    cause = {what(), remedy};
  };

  // constraints: f = -S (J a - aref), where a changes too
  std::vector<double> J_xi(static_cast<size_t>(d->nefc));
  mj_call("mj_mulJacVec", [&] {
    if (d->nefc > 0) mj_mulJacVec(m, d, J_xi.data(), xi.data());
  });
  for (int i = 0; i < d->nefc; i++) {
    const mjtNum* KBIP = d->efc_KBIP + 4 * static_cast<ptrdiff_t>(i);
    if (d->efc_state[i] == mjCNSTRSTATE_SATISFIED) continue;
    const double speed = J_xi[static_cast<size_t>(i)];
    const std::complex<double> reference =
        mode_.eigenvalue + KBIP[1] + KBIP[0] * KBIP[2] / mode_.eigenvalue;
    offer(
        d->efc_D[i] * std::abs(reference) * speed * speed,
        [&] { return joint + ", by " + constraint_name(i); },
        "a longer time constant in its solref");
  }

  // springs and dampers
  const int disabled = m->opt.disableflags;
  for (int k = 0; k < nv; k++) {
    const double v2 = std::pow(xi[static_cast<size_t>(k)], 2);
    const int j = m->dof_jntid[k];
    if (!(disabled & mjDSBL_DAMPER)) {
      offer(
          Damping(m, k).slope(d->qvel[k]) * v2, [&] { return joint_name(j) + ", by its damping"; },
          "less damping of it");
    }
    if (disabled & mjDSBL_SPRING) continue;
    const bool turns = m->jnt_type[j] == mjJNT_FREE || m->jnt_type[j] == mjJNT_BALL;
    const int q = m->jnt_qposadr[j];
    offer(
        stiffness_slope(m->jnt_stiffness[j], m->jnt_stiffnesspoly + mjNPOLY * j,
                        turns ? 0 : d->qpos[q] - m->qpos_spring[q]) *
            v2 / size,
        [&] { return joint_name(j) + ", by its stiffness"; }, "less stiffness of it");
  }
  for (int t = 0; t < static_cast<int>(m->ntendon); t++) {
    const double v2 = std::pow(tendon_rate(m, d, t, xi), 2);
    const auto name = [&] {
      return joint + ", by " + model_.element_name(mjOBJ_TENDON, t) + " with its ";
    };
    if (!(disabled & mjDSBL_DAMPER)) {
      offer(
          Damping::of_tendon(m, t).slope(d->ten_velocity[t]) * v2,
          [&] { return name() + "damping"; }, "less damping of it");
    }
    const mjtNum* rest = m->tendon_lengthspring + 2 * static_cast<ptrdiff_t>(t);
    const double x = d->ten_length[t] < rest[0]   ? d->ten_length[t] - rest[0]
                     : d->ten_length[t] > rest[1] ? d->ten_length[t] - rest[1]
                                                  : 0;
    if ((disabled & mjDSBL_SPRING) || (x == 0 && rest[0] != rest[1])) continue;
    offer(
        stiffness_slope(m->tendon_stiffness[t], m->tendon_stiffnesspoly + mjNPOLY * t, x) * v2 /
            size,
        [&] { return name() + "stiffness"; }, "less stiffness of it");
  }

  // actuators and fluid, by differences
  constexpr double kStep = 1e-6;
  const auto nout = static_cast<size_t>(m->nout);
  std::vector<double> force(d->actuator_force, d->actuator_force + nout), arm(nout),
      power(nout, 0.0), fluid(d->qfrc_fluid, d->qfrc_fluid + nv), move(xi.size());
  for (size_t k = 0; k < nout; k++) arm[k] = moment_dot(d, static_cast<int>(k), xi);
  double drag = 0;
  for (const bool position : {false, true}) {
    const double weight = position ? 1 / size : 1;
    mj_call("mj_fwdActuation", [&] {
      write_input(m, d, in);
      for (size_t k = 0; k < xi.size(); k++) {
        move[k] = kStep * xi[k];
        if (!position) d->qvel[k] += move[k];
      }
      if (position) mj_integratePos(m, d->qpos, move.data(), 1);
      mj_fwdPosition(CollidingModel(m), d);
      mj_fwdVelocity(m, d);
      mj_fwdActuation(m, d);
    });
    for (size_t k = 0; k < nout; k++) {
      power[k] += weight * std::abs((d->actuator_force[k] - force[k]) / kStep * arm[k]);
    }
    for (size_t k = 0; k < xi.size() && !position; k++) {
      drag += (d->qfrc_fluid[k] - fluid[k]) / kStep * xi[k];
    }
  }
  for (size_t k = 0; k < nout; k++) {
    const int i = actuator_of(m, static_cast<int>(k));
    const bool muscle = m->actuator_gaintype[i] == mjGAIN_MUSCLE;
    const bool on_joint =
        m->actuator_trntype[i] == mjTRN_JOINT || m->actuator_trntype[i] == mjTRN_JOINTINPARENT;
    offer(
        power[k],
        [&] {
          return (on_joint ? joint_name(m->actuator_trnid[2 * i]) : joint) + ", by " +
                 model_.element_name(mjOBJ_ACTUATOR, i);
        },
        muscle ? "a weaker or slower muscle" : "a smaller kv or kp of the actuator");
  }
  offer(
      drag, [&] { return joint + ", by the fluid"; }, "less density or viscosity");
  return cause;
}

std::string Stiffness::hint() const {
  if (mode_.interval < 0 || static_cast<double>(count_) < kShare * static_cast<double>(made_)) {
    return "";
  }
  return "; the stability of " + std::string(impl_.tableau->name) + " limits steps to " +
         short_number(mode_.limit) + " s, see warnings";
}

void Stiffness::warn(double duration, bool constant, std::vector<Warning>& warnings) {
  const double share = duration > 0 ? time_ / duration : 0;
  if (mode_.interval < 0 || count_ == 0) return;
  if (constant) {
    if (growth_ < kGrowth) return;
  } else if (share < kShare || count_ < kCount ||
             static_cast<double>(count_) < kPerInterval * time_ / model_.interval() ||
             (-mode_.eigenvalue.real() * time_ < kTimeConstants && count_ < kVeryMany)) {
    return;
  }
  const Cause cause = find_cause();
  const std::complex<double> rate = mode_.eigenvalue;
  std::string text = "stiff: ";
  const std::string method = impl_.tableau->name;
  if (constant) {
    text += "steps are beyond the limit of stability of " + method + ", " +
            short_number(mode_.limit) + " s: perturbations grow by a factor of " +
            short_number(std::exp(growth_)) +
            " that the motion has not, and with them the discrete adjoint";
  } else {
    text += "over " + short_number(100 * share) + " % of the time the stability of " + method +
            ", not the tolerance, limits steps, to " + short_number(mode_.limit) + " s";
  }
  text += "; the fastest rate, " + short_number(std::abs(rate)) + " /s, is that of " + cause.what +
          "; use MuJoCo's implicit integrator (integrator=\"model\" where the model has it, or "
          "\"implicitfast\"), " +
          cause.remedy + ", or more armature";
  if (constant) text += ", a smaller step, or adjoint=\"interpolated\"";
  warnings.push_back({.text = text,
                      .first_step = first_,
                      .count = static_cast<int>(count_),
                      .kind = WarningKind::kStiff});
}

}  // namespace diffmj
