#include "stages/acceleration/actuation.h"

#include <algorithm>
#include <cmath>

#include "stages/acceleration/actuation_internal.h"
#include "stages/acceleration/muscle.h"
#include "stages/position/transmission.h"

namespace diffmj {
namespace {

bool saturated(const mjModel* m, const mjData* d, int i) {
  if (!m->actuator_forcelimited[i]) return false;
  const double* forces = d->actuator_force + m->actuator_outadr[i];
  if (m->actuator_gaintype[i] == mjGAIN_SO3) {
    return mju_norm3(forces) >= m->actuator_forcerange[2 * i + 1];
  }
  const double force = forces[0];
  return force <= m->actuator_forcerange[2 * i] || force >= m->actuator_forcerange[2 * i + 1];
}

// the actuator's joint is at its actuatorfrcrange
bool joint_saturated(const mjModel* m, const mjData* d, int i) {
  const int type = m->actuator_trntype[i], joint = m->actuator_trnid[2 * i];
  if (type != mjTRN_JOINT && type != mjTRN_JOINTINPARENT) return false;
  if (!m->jnt_actfrclimited[joint]) return false;
  const double force = d->qfrc_actuator[m->jnt_dofadr[joint]];
  return force <= m->jnt_actfrcrange[2 * joint] || force >= m->jnt_actfrcrange[2 * joint + 1];
}

// the actuator's tendon is at its actuatorfrcrange, as MuJoCo decides it: by the sum of the forces
// that act, with a tolerance
bool tendon_saturated(const mjModel* m, const mjData* d, int i) {
  const int tendon = m->actuator_trnid[2 * i];
  if (m->actuator_trntype[i] != mjTRN_TENDON || !m->tendon_actfrclimited[tendon]) return false;
  double total = 0;
  for (int j = 0; j < static_cast<int>(m->nactuator); j++) {
    if (m->actuator_trntype[j] != mjTRN_TENDON || m->actuator_trnid[2 * j] != tendon) continue;
    if (!actuator_disabled(m, j)) total += d->actuator_force[m->actuator_outadr[j]];
  }
  constexpr double kAtBound = 1e-10;  // of a bound, or of 1
  const auto near = [](double bound) { return kAtBound * std::max(1.0, std::abs(bound)); };
  const double low = m->tendon_actfrcrange[2 * tendon],
               high = m->tendon_actfrcrange[2 * tendon + 1];
  return total <= low + near(low) || total >= high - near(high);
}

// act_next = act + reach act_dot, clamped
struct NextActivation {
  NextActivation(const mjModel* m, int i, double act, double act_dot) : reach(m->opt.timestep) {
    if (m->actuator_dyntype[i] == mjDYN_FILTEREXACT) {
      const double tau = time_constant(m, i), steps = m->opt.timestep / tau;
      reach = tau * (1 - std::exp(-steps));
      reach_tau = 1 - (1 + steps) * std::exp(-steps);
    }
    value = act + reach * act_dot;
    if (!m->actuator_actlimited[i]) return;
    const double low = m->actuator_actrange[2 * i], high = m->actuator_actrange[2 * i + 1];
    clamped = value < low || value > high;
    value = std::clamp(value, low, high);
  }
  double reach, reach_tau = 0, value = 0;  // reach_tau = ∂reach/∂tau
  bool clamped = false;
};

class Pullback {
 public:
  Pullback(const StageModel& impl, const ActuationIn& in, const ActuationBar& bar, Sweep& sweep,
           const ParameterBar& params, Workspace& workspace)
      : impl_(impl),
        m_(impl.mj()),
        d_(workspace.data.get()),
        in_(in),
        bar_(bar),
        sweep_(sweep),
        params_(params),
        workspace_(workspace),
        nv_(static_cast<size_t>(impl.nv)),
        plain_allowed_(!params.any()) {}

