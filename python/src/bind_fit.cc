// include/diffmj/fit.h
#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bind.h"
#include "diffmj/fit.h"

namespace diffmj::python {
namespace {

using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<nb::numpy, double>;

std::span<const double> span(const Numbers& x) { return {x.data(), x.size()}; }

Array array(std::vector<double> values) {
  const size_t n = values.size();
  return new_array(std::move(values), {n});
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

  nb::class_<FitVariables>(m, "FitVariables", "Free variables for bounded parameters.")
      .def(
          "__init__",
          [](FitVariables* self, const Numbers& start,
             const std::vector<std::pair<double, double>>& bounds,
             const std::vector<std::string>& names) {
            std::vector<FitBounds> all;
            for (const auto& [low, high] : bounds) all.push_back({low, high});
            new (self) FitVariables(span(start), all, names);
          },
          "start"_a, "bounds"_a, "names"_a)
      .def(
          "theta", [](const FitVariables& x, const Numbers& z) { return array(x.theta(span(z))); },
          "z"_a, kOwner)
      .def(
          "slope", [](const FitVariables& x, const Numbers& z) { return array(x.slope(span(z))); },
          "z"_a, kOwner);

  nb::class_<Objective>(m, "Objective", "The loss of segments as a function of parameters.")
      .def(nb::init<ParametricModel, std::vector<Segment>>(), "family"_a, "segments"_a)
      .def_prop_ro("nsegment", &Objective::nsegment)
      .def(
          "evaluate",
          [](const Objective& objective, const Numbers& theta, bool gradient, int nthread) {
            Signals signals;
            Objective::Value value = signals.run([&] {
              return objective.evaluate(span(theta), gradient, {}, signals.options(nthread));
            });
            return std::tuple<double, Array, int>(value.loss, array(std::move(value.gradient)),
                                                  value.nfailed);
          },
          "theta"_a, "gradient"_a, "nthread"_a, "Loss, gradient, and number of failed rollouts.")
      .def(
          "residuals",
          [](const Objective& objective, const Numbers& theta) {
            Signals signals;
            return array(
                signals.run([&] { return objective.residuals(span(theta), signals.options(1)); }));
          },
          "theta"_a, kOwner)
      .def(
          "uncertainty",
          [](const Objective& objective, const Numbers& theta) {
            Signals signals;
            Uncertainty out = signals.run(
                [&] { return uncertainty(objective, span(theta), signals.options(1)); });
            const size_t n = theta.size();
            return std::tuple<Array, Array, std::vector<std::vector<double>>>(
                array(std::move(out.error)), new_array(std::move(out.correlation), {n, n}),
                std::move(out.undetermined));
          },
          "theta"_a, "Standard errors, correlations, and directions that are not determined.")
      .def(
          "fit",
          [](const Objective& objective, const Numbers& start,
             const std::vector<std::pair<double, double>>& bounds, int iterations, double rate,
             double beta1, double beta2, int minibatch, unsigned seed, int nthread,
             const nb::object& progress) {
            Signals signals;
            FitOptions options{.iterations = iterations,
                               .rate = rate,
                               .beta1 = beta1,
                               .beta2 = beta2,
                               .minibatch = minibatch,
                               .seed = seed,
                               .nthread = nthread,
                               .interrupted = [&] { return signals.raised(); }};
            for (const auto& [low, high] : bounds) options.bounds.push_back({low, high});
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
            return std::tuple<std::vector<double>, double, std::vector<FitStep>, bool>(
                out.theta, out.loss, out.history, out.interrupted);
          },
          "start"_a, "bounds"_a, "iterations"_a, "rate"_a, "beta1"_a, "beta2"_a, "minibatch"_a,
          "seed"_a, "nthread"_a, "progress"_a.none());
}

}  // namespace diffmj::python
