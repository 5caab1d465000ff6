// include/diffmj/gradient.h
#include <nanobind/stl/pair.h>

#include "bind.h"
#include "diffmj/gradient.h"

namespace diffmj::python {
namespace {

using Numbers = nb::ndarray<nb::numpy, double>;

// One field of every gradient: batch x size, the numbers of each in a row.
auto field(std::vector<double> Gradient::*member) {
  return [member](const GradientBatch& batch) {
    const size_t size = batch.items.empty() ? 0 : (batch.items[0].*member).size();
    std::vector<double> all;
    all.reserve(batch.items.size() * size);
    for (const Gradient& gradient : batch.items) {
      all.insert(all.end(), (gradient.*member).begin(), (gradient.*member).end());
    }
    return new_array(std::move(all), {batch.items.size(), size});
  };
}

}  // namespace

void bind_gradient(nb::module_& m) {
  nb::class_<GradientBatch>(m, "GradientBatch", "Gradients of rollouts: batch x size.")
      .def_prop_ro("qpos", field(&Gradient::qpos), kOwner)
      .def_prop_ro("qpos_tangent", field(&Gradient::qpos_tangent), kOwner)
      .def_prop_ro("qvel", field(&Gradient::qvel), kOwner)
      .def_prop_ro("act", field(&Gradient::act), kOwner)
      .def_prop_ro("ctrl", field(&Gradient::ctrl), kOwner)
      .def_prop_ro("qfrc_applied", field(&Gradient::qfrc_applied), kOwner)
      .def_prop_ro("xfrc_applied", field(&Gradient::xfrc_applied), kOwner);

  m.def(
      "rollout_pullback",
      [](const Model& model, const TrajectoryBatch& batch, Rows qpos, Rows qpos_tangent, Rows qvel,
         Rows act) {
        Signals signals;
        return signals.run([&] {
          const Cotangents cotangents = {.qpos = row(qpos, 0),
                                         .qpos_tangent = row(qpos_tangent, 0),
                                         .qvel = row(qvel, 0),
                                         .act = row(act, 0)};
          GradientBatch out;
          out.items.push_back(
              rollout_pullback(model, batch.items.at(0), cotangents, signals.options(1)));
          return out;
        });
      },
      "model"_a, "trajectory"_a, nb::kw_only(), "qpos"_a = nb::none(),
      "qpos_tangent"_a = nb::none(), "qvel"_a = nb::none(), "act"_a = nb::none(),
      "Pullback of a single rollout.");
  m.def(
      "rollout_pullback_batch",
      [](const Model& model, const TrajectoryBatch& batch, Rows qpos, Rows qpos_tangent, Rows qvel,
         Rows act, int nthread) {
        Signals signals;
        return signals.run([&] {
          std::vector<Cotangents> cotangents;
          for (size_t i = 0; i < batch.items.size(); i++) {
            cotangents.push_back({.qpos = row(qpos, i),
                                  .qpos_tangent = row(qpos_tangent, i),
                                  .qvel = row(qvel, i),
                                  .act = row(act, i)});
          }
          return GradientBatch{
              rollout_pullback_batch(model, batch.items, cotangents, signals.options(nthread))};
        });
      },
      "model"_a, "trajectories"_a, nb::kw_only(), "qpos"_a = nb::none(),
      "qpos_tangent"_a = nb::none(), "qvel"_a = nb::none(), "act"_a = nb::none(), "nthread"_a = 0,
      "Pullbacks of a batch, on a pool of threads.");
  m.def(
      "linearize",
      [](const Model& model, const InputArrays& inputs) {
        Linearization out;
        {
          const nb::gil_scoped_release no_gil;
          out = linearize(model, inputs.at(0));
        }
        const auto n = static_cast<size_t>(model.ntangent());
        return std::pair<Numbers, Numbers>(
            new_array(std::move(out.A), {n, n}),
            new_array(std::move(out.B), {n, static_cast<size_t>(model.nu())}));
      },
      "model"_a, "inputs"_a, "A and B of one step.");
}

}  // namespace diffmj::python