  void run() {
    masked_ = clamp_lambda(m_, d_, in_.lambda, workspace_.actuation.lambda);
    act_dot_bar_ = workspace_.actuation.act_dot_bar;
    std::fill(act_dot_bar_.begin(), act_dot_bar_.end(), 0.0);
    for (int i = 0; i < static_cast<int>(m_->nactuator); i++) {
      if (is_controller(m_, i)) continue;
      if (is_plain(i)) {
        if (!actuator_disabled(m_, i)) plain_force(i);
        continue;
      }
      next_activation(i);
      if (!actuator_disabled(m_, i)) force(i);
      activation(i);
    }
    if (has_controllers(m_)) {
      controllers_pullback(impl_, in_, bar_, sweep_, params_, workspace_);
    }
  }

 private:
  CVec lambda() const { return workspace_.actuation.lambda; }
  double ctrl(int j) const { return control_value(*in_.in, j); }

  // A motor or servo on a hinge or slide: force = gain ctrl + b₀ + b₁ length + b₂ velocity. Its
  // slope in velocity is constant and so is its moment, so that the metric has no part in it.
  bool is_plain(int i) const {
    const int bias = m_->actuator_biastype[i], transmission = m_->actuator_trntype[i];
    return plain_allowed_ && m_->actuator_actnum[i] == 0 && m_->actuator_ctrlnum[i] == 1 &&
           m_->actuator_gaintype[i] == mjGAIN_FIXED &&
           (bias == mjBIAS_NONE || bias == mjBIAS_AFFINE) &&
           (transmission == mjTRN_JOINT || transmission == mjTRN_JOINTINPARENT) &&
           m_->jnt_type[m_->actuator_trnid[2 * i]] >= mjJNT_SLIDE;
  }
  void plain_force(int i) {
    if (saturated(m_, d_, i)) return;
    const int out = m_->actuator_outadr[i], control = m_->actuator_ctrladr[i];
    const double force_bar = output_cotangent(d_, in_, out, lambda());
    if (!control_clamped(m_, control, ctrl(control))) {
      bar_.ctrl[static_cast<size_t>(control)] += force_bar * m_->actuator_gainprm[mjNGAIN * i];
    }
    if (m_->actuator_biastype[i] == mjBIAS_NONE) return;
    const auto dof = static_cast<size_t>(m_->jnt_dofadr[m_->actuator_trnid[2 * i]]);
    const double* b = m_->actuator_biasprm + mjNBIAS * i;
    const double gear = m_->actuator_gear[6 * out];
    bar_.qpos[dof] += force_bar * b[1] * gear;
    bar_.qvel[dof] += force_bar * b[2] * gear;
  }

  // act_next -> act, act_dot
  void next_activation(int i) {
    if (in_.act_next_bar.empty()) return;
    const int begin = m_->actuator_actadr[i];
    for (int j = begin; j < begin + m_->actuator_actnum[i]; j++) {
      const auto k = static_cast<size_t>(j);
      const bool off = actuator_disabled(m_, i);
      const double act = in_.act_from.empty() ? d_->act[j] : in_.act_from[k];
      const double act_dot = in_.act_dot_from.empty() ? d_->act_dot[j] : in_.act_dot_from[k];
      const NextActivation next(m_, i, act, off ? 0 : act_dot);
      if (next.clamped) continue;
      add_time_constant(i, off ? 0 : next.reach_tau * act_dot * in_.act_next_bar[k]);
      // of another state, whose cotangents the caller takes
      if (!in_.act_from.empty()) continue;
      bar_.act[k] += in_.act_next_bar[k];
      if (!off) act_dot_bar_[k] += next.reach * in_.act_next_bar[k];
    }
  }

