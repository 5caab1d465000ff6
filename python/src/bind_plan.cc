// include/diffmj/cost.h, plan.h, mpc.h
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/variant.h>

#include "bind.h"
#include "diffmj/mpc.h"
#include "diffmj/plan.h"
#include "elsewhere.h"
#include "plan_own.h"

namespace diffmj::python {
namespace {

using Array = nb::ndarray<nb::numpy, double>;

Array array(std::vector<double> values, size_t rows) {
  const size_t width = rows > 0 ? values.size() / rows : 0;
  return new_array(std::move(values), {rows, width});
}
Array array(std::vector<double> values) {
  const size_t n = values.size();
  return new_array(std::move(values), {n});
}

Frame::Kind kind_from_name(const std::string& name) {
  if (name == "fixed") return Frame::Kind::kFixed;
  if (name == "site") return Frame::Kind::kSite;
  if (name == "body") return Frame::Kind::kBody;
  if (name == "geom") return Frame::Kind::kGeom;
  return Frame::Kind::kSubtree;
}

void bind_cost(nb::module_& m) {
  using Names = std::vector<std::string>;
  using Values = std::vector<double>;
  nb::class_<Reference>(m, "Reference", "Numbers over time.")
      .def(
          "__init__",
          [](Reference* self, const Values& time, const Values& values) {
            new (self) Reference{time, values};
          },
          "time"_a, "values"_a);
  nb::class_<Frame>(m, "Frame", "Something with a place and an orientation.")
      .def(
          "__init__",
          [](Frame* self, const std::string& kind, const std::string& name,
             std::array<double, 3> pos, std::array<double, 4> quat, const Reference& pos_over_time,
             const Reference& quat_over_time) {
            new (self) Frame{kind_from_name(kind), name, pos, quat, pos_over_time, quat_over_time};
          },
          "kind"_a, "name"_a, "pos"_a, "quat"_a, "pos_over_time"_a, "quat_over_time"_a);

  nb::class_<Distance>(m, "Distance")
      .def("__init__",
           [](Distance* self, const Frame& from, const Frame& to, std::array<double, 3> axes) {
             new (self) Distance{from, to, axes};
           });
  nb::class_<Orientation>(m, "Orientation")
      .def("__init__", [](Orientation* self, const Frame& from, const Frame& to) {
        new (self) Orientation{from, to};
      });
  nb::class_<JointPosition>(m, "JointPosition")
      .def("__init__", [](JointPosition* self, const Names& joints, const Values& target,
                          const Reference& reference) {
        new (self) JointPosition{joints, target, reference};
      });
  nb::class_<JointVelocity>(m, "JointVelocity")
      .def("__init__", [](JointVelocity* self, const Names& joints, const Values& target,
                          const Reference& reference) {
        new (self) JointVelocity{joints, target, reference};
      });
  nb::class_<FrameVelocity>(m, "FrameVelocity")
      .def("__init__", [](FrameVelocity* self, const Frame& frame, bool angular,
                          std::array<double, 3> target, const Reference& reference) {
        new (self) FrameVelocity{frame, angular, target, reference};
      });
  nb::class_<ControlEffort>(m, "ControlEffort")
      .def("__init__", [](ControlEffort* self, const Names& actuators, const Values& target,
                          const Reference& reference) {
        new (self) ControlEffort{actuators, target, reference};
      });
  nb::class_<ControlRate>(m, "ControlRate")
      .def("__init__",
           [](ControlRate* self, const Names& actuators) { new (self) ControlRate{actuators}; });
  nb::class_<ForceEffort>(m, "ForceEffort").def("__init__", [](ForceEffort* self) {
    new (self) ForceEffort{};
  });
  nb::class_<SensorValue>(m, "SensorValue")
      .def("__init__", [](SensorValue* self, const std::string& sensor, const Values& target,
                          const Reference& reference) {
        new (self) SensorValue{sensor, target, reference};
      });

  nb::class_<CostTerm>(m, "CostTerm", "A term of a cost.")
      .def(
          "__init__",
          [](CostTerm* self, const CostQuantity& of, const std::string& norm, double scale,
             double weight, double terminal, const std::string& name) {
            new (self) CostTerm{of, norm_from_name(norm), scale, weight, terminal, name};
          },
          "of"_a, "norm"_a, "scale"_a, "weight"_a, "terminal"_a, "name"_a);

  nb::class_<OwnCost>(m, "OwnCost", "A cost that a Python function computes.")
      .def(
          "__init__",
          [](OwnCost* self, const nb::object& function, const Names& observables, bool sensors,
             const std::string& name) {
            new (self)
                OwnCost{own_function(function, observables, sensors), observables, sensors, name};
          },
          "function"_a, "observables"_a, "sensors"_a, "name"_a);

  nb::class_<Cost>(m, "Cost", "A cost with the indices of a model.")
      .def(nb::init<const Model&, std::vector<CostTerm>, std::vector<OwnCost>, bool>(), "model"_a,
           "terms"_a, "own"_a, "gradient"_a)
      .def_prop_ro("names", &Cost::names)
      .def(
          "evaluate",
          [](const Cost& cost, const Model& model, const TrajectoryBatch& batch) {
            Signals signals;
            std::vector<double> out = signals.run([&] {
              std::vector<double> terms;
              for (const Trajectory& t : batch.items) {
                if (signals.raised()) throw Interrupted("Cost: interrupted");
                const std::vector<double> one =
                    t.ok() ? cost.evaluate(model, t).terms
                           : std::vector<double>(static_cast<size_t>(cost.nterm()),
                                                 std::numeric_limits<double>::quiet_NaN());
                terms.insert(terms.end(), one.begin(), one.end());
              }
              return terms;
            });
            return array(std::move(out), batch.items.size());
          },
          "model"_a, "trajectories"_a, "The terms' shares: rollouts x terms.");
}

void bind_planner(nb::module_& m) {
  nb::class_<PlanOptions>(m, "PlanOptions", "See plan.h.")
      .def(nb::init<>())
      // clang-format off
      DIFFMJ_CHOICE(PlanOptions, method, plan_method_name, plan_method_from_name)
      DIFFMJ_CHOICE(PlanOptions, interpolation, interpolation_name, interpolation_from_name)
      DIFFMJ_CHOICE(PlanOptions, noise, noise_name, noise_from_name)
      DIFFMJ_OPTION(PlanOptions, horizon) DIFFMJ_OPTION(PlanOptions, timestep)
      DIFFMJ_OPTION(PlanOptions, controls) DIFFMJ_OPTION(PlanOptions, forces)
      DIFFMJ_OPTION(PlanOptions, velocity) DIFFMJ_OPTION(PlanOptions, force_scale)
      DIFFMJ_OPTION(PlanOptions, force_limit) DIFFMJ_OPTION(PlanOptions, velocity_scale)
      DIFFMJ_OPTION(PlanOptions, knots) DIFFMJ_OPTION(PlanOptions, iterations)
      DIFFMJ_OPTION(PlanOptions, rounds) DIFFMJ_OPTION(PlanOptions, seconds)
      DIFFMJ_OPTION(PlanOptions, first_effort)
      DIFFMJ_OPTION(PlanOptions, rate) DIFFMJ_OPTION(PlanOptions, beta1)
      DIFFMJ_OPTION(PlanOptions, beta2) DIFFMJ_OPTION(PlanOptions, keep_moments)
      DIFFMJ_OPTION(PlanOptions, clip)
      DIFFMJ_OPTION(PlanOptions, rate_factor)
      DIFFMJ_OPTION(PlanOptions, starts) DIFFMJ_OPTION(PlanOptions, samples)
      DIFFMJ_OPTION(PlanOptions, sigma) DIFFMJ_OPTION(PlanOptions, elites)
      DIFFMJ_OPTION(PlanOptions, refined) DIFFMJ_OPTION(PlanOptions, seed)
      DIFFMJ_OPTION(PlanOptions, regularization) DIFFMJ_OPTION(PlanOptions, nthread)
      .def("evaluate_by", [](PlanOptions& x, const nb::object& function) {
        x.evaluate = plan_evaluate(function);
      }, "function"_a, "Rollouts are evaluated by this function.");
  // clang-format on

  nb::class_<PlanIteration>(m, "PlanIteration", "An iteration of a plan.")
      .def_ro("iteration", &PlanIteration::iteration)
      .def_ro("cost", &PlanIteration::cost)
      .def_ro("latest", &PlanIteration::latest)
      .def_ro("seconds", &PlanIteration::seconds)
      .def_ro("nrollout", &PlanIteration::nrollout)
      .def_ro("ndiverged", &PlanIteration::ndiverged)
      .def_ro("sampled", &PlanIteration::sampled)
      .def_ro("linearized", &PlanIteration::linearized);

  nb::class_<Plan>(m, "Plan", "What a planner found.")
      .def_prop_ro(
          "ctrl", [](const Plan& x) { return array(x.ctrl); }, kOwner)
      .def_prop_ro(
          "qfrc_applied", [](const Plan& x) { return array(x.qfrc_applied); }, kOwner)
      .def_prop_ro(
          "qvel", [](const Plan& x) { return array(x.qvel); }, kOwner)
      .def_prop_ro(
          "variables", [](const Plan& x) { return array(x.variables); }, kOwner)
      .def_prop_ro(
          "gains", [](const Plan& x) { return array(x.gains); }, kOwner)
      .def_ro("cost", &Plan::cost)
      .def_ro("terms", &Plan::terms)
      .def_ro("history", &Plan::history)
      .def_ro("nrollout", &Plan::nrollout)
      .def_ro("ndiverged", &Plan::ndiverged)
      .def_ro("cfd", &Plan::cfd)
      .def_ro("message", &Plan::message)
      .def_ro("interrupted", &Plan::interrupted)
      .def_ro("seconds", &Plan::seconds);

  nb::class_<Planner>(m, "Planner", "Plans for a model.")
      .def(nb::init<const Model&, Cost, PlanOptions>(), "model"_a, "cost"_a, "options"_a)
      .def_prop_ro("model", &Planner::model, nb::rv_policy::copy)
      .def(
          "plan",
          [](Planner& planner, const InputArrays& inputs, const nb::object& progress) {
            Signals signals;
            PlanRun run{.interrupted = [&] { return signals.raised(); }};
            if (!progress.is_none()) {
              run.progress = [&](const PlanIteration& x) { signals.call(progress, x); };
            }
            return signals.run_until([&] { return planner.plan(inputs.at(0), run); });
          },
          "inputs"_a, "progress"_a.none())
      .def(
          "evaluate",
          [](Planner& planner, const InputArrays& start, const RowArray& variables, bool gradient) {
            Signals signals;
            const size_t n = variables.shape(0);
            std::vector<std::vector<double>> z;
            for (size_t i = 0; i < n; i++) {
              const double* begin = variables.data() + i * variables.shape(1);
              z.emplace_back(begin, begin + variables.shape(1));
            }
            std::vector<PlanValue> values(n);
            signals.run([&] {
              planner.evaluate(start.at(0), z, gradient, values, [&] { return signals.raised(); });
              return true;
            });
            // of a rollout that failed NaN
            const double nan = std::numeric_limits<double>::quiet_NaN();
            std::vector<bool> ok;
            std::vector<double> cost, terms, gradients;
            std::vector<std::string> message;
            std::vector<CfdPair> cfd;
            const size_t nterm = static_cast<size_t>(planner.cost().nterm()),
                         size = gradient ? variables.shape(1) : 0;
            for (PlanValue& x : values) {
              const auto add = [&](std::vector<double>& from, size_t count,
                                   std::vector<double>& to) {
                if (!x.ok) from.assign(count, nan);
                to.insert(to.end(), from.begin(), from.end());
              };
              ok.push_back(x.ok);
              cost.push_back(x.ok ? x.cost : nan);
              message.push_back(x.message);
              cfd.emplace_back(x.cfd.evaluations, x.cfd.capped);
              add(x.terms, nterm, terms);
              if (gradient) add(x.gradient, size, gradients);
            }
            return std::tuple<std::vector<bool>, Array, Array, Array, std::vector<std::string>,
                              std::vector<CfdPair>>(
                std::move(ok), new_array(std::move(cost), {n, 1}),
                new_array(std::move(terms), {n, nterm}), new_array(std::move(gradients), {n, size}),
                std::move(message), std::move(cfd));
          },
          "start"_a, "variables"_a, "gradient"_a,
          "ok, costs, terms, gradients, messages, counts of contacts from distance.")
      .def("shift", &Planner::shift, "seconds"_a)
      .def("reset", &Planner::reset);
}

void bind_mpc(nb::module_& m) {
  nb::class_<MpcPlan>(m, "MpcPlan", "One plan of a run.")
      .def_ro("step", &MpcPlan::step)
      .def_ro("time", &MpcPlan::time)
      .def_ro("cost", &MpcPlan::cost)
      .def_ro("executed_cost", &MpcPlan::executed_cost)
      .def_ro("seconds", &MpcPlan::seconds)
      .def_ro("expected", &MpcPlan::expected)
      .def_ro("late", &MpcPlan::late)
      .def_ro("history", &MpcPlan::history)
      .def_ro("nrollout", &MpcPlan::nrollout)
      .def_ro("ndiverged", &MpcPlan::ndiverged)
      .def_ro("cfd", &MpcPlan::cfd)
      .def_ro("message", &MpcPlan::message);

  const auto rows = [](const std::vector<double>& x, int n) {
    return array(x, static_cast<size_t>(n));
  };
  nb::class_<MpcRun>(m, "MpcRun", "What was planned and executed.")
      .def_ro("nstep", &MpcRun::nstep)
      .def_prop_ro(
          "time", [](const MpcRun& x) { return array(x.time); }, kOwner)
      .def_prop_ro(
          "qpos", [rows](const MpcRun& x) { return rows(x.qpos, x.nstep + 1); }, kOwner)
      .def_prop_ro(
          "qvel", [rows](const MpcRun& x) { return rows(x.qvel, x.nstep + 1); }, kOwner)
      .def_prop_ro(
          "act", [rows](const MpcRun& x) { return rows(x.act, x.nstep + 1); }, kOwner)
      .def_prop_ro(
          "ctrl", [rows](const MpcRun& x) { return rows(x.ctrl, x.nstep); }, kOwner)
      .def_ro("plans", &MpcRun::plans)
      .def_ro("seconds", &MpcRun::seconds)
      .def_ro("simulated", &MpcRun::simulated)
      .def_ro("interrupted", &MpcRun::interrupted)
      .def_ro("done", &MpcRun::done)
      .def_ro("message", &MpcRun::message)
      .def(
          "save", [](const MpcRun& x, const std::string& path) { save_run(path, x); }, "path"_a)
      .def_static("load", &load_run, "path"_a);

  nb::class_<MpcOptions>(m, "MpcOptions", "See mpc.h.")
      .def(nb::init<>())
      // clang-format off
      DIFFMJ_OPTION(MpcOptions, nstep) DIFFMJ_OPTION(MpcOptions, execute)
      DIFFMJ_OPTION(MpcOptions, realtime) DIFFMJ_OPTION(MpcOptions, latency)
      DIFFMJ_OPTION(MpcOptions, plan_seconds) DIFFMJ_OPTION(MpcOptions, predict_timestep)
      DIFFMJ_OPTION(MpcOptions, ctrl_noise) DIFFMJ_OPTION(MpcOptions, seed);
  // clang-format on

  m.def(
      "run_mpc",
      [](Planner& planner, const Model& execution, const InputArrays& inputs, MpcOptions options,
         const Rows& disturbance, const MpcRun* resume, const nb::object& progress,
         const nb::object& view, const nb::object& done) {
        Signals signals;
        options.disturbance = row(disturbance, 0);
        options.resume = resume;
        options.interrupted = [&] { return signals.raised(); };
        // of the states, those since the plan before
        size_t shown = 0;
        options.progress = [&](const MpcPlan& x, const MpcRun& run) {
          if (!progress.is_none()) signals.call(progress, x);
          if (view.is_none()) return;
          const size_t nq = static_cast<size_t>(execution.nq());
          const auto since = [](const std::vector<double>& from, size_t begin) {
            return std::vector<double>(from.begin() + static_cast<ptrdiff_t>(begin), from.end());
          };
          signals.call(view, since(run.time, shown), since(run.qpos, shown * nq));
          shown = run.time.size();
        };
        if (!done.is_none()) {
          options.done = [&](const MpcRun& x) { return signals.ask(done, x); };
        }
        return signals.run_until(
            [&] { return run_mpc(planner, execution, inputs.at(0), options); });
      },
      "planner"_a, "execution"_a, "inputs"_a, "options"_a, nb::kw_only(), "disturbance"_a.none(),
      "resume"_a.none(), "progress"_a.none(), "view"_a.none(), "done"_a.none());
}

}  // namespace

void bind_plan(nb::module_& m) {
  bind_cost(m);
  bind_planner(m);
  bind_mpc(m);
}

}  // namespace diffmj::python
