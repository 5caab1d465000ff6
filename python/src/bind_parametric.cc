// include/diffmj/identify.h
#include <mujoco/mujoco.h>
#include <nanobind/stl/map.h>

#include "bind.h"
#include "diffmj/identify.h"

namespace diffmj::python {
namespace {

using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const double> span(const Numbers& x) { return {x.data(), x.size()}; }

// A Python function from numbers to the address of an mjModel that lives until the next call.
BuildModel from_function(nb::callable function) {
  const auto shared =
      std::shared_ptr<nb::callable>(new nb::callable(std::move(function)), [](nb::callable* f) {
        const nb::gil_scoped_acquire lock;
        delete f;
      });
  return [shared](std::span<const double> theta) -> mjModel* {
    const nb::gil_scoped_acquire lock;
    try {
      const nb::object made = (*shared)(std::vector<double>(theta.begin(), theta.end()));
      const auto address = nb::cast<uintptr_t>(made.attr("_address"));
      return mj_copyModel(nullptr, reinterpret_cast<const mjModel*>(address));
    } catch (nb::python_error& error) {
      // what MjSpec.compile raises
      if (!error.matches(PyExc_ValueError)) throw;
      throw MujocoError(std::string("the model cannot be built: ") + error.what());
    }
  };
}

}  // namespace

void bind_parametric(nb::module_& m) {
  nb::class_<ParametricModel::Jacobian>(m, "ParameterJacobian",
                                        "Derivatives of fields of mjModel in parameters.")
      .def_prop_ro("fields", &ParametricModel::Jacobian::fields)
      .def(
          "tangents",
          [](const ParametricModel::Jacobian& jacobian, const Model& model) {
            std::map<std::string, nb::ndarray<nb::numpy, double>> out;
            for (const std::string& name : jacobian.fields()) {
              std::vector<double> numbers = jacobian.tangents(model, name);
              const size_t size = numbers.size();
              out[name] = new_array(std::move(numbers), {1, size});
            }
            return out;
          },
          "model"_a, "Derivatives of the fields, a row of their numbers per parameter, flat.")
      .def(
          "pullback",
          [](const ParametricModel::Jacobian& jacobian,
             const std::map<std::string, RowArray>& params, size_t batch) {
            std::vector<double> all;
            size_t size = 0;
            for (size_t i = 0; i < batch; i++) {
              Gradient gradient;
              for (const auto& [name, rows] : params) {
                const std::span<const double> numbers = row(rows, i);
                gradient.params[name].assign(numbers.begin(), numbers.end());
              }
              const std::vector<double> one = jacobian.pullback(gradient);
              all.insert(all.end(), one.begin(), one.end());
              size = one.size();
            }
            return new_array(std::move(all), {batch, size});
          },
          "params"_a, "batch"_a, kOwner,
          "From gradients in the fields, batch x size each: batch x number of parameters.");

  nb::class_<ParametricModel>(m, "ParametricModel", "Models as a function of parameters.")
      .def_static(
          "from_attributes",
          [](const std::string& mjcf, const std::vector<std::string>& attributes,
             const Model& like) {
            const nb::gil_scoped_release no_gil;
            return ParametricModel::from_attributes(mjcf, attributes, like.options());
          },
          "mjcf"_a, "attributes"_a, "like"_a)
      .def_static(
          "from_function",
          [](nb::callable function, const Numbers& start, std::vector<std::string> names,
             const Model& like) {
            return ParametricModel(from_function(std::move(function)), span(start),
                                   std::move(names), like.options());
          },
          "function"_a, "start"_a, "names"_a, "like"_a)
      .def_prop_ro("names", &ParametricModel::names)
      .def_prop_ro("start", &ParametricModel::start)
      .def(
          "mjcf",
          [](const ParametricModel& family, const Numbers& theta) {
            const nb::gil_scoped_release no_gil;
            return family.mjcf(span(theta));
          },
          "theta"_a, "The MJCF of attributes with these values.")
      .def(
          "at",
          [](const ParametricModel& family, const Numbers& theta) {
            const nb::gil_scoped_release no_gil;
            return family.at(span(theta));
          },
          "theta"_a, "The model of these parameters.")
      .def(
          "jacobian",
          [](const ParametricModel& family, const Numbers& theta, std::optional<int> nthread,
             bool allow_idle) {
            const nb::gil_scoped_release no_gil;
            return family.jacobian(span(theta), nthread, allow_idle);
          },
          "theta"_a, "nthread"_a.none(), "allow_idle"_a = false,
          "Derivatives of the fields of mjModel in the parameters.");
}

}  // namespace diffmj::python
