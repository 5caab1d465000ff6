// linearize(): A and B of one step and of the steps of a trajectory, C and D of sensors.
#include "diffmj/linearize.h"

#include <algorithm>

#include "adjoint/sensors.h"
#include "base/require.h"
#include "diffmj/error.h"
#include "linearize/jacobians.h"
#include "mj/callbacks.h"
#include "record/adaptive.h"
#include "record/input.h"
#include "record/sensordata.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"
#include "stages/sensors/sensors.h"

namespace diffmj {
namespace {

std::vector<double> numbers(const Matrix& x) { return {x.data(), x.data() + x.size()}; }

void require_sensors(const Model& model) {
  for (int i = 0; i < static_cast<int>(model.mj()->nsensor); i++) {
    const std::string why = sensor_obstacle(model.impl(), i);
    if (why.empty()) continue;
    throw UnsupportedError("linearize: " + sensor_name(model.mj(), i) +
                           " has no derivative: " + why);
  }
}

// C and D at the start of the trajectory, one row at a time
void linearize_sensors(const Model& model, const Trajectory& t, Linearization& out,
                       Workspace& workspace) {
  const ModelImpl& impl = model.impl();
  const mjModel* m = model.mj();
  const auto width = static_cast<size_t>(m->nsensordata);
  std::vector<double> values(width), unit(width);
  evaluate_sensors_at(model, state_input(t, 0), workspace);
  std::copy_n(workspace.data->sensordata, width, values.begin());
  StepBar one;
  for (size_t k = 0; k < width; k++) {
    std::fill(unit.begin(), unit.end(), 0.0);
    unit[k] = 1;
    mask_cutoff(m, values, unit);
    one.resize(impl, 1, false);
    state_sensors_pullback(impl, state_input(t, 0), unit,
                           {one.x, one.ctrl, one.qfrc_applied, one.xfrc_applied}, workspace);
    out.C.insert(out.C.end(), one.x.data(), one.x.data() + one.x.size());
    out.D.insert(out.D.end(), one.ctrl.data(), one.ctrl.data() + one.ctrl.size());
  }
}

Linearization linearize_one(const std::string& who, const Model& model, const RolloutInput& input,
                            bool sensors) {
  const ModelImpl& impl = model.impl();
  StopSignal never({});
  require_no_callbacks("linearize");
  require_input(who, model, input, 1);
  const Trajectory t = model.is_adaptive() ? adaptive_rollout(model, input, 1, nullptr, true, never)
                                           : rollout(model, input, 1);
  if (!t.ok()) throw InputError(who + ": the step failed: " + t.message);
  Linearization out;
  for_each_jacobian(
      model, t, {}, {.applied = false}, 1, never, [&](int, const StepJacobian& jacobian) {
        out.A = numbers(jacobian.A);
        out.B = numbers(model.is_adaptive() ? Matrix(jacobian.B + jacobian.B_end) : jacobian.B);
      });
  if (sensors) {
    WorkspaceLease workspace(impl);
    reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
    workspace->field_qacc.clear();
    linearize_sensors(model, t, out, *workspace);
  }
  return out;
}

}  // namespace

Linearization linearize(const Model& model, const RolloutInput& input, bool sensors) {
  if (sensors) require_sensors(model);
  return linearize_one("linearize", model, input, sensors);
}

std::vector<Linearization> linearize_batch(const Model& model, std::span<const RolloutInput> inputs,
                                           bool sensors, const RolloutOptions& options) {
  if (sensors) require_sensors(model);
  std::vector<Linearization> out(inputs.size());
  StopSignal stop(options.interrupted, options.progress);
  parallel_for(static_cast<int>(inputs.size()), options.nthread, stop, [&](int i, StopSignal& s) {
    if (s.poll(0)) return;
    const auto k = static_cast<size_t>(i);
    out[k] = linearize_one("linearize, input " + std::to_string(i) + " of the batch", model,
                           inputs[k], sensors);
  });
  if (stop.stopped()) throw Interrupted("linearize: interrupted");
  return out;
}

TrajectoryLinearization linearize(const Model& model, const Trajectory& t,
                                  const RolloutOptions& options) {
  require_no_callbacks("linearize");
  require_trajectory("linearize", model, t);
  const auto n = static_cast<size_t>(model.ntangent()), nu = static_cast<size_t>(model.nu()),
             nstep = static_cast<size_t>(t.nstep);
  const bool linear = model.is_adaptive() && model.options().adaptive.control == Control::kLinear;
  require_memory("linearize", 8.0 * static_cast<double>(nstep * n * (n + (linear ? 2 : 1) * nu)));
  TrajectoryLinearization out;
  out.A.resize(nstep * n * n);
  out.B.resize(nstep * n * nu);
  if (linear) out.B_end.resize(nstep * n * nu);
  StopSignal stop(options.interrupted, options.progress);
  for_each_jacobian(
      model, t, {}, {.applied = false}, options.nthread, stop,
      [&](int i, const StepJacobian& jacobian) {
        const auto k = static_cast<ptrdiff_t>(i);
        std::copy_n(jacobian.A.data(), jacobian.A.size(), out.A.begin() + k * jacobian.A.size());
        std::copy_n(jacobian.B.data(), jacobian.B.size(), out.B.begin() + k * jacobian.B.size());
        if (!linear) return;
        std::copy_n(jacobian.B_end.data(), jacobian.B_end.size(),
                    out.B_end.begin() + k * jacobian.B_end.size());
      });
  if (stop.stopped()) throw Interrupted("linearize: interrupted");
  return out;
}

}  // namespace diffmj
