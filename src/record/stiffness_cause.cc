#include "record/stiffness_cause.h"

#include <algorithm>
#include <cmath>

#include "mj/call.h"
#include "mj/collider.h"
#include "setup/model_impl.h"
#include "stages/position/constraint_onset.h"
#include "stages/position/tendon.h"
#include "stages/position/transmission.h"
#include "stages/step_input.h"
#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

constexpr double kStep = 1e-6;  // of differences

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

// Which element does most work along the direction ξ of velocities: forces change by
//   ∂f/∂v ξ + ∂f/∂q ξ/λ
class CauseSearch {
 public:
  CauseSearch(const Model& model, const StiffMode& mode, Workspace& workspace)
      : model_(model),
        impl_(model.impl()),
        m_(impl_.mj()),
        d_(workspace.data.get()),
        mode_(mode),
        xi_(CVec(mode.direction)
                .subspan(static_cast<size_t>(impl_.nv), static_cast<size_t>(impl_.nv))),
        size_(std::max(std::abs(mode.eigenvalue), 1e-9)) {}

  StiffCause run() {
    mj_call("mj_forward", [&] {
      write_input(m_, d_, input());
      forward_with_onset(CollidingModel(m_), d_, impl_.options.adaptive.onset);
    });
    if (int which = 0; is_activation(which)) {
      const int i = impl_.act_actuator[static_cast<size_t>(which)];
      return {"the activation of " + model_.element_name(mjOBJ_ACTUATOR, i),
              "a longer time constant of it (dyntype filterexact has no limit)"};
    }
    inertia();
    constraints();
    joints();
    tendons();
    actuators_and_fluid();
    return cause_;
  }

 private:
  StepInput input() const {
    return {.time = mode_.time,
            .qpos = mode_.qpos,
            .qvel = mode_.qvel,
            .act = mode_.act,
            .qacc_warmstart = mode_.qacc,
            .ctrl = mode_.ctrl,
            .qfrc_applied = mode_.qfrc_applied,
            .xfrc_applied = mode_.xfrc_applied};
  }
  std::string joint_name(int j) const { return model_.element_name(mjOBJ_JOINT, j); }

  // what() if its power is the largest so far
  template <class What>
  void offer(double power, What&& what, const char* remedy) {
    if (!(std::abs(power) > most_)) return;
    most_ = std::abs(power);
    cause_ = {what(), remedy};
  }

  // A filter's own rate is the eigenvalue; velocities follow it, and have no part in it.
  bool is_activation(int& which) {
    const int nv = impl_.nv, na = impl_.na;
    if (na == 0) return false;
    const double* w = mode_.direction.data() + 2 * nv;
    which = static_cast<int>(
        std::max_element(w, w + na, [](double a, double b) { return std::abs(a) < std::abs(b); }) -
        w);
    if (w[which] == 0) return false;
    double rate = 0;
    mj_call("mj_fwdActuation", [&] {
      const double before = d_->act_dot[which];
      d_->act[which] += kStep;
      mj_fwdActuation(m_, d_);
      rate = (d_->act_dot[which] - before) / kStep;
      d_->act[which] -= kStep;
      mj_fwdActuation(m_, d_);
    });
    return std::abs(rate - mode_.eigenvalue) < 0.1 * std::abs(mode_.eigenvalue);
  }

  // the joint with most of the mode's energy, and what an element must exceed
  void inertia() {
    std::vector<double> M_xi(xi_.size());
    mj_call("mj_mulM", [&] { mj_mulM(m_, d_, M_xi.data(), xi_.data()); });
    const auto share = [&](int j) {
      return xi_[static_cast<size_t>(j)] * M_xi[static_cast<size_t>(j)];
    };
    int dof = 0;
    double energy = 0;
    for (int k = 0; k < impl_.nv; k++) {
      if (share(k) > share(dof)) dof = k;
      energy += share(k);
    }
    joint_ = joint_name(m_->dof_jntid[dof]);
    most_ = 0.1 * size_ * energy;
    cause_ = {joint_, "more inertia there"};
  }

