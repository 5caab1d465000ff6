// include/diffmj/linearize.h
#include <nanobind/stl/tuple.h>

#include "bind.h"
#include "diffmj/linearize.h"

namespace diffmj::python {
namespace {

using Numbers = nb::ndarray<nb::numpy, double>;

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Of a batch, which of its rollouts failed.
void require_ok(const char* who, const TrajectoryBatch& batch) {
  for (size_t i = 0; i < batch.items.size() && batch.items.size() > 1; i++) {
    if (batch.items[i].ok()) continue;
    throw InputError(std::string(who) + ": rollout " + std::to_string(i) +
                     " of the batch did not reach its last step: " + batch.items[i].message);
  }
}

std::tuple<Numbers, Numbers, Numbers, Numbers> linearize_inputs(const Model& model,
                                                                const InputArrays& arrays,
                                                                size_t batch, bool sensors,
                                                                std::optional<int> nthread) {
  Signals signals;
  Linearization all;
  signals.run([&] {
    std::vector<RolloutInput> inputs;
    for (size_t i = 0; i < batch; i++) inputs.push_back(arrays.at(i));
    const std::vector<Linearization> each =
        batch == 1 ? std::vector{linearize(model, inputs[0], sensors)}
                   : linearize_batch(model, inputs, sensors, signals.options(nthread));
    for (const Linearization& one : each) {
      append(all.A, one.A);
      append(all.B, one.B);
      append(all.C, one.C);
      append(all.D, one.D);
    }
    return 0;
  });
  const auto n = static_cast<size_t>(model.ntangent()), nu = static_cast<size_t>(model.nu()),
             ny = sensors ? static_cast<size_t>(model.nsensordata()) : 0;
  return {new_array(std::move(all.A), {batch, n, n}), new_array(std::move(all.B), {batch, n, nu}),
          new_array(std::move(all.C), {batch, ny, n}),
          new_array(std::move(all.D), {batch, ny, nu})};
}

std::tuple<Numbers, Numbers, Numbers> linearize_trajectories(const Model& model,
                                                             const TrajectoryBatch& batch,
                                                             std::optional<int> nthread,
                                                             const std::vector<Model>& models) {
  require_ok("linearize", batch);
  Signals signals;
  TrajectoryLinearization all;
  signals.run([&] {
    const ModelOf model_of(model, models);
    for (size_t i = 0; i < batch.items.size(); i++) {
      const TrajectoryLinearization one =
          linearize(model_of(i), batch.items[i], signals.options(nthread));
      append(all.A, one.A);
      append(all.B, one.B);
      append(all.B_end, one.B_end);
    }
    return 0;
  });
  const auto n = static_cast<size_t>(model.ntangent()), nu = static_cast<size_t>(model.nu()),
             rows = static_cast<size_t>(batch.nstep), count = batch.items.size();
  const size_t end = all.B_end.empty() ? 0 : rows;
  return {new_array(std::move(all.A), {count, rows, n, n}),
          new_array(std::move(all.B), {count, rows, n, nu}),
          new_array(std::move(all.B_end), {count, end, n, nu})};
}

std::tuple<Numbers, Numbers, Numbers> push_forward(const Model& model, const TrajectoryBatch& batch,
                                                   int count,
                                                   const std::map<std::string, RowArray>& rows,
                                                   const std::map<std::string, RowArray>& params,
                                                   std::optional<int> nthread,
                                                   const std::vector<Model>& models) {
  require_ok("forward", batch);
  Signals signals;
  TrajectoryTangents all;
  signals.run([&] {
    const ModelOf model_of(model, models);
    for (size_t i = 0; i < batch.items.size(); i++) {
      const auto given = [&](const char* name) {
        const auto found = rows.find(name);
        return found == rows.end() ? std::span<const double>() : row(found->second, i);
      };
      Tangents tangents{.count = count,
                        .qpos_tangent = given("qpos_tangent"),
                        .qvel = given("qvel"),
                        .act = given("act"),
                        .ctrl = given("ctrl"),
                        .qfrc_applied = given("qfrc_applied")};
      for (const auto& [name, values] : params) tangents.params[name] = row(values, i);
      const TrajectoryTangents one =
          rollout_pushforward(model_of(i), batch.items[i], tangents, signals.options(nthread));
      append(all.qpos_tangent, one.qpos_tangent);
      append(all.qvel, one.qvel);
      append(all.act, one.act);
    }
    return 0;
  });
  const auto n = static_cast<size_t>(count), nrow = static_cast<size_t>(batch.nstep + 1),
             nv = static_cast<size_t>(model.nv()), na = static_cast<size_t>(model.na()),
             size = batch.items.size();
  return {new_array(std::move(all.qpos_tangent), {size, n, nrow, nv}),
          new_array(std::move(all.qvel), {size, n, nrow, nv}),
          new_array(std::move(all.act), {size, n, nrow, na})};
}

}  // namespace

void bind_linearize(nb::module_& m) {
  m.def("linearize", &linearize_inputs, "model"_a, "inputs"_a, "batch"_a, "sensors"_a,
        "nthread"_a.none(),
        "A and B of one step for every input, and C and D of the sensors at its start, if they are "
        "asked for.");
  m.def("linearize_trajectories", &linearize_trajectories, "model"_a, "trajectories"_a,
        "nthread"_a.none(), "models"_a,
        "A and B of every step, and by the controls of the next row; models: one each.");
  m.def("rollout_pushforward", &push_forward, "model"_a, "trajectories"_a, "count"_a, "rows"_a,
        "params"_a, "nthread"_a.none(), "models"_a,
        "Tangents of qpos, qvel and act at every state; models: one each.");
}

}  // namespace diffmj::python