  // force -> length, velocity, input
  void force(int i) {
    const int out = m_->actuator_outadr[i];
    const double force_bar = force_cotangent(i);
    const Law law(*this, i, impl_.muscle_smoothing);

    // the metric: D = slope momentᵀ moment, within D's sparsity
    const double* b = m_->actuator_biasprm + mjNBIAS * i;
    const double slope =
        (m_->actuator_biastype[i] == mjBIAS_AFFINE ? b[2] : 0) + law.gain.slope * law.input;
    double slope_bar = 0;
    Vec y(workspace_.actuation.y.data(), nv_);
    const bool metric =
        !in_.mu.empty() && !not_implicit(m_, d_, i) &&
        (m_->actuator_gaintype[i] != mjGAIN_FIXED || slope != 0 ||
         params_.wants(Parameter::kActuatorGainprm) || params_.wants(Parameter::kActuatorBiasprm));
    const bool tendon = passes_tendon(i, metric);
    const bool varies =
        !tendon && (moment_varies(m_, i) || params_.wants(Parameter::kActuatorGear));
    if (varies) eigen(y) = d_->actuator_force[out] * eigen(lambda());
    if (metric) {
      slope_bar = in_.h * (tendon ? tendon_metric(i, in_.h * slope)
                                  : metric_form(impl_, in_, out, in_.h * slope, varies ? y : Vec(),
                                                workspace_));
    }

    double length_bar = 0, velocity_bar = 0;
    gain_and_bias(i, law, force_bar, slope_bar, length_bar, velocity_bar);
    if (varies) eigen(y) += velocity_bar * eigen(in_.in->qvel);
    input(i, law, force_bar * law.gain.gain + slope_bar * law.gain.slope);

    if (tendon) {
      tendon_transmission(i, length_bar, velocity_bar, slope_bar * slope);
      return;
    }
    velocity_pullback(d_, out, velocity_bar, bar_.qvel);
    const double length_bars[1] = {length_bar};
    transmission_pullback(m_, d_, i, length_bars, y, bar_.qpos, sweep_, params_);
  }

  // what the force of one actuator is made of
  struct Law {
    Law(const Pullback& p, int i, double muscle_smoothing)
        : act(p.last_activation(i)),
          next(p.m_, i, act < 0 ? 0 : p.d_->act[act], act < 0 ? 0 : p.d_->act_dot[act]),
          early(act >= 0 && p.m_->actuator_actearly[i]) {
      const mjModel* m = p.m_;
      const int out = m->actuator_outadr[i];
      const double length = p.d_->actuator_length[out], velocity = p.d_->actuator_velocity[out];
      if (act < 0) {
        input = m->actuator_ctrlnum[i] > 0 ? p.clamped_control(m->actuator_ctrladr[i]) : 0;
      } else {
        input = early ? next.value : p.d_->act[act];
      }
      input = p.wrapped(i, input, length);
      const double* g = m->actuator_gainprm + mjNGAIN * i;
      gain = {.gain = g[0]};
      if (m->actuator_gaintype[i] == mjGAIN_AFFINE) {
        gain = {.gain = g[0] + g[1] * length + g[2] * velocity, .slope = g[2]};
      } else if (m->actuator_gaintype[i] == mjGAIN_MUSCLE) {
        gain = muscle_gain(p.muscle_in(i, g, muscle_smoothing));
      }
    }
    int act;
    NextActivation next;
    bool early;
    double input = 0;
    MuscleGain gain;  // and its slope in velocity
  };

  // force = gain input + bias, and the slopes of both in velocity; adds to length_bar and
  // velocity_bar
  void gain_and_bias(int i, const Law& law, double force_bar, double slope_bar, double& length_bar,
                     double& velocity_bar) {
    const auto gainprm = params_[Parameter::kActuatorGainprm],
               biasprm = params_[Parameter::kActuatorBiasprm];
    const int out = m_->actuator_outadr[i];
    const double length = d_->actuator_length[out], velocity = d_->actuator_velocity[out];
    const double* g = m_->actuator_gainprm + mjNGAIN * i;
    const double* b = m_->actuator_biasprm + mjNBIAS * i;
    const int gain_type = m_->actuator_gaintype[i], bias_type = m_->actuator_biastype[i];
    const MuscleGain gain_bar{.gain = force_bar * law.input, .slope = slope_bar * law.input};
    const auto affine_pullback = [&](const double* prm, Vec bar, int width, double value_bar,
                                     double prm_slope_bar) {
      length_bar += value_bar * prm[1];
      velocity_bar += value_bar * prm[2];
      if (bar.empty()) return;
      double* to = &bar[static_cast<size_t>(width * i)];
      to[0] += value_bar;
      to[1] += value_bar * length;
      to[2] += value_bar * velocity + prm_slope_bar;
    };
    if (gain_type == mjGAIN_AFFINE) {
      affine_pullback(g, gainprm, mjNGAIN, gain_bar.gain, gain_bar.slope);
    } else if (gain_type == mjGAIN_MUSCLE) {
      muscle_gain_pullback(muscle_in(i, g, impl_.muscle_smoothing), gain_bar,
                           muscle_bar(i, gainprm, mjNGAIN, length_bar, velocity_bar));
    } else if (!gainprm.empty()) {
      gainprm[static_cast<size_t>(mjNGAIN * i)] += gain_bar.gain;
    }
    if (bias_type == mjBIAS_AFFINE) {
      affine_pullback(b, biasprm, mjNBIAS, force_bar, slope_bar);
    } else if (bias_type == mjBIAS_MUSCLE) {
      muscle_bias_pullback(muscle_in(i, b, impl_.muscle_smoothing), force_bar,
                           muscle_bar(i, biasprm, mjNBIAS, length_bar, velocity_bar));
    }
  }

