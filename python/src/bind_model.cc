// include/diffmj/options.h, model.h, state.h and the half of serialize.h that is about models
#include <mujoco/mujoco.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bind.h"
#include "diffmj/model.h"
#include "diffmj/options.h"
#include "diffmj/serialize.h"
#include "diffmj/state.h"

namespace diffmj::python {
namespace {

void bind_options(nb::module_& m) {
  nb::class_<OptionInfo>(m, "OptionInfo", "An option: its name, meaning, range and default.")
      .def_ro("name", &OptionInfo::name)
      .def_prop_ro("kind", [](const OptionInfo& x) { return option_kind_name(x.kind); })
      .def_ro("help", &OptionInfo::help)
      .def_ro("expected", &OptionInfo::expected)
      .def_ro("default_text", &OptionInfo::default_text)
      .def_ro("default", &OptionInfo::default_value)
      .def_ro("parts", &OptionInfo::parts)
      .def_ro("choices", &OptionInfo::choices)
      .def_ro("runge_kutta", &OptionInfo::runge_kutta);
  m.def("model_options", &model_option_list, "Options of a model, without cfd.");
  m.def("cfd_law_options", &cfd_law_option_list, "Options of a law of contacts from distance.");
  m.def("cfd_options", &cfd_option_list, "Options of contacts from distance, without laws.");
  m.def(
      "nearest_name",
      [](const std::string& name, const std::vector<std::string>& known) {
        return nearest_name(name, known);
      },
      "name"_a, "known"_a, "The known name that a misspelt one stands for; empty: none.");

  nb::class_<CfdLaw>(m, "CfdLaw", "Impedance and reference of contacts from distance.")
      .def(
          "__init__",
          [](CfdLaw* self, const NamedOptions& values) {
            new (self) CfdLaw(cfd_law_by_name(values));
          },
          "values"_a);
  nb::class_<CfdCounts>(m, "CfdCounts", "States with contacts from distance; see cfd.h.")
      .def(
          "__init__",
          [](CfdCounts* self, long evaluations, long capped) {
            new (self) CfdCounts{.evaluations = evaluations, .capped = capped};
          },
          "evaluations"_a, "capped"_a)
      .def_ro("evaluations", &CfdCounts::evaluations)
      .def_ro("capped", &CfdCounts::capped)
      .def("warning", &CfdCounts::warning);
  nb::class_<Cfd>(m, "Cfd", "Contacts from distance.")
      .def(
          "__init__",
          [](Cfd* self, const NamedOptions& values) {
            Cfd out;
            set_cfd_options(values, out);
            new (self) Cfd(out);
          },
          "values"_a)
      .def_rw("law", &Cfd::law, nb::none())
      .def_rw("geoms", &Cfd::geoms)
      .def_rw("pairs", &Cfd::pairs);
  nb::class_<ModelOptions>(m, "ModelOptions", "How a model is simulated and differentiated.")
      .def(
          "__init__",
          [](ModelOptions* self, const NamedOptions& values, const std::optional<Cfd>& cfd) {
            ModelOptions out = model_options_by_name(values);
            out.cfd = cfd;
            out.validate();
            new (self) ModelOptions(out);
          },
          "values"_a, "cfd"_a.none())
      .def(
          "get",
          [](const ModelOptions& options, const std::string& name) {
            return option_value(options, name);
          },
          "name"_a, "The value of an option; None: not set.");
}

}  // namespace

void bind_model(nb::module_& m) {
  bind_options(m);
  nb::class_<Model>(m, "Model", "A compiled MuJoCo model, constant and shared by all threads.")
      .def_static(
          "from_file",
          [](const std::string& file, const ModelOptions& options) {
            const nb::gil_scoped_release no_gil;
            return Model::from_file(file, options);
          },
          "file"_a, "options"_a, "Reads an MJCF, URDF or MJB file.")
      .def_static(
          "from_xml",
          [](const std::string& mjcf, const ModelOptions& options) {
            const nb::gil_scoped_release no_gil;
            return Model::from_xml(mjcf, options);
          },
          "mjcf"_a, "options"_a, "Compiles an MJCF string.")
      .def_static(
          "from_address",
          [](uintptr_t address, const ModelOptions& options) {
            // with the lock: no other Python thread writes to the model while it is copied
            // NOLINTNEXTLINE(performance-no-int-to-ptr): mujoco.MjModel gives its address as an int
            return Model::from_mjmodel(reinterpret_cast<const mjModel*>(address), options);
          },
          "address"_a, "options"_a, "Copies the mjModel at MjModel._address.")
      .def_static(
          "from_bytes",
          [](const nb::bytes& bytes, const ModelOptions& options) {
            const std::string_view view(bytes.c_str(), bytes.size());
            const nb::gil_scoped_release no_gil;
            return model_from_bytes(view, options);
          },
          "bytes"_a, "options"_a, "Reads what to_bytes gave.")
      .def(
          "to_bytes",
          [](const Model& model) {
            const std::string bytes = to_bytes(model);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The compiled model in MuJoCo's MJB format.")
      .def(
          "with_parameters",
          [](const Model& model, const std::map<std::string, std::vector<double>>& fields) {
            const nb::gil_scoped_release no_gil;
            return model.with_parameters(fields);
          },
          "fields"_a, "The same model with other numbers in some fields of mjModel.")
      .def(
          "tightened",
          [](const Model& model) {
            const nb::gil_scoped_release no_gil;
            return model.tightened();
          },
          "The same model with the solver run to machine precision and no warm start.")
      .def_prop_ro(
          "options", [](const Model& model) { return model.options(); },
          "How the model is simulated and differentiated, as requested.")
      .def_prop_ro("collisions_notice", &Model::collisions_notice,
                   "Pairs of shapes that have MuJoCo's collider although smooth ones were "
                   "requested; empty if there are none.")
      .def_prop_ro(
          "quaternions",
          [](const Model& model) {
            const mjModel* m = model.mj();
            std::vector<std::pair<int, int>> out;
            for (int j = 0; j < static_cast<int>(m->njnt); j++) {
              const int skip = m->jnt_type[j] == mjJNT_FREE ? 3 : 0;
              if (m->jnt_type[j] != mjJNT_FREE && m->jnt_type[j] != mjJNT_BALL) continue;
              out.emplace_back(m->jnt_qposadr[j] + skip, m->jnt_dofadr[j] + skip);
            }
            return out;
          },
          "Where each quaternion begins, in qpos and in qvel.")
      .def_prop_ro("nq", &Model::nq, "Position coordinates.")
      .def_prop_ro("nv", &Model::nv, "Degrees of freedom.")
      .def_prop_ro("na", &Model::na, "Activations.")
      .def_prop_ro("nu", &Model::nu, "Controls.")
      .def_prop_ro("nbody", &Model::nbody, "Bodies.")
      .def_prop_ro("nmocap", &Model::nmocap, "Mocap bodies.")
      .def_prop_ro("nsite", &Model::nsite, "Sites.")
      .def_prop_ro("nsensordata", &Model::nsensordata, "Numbers that the sensors measure.")
      .def_prop_ro("ngeom", &Model::ngeom, "Geoms.")
      .def_prop_ro("timestep", &Model::timestep, "The model's step of time [s].")
      .def_prop_ro("interval", &Model::interval, "Time between rows of a trajectory [s].")
      .def_prop_ro(
          "adjoint",
          [](const Model& x) { return std::string(adjoint_name(x.options().adjoint())); },
          "How adaptive steps are differentiated.")
      .def_prop_ro("is_adaptive", &Model::is_adaptive,
                   "The integrator is an explicit Runge-Kutta method of ours.")
      .def_prop_ro(
          "integrator", [](const Model& model) { return integrator_name(model.integrator()); },
          "MuJoCo's name of the integrator.")
      .def_prop_ro(
          "gradient_path",
          [](const Model& model) { return gradient_path_name(model.gradient_path()); },
          "'analytic', 'oracle' or 'differences'.")
      .def_prop_ro(
          "gradient_path_reason", &Model::gradient_path_reason,
          "The feature that requires a slower path than requested; empty if there is none.")
      .def("parameter_shape", &parameter_shape, "name"_a, "Rows and numbers per row of a field.")
      .def("keyframe", &Model::keyframe, "name"_a, "Number of the keyframe with this name.")
      .def(
          "default_state", [](const Model& model) { return default_state(model); },
          "qpos0, at rest.")
      .def(
          "load_keyframe", [](const Model& model, int key) { return load_keyframe(model, key); },
          "key"_a, "The state and inputs of keyframe number key.");

  m.def("parameter_names", &parameter_names, "Fields of mjModel with a gradient.");

  nb::class_<Keyframe>(m, "Keyframe", "A state, and the inputs stored with it.")
      .def_ro("state", &Keyframe::state)
      .def_prop_ro(
          "ctrl", [](const Keyframe& key) { return new_array(key.ctrl, {key.ctrl.size()}); },
          kOwner, "nu")
      .def_prop_ro(
          "mocap_pos",
          [](const Keyframe& key) {
            return new_array(key.mocap_pos, {key.mocap_pos.size() / 3, 3});
          },
          kOwner, "nmocap x 3")
      .def_prop_ro(
          "mocap_quat",
          [](const Keyframe& key) {
            return new_array(key.mocap_quat, {key.mocap_quat.size() / 4, 4});
          },
          kOwner, "nmocap x 4");

  nb::class_<State>(m, "State", "A state of a model.")
      .def_ro("time", &State::time, "[s]")
      .def_prop_ro(
          "qpos", [](const State& x) { return new_array(x.qpos, {x.qpos.size()}); }, kOwner, "nq")
      .def_prop_ro(
          "qvel", [](const State& x) { return new_array(x.qvel, {x.qvel.size()}); }, kOwner, "nv")
      .def_prop_ro(
          "act", [](const State& x) { return new_array(x.act, {x.act.size()}); }, kOwner, "na");
}

}  // namespace diffmj::python
