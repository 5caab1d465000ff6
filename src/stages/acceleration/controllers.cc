// Pullback of controllers by differences.
//
//   ψ = force_bar · force + act_dot_bar · act_dot + act_next_bar · act_next
//
// of every one of them is a function of its own length, velocity, ctrl and act alone. Slot k of all
// is moved at once.
#include <algorithm>
#include <cmath>

#include "mj/call.h"
#include "stages/acceleration/actuation_internal.h"
#include "stages/evaluate_stages.h"
#include "stages/position/transmission.h"
#include "stages/probes.h"

namespace diffmj {
namespace {

// ∂force/∂velocity of a controller, as implicit integrators take it: a constant of the model
double controller_slope(const mjModel* m, int i) {
  const double *g = m->actuator_gainprm + mjNGAIN * i, *dyn = m->actuator_dynprm + mjNDYN * i;
  const int bias = m->actuator_biastype[i];
  double slope =
      bias == mjBIAS_AFFINE || bias == mjBIAS_SO3 ? m->actuator_biasprm[mjNBIAS * i + 2] : 0;
  if (m->actuator_gaintype[i] != mjGAIN_DCMOTOR) return slope;

  // resistance R, motor constant K; a controller damps through the voltage and compensates back-EMF
  const double R = std::max(mjMINVAL, g[0]), K = g[1], tau = dyn[0];
  const bool setpoint = m->actuator_ctrlspec[i] & (mjINPUT_POS | mjINPUT_VEL | mjINPUT_FF);
  const double voltage_slope = setpoint ? K - g[6] * R / K : 0;
  if (tau > 0) {
    // the current is integrated exactly over the step before it acts
    slope += K * (voltage_slope - K) * (1 - std::exp(-m->opt.timestep / tau)) / R;
  } else {
    slope += K * voltage_slope / R;
    if (bias == mjBIAS_DCMOTOR) slope -= K * K / R;
  }
  return slope - std::max(0.0, dyn[6]);  // the bristles' damping
}

class Controllers {
 public:
  Controllers(const StageModel& impl, const ActuationIn& in, const ActuationBar& bar, Sweep& sweep,
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
        length_bar_(workspace.actuation.length_bar),
        velocity_bar_(workspace.actuation.velocity_bar) {}

  void run();

 private:
  CVec lambda() const { return workspace_.actuation.lambda; }
  double psi(int i) const;
  void evaluate();
  // where an input is, the step that moves it, and how far from it the centre lies
  struct Slot {
    double *at, h, shift;
  };
  static double scaled(double h, double x) { return h * std::max(1.0, std::abs(x)); }
  template <class SlotOf, class To>
  void difference(int slots, SlotOf&& slot, To&& to);
  // Cotangents of outputs, and what the most of inputs of one controller are.
  void begin();
  void lengths_and_velocities();
  void controls_and_activations();
  // To q and v, of controller i.
  void transmit(int i);

  const StageModel& impl_;
  const mjModel* m_;
  mjData* d_;
  const ActuationIn& in_;
  const ActuationBar& bar_;
  Sweep& sweep_;
  const ParameterBar& params_;
  Workspace& workspace_;
  size_t nv_;
  Vec length_bar_, velocity_bar_;  // nout
  int most_out_ = 0, most_ctrl_ = 0, most_act_ = 0;
};

double Controllers::psi(int i) const {
  double sum = 0;
  for (int k = 0; k < m_->actuator_outnum[i]; k++) {
    const int out = m_->actuator_outadr[i] + k;
    sum += workspace_.actuation.force_bar[static_cast<size_t>(out)] * d_->actuator_force[out];
  }
  const int begin = m_->actuator_actadr[i];
  for (int j = begin; j < begin + m_->actuator_actnum[i]; j++) {
    const auto k = static_cast<size_t>(j);
    if (!in_.act_dot_bar.empty()) sum += in_.act_dot_bar[k] * workspace_.actuation.act_dot[k];
    if (!in_.act_next_bar.empty()) {
      sum += in_.act_next_bar[k] * workspace_.probes.probe.act_next[static_cast<Eigen::Index>(k)];
    }
  }
  return sum;
}

void Controllers::evaluate() {
  mj_call("mj_fwdActuation", [&] { mj_fwdActuation(m_, d_); });
  Vec act = workspace_.actuation.act, act_dot = workspace_.actuation.act_dot;
  std::copy(d_->act_dot, d_->act_dot + impl_.na, act_dot.begin());
  if (in_.act_next_bar.empty()) return;
  if (!in_.act_from.empty()) {
    std::copy(d_->act, d_->act + impl_.na, act.begin());
    std::copy(in_.act_from.begin(), in_.act_from.end(), d_->act);
    std::copy(in_.act_dot_from.begin(), in_.act_dot_from.end(), d_->act_dot);
  }
  advance_with_force(impl_, m_, {}, workspace_.probes.probe.b, workspace_.probes.probe.act_next,
                     workspace_);
  if (!in_.act_from.empty()) std::copy(act.begin(), act.end(), d_->act);
}

// slot(i, k) is where input k of actuator i is and how far from it the centre lies; nullptr: it has
// none
template <class SlotOf, class To>
void Controllers::difference(int slots, SlotOf&& slot, To&& to) {
  constexpr double kStep = 1e-6;
  const int n = static_cast<int>(m_->nactuator);
  for (int k = 0; k < slots; k++) {
    bool any = false;
    const auto move = [&](double side) {
      for (int i = 0; i < n; i++) {
        if (!is_controller(m_, i)) continue;
        const auto [at, h, shift] = slot(i, k, kStep);
        if (at) *at += shift + side * h;
        any = any || at;
      }
    };
    // a slot is read before it moves: the step that was taken is kept beside it
    Vec sizes = workspace_.actuation.step, centers = workspace_.actuation.center;
    for (int i = 0; i < n; i++) {
      if (!is_controller(m_, i)) continue;
      const auto [at, h, shift] = slot(i, k, kStep);
      sizes[static_cast<size_t>(i)] = at ? h : 0;
      centers[static_cast<size_t>(i)] = at ? *at : 0;
    }
    const auto restore = [&] {
      for (int i = 0; i < n; i++) {
        if (!is_controller(m_, i)) continue;
        const auto [at, h, shift] = slot(i, k, kStep);
        if (at) *at = centers[static_cast<size_t>(i)];
      }
    };
    Vec plus = workspace_.actuation.psi;
    move(1);
    if (!any) continue;
    evaluate();
    for (int i = 0; i < n; i++) plus[static_cast<size_t>(i)] = is_controller(m_, i) ? psi(i) : 0;
    restore();
    move(-1);
    evaluate();
    restore();
    for (int i = 0; i < n; i++) {
      const auto j = static_cast<size_t>(i);
      if (!is_controller(m_, i) || sizes[j] == 0) continue;
      to(i, k, (plus[j] - psi(i)) / (2 * sizes[j]));
    }
  }
}

void Controllers::run() {
  begin();
  lengths_and_velocities();
  controls_and_activations();
  mj_call("mj_fwdActuation", [&] { mj_fwdActuation(m_, d_); });
  for (int i = 0; i < static_cast<int>(m_->nactuator); i++) {
    if (is_controller(m_, i) && !actuator_disabled(m_, i)) transmit(i);
  }
}

void Controllers::begin() {
  Vec force_bar = workspace_.actuation.force_bar, force = workspace_.actuation.force;
  for (int i = 0; i < static_cast<int>(m_->nactuator); i++) {
    if (!is_controller(m_, i)) continue;
    most_out_ = std::max(most_out_, m_->actuator_outnum[i]);
    most_ctrl_ = std::max(most_ctrl_, m_->actuator_ctrlnum[i]);
    most_act_ = std::max(most_act_, m_->actuator_actnum[i]);
    for (int k = 0; k < m_->actuator_outnum[i]; k++) {
      const int out = m_->actuator_outadr[i] + k;
      const auto o = static_cast<size_t>(out);
      force_bar[o] = actuator_disabled(m_, i) ? 0 : output_cotangent(d_, in_, out, lambda());
      length_bar_[o] = velocity_bar_[o] = 0;
      force[o] = d_->actuator_force[out];
    }
  }
}

void Controllers::lengths_and_velocities() {
  const auto by_output = [&](double* x, Vec bar) {
    difference(
        most_out_,
        [&](int i, int k, double h) {
          double* at = k < m_->actuator_outnum[i] ? x + m_->actuator_outadr[i] + k : nullptr;
          return Slot{at, at ? scaled(h, *at) : 0, 0};
        },
        [&](int i, int k, double value) {
          bar[static_cast<size_t>(m_->actuator_outadr[i] + k)] = value;
        });
  };
  by_output(d_->actuator_length, length_bar_);
  by_output(d_->actuator_velocity, velocity_bar_);
}

void Controllers::controls_and_activations() {
  difference(
      most_ctrl_,
      [&](int i, int k, double h) {
        if (k >= m_->actuator_ctrlnum[i]) return Slot{nullptr, 0, 0};
        const int j = m_->actuator_ctrladr[i] + k;
        const double step = scaled(h, control_value(*in_.in, j));
        return Slot{d_->ctrl + j, step, control_shift(impl_, j, control_value(*in_.in, j), step)};
      },
      [&](int i, int k, double bar) {
        bar_.ctrl[static_cast<size_t>(m_->actuator_ctrladr[i] + k)] += bar;
      });
  difference(
      most_act_,
      [&](int i, int k, double h) {
        if (k >= m_->actuator_actnum[i]) return Slot{nullptr, 0, 0};
        const int j = m_->actuator_actadr[i] + k;
        return Slot{d_->act + j, h,
                    activation_shift(impl_, j, in_.in->act[static_cast<size_t>(j)], h)};
      },
      [&](int i, int k, double bar) {
        bar_.act[static_cast<size_t>(m_->actuator_actadr[i] + k)] += bar;
      });
}

void Controllers::transmit(int i) {
  Vec y = workspace_.actuation.y;
  const Vec force = workspace_.actuation.force;
  const auto out0 = static_cast<size_t>(m_->actuator_outadr[i]);
  const auto nout = static_cast<size_t>(m_->actuator_outnum[i]);
  // their slope in velocity, as implicit integrators take it, is a constant
  const double slope = controller_slope(m_, i);
  for (size_t k = 0; k < nout; k++) {
    Vec yk = y.subspan(k * nv_, nv_);
    eigen(yk) = force[out0 + k] * eigen(lambda()) + velocity_bar_[out0 + k] * eigen(in_.in->qvel);
    if (!in_.mu.empty() && slope != 0 && !not_implicit(m_, d_, i)) {
      metric_form(impl_, in_, static_cast<int>(out0 + k), in_.h * slope, yk, workspace_);
    }
    velocity_pullback(d_, static_cast<int>(out0 + k), velocity_bar_[out0 + k], bar_.qvel);
  }
  transmission_pullback(m_, d_, i, CVec(length_bar_).subspan(out0, nout), y, bar_.qpos, sweep_,
                        params_);
}

}  // namespace

bool is_controller(const mjModel* m, int i) {
  return m->actuator_dyntype[i] == mjDYN_DCMOTOR || m->actuator_dyntype[i] == mjDYN_PID ||
         m->actuator_gaintype[i] == mjGAIN_DCMOTOR || m->actuator_gaintype[i] == mjGAIN_PID ||
         m->actuator_gaintype[i] == mjGAIN_SO3;
}

void controllers_pullback(const StageModel& impl, const ActuationIn& in, const ActuationBar& bar,
                          Sweep& sweep, const ParameterBar& params, Workspace& workspace) {
  Controllers(impl, in, bar, sweep, params, workspace).run();
}

}  // namespace diffmj
