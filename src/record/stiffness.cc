#include "record/stiffness.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace diffmj {
namespace {

// What is worth a warning: so much of the time, and so many steps, also for each interval. What
// decays has no part in the motion after so many of its time constants, and costs steps for
// nothing; an oscillation has one, and is worth a warning if it costs very many.
constexpr double kShare = 0.25, kPerInterval = 2, kTimeConstants = 20;
constexpr int kCount = 50, kVeryMany = 1000;
// Constant steps beyond the limit: perturbations grow by so much more than the motion lets them.
const double kGrowth = std::log(10.0);

// Of the limit, which is 0.9 of where perturbations begin to grow.
constexpr double kStretch = 1.03;

std::string short_number(double x) { return text("%.3g", x); }

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
  // equal steps to the end of the interval, one less where they need not be much longer for that
  const double left = in.end - start.time, n = std::ceil(left / (kStretch * stability_.limit()));
  return std::min(left / std::max(n, 1.0), h);
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
  const StiffCause cause = find_cause(model_, mode_, workspace_);
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
          "; use integrator=\"auto\", which has implicit steps, MuJoCo's implicit integrator "
          "(integrator=\"model\" where the model has it, or \"implicitfast\"), " +
          cause.remedy + ", or more armature";
  if (constant) text += ", a smaller step, or adjoint=\"interpolated\"";
  warnings.push_back({.text = text,
                      .first_step = first_,
                      .count = static_cast<int>(count_),
                      .kind = WarningKind::kStiff});
}

}  // namespace diffmj
