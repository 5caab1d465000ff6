#include "linearize/observation.h"

#include "adjoint/cotangents.h"
#include "adjoint/sensors.h"
#include "model/parameters.h"
#include "record/input.h"
#include "record/sensordata.h"
#include "setup/model_impl.h"

namespace diffmj {

ObservationPullback::ObservationPullback(const Model& model, const Trajectory& trajectory)
    : model_(model), trajectory_(trajectory), workspace_(model.impl()) {
  reset_data(model, trajectory.mocap_pos, trajectory.mocap_quat, *workspace_);
}

Gradient ObservationPullback::run(const Cotangents& cotangents, int i, Vec x_bar) {
  const ModelImpl& impl = model_.impl();
  Gradient out;
  SensorCotangents sensors(model_, trajectory_, cotangents, *workspace_);
  const CVec sensor_bar = sensors.at(i);
  bar_.params = {};
  if (!sensor_bar.empty() || pose_cotangents(trajectory_, cotangents, i).second) {
    for (const std::string& name : cotangents.params) {
      const ParameterField& field = parameter_field(name);
      std::vector<double>& to = out.params[name];
      to.assign(static_cast<size_t>(field.size(model_.mj())), 0.0);
      bar_.params.field[static_cast<size_t>(field.id)] = to;
    }
  }
  add_state_cotangents(model_, trajectory_, cotangents, i, true, x_bar, bar_.params, *workspace_);
  if (sensor_bar.empty()) return out;
  bar_.resize(impl, 1, false);
  workspace_->field_qacc.clear();
  state_sensors_pullback(impl, state_input(trajectory_, i), sensor_bar,
                         {bar_.x, bar_.ctrl, bar_.qfrc_applied, bar_.xfrc_applied, bar_.params},
                         *workspace_);
  eigen(x_bar) += bar_.x.row(0).transpose();
  return out;
}

}  // namespace diffmj