  // the control, or the activation, which may be that after the step
  void input(int i, const Law& law, double input_bar) {
    const int control = m_->actuator_ctrladr[i];
    if (law.act < 0) {
      if (m_->actuator_ctrlnum[i] > 0 && !control_clamped(m_, control, ctrl(control))) {
        bar_.ctrl[static_cast<size_t>(control)] += input_bar;
      }
    } else if (!law.early) {
      bar_.act[static_cast<size_t>(law.act)] += input_bar;
    } else if (!law.next.clamped) {
      bar_.act[static_cast<size_t>(law.act)] += input_bar;
      act_dot_bar_[static_cast<size_t>(law.act)] += law.next.reach * input_bar;
      add_time_constant(i, law.next.reach_tau * d_->act_dot[law.act] * input_bar);
    }
  }

  // as the rollout has it, before the ranges of tendons and actuators
  double raw_force(int i) const {
    const Law law(*this, i, 0);
    const int out = m_->actuator_outadr[i];
    const double* b = m_->actuator_biasprm + mjNBIAS * i;
    double bias = 0;
    if (m_->actuator_biastype[i] == mjBIAS_AFFINE) {
      bias = b[0] + b[1] * d_->actuator_length[out] + b[2] * d_->actuator_velocity[out];
    } else if (m_->actuator_biastype[i] == mjBIAS_MUSCLE) {
      bias = muscle_bias(muscle_in(i, b, 0));
    }
    return law.gain.gain * law.input + bias;
  }

  // Cotangent of the force before ranges. A tendon's actuatorfrcrange scales all forces f on it,
  // where their sum T is beyond a bound R:  f' = f R/T,  f_bar_j = R/T (f'_bar_j - Σ f'_bar f / T).
  double force_cotangent(int i) const {
    const auto own = [&](int j) {
      return saturated(m_, d_, j) ? 0 : output_cotangent(d_, in_, m_->actuator_outadr[j], lambda());
    };
    const int tendon = m_->actuator_trnid[2 * i];
    if (m_->actuator_trntype[i] != mjTRN_TENDON || !m_->tendon_actfrclimited[tendon]) {
      return own(i);
    }
    double total = 0, weighted = 0;
    for (int j = 0; j < static_cast<int>(m_->nactuator); j++) {
      if (m_->actuator_trntype[j] != mjTRN_TENDON || m_->actuator_trnid[2 * j] != tendon) continue;
      if (actuator_disabled(m_, j)) continue;
      const double force = raw_force(j);
      total += force;
      weighted += own(j) * force;
    }
    const double low = m_->tendon_actfrcrange[2 * tendon],
                 high = m_->tendon_actfrcrange[2 * tendon + 1];
    if (total == 0 || (total >= low && total <= high)) return own(i);
    return (total < low ? low : high) / total * (own(i) - weighted / total);
  }

