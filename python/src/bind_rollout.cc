// include/diffmj/rollout.h and the half of serialize.h that is about trajectories
#include <nanobind/stl/pair.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "bind.h"
#include "diffmj/rollout.h"
#include "diffmj/sensors.h"
#include "diffmj/serialize.h"

namespace diffmj::python {
namespace {

using ReadOnly = nb::ndarray<nb::numpy, const double>;

// One field of every trajectory: batch x rows x width. The numbers of a single trajectory are
// looked at in place; those of several are copied side by side, NaN where a rollout did not get to.
ReadOnly field(const TrajectoryBatch& batch, std::vector<double> Trajectory::*member, int rows,
               int width) {
  const std::initializer_list<size_t> shape = {batch.items.size(), static_cast<size_t>(rows),
                                               static_cast<size_t>(width)};
  const size_t size = static_cast<size_t>(rows) * static_cast<size_t>(width);
  if (batch.items.size() == 1 && (batch.items[0].*member).size() == size) {
    return ReadOnly((batch.items[0].*member).data(), shape, nb::find(batch));
  }
  std::vector<double> all(batch.items.size() * size, std::numeric_limits<double>::quiet_NaN());
  for (size_t i = 0; i < batch.items.size(); i++) {
    const std::vector<double>& from = batch.items[i].*member;
    std::copy(from.begin(), from.end(), all.begin() + static_cast<ptrdiff_t>(i * size));
  }
  return new_array<double, ReadOnly>(std::move(all), shape);
}

int width(const TrajectoryBatch& batch, int Trajectory::*member) {
  return batch.items.empty() ? 0 : batch.items[0].*member;
}

// ncon, nefc, solver_niter of every step: batch x nstep x 3, -1 where a rollout did not get to
nb::ndarray<nb::numpy, int32_t> steps(const TrajectoryBatch& batch) {
  const auto nstep = static_cast<size_t>(batch.nstep);
  std::vector<int32_t> all(batch.items.size() * nstep * 3, -1);
  for (size_t i = 0; i < batch.items.size(); i++) {
    auto to = all.begin() + static_cast<ptrdiff_t>(i * nstep * 3);
    for (const StepRecord& step : batch.items[i].steps) {
      *to++ = step.ncon;
      *to++ = step.nefc;
      *to++ = step.solver_niter;
    }
  }
  return new_array(std::move(all), {batch.items.size(), nstep, 3});
}

// one observable of every trajectory: batch x rows x width, NaN where a rollout did not get to
std::vector<double> poses_of(const ModelOf& model, const TrajectoryBatch& batch,
                             const Observable& what, Signals& signals) {
  const size_t size =
      static_cast<size_t>(batch.nstep + 1) * static_cast<size_t>(what.size(model(0)));
  std::vector<double> all;
  for (size_t i = 0; i < batch.items.size(); i++) {
    if (signals.raised()) throw Interrupted("poses: interrupted");
    Poses one = poses(model(i), batch.items[i], {what.name});
    std::vector<double>& from = one.*what.values;
    if (batch.items.size() == 1 && from.size() == size) return std::move(from);
    if (i == 0) all.assign(batch.items.size() * size, std::numeric_limits<double>::quiet_NaN());
    std::copy(from.begin(), from.end(), all.begin() + static_cast<ptrdiff_t>(i * size));
  }
  return all;
}

// a copy of a C++ array
template <class T>
nb::ndarray<nb::numpy, T> copied(const T* from, std::initializer_list<size_t> shape) {
  size_t n = 1;
  for (const size_t size : shape) n *= size;
  return new_array(std::vector<T>(from, from + n), shape);
}

template <class T>
auto rows_of(std::vector<T> ConstraintForces::*member) {
  return [member](const ConstraintForces& x) {
    return copied((x.*member).data(), {(x.*member).size()});
  };
}

template <class T>
auto integrator_rows(std::vector<T> IntegratorRecord::*member) {
  return [member](const IntegratorRecord& x) {
    return copied((x.*member).data(), {(x.*member).size()});
  };
}

// get(trajectory) of every trajectory
template <class Get>
auto each(Get get) {
  return [get](const TrajectoryBatch& batch) {
    std::vector<std::decay_t<decltype(get(batch.items[0]))>> out;
    for (const Trajectory& trajectory : batch.items) out.push_back(get(trajectory));
    return out;
  };
}

RolloutOptions options_with(RolloutOptions options, const TrajectoryBatch* steps_of, bool sensors) {
  if (steps_of) options.steps_of = &steps_of->items.at(0);
  options.sensors = sensors;
  return options;
}

// Sensor values at every state: batch x rows x nsensordata, NaN where a rollout did not get to.
nb::ndarray<nb::numpy, double> sensors_of(const ModelOf& model, const TrajectoryBatch& batch,
                                          Signals& signals) {
  const auto rows = static_cast<size_t>(batch.nstep) + 1,
             width = static_cast<size_t>(model(0).nsensordata());
  auto all = signals.run([&] {
    std::vector<double> numbers(batch.items.size() * rows * width,
                                std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 0; i < batch.items.size(); i++) {
      if (signals.raised()) throw Interrupted("sensordata: interrupted");
      const std::vector<double> one = sensordata(model(i), batch.items[i]);
      std::copy(one.begin(), one.end(), numbers.begin() + static_cast<ptrdiff_t>(i * rows * width));
    }
    return numbers;
  });
  return new_array(std::move(all), {batch.items.size(), rows, width});
}

}  // namespace

void bind_rollout(nb::module_& m) {
  nb::class_<InputArrays>(m, "InputArrays",
                          "Inputs of rollouts: one row each, or one row that all share.")
      .def(
          "__init__",
          [](InputArrays* self, Rows qpos, Rows qvel, Rows act, Rows ctrl, Rows qfrc_applied,
             Rows xfrc_applied, Rows mocap_pos, Rows mocap_quat, Rows time) {
            new (self)
                InputArrays{std::move(qpos),      std::move(qvel),         std::move(act),
                            std::move(ctrl),      std::move(qfrc_applied), std::move(xfrc_applied),
                            std::move(mocap_pos), std::move(mocap_quat),   std::move(time)};
          },
          nb::kw_only(), "qpos"_a = nb::none(), "qvel"_a = nb::none(), "act"_a = nb::none(),
          "ctrl"_a = nb::none(), "qfrc_applied"_a = nb::none(), "xfrc_applied"_a = nb::none(),
          "mocap_pos"_a = nb::none(), "mocap_quat"_a = nb::none(), "time"_a = nb::none());

  nb::class_<Warning>(m, "Warning", "A warning of MuJoCo or of diffmj.")
      .def_prop_ro("kind", [](const Warning& w) { return warning_kind_name(w.kind); })
      .def_ro("text", &Warning::text)
      .def_ro("first_step", &Warning::first_step)
      .def_ro("count", &Warning::count);

  nb::class_<TrajectoryBatch>(m, "TrajectoryBatch",
                              "Recorded rollouts; every array has the batch first.")
      .def("__len__", [](const TrajectoryBatch& batch) { return batch.items.size(); })
      .def_ro("nstep", &TrajectoryBatch::nstep)
      .def_prop_ro(
          "time",
          [](const TrajectoryBatch& b) { return field(b, &Trajectory::time, b.nstep + 1, 1); },
          kOwner)
      .def_prop_ro(
          "qpos",
          [](const TrajectoryBatch& b) {
            return field(b, &Trajectory::qpos, b.nstep + 1, width(b, &Trajectory::nq));
          },
          kOwner)
      .def_prop_ro(
          "qvel",
          [](const TrajectoryBatch& b) {
            return field(b, &Trajectory::qvel, b.nstep + 1, width(b, &Trajectory::nv));
          },
          kOwner)
      .def_prop_ro(
          "act",
          [](const TrajectoryBatch& b) {
            return field(b, &Trajectory::act, b.nstep + 1, width(b, &Trajectory::na));
          },
          kOwner)
      .def_prop_ro(
          "qacc",
          [](const TrajectoryBatch& b) {
            return field(b, &Trajectory::qacc, b.nstep, width(b, &Trajectory::nv));
          },
          kOwner)
      .def_prop_ro("steps", &steps, kOwner)
      .def_prop_ro("completed", each([](const Trajectory& t) { return t.nstep; }))
      .def_prop_ro("ok", each([](const Trajectory& t) { return t.ok(); }))
      .def_prop_ro("outcome",
                   each([](const Trajectory& t) { return std::string(outcome_name(t.outcome)); }))
      .def_prop_ro("message", each([](const Trajectory& t) { return t.message; }))
      .def_prop_ro("failed_dof", each([](const Trajectory& t) { return t.failed_dof; }))
      .def_prop_ro("warnings", each([](const Trajectory& t) { return t.warnings; }))
      .def(
          "to_bytes",
          [](const TrajectoryBatch& batch, const Model& model, const std::vector<Model>& models) {
            std::vector<nb::bytes> out;
            const auto add = [&](const std::string& bytes) {
              out.emplace_back(bytes.data(), bytes.size());
            };
            if (models.empty()) add(to_bytes(model, batch.items));
            for (size_t i = 0; i < models.size(); i++) {
              add(to_bytes(models[i], std::span(batch.items).subspan(i, 1)));
            }
            return out;
          },
          "model"_a, "models"_a, "The trajectories, with all that their gradients need.")
      .def_static(
          "from_bytes",
          [](const Model& model, const std::vector<nb::bytes>& bytes, int nstep,
             const std::vector<Model>& models) {
            TrajectoryBatch out{.items = {}, .nstep = nstep};
            for (size_t i = 0; i < bytes.size(); i++) {
              for (Trajectory& t :
                   trajectories_from_bytes(ModelOf(model, models)(i),
                                           std::string_view(bytes[i].c_str(), bytes[i].size()))) {
                out.items.push_back(std::move(t));
              }
            }
            return out;
          },
          "model"_a, "bytes"_a, "nstep"_a, "models"_a, "Reads what to_bytes gave.")
      .def(
          "integrator",
          [](const TrajectoryBatch& b, size_t i) { return &b.items.at(i).integrator; }, "i"_a,
          nb::rv_policy::reference_internal, "What the integrator of rollout i did.");

  nb::class_<Event>(m, "Event",
                    "Limits or contacts that became active together, or ceased to be so.")
      .def_ro("time", &Event::time)
      .def_ro("interval", &Event::interval)
      .def_ro("step", &Event::step)
      .def_ro("what", &Event::what)
      .def_ro("count", &Event::count)
      .def_ro("release", &Event::release)
      .def_ro("rate", &Event::rate)
      .def_ro("jump", &Event::jump)
      .def_ro("grazing", &Event::grazing)
      .def_ro("at_rest", &Event::at_rest);

  nb::class_<IntegratorRecord>(m, "IntegratorRecord", "What a Runge-Kutta method did.")
      .def_prop_ro("time", integrator_rows(&IntegratorRecord::time), kOwner)
      .def_prop_ro("first_step", integrator_rows(&IntegratorRecord::first_step), kOwner)
      .def_prop_ro("implicit", integrator_rows(&IntegratorRecord::implicit), kOwner)
      .def_prop_ro("events", [](const IntegratorRecord& x) { return x.events; })
      .def_prop_ro("end_qpos", integrator_rows(&IntegratorRecord::end_qpos), kOwner)
      .def_prop_ro("end_qvel", integrator_rows(&IntegratorRecord::end_qvel), kOwner)
      .def_prop_ro("end_act", integrator_rows(&IntegratorRecord::end_act), kOwner)
      .def_ro("end_time", &IntegratorRecord::end_time)
      .def_ro("naccepted", &IntegratorRecord::naccepted)
      .def_ro("nrejected", &IntegratorRecord::nrejected)
      .def_ro("nevaluation", &IntegratorRecord::nevaluation)
      .def_ro("smallest_step", &IntegratorRecord::smallest_step)
      .def_ro("largest_step", &IntegratorRecord::largest_step)
      .def_prop_ro("seconds", [](const IntegratorRecord& x) {
        const IntegratorRecord::Seconds& s = x.seconds;
        nb::dict out;
        out["position"] = s.position;
        out["velocity"] = s.velocity;
        out["actuation"] = s.actuation;
        out["acceleration"] = s.acceleration;
        out["constraint"] = s.constraint;
        out["total"] = s.total;
        return out;
      });

  nb::class_<ContactRecord>(m, "ContactRecord", "A contact of a step.")
      .def_prop_ro("geom", [](const ContactRecord& x) { return std::pair(x.geom[0], x.geom[1]); })
      .def_prop_ro(
          "pos", [](const ContactRecord& x) { return copied(x.pos, {3}); }, kOwner)
      .def_prop_ro(
          "frame",
          [](const ContactRecord& x) {
            return copied(x.frame, {3, 3});
          },
          kOwner)
      .def_ro("row", &ContactRecord::row)
      .def_ro("dim", &ContactRecord::dim)
      .def_prop_ro(
          "force", [](const ContactRecord& x) { return copied(x.force, {6}); }, kOwner);

  nb::class_<ConstraintForces>(m, "ConstraintForces", "Constraint forces of a step.")
      .def_prop_ro("force", rows_of(&ConstraintForces::force), kOwner)
      .def_prop_ro("type", rows_of(&ConstraintForces::type), kOwner)
      .def_prop_ro("id", rows_of(&ConstraintForces::id), kOwner)
      .def_prop_ro("contacts", [](const ConstraintForces& x) { return x.contacts; });

  m.def(
      "rollout",
      [](const Model& model, const InputArrays& inputs, int nstep, const TrajectoryBatch* steps_of,
         bool sensors) {
        Signals signals;
        return signals.run([&] {
          TrajectoryBatch batch;
          batch.items.push_back(rollout(model, inputs.at(0), nstep,
                                        options_with(signals.options(1), steps_of, sensors)));
          batch.nstep = batch.items[0].nstep;
          return batch;
        });
      },
      "model"_a, "inputs"_a, "nstep"_a, "steps_of"_a.none(), "sensors"_a = false, "One rollout.");
  m.def(
      "rollout_batch",
      [](const Model& model, const InputArrays& inputs, size_t size, int nstep,
         std::optional<int> nthread, const TrajectoryBatch* steps_of, bool sensors,
         const std::vector<Model>& models) {
        Signals signals;
        return signals.run([&] {
          std::vector<RolloutInput> each_input;
          for (size_t i = 0; i < size; i++) each_input.push_back(inputs.at(i));
          const RolloutOptions options = options_with(signals.options(nthread), steps_of, sensors);
          return TrajectoryBatch{.items = models.empty()
                                              ? rollout_batch(model, each_input, nstep, options)
                                              : rollout_batch(models, each_input, nstep, options),
                                 .nstep = nstep};
        });
      },
      "model"_a, "inputs"_a, "size"_a, "nstep"_a, "nthread"_a.none(), "steps_of"_a.none(),
      "sensors"_a = false, "models"_a = std::vector<Model>(),
      "Rollouts on a pool of threads; models: one each.");
  m.def(
      "sensordata",
      [](const Model& model, const TrajectoryBatch& batch, const std::vector<Model>& models) {
        Signals signals;
        return sensors_of(ModelOf(model, models), batch, signals);
      },
      "model"_a, "trajectories"_a, "models"_a = std::vector<Model>(), kOwner,
      "Sensor values at every state.");
  m.def(
      "sensor_range",
      [](const Model& model, const std::string& name) {
        const SensorRange range = sensor_range(model, name);
        return std::pair(range.adr, range.dim);
      },
      "model"_a, "name"_a, "Where the numbers of a sensor begin in sensordata, and how many.");
  m.def(
      "poses",
      [](const Model& model, const TrajectoryBatch& batch, const std::string& name,
         const std::vector<Model>& models) {
        Signals signals;
        const Observable& what = observable(name);
        std::vector<double> all =
            signals.run([&] { return poses_of(ModelOf(model, models), batch, what, signals); });
        return new_array<double, ReadOnly>(
            std::move(all), {batch.items.size(), static_cast<size_t>(batch.nstep) + 1,
                             static_cast<size_t>(what.size(model))});
      },
      "model"_a, "trajectories"_a, "name"_a, "models"_a = std::vector<Model>(),
      "One observable at every state: batch x rows x width, read-only.");
  m.def(
      "constraint_forces",
      [](const Model& model, const TrajectoryBatch& batch, size_t rollout, int step,
         const std::vector<Model>& models) {
        const nb::gil_scoped_release no_gil;
        return constraint_forces(ModelOf(model, models)(rollout), batch.items.at(rollout), step);
      },
      "model"_a, "trajectories"_a, "rollout"_a, "step"_a, "models"_a = std::vector<Model>(),
      "Constraint forces of one step.");
}

}  // namespace diffmj::python
