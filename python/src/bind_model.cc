// include/diffmj/model.h, state.h and the half of serialize.h that is about models
#include <mujoco/mujoco.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bind.h"
#include "diffmj/model.h"
#include "diffmj/serialize.h"
#include "diffmj/state.h"

namespace diffmj::python {
namespace {

GradientPath gradient_path_from_name(const std::string& name) {
  std::string known;
  for (const GradientPath path :
       {GradientPath::kAnalytic, GradientPath::kOracle, GradientPath::kDifferences}) {
    if (name == gradient_path_name(path)) return path;
    known += (known.empty() ? "" : ", ") + std::string(gradient_path_name(path));
  }
  throw InputError("path '" + name + "' is not known; use one of " + known);
}

ModelOptions options(const std::string& integrator, const std::string& gradient_path, bool fallback,
                     double muscle_smoothing, const std::string& collisions, double smoothness,
                     const AdaptiveOptions& adaptive, const std::optional<Cfd>& cfd) {
  return {.integrator = integrator_from_name(integrator),
          .path = gradient_path_from_name(gradient_path),
          .fallback = fallback,
          .muscle_smoothing = muscle_smoothing,
          .collisions = {collisions_from_name(collisions), smoothness},
          .cfd = cfd,
          .adaptive = adaptive};
}

// an attribute of AdaptiveOptions::stepping
template <class T>
auto get(T StepControl::*member) {
  return [member](const AdaptiveOptions& o) { return o.stepping.*member; };
}
template <class T>
auto set(T StepControl::*member) {
  return [member](AdaptiveOptions& o, T value) { o.stepping.*member = value; };
}

}  // namespace

void bind_model(nb::module_& m) {
  // every attribute may be set; names are checked when a model is made
  nb::class_<AdaptiveOptions>(m, "AdaptiveOptions", "Options of explicit Runge-Kutta methods.")
      .def(nb::init<>())
      .def_rw("step", &AdaptiveOptions::step)
      .def_rw("interval", &AdaptiveOptions::interval)
      .def_rw("events", &AdaptiveOptions::events)
      .def_rw("checkpoints", &AdaptiveOptions::checkpoints, nb::none())
      .def_rw("adjoint_rtol", &AdaptiveOptions::adjoint_rtol, nb::none())
      .def_rw("adjoint_atol", &AdaptiveOptions::adjoint_atol, nb::none())
      .def_prop_rw(
          "control", [](const AdaptiveOptions& o) { return control_name(o.control); },
          [](AdaptiveOptions& o, const std::string& x) { o.control = control_from_name(x); })
      .def_prop_rw(
          "adjoint", [](const AdaptiveOptions& o) { return adjoint_name(o.adjoint); },
          [](AdaptiveOptions& o, const std::string& x) { o.adjoint = adjoint_from_name(x); })
      .def_prop_rw("rtol", get(&StepControl::rtol), set(&StepControl::rtol))
      .def_prop_rw("atol", get(&StepControl::atol), set(&StepControl::atol))
      .def_prop_rw("p", get(&StepControl::p), set(&StepControl::p))
      .def_prop_rw("i", get(&StepControl::i), set(&StepControl::i))
      .def_prop_rw("d", get(&StepControl::d), set(&StepControl::d))
      .def_prop_rw("safety", get(&StepControl::safety), set(&StepControl::safety))
      .def_prop_rw("shrink", get(&StepControl::shrink), set(&StepControl::shrink))
      .def_prop_rw("grow", get(&StepControl::grow), set(&StepControl::grow))
      .def_prop_rw("min_step", get(&StepControl::min_step), set(&StepControl::min_step))
      .def_prop_rw("max_step", get(&StepControl::max_step), set(&StepControl::max_step))
      .def_prop_rw("max_steps", get(&StepControl::max_steps), set(&StepControl::max_steps));

  nb::class_<CfdLaw>(m, "CfdLaw", "Impedance and reference of contacts from distance.")
      .def(nb::init<>())
      .def_rw("width", &CfdLaw::width)
      .def_rw("d_c", &CfdLaw::d_c)
      .def_rw("d_0", &CfdLaw::d_0)
      .def_rw("midpoint", &CfdLaw::midpoint)
      .def_rw("power", &CfdLaw::power)
      .def_rw("softplus", &CfdLaw::softplus);
  nb::class_<Cfd>(m, "Cfd", "Contacts from distance.")
      .def(nb::init<>())
      .def_rw("law", &Cfd::law, nb::none())
      .def_rw("geoms", &Cfd::geoms)
      .def_rw("pairs", &Cfd::pairs)
      .def_rw("max_contacts", &Cfd::max_contacts)
      .def_rw("controls_steps", &Cfd::controls_steps)
      .def_rw("forward", &Cfd::forward);

  nb::class_<Model>(m, "Model", "A compiled MuJoCo model, constant and shared by all threads.")
      .def_static(
          "from_file",
          [](const std::string& file, const std::string& integrator, const std::string& path,
             bool fallback, double muscle_smoothing, const std::string& collisions,
             double smoothness, const AdaptiveOptions& adaptive, const std::optional<Cfd>& cfd) {
            const nb::gil_scoped_release no_gil;
            return Model::from_file(file, options(integrator, path, fallback, muscle_smoothing,
                                                  collisions, smoothness, adaptive, cfd));
          },
          "file"_a, "integrator"_a, "path"_a, "fallback"_a, "muscle_smoothing"_a, "collisions"_a,
          "smoothness"_a, "adaptive"_a, "cfd"_a.none(), "Reads an MJCF, URDF or MJB file.")
      .def_static(
          "from_xml",
          [](const std::string& mjcf, const std::string& integrator, const std::string& path,
             bool fallback, double muscle_smoothing, const std::string& collisions,
             double smoothness, const AdaptiveOptions& adaptive, const std::optional<Cfd>& cfd) {
            const nb::gil_scoped_release no_gil;
            return Model::from_xml(mjcf, options(integrator, path, fallback, muscle_smoothing,
                                                 collisions, smoothness, adaptive, cfd));
          },
          "mjcf"_a, "integrator"_a, "path"_a, "fallback"_a, "muscle_smoothing"_a, "collisions"_a,
          "smoothness"_a, "adaptive"_a, "cfd"_a.none(), "Compiles an MJCF string.")
      .def_static(
          "from_address",
          [](uintptr_t address, const std::string& integrator, const std::string& path,
             bool fallback, double muscle_smoothing, const std::string& collisions,
             double smoothness, const AdaptiveOptions& adaptive, const std::optional<Cfd>& cfd) {
            // with the lock: no other Python thread writes to the model while it is copied
            // NOLINTNEXTLINE(performance-no-int-to-ptr): mujoco.MjModel gives its address as an int
            return Model::from_mjmodel(reinterpret_cast<const mjModel*>(address),
                                       options(integrator, path, fallback, muscle_smoothing,
                                               collisions, smoothness, adaptive, cfd));
          },
          "address"_a, "integrator"_a, "path"_a, "fallback"_a, "muscle_smoothing"_a, "collisions"_a,
          "smoothness"_a, "adaptive"_a, "cfd"_a.none(), "Copies the mjModel at MjModel._address.")
      .def_static(
          "from_bytes",
          [](const nb::bytes& bytes, const std::string& integrator, const std::string& path,
             bool fallback, double muscle_smoothing, const std::string& collisions,
             double smoothness, const AdaptiveOptions& adaptive, const std::optional<Cfd>& cfd) {
            const std::string_view view(bytes.c_str(), bytes.size());
            const nb::gil_scoped_release no_gil;
            return model_from_bytes(view, options(integrator, path, fallback, muscle_smoothing,
                                                  collisions, smoothness, adaptive, cfd));
          },
          "bytes"_a, "integrator"_a, "path"_a, "fallback"_a, "muscle_smoothing"_a, "collisions"_a,
          "smoothness"_a, "adaptive"_a, "cfd"_a.none(), "Reads what to_bytes gave.")
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
      .def_prop_ro("muscle_smoothing", &Model::muscle_smoothing,
                   "Width over which muscles are blurred in the backward pass; 0: not at all.")
      .def_prop_ro(
          "collisions",
          [](const Model& model) { return collisions_name(model.options().collisions.mode); },
          "Which colliders are used: mujoco, smooth, smooth-backward or smooth-field.")
      .def_prop_ro(
          "smoothness", [](const Model& model) { return model.options().collisions.smoothness; },
          "Width of smooth colliders [m].")
      .def_prop_ro("collisions_notice", &Model::collisions_notice,
                   "Pairs of shapes that have MuJoCo's collider although smooth ones were asked "
                   "for; empty if there are none.")
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
          "Where they begin: in qpos and in qvel.")
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
      .def_prop_ro("is_adaptive", &Model::is_adaptive,
                   "The integrator is an explicit Runge-Kutta method of ours.")
      .def_prop_ro(
          "adaptive", [](const Model& model) { return model.options().adaptive; },
          "Options of explicit Runge-Kutta methods.")
      .def_prop_ro(
          "integrator", [](const Model& model) { return integrator_name(model.integrator()); },
          "MuJoCo's name of the integrator.")
      .def_prop_ro(
          "gradient_path",
          [](const Model& model) { return gradient_path_name(model.gradient_path()); },
          "'analytic', 'oracle' or 'differences'.")
      .def_prop_ro("gradient_path_reason", &Model::gradient_path_reason,
                   "What forced a slower path than was asked for; empty if nothing did.")
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