  // The short way through a tendon, by its rates alone: λ is λ itself, and the metric's JᵀJ fits D.
  bool passes_tendon(int i, bool metric) const {
    if (m_->actuator_trntype[i] != mjTRN_TENDON || masked_) return false;
    return !metric || workspace_.tendon.fits.D[static_cast<size_t>(m_->actuator_trnid[2 * i])];
  }
  double tendon_metric(int i, double weight) {
    const int tendon = m_->actuator_trnid[2 * i];
    const double gear = m_->actuator_gear[6 * m_->actuator_outadr[i]];
    TendonBar& bar = workspace_.tendon.bars[static_cast<size_t>(tendon)];
    const double J_mu = tendon_rate(m_, d_, tendon, in_.mu),
                 J_b = tendon_rate(m_, d_, tendon, in_.b);
    bar.rate[TendonBar::kMu] += weight * gear * gear * J_b;
    bar.rate[TendonBar::kB] += weight * gear * gear * J_mu;
    return gear * gear * J_mu * J_b;
  }
  // metric is the value of the metric's term, quadratic in gear
  void tendon_transmission(int i, double length_bar, double velocity_bar, double metric) {
    const int out = m_->actuator_outadr[i], tendon = m_->actuator_trnid[2 * i];
    const double gear = m_->actuator_gear[6 * out], force = d_->actuator_force[out];
    TendonBar& bar = workspace_.tendon.bars[static_cast<size_t>(tendon)];
    bar.length += gear * length_bar;
    bar.rate[TendonBar::kLambda] += gear * force;
    bar.rate[TendonBar::kV] += gear * velocity_bar;
    if (const Vec to = params_[Parameter::kActuatorGear]; !to.empty()) {
      to[6 * static_cast<size_t>(out)] +=
          length_bar * d_->ten_length[tendon] + force * tendon_rate(m_, d_, tendon, lambda()) +
          velocity_bar * d_->ten_velocity[tendon] + (gear == 0 ? 0 : 2 * metric / gear);
    }
  }

  // act_dot -> ctrl, act
  void activation(int i) {
    const int begin = m_->actuator_actadr[i], control = m_->actuator_ctrladr[i];
    if (begin < 0) return;
    for (int n = 0; n < m_->actuator_actnum[i]; n++) {
      const auto k = static_cast<size_t>(begin + n);
      double bar = act_dot_bar_[k];
      if (!in_.act_dot_bar.empty()) bar += in_.act_dot_bar[k];
      if (bar == 0) continue;
      int j = control;
      double ctrl_bar = 0;
      switch (m_->actuator_dyntype[i]) {
        case mjDYN_INTEGRATOR:
          // one activation per control, in the last slots
          j += n - (m_->actuator_actnum[i] - m_->actuator_ctrlnum[i]);
          ctrl_bar = bar;
          break;
        case mjDYN_MUSCLE: {
          const Vec dynprm = params_[Parameter::kActuatorDynprm];
          muscle_dynamics_pullback(
              {.ctrl = clamped_control(j),
               .act = d_->act[k],
               .prm = m_->actuator_dynprm + mjNDYN * i,
               .smoothing = impl_.muscle_smoothing},
              bar,
              {.ctrl = &ctrl_bar,
               .act = &bar_.act[k],
               .prm = dynprm.empty() ? nullptr : &dynprm[static_cast<size_t>(mjNDYN * i)]});
          break;
        }
        default:
          ctrl_bar = bar / time_constant(m_, i);
          bar_.act[k] -= ctrl_bar;
          add_time_constant(i,
                            -ctrl_bar * (clamped_control(j) - d_->act[k]) / time_constant(m_, i));
      }
      if (!control_clamped(m_, j, ctrl(j))) bar_.ctrl[static_cast<size_t>(j)] += ctrl_bar;
    }
  }

  // of filters; below MuJoCo's smallest number it is not the parameter
  void add_time_constant(int i, double tau_bar) {
    const Vec dynprm = params_[Parameter::kActuatorDynprm];
    if (dynprm.empty() || m_->actuator_dynprm[mjNDYN * i] <= mjMINVAL) return;
    dynprm[static_cast<size_t>(mjNDYN * i)] += tau_bar;
  }

