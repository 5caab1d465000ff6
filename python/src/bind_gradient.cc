// include/diffmj/gradient.h
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <map>
#include <string>

#include "bind.h"
#include "diffmj/gradient.h"

namespace diffmj::python {
namespace {

using Numbers = nb::ndarray<nb::numpy, double>;

// Cotangents of the constraint forces of one rollout: the numbers of a step by its number.
using ForceRows =
    std::map<size_t, nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;

// batch x nstep x nefc; steps that are not there are empty
std::vector<std::vector<std::vector<double>>> by_step(const std::vector<ForceRows>& batch,
                                                      size_t nstep) {
  std::vector<std::vector<std::vector<double>>> out;
  for (const ForceRows& rows : batch) {
    std::vector<std::vector<double>>& steps = out.emplace_back(nstep);
    for (const auto& [step, x] : rows) steps.at(step).assign(x.data(), x.data() + x.size());
  }
  return out;
}

// One field of every gradient, get(gradient): batch x size, the numbers of each in a row.
template <class Get>
Numbers side_by_side(const GradientBatch& batch, Get get) {
  const size_t size = batch.items.empty() ? 0 : get(batch.items[0]).size();
  std::vector<double> all;
  all.reserve(batch.items.size() * size);
  for (const Gradient& gradient : batch.items) {
    const std::vector<double>& from = get(gradient);
    all.insert(all.end(), from.begin(), from.end());
  }
  return new_array(std::move(all), {batch.items.size(), size});
}

auto field(std::vector<double> Gradient::*member) {
  return [member](const GradientBatch& batch) {
    return side_by_side(
        batch, [member](const Gradient& x) -> const auto& { return x.*member; });
  };
}

// a number of each
auto counts(long Gradient::*member) {
  return [member](const GradientBatch& batch) {
    std::vector<long> out;
    for (const Gradient& x : batch.items) out.push_back(x.*member);
    return out;
  };
}
auto cfd_counts(long CfdCounts::*member) {
  return [member](const GradientBatch& batch) {
    std::vector<long> out;
    for (const Gradient& x : batch.items) out.push_back(x.cfd.*member);
    return out;
  };
}

}  // namespace

void bind_gradient(nb::module_& m) {
  nb::class_<CotangentArrays>(m, "CotangentArrays",
                              "Cotangents of rollouts: one row each, or one row that all share.")
      .def(
          "__init__",
          [](CotangentArrays* self, std::map<std::string, RowArray> rows, bool final_row,
             const std::vector<ForceRows>& efc_force, size_t nstep,
             std::vector<std::string> params) {
            new (self) CotangentArrays{std::move(rows), final_row, by_step(efc_force, nstep),
                                       std::move(params)};
          },
          "rows"_a, nb::kw_only(), "final_row"_a, "efc_force"_a, "nstep"_a, "params"_a,
          "rows: by name, \"qpos\", \"site_xpos\", ...; final_row: of the last state alone. "
          "efc_force: for each rollout, arrays by the number of their step; empty: 0.");

  nb::class_<GradientBatch>(m, "GradientBatch", "Gradients of rollouts: batch x size.")
      .def_prop_ro("qpos", field(&Gradient::qpos), kOwner)
      .def_prop_ro("qpos_tangent", field(&Gradient::qpos_tangent), kOwner)
      .def_prop_ro("qvel", field(&Gradient::qvel), kOwner)
      .def_prop_ro("act", field(&Gradient::act), kOwner)
      .def_prop_ro("ctrl", field(&Gradient::ctrl), kOwner)
      .def_prop_ro("qfrc_applied", field(&Gradient::qfrc_applied), kOwner)
      .def_prop_ro("xfrc_applied", field(&Gradient::xfrc_applied), kOwner)
      .def(
          "param",
          [](const GradientBatch& batch, const std::string& name) {
            return side_by_side(
                batch, [&](const Gradient& x) -> const auto& { return x.params.at(name); });
          },
          "name"_a, kOwner, "Of a field of mjModel that was asked for.")
      .def_prop_ro(
          "message",
          [](const GradientBatch& batch) {
            std::vector<std::string> out;
            for (const Gradient& x : batch.items) out.push_back(x.message);
            return out;
          },
          "Why every entry is NaN; empty if none is.")
      .def_prop_ro("nrecomputed", counts(&Gradient::nrecomputed))
      .def_prop_ro("naccepted", counts(&Gradient::naccepted))
      .def_prop_ro("nrejected", counts(&Gradient::nrejected))
      .def_prop_ro("nevaluation", counts(&Gradient::nevaluation))
      .def_prop_ro("cfd_evaluations", cfd_counts(&CfdCounts::evaluations))
      .def_prop_ro("cfd_capped", cfd_counts(&CfdCounts::capped));

  m.def(
      "rollout_pullback",
      [](const Model& model, const TrajectoryBatch& batch, const CotangentArrays& cotangents) {
        Signals signals;
        return signals.run([&] {
          GradientBatch out;
          out.items.push_back(
              rollout_pullback(model, batch.items.at(0), cotangents.at(0), signals.options(1)));
          return out;
        });
      },
      "model"_a, "trajectory"_a, "cotangents"_a, "Pullback of a single rollout.");
  m.def(
      "rollout_pullback_batch",
      [](const Model& model, const TrajectoryBatch& batch, const CotangentArrays& cotangents,
         std::optional<int> nthread, const std::vector<Model>& models) {
        Signals signals;
        return signals.run([&] {
          std::vector<Cotangents> each;
          for (size_t i = 0; i < batch.items.size(); i++) each.push_back(cotangents.at(i));
          const RolloutOptions options = signals.options(nthread);
          return GradientBatch{models.empty()
                                   ? rollout_pullback_batch(model, batch.items, each, options)
                                   : rollout_pullback_batch(models, batch.items, each, options)};
        });
      },
      "model"_a, "trajectories"_a, "cotangents"_a, "nthread"_a.none(),
      "models"_a = std::vector<Model>(),
      "Pullbacks of a batch, on a pool of threads; models: one each.");
}

}  // namespace diffmj::python
