#include "harness/stage_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "harness/tolerances.h"
#include "setup/model_impl.h"
#include "stages/acceleration/inverse_dynamics.h"

namespace diffmj {
namespace {

// unit vectors of a field that moved
void normalize(const mjModel* m, const ParameterField& field, mjtNum* data) {
  if (field.kind == ParameterKind::kUnit) {
    for (int row = 0; row < field.nrow(m); row++)
      mju_normalize(data + field.width * row, field.width);
  } else if (field.kind == ParameterKind::kQpos) {
    mj_normalizeQuat(m, data);
  }
}

void sum_masses(mjModel* m) {
  mju_copy(m->body_subtreemass, m->body_mass, static_cast<int>(m->nbody));
  for (int body = static_cast<int>(m->nbody) - 1; body > 0; body--) {
    m->body_subtreemass[m->body_parentid[body]] += m->body_subtreemass[body];
  }
}

}  // namespace

Vector wave(size_t n, double offset) {
  Vector x(n);
  for (size_t i = 0; i < n; i++) x[i] = std::sin(offset + 1.7 * static_cast<double>(i));
  return x;
}

Scene scene_from_xml(const std::string& mjcf, const ModelOptions& options) {
  const Model model = Model::from_xml(mjcf, options);
  Vector shift = wave(static_cast<size_t>(model.ntangent()), 0.6);
  for (double& value : shift) value *= 0.7;
  return {.name = "xml",
          .model = model,
          .x = plus(model, default_state(model), shift),
          .ctrl = wave(static_cast<size_t>(model.nu()), 0.5)};
}

std::vector<std::string> analytic_zoo_names() {
  std::vector<std::string> names;
  for (const std::string& name : zoo_names()) {
    if (analytic_zoo(name).model.gradient_path() == GradientPath::kAnalytic) names.push_back(name);
  }
  return names;
}

Scene analytic_zoo(const std::string& name) {
  return without_constraints(zoo(name), {.integrator = Integrator::kEuler});
}

Stage::Stage(const Scene& from, const std::vector<Parameter>& parameters)
    : scene(from),
      model(movable_copy(from.model.mj())),
      workspace(from.model.impl(), from.model.impl().nplace()),
      m(model.get()),
      d(workspace.data.get()),
      sweep(workspace.sweep),
      qacc(wave(static_cast<size_t>(from.model.nv()), 0.3)),
      size_(static_cast<size_t>(from.model.ntangent() + from.model.nu())) {
  for (const Parameter id : parameters) {
    const ParameterField& field = parameter_fields()[static_cast<size_t>(id)];
    const mjtNum* data = field.data(m);
    moved_.push_back({.field = &field, .begin = size_, .original = {data, data + field.size(m)}});
    size_ += moved_.back().original.size();
  }
  std::copy(from.mocap_pos.begin(), from.mocap_pos.end(), d->mocap_pos);
  std::copy(from.mocap_quat.begin(), from.mocap_quat.end(), d->mocap_quat);
}

void Stage::set(const Vector& z) {
  const auto ntangent = static_cast<size_t>(scene.model.ntangent());
  x = plus(scene.model, scene.x, std::span(z).first(ntangent));
  ctrl = scene.ctrl;
  for (size_t i = 0; i < ctrl.size(); i++) ctrl[i] += z[ntangent + i];
  for (const Moved& moved : moved_) {
    mjtNum* data = moved.field->data(m);
    // the world is no body to move
    const auto world =
        static_cast<size_t>(std::strcmp(moved.field->rows, "nbody") == 0 ? moved.field->width : 0);
    for (size_t i = world; i < moved.original.size(); i++)
      data[i] = moved.original[i] + z[moved.begin + i];
    normalize(m, *moved.field, data);
    if (moved.field->id == Parameter::kBodyMass) sum_masses(m);
  }
  write_input(m, d, input());
  mj_kinematics(m, d);
  mj_comPos(m, d);
}

StepInput Stage::input() const {
  StepInput in;
  in.qpos = x.qpos;
  in.qvel = x.qvel;
  in.act = x.act;
  in.ctrl = ctrl;
  return in;
}

void Stage::begin_sweep() {
  body_accelerations(m, d, x.qvel, qacc, effective_gravity(m), sweep);
  sweep.clear();
}

StageBar::StageBar(const Stage& stage, Vec z_bar) {
  size_t begin = 0;
  const auto part = [&](int size) {
    begin += static_cast<size_t>(size);
    return z_bar.subspan(begin - static_cast<size_t>(size), static_cast<size_t>(size));
  };
  const Model& model = stage.scene.model;
  qpos = part(model.nv());
  qvel = part(model.nv());
  act = part(model.na());
  ctrl = part(model.nu());
  for (const Stage::Moved& moved : stage.moved_) {
    params.field[static_cast<size_t>(moved.field->id)] =
        part(static_cast<int>(moved.original.size()));
  }
}

::testing::AssertionResult check_stage(const Scene& scene, const StageForward& forward,
                                       const StagePullback& pullback,
                                       const CheckStageOptions& options) {
  Stage stage(scene, options.parameters);
  return check_stage(stage, forward, pullback, options);
}

::testing::AssertionResult check_stage(Stage& stage, const StageForward& forward,
                                       const StagePullback& pullback,
                                       const CheckStageOptions& options) {
  size_t allocated = 0;
  const Operation op = {
      .forward =
          [&](const Vector& z) {
            stage.set(z);
            return forward(stage);
          },
      .pullback =
          [&](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            stage.set(z);
            (void)forward(stage);
            const StageBar bar(stage, z_bar);
            const size_t before = allocations();
            stage.begin_sweep();
            pullback(stage, y_bar, bar);
            kinematics_pullback(stage.m, stage.d, stage.sweep, bar.qpos, bar.qvel, bar.params);
            allocated = allocations() - before;
          },
  };
  const double tolerance = options.tolerance < 0 ? tolerances().smooth : options.tolerance;
  const auto result = check_pullback(op, Vector(stage.size()), stage.size(),
                                     {.tolerance = tolerance,
                                      .smallest = 1e-2,
                                      .step = options.step,
                                      .levels = options.levels,
                                      .directions = options.directions,
                                      .seed = options.seed});
  if (result && allocated > 0) {
    return ::testing::AssertionFailure() << "the pullback allocates " << allocated << " times";
  }
  return result;
}

}  // namespace diffmj