  MuscleIn muscle_in(int i, const double* prm, double smoothing) const {
    const int out = m_->actuator_outadr[i];
    return {.length = d_->actuator_length[out],
            .velocity = d_->actuator_velocity[out],
            .lengthrange = m_->actuator_lengthrange + 2 * out,
            .acc0 = m_->actuator_acc0[out],
            .prm = prm,
            .smoothing = smoothing};
  }
  MuscleBar muscle_bar(int i, Vec prm, int width, double& length, double& velocity) const {
    const auto at = [](Vec bar, int k) {
      return bar.empty() ? nullptr : &bar[static_cast<size_t>(k)];
    };
    const int out = m_->actuator_outadr[i];
    return {.length = &length,
            .velocity = &velocity,
            .prm = at(prm, width * i),
            .lengthrange = at(params_[Parameter::kActuatorLengthrange], 2 * out),
            .acc0 = at(params_[Parameter::kActuatorAcc0], out)};
  }

  int last_activation(int i) const {
    return m_->actuator_actnum[i] > 0 ? m_->actuator_actadr[i] + m_->actuator_actnum[i] - 1 : -1;
  }
  double clamped_control(int j) const {
    const double u = ctrl(j);
    if (!control_clamped(m_, j, u)) return u;
    return std::clamp(u, m_->actuator_ctrlrange[2 * j], m_->actuator_ctrlrange[2 * j + 1]);
  }
  // a servo on a rotation takes the setpoint nearest to its length: the force says which. gradient:
  // the choice is not differentiated
  double wrapped(int i, double input, double length) const {
    if (m_->actuator_gaintype[i] != mjGAIN_FIXED || m_->actuator_biastype[i] != mjBIAS_AFFINE ||
        m_->actuator_trntype[i] == mjTRN_TENDON || saturated(m_, d_, i)) {
      return input;
    }
    const int out = m_->actuator_outadr[i];
    const double* b = m_->actuator_biasprm + mjNBIAS * i;
    const double gain = m_->actuator_gainprm[mjNGAIN * i];
    const double bias = b[0] + b[1] * length + b[2] * d_->actuator_velocity[out];
    return gain == 0 ? input : (d_->actuator_force[out] - bias) / gain;
  }

