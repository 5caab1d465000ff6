// include/diffmj/fit.h
#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bind.h"
#include "diffmj/fit.h"
#include "diffmj/fit_report.h"
#include "elsewhere.h"

namespace diffmj::python {
namespace {

using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<nb::numpy, double>;

std::span<const double> span(const Numbers& x) { return {x.data(), x.size()}; }

Array array(std::vector<double> values) {
  const size_t n = values.size();
  return new_array(std::move(values), {n});
}

std::vector<FitBounds> bounds_of(const std::vector<std::pair<double, double>>& pairs) {
  std::vector<FitBounds> out;
  for (const auto& [low, high] : pairs) out.push_back({low, high});
  return out;
}

}  // namespace

void bind_fit(nb::module_& m) {
  nb::class_<FitStep>(m, "FitStep", "An iteration of a fit.")
      .def_ro("iteration", &FitStep::iteration)
      .def_ro("loss", &FitStep::loss)
      .def_ro("theta", &FitStep::theta)
      .def_ro("gradient", &FitStep::gradient)
      .def_ro("seconds", &FitStep::seconds)
      .def_ro("nfailed", &FitStep::nfailed);

  nb::class_<FitResult>(m, "FitResult", "What a fit found.")
      .def(
          "__init__",
          [](FitResult* self, std::vector<double> theta, double loss,
             std::vector<std::tuple<int, double, std::vector<double>, double, int>> history,
             bool converged, bool interrupted, const CfdPair& cfd) {
            new (self) FitResult{.theta = std::move(theta),
                                 .loss = loss,
                                 .moves = {},
                                 .history = {},
                                 .converged = converged,
                                 .interrupted = interrupted,
                                 .message = {},
                                 .warning = {},
                                 .cfd = {.evaluations = cfd.first, .capped = cfd.second}};
            for (auto& [iteration, step_loss, values, seconds, nfailed] : history) {
              self->history.push_back({.iteration = iteration,
                                       .loss = step_loss,
                                       .theta = std::move(values),
                                       .gradient = {},
                                       .seconds = seconds,
                                       .nfailed = nfailed});
            }
          },
          "theta"_a, "loss"_a, "history"_a, "converged"_a, "interrupted"_a, "cfd"_a)
      .def_ro("theta", &FitResult::theta)
      .def_ro("loss", &FitResult::loss)
      .def_ro("moves", &FitResult::moves)
      .def_ro("history", &FitResult::history)
      .def_ro("converged", &FitResult::converged)
      .def_ro("warning", &FitResult::warning)
      .def_ro("cfd", &FitResult::cfd)
      .def_ro("interrupted", &FitResult::interrupted)
      .def_ro("message", &FitResult::message);

  nb::class_<FitVariables>(m, "FitVariables", "Free variables for bounded parameters.")
      .def(
          "__init__",
          [](FitVariables* self, const Numbers& start,
             const std::vector<std::pair<double, double>>& bounds,
             const std::vector<std::string>& names) {
            new (self) FitVariables(span(start), bounds_of(bounds), names);
          },
          "start"_a, "bounds"_a, "names"_a)
      .def(
          "theta", [](const FitVariables& x, const Numbers& z) { return array(x.theta(span(z))); },
          "z"_a, kOwner)
      .def(
          "slope", [](const FitVariables& x, const Numbers& z) { return array(x.slope(span(z))); },
          "z"_a, kOwner);

  nb::class_<ResidualLoss>(m, "ResidualLoss", "See fit.h.")
      .def(nb::init<>())
      // clang-format off
      DIFFMJ_CHOICE(ResidualLoss, kind, residual_loss_name, residual_loss_from_name)
      DIFFMJ_OPTION(ResidualLoss, scale);
  nb::class_<FitOptions>(m, "FitOptions", "See fit.h.")
      .def(nb::init<>())
      DIFFMJ_CHOICE(FitOptions, method, fit_method_name, fit_method_from_name)
      DIFFMJ_OPTION(FitOptions, iterations) DIFFMJ_OPTION(FitOptions, rate)
      DIFFMJ_OPTION(FitOptions, beta1) DIFFMJ_OPTION(FitOptions, beta2)
      DIFFMJ_OPTION(FitOptions, minibatch) DIFFMJ_OPTION(FitOptions, seed)
      DIFFMJ_OPTION(FitOptions, estimate_starts) DIFFMJ_OPTION(FitOptions, nthread)
      DIFFMJ_OPTION(FitOptions, checkpoint) DIFFMJ_OPTION(FitOptions, resume);
  // clang-format on

  nb::class_<Objective>(m, "Objective", "The loss of segments as a function of parameters.")
      .def(
          "__init__",
          [](Objective* self, const ParametricModel& family, const std::vector<Segment>& segments,
             const ResidualLoss& loss) { new (self) Objective(family, segments, loss); },
          "family"_a, "segments"_a, "loss"_a)
      .def_prop_ro("nsegment", &Objective::nsegment)
      .def(
          "evaluate_by",
          [](Objective& x, const nb::object& function) {
            x.evaluate_by(segments_elsewhere(function));
          },
          "function"_a, "Segments are simulated by this function.")
      .def(
          "evaluate",
          [](const Objective& objective, const Numbers& theta, bool gradient,
             std::optional<int> nthread) {
            Signals signals;
            Objective::Value value = signals.run([&] {
              return objective.evaluate(span(theta), gradient, {}, signals.options(nthread));
            });
            return std::tuple<double, Array, int, CfdPair>(
                value.loss, array(std::move(value.gradient)), value.nfailed,
                {value.cfd.evaluations, value.cfd.capped});
          },
          "theta"_a, "gradient"_a, "nthread"_a.none(),
          "Loss, gradient, number of failed rollouts, and counts of contacts from distance.")
      .def(
          "residuals",
          [](const Objective& objective, const Numbers& theta, bool jacobian,
             std::optional<int> nthread) {
            Signals signals;
            Objective::Residuals r = signals.run([&] {
              return objective.residuals(span(theta), {.theta = jacobian},
                                         signals.options(nthread));
            });
            const size_t n = r.values.size();
            return std::tuple<Array, Array, std::vector<int>>(
                array(std::move(r.values)),
                new_array(std::move(r.theta), {jacobian ? n : 0, theta.size()}), r.first);
          },
          "theta"_a, "jacobian"_a, "nthread"_a.none(),
          "Residuals times roots of weights, their derivatives, and where segments begin.")
      .def(
          "uncertainty",
          [](const Objective& objective, const Numbers& theta, const Numbers& moves,
             std::optional<int> nthread) {
            Signals signals;
            Uncertainty out = signals.run([&] {
              return uncertainty(objective, span(theta), signals.options(nthread), span(moves));
            });
            const size_t n = theta.size();
            return std::tuple<Array, Array, std::vector<std::vector<double>>>(
                array(std::move(out.error)), new_array(std::move(out.correlation), {n, n}),
                std::move(out.undetermined));
          },
          "theta"_a, "moves"_a, "nthread"_a.none(),
          "Standard errors, correlations, and directions that are not determined.")
      .def(
          "target_errors",
          [](const Objective& objective, const Numbers& before, const Numbers& after,
             std::optional<int> nthread) {
            Signals signals;
            std::vector<std::tuple<std::string, long, double, double>> out;
            for (const TargetError& x : signals.run([&] {
                   return target_errors(objective, span(before), span(after),
                                        signals.options(nthread));
                 })) {
              out.emplace_back(x.target, x.count, x.before, x.after);
            }
            return out;
          },
          "before"_a, "after"_a, "nthread"_a.none(),
          "Root mean squares by target: name, count, values.")
      .def(
          "report",
          [](const Objective& training, const Objective* held_out, const Numbers& start,
             const std::vector<std::pair<double, double>>& bounds, const FitResult& result,
             const std::string& title, const std::string& summary,
             const std::vector<std::string>& notes, const std::string& mjcf) {
            Signals signals;
            return signals.run([&] {
              const RolloutOptions options = signals.options({});
              return fit_report(training, held_out, span(start), bounds_of(bounds), result,
                                uncertainty(training, result.theta, options, result.moves),
                                {title, summary, notes, mjcf}, options);
            });
          },
          "held_out"_a.none(), "start"_a, "bounds"_a, "result"_a, "title"_a, "summary"_a, "notes"_a,
          "mjcf"_a, "The fit as an HTML page.")
      .def(
          "fit",
          [](const Objective& objective, const Numbers& start,
             const std::vector<std::pair<double, double>>& bounds, FitOptions options,
             const nb::object& progress) {
            Signals signals;
            options.interrupted = [&] { return signals.raised(); };
            options.bounds = bounds_of(bounds);
            if (!progress.is_none()) {
              options.progress = [&](const FitStep& step) {
                signals.call(progress, step.iteration, step.loss);
              };
            }
            FitResult out;
            {
              const nb::gil_scoped_release no_gil;
              out = fit(objective, span(start), options);
            }
            signals.raise_other_errors();
            return out;
          },
          "start"_a, "bounds"_a, "options"_a, "progress"_a.none());

  m.def(
      "segment_values",
      [](const Model& model, const std::vector<Segment>& segments, const std::string& loss,
         double scale, bool gradient, const std::vector<std::string>& fields, int nthread) {
        Signals signals;
        std::vector<const Segment*> all;
        for (const Segment& x : segments) all.push_back(&x);
        std::vector<SegmentValue> values = signals.run([&] {
          return segment_values(model, all, {residual_loss_from_name(loss), scale}, gradient,
                                fields, signals.options(nthread));
        });
        const size_t n = values.size();
        std::vector<bool> ok;
        std::vector<double> losses;
        std::vector<std::string> message;
        std::vector<CfdPair> cfd;
        std::map<std::string, std::vector<double>> rows;
        std::map<std::string, size_t> width;
        for (const SegmentValue& x : values) {
          for (const auto& [name, numbers] : x.params) width[name] = numbers.size();
        }
        for (const SegmentValue& x : values) {
          ok.push_back(x.ok);
          losses.push_back(x.loss);
          message.push_back(x.message);
          cfd.emplace_back(x.cfd.evaluations, x.cfd.capped);
          // of a rollout that failed NaN
          for (const auto& [name, size] : width) {
            std::vector<double>& to = rows[name];
            if (x.ok) {
              const std::vector<double>& from = x.params.at(name);
              to.insert(to.end(), from.begin(), from.end());
            } else {
              to.insert(to.end(), size, std::numeric_limits<double>::quiet_NaN());
            }
          }
        }
        std::map<std::string, Array> params;
        for (auto& [name, numbers] : rows) {
          params.emplace(name, new_array(std::move(numbers), {n, width[name]}));
        }
        return std::tuple<std::vector<bool>, std::vector<double>, std::vector<std::string>,
                          std::vector<CfdPair>, std::map<std::string, Array>>(
            std::move(ok), std::move(losses), std::move(message), std::move(cfd),
            std::move(params));
      },
      "model"_a, "segments"_a, "loss"_a, "scale"_a, "gradient"_a, "fields"_a, "nthread"_a,
      "ok, losses, messages, counts of contacts from distance, and gradients by field.");
}

}  // namespace diffmj::python