  std::string constraint_name(int row) const {
    const int id = d_->efc_id[row];
    switch (d_->efc_type[row]) {
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
    const mjContact& contact = d_->contact[id];
    const auto side = [&](int k) {
      return contact.geom[k] >= 0 ? model_.element_name(mjOBJ_GEOM, contact.geom[k])
                                  : model_.element_name(mjOBJ_FLEX, contact.flex[k]);
    };
    return "the contact of " + side(0) + " and " + side(1);
  }

  // f = -S (J a - aref), where a changes too
  void constraints() {
    std::vector<double> J_xi(static_cast<size_t>(d_->nefc));
    mj_call("mj_mulJacVec", [&] {
      if (d_->nefc > 0) mj_mulJacVec(m_, d_, J_xi.data(), xi_.data());
    });
    for (int i = 0; i < d_->nefc; i++) {
      const mjtNum* KBIP = d_->efc_KBIP + 4 * static_cast<ptrdiff_t>(i);
      if (d_->efc_state[i] == mjCNSTRSTATE_SATISFIED) continue;
      const double speed = J_xi[static_cast<size_t>(i)];
      const std::complex<double> reference =
          mode_.eigenvalue + KBIP[1] + KBIP[0] * KBIP[2] / mode_.eigenvalue;
      offer(
          d_->efc_D[i] * std::abs(reference) * speed * speed,
          [&] { return joint_ + ", by " + constraint_name(i); },
          "a longer time constant in its solref");
    }
  }

  // their springs and dampers
  void joints() {
    const int disabled = m_->opt.disableflags;
    for (int k = 0; k < impl_.nv; k++) {
      const double v2 = std::pow(xi_[static_cast<size_t>(k)], 2);
      const int j = m_->dof_jntid[k];
      if (!(disabled & mjDSBL_DAMPER)) {
        offer(
            Damping(m_, k).slope(d_->qvel[k]) * v2,
            [&] { return joint_name(j) + ", by its damping"; }, "less damping of it");
      }
      if (disabled & mjDSBL_SPRING) continue;
      const bool turns = m_->jnt_type[j] == mjJNT_FREE || m_->jnt_type[j] == mjJNT_BALL;
      const int q = m_->jnt_qposadr[j];
      offer(
          stiffness_slope(m_->jnt_stiffness[j], m_->jnt_stiffnesspoly + mjNPOLY * j,
                          turns ? 0 : d_->qpos[q] - m_->qpos_spring[q]) *
              v2 / size_,
          [&] { return joint_name(j) + ", by its stiffness"; }, "less stiffness of it");
    }
  }

  void tendons() {
    const int disabled = m_->opt.disableflags;
    for (int t = 0; t < static_cast<int>(m_->ntendon); t++) {
      const double v2 = std::pow(tendon_rate(m_, d_, t, xi_), 2);
      const auto name = [&] {
        return joint_ + ", by " + model_.element_name(mjOBJ_TENDON, t) + " with its ";
      };
      if (!(disabled & mjDSBL_DAMPER)) {
        offer(
            Damping::of_tendon(m_, t).slope(d_->ten_velocity[t]) * v2,
            [&] { return name() + "damping"; }, "less damping of it");
      }
      const mjtNum* rest = m_->tendon_lengthspring + 2 * static_cast<ptrdiff_t>(t);
      const double x = d_->ten_length[t] < rest[0]   ? d_->ten_length[t] - rest[0]
                       : d_->ten_length[t] > rest[1] ? d_->ten_length[t] - rest[1]
                                                     : 0;
      if ((disabled & mjDSBL_SPRING) || (x == 0 && rest[0] != rest[1])) continue;
      offer(
          stiffness_slope(m_->tendon_stiffness[t], m_->tendon_stiffnesspoly + mjNPOLY * t, x) * v2 /
              size_,
          [&] { return name() + "stiffness"; }, "less stiffness of it");
    }
  }

  // by differences
  void actuators_and_fluid() {
    const auto nout = static_cast<size_t>(m_->nout);
    const std::vector<double> force(d_->actuator_force, d_->actuator_force + nout),
        fluid(d_->qfrc_fluid, d_->qfrc_fluid + impl_.nv);
    std::vector<double> arm(nout), power(nout, 0.0);
    for (size_t k = 0; k < nout; k++) arm[k] = moment_dot(d_, static_cast<int>(k), xi_);
    double drag = 0;
    for (const bool position : {false, true}) {
      const double weight = position ? 1 / size_ : 1;
      evaluate_moved(position);
      for (size_t k = 0; k < nout; k++) {
        power[k] += weight * std::abs((d_->actuator_force[k] - force[k]) / kStep * arm[k]);
      }
      for (size_t k = 0; k < xi_.size() && !position; k++) {
        drag += (d_->qfrc_fluid[k] - fluid[k]) / kStep * xi_[k];
      }
    }
    for (size_t k = 0; k < nout; k++) {
      const int i = actuator_of(m_, static_cast<int>(k));
      const bool muscle = m_->actuator_gaintype[i] == mjGAIN_MUSCLE;
      const bool on_joint =
          m_->actuator_trntype[i] == mjTRN_JOINT || m_->actuator_trntype[i] == mjTRN_JOINTINPARENT;
      offer(
          power[k],
          [&] {
            return (on_joint ? joint_name(m_->actuator_trnid[2 * i]) : joint_) + ", by " +
                   model_.element_name(mjOBJ_ACTUATOR, i);
          },
          muscle ? "a weaker or slower muscle" : "a smaller kv or kp of the actuator");
    }
    offer(
        drag, [&] { return joint_ + ", by the fluid"; }, "less density or viscosity");
  }

  // forces with the position, or the velocity, moved along ξ
  void evaluate_moved(bool position) {
    std::vector<double> move(xi_.size());
    for (size_t k = 0; k < xi_.size(); k++) move[k] = kStep * xi_[k];
    mj_call("mj_fwdActuation", [&] {
      write_input(m_, d_, input());
      for (size_t k = 0; k < xi_.size() && !position; k++) d_->qvel[k] += move[k];
      if (position) mj_integratePos(m_, d_->qpos, move.data(), 1);
      mj_fwdPosition(CollidingModel(m_), d_);
      apply_constraint_onset(m_, d_, impl_.options.adaptive.onset);
      mj_fwdVelocity(m_, d_);
      mj_fwdActuation(m_, d_);
    });
  }

  const Model& model_;
  const ModelImpl& impl_;
  const mjModel* m_;
  mjData* d_;
  const StiffMode& mode_;
  const CVec xi_;      // nv
  const double size_;  // |λ|
  std::string joint_;  // that moves most
  double most_ = 0;    // power so far
  StiffCause cause_;
};

}  // namespace

StiffCause find_cause(const Model& model, const StiffMode& mode, Workspace& workspace) {
  return CauseSearch(model, mode, workspace).run();
}

}  // namespace diffmj