  const StageModel& impl_;
  const mjModel* m_;
  mjData* d_;
  const ActuationIn& in_;
  const ActuationBar& bar_;
  Sweep& sweep_;
  const ParameterBar& params_;
  Workspace& workspace_;
  size_t nv_;
  bool plain_allowed_;   // no parameter has a cotangent
  bool masked_ = false;  // some of λ is
  Vec act_dot_bar_;
};

}  // namespace

bool actuator_disabled(const mjModel* m, int i) {
  const int group = m->actuator_group[i];
  return group >= 0 && group < mjNGROUP && (m->opt.disableactuator & (1 << group));
}

bool control_clamped(const mjModel* m, int j, double u) {
  return m->actuator_ctrllimited[j] && !(m->opt.disableflags & mjDSBL_CLAMPCTRL) &&
         (u < m->actuator_ctrlrange[2 * j] || u > m->actuator_ctrlrange[2 * j + 1]);
}

double time_constant(const mjModel* m, int i) {
  return std::max(mjMINVAL, m->actuator_dynprm[mjNDYN * i]);
}

bool not_implicit(const mjModel* m, const mjData* d, int i) {
  if (saturated(m, d, i)) return true;
  return kSaturatedIsNotImplicit && (joint_saturated(m, d, i) || tendon_saturated(m, d, i));
}

double metric_form(const StageModel& impl, const ActuationIn& in, int out, double weight, Vec y,
                   Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  Vec moment = workspace.actuation.moment;
  const int begin = d->moment_rowadr[out], end = begin + d->moment_rownnz[out];
  for (int k = begin; k < end; k++) {
    moment[static_cast<size_t>(d->moment_colind[k])] = d->actuator_moment[k];
  }
  // moments that are zero here may have a derivative: with y all rows count
  double form = 0;
  const int nrow = y.empty() ? end - begin : impl.nv;
  for (int k = 0; k < nrow; k++) {
    const int row = y.empty() ? d->moment_colind[begin + k] : k;
    const auto r = static_cast<size_t>(row);
    const bool diagonal = metric_is_diagonal(m, row);
    double mb = 0, mm = 0;
    for (int n = m->D_rowadr[row]; n < m->D_rowadr[row] + m->D_rownnz[row]; n++) {
      const auto c = static_cast<size_t>(m->D_colind[n]);
      if (diagonal && c != r) continue;
      mb += moment[c] * in.b[c];
      mm += moment[c] * in.mu[c];
    }
    form += in.mu[r] * moment[r] * mb;
    if (!y.empty()) y[r] += weight * (in.mu[r] * mb + in.b[r] * mm);
  }
  for (int k = begin; k < end; k++) moment[static_cast<size_t>(d->moment_colind[k])] = 0;
  return form;
}

void velocity_pullback(const mjData* d, int out, double velocity_bar, Vec qvel_bar) {
  if (velocity_bar == 0) return;
  const int begin = d->moment_rowadr[out];
  for (int k = begin; k < begin + d->moment_rownnz[out]; k++) {
    qvel_bar[static_cast<size_t>(d->moment_colind[k])] += velocity_bar * d->actuator_moment[k];
  }
}

bool clamp_lambda(const mjModel* m, const mjData* d, CVec lambda, Vec masked) {
  std::copy(lambda.begin(), lambda.end(), masked.begin());
  bool any = false;
  for (int joint = 0; joint < static_cast<int>(m->njnt); joint++) {
    if (!m->jnt_actfrclimited[joint]) continue;
    const int dof = m->jnt_dofadr[joint];
    const double force = d->qfrc_actuator[dof];
    if (force > m->jnt_actfrcrange[2 * joint] && force < m->jnt_actfrcrange[2 * joint + 1])
      continue;
    masked[static_cast<size_t>(dof)] = 0;
    any = true;
  }
  return any;
}

void actuation_pullback(const StageModel& impl, const ActuationIn& in, const ActuationBar& bar,
                        Sweep& sweep, const ParameterBar& params, Workspace& workspace) {
  const mjModel* m = impl.mj();
  if (m->nactuator == 0) return;
  if (m->opt.disableflags & mjDSBL_ACTUATION) {
    // activations stay as they are
    for (size_t k = 0; k < in.act_next_bar.size() && in.act_from.empty(); k++) {
      bar.act[k] += in.act_next_bar[k];
    }
    return;
  }
  Pullback(impl, in, bar, sweep, params, workspace).run();
}

void next_activation_pullback(const mjModel* m, CVec act, CVec act_dot, const Matrix& act_next_bar,
                              Eigen::Ref<Matrix> act_bar, Matrix& act_dot_bar) {
  if (m->opt.disableflags & mjDSBL_ACTUATION) {
    act_bar += act_next_bar;
    return;
  }
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const int begin = m->actuator_actadr[i];
    const bool off = actuator_disabled(m, i);
    for (int j = begin; j < begin + m->actuator_actnum[i]; j++) {
      const auto k = static_cast<size_t>(j);
      const NextActivation next(m, i, act[k], off ? 0 : act_dot[k]);
      if (next.clamped) continue;
      act_bar.col(j) += act_next_bar.col(j);
      if (!off) act_dot_bar.col(j) += next.reach * act_next_bar.col(j);
    }
  }
}

bool has_controllers(const mjModel* m) {
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    if (is_controller(m, i)) return true;
  }
  return false;
}

std::string actuation_obstacle(const mjModel* m, int i) {
  if (is_controller(m, i) && m->actuator_trntype[i] == mjTRN_TENDON &&
      m->tendon_actfrclimited[m->actuator_trnid[2 * i]]) {
    return "a controller on a tendon with actuatorfrcrange";
  }
  if (m->actuator_trntype[i] == mjTRN_BODY) return "a body transmission (adhesion)";
  return "";
}

}  // namespace diffmj
