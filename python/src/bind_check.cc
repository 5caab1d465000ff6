// include/diffmj/check.h
#include "bind.h"
#include "diffmj/check.h"

namespace diffmj::python {

void bind_check(nb::module_& m) {
  nb::class_<CheckDirection>(m, "CheckDirection", "One random direction of a check.")
      .def_ro("adjoint", &CheckDirection::adjoint)
      .def_ro("differences", &CheckDirection::differences)
      .def_ro("error_bar", &CheckDirection::error_bar)
      .def_ro("error", &CheckDirection::error)
      .def_prop_ro("verdict", [](const CheckDirection& d) { return verdict_name(d.verdict); })
      .def_prop_ro("method", [](const CheckDirection& d) { return method_name(d.method); })
      .def_ro("step", &CheckDirection::step)
      .def_ro("kink", &CheckDirection::kink);

  nb::class_<Kink>(m, "Kink", "A place near to a change of the active set.")
      .def_ro("what", &Kink::what)
      .def_ro("step", &Kink::step)
      .def_ro("distance", &Kink::distance)
      .def_ro("unit", &Kink::unit);

  nb::class_<ConstraintKinks>(m, "ConstraintKinks", "How near a constraint comes to a change.")
      .def_ro("constraint", &ConstraintKinks::constraint)
      .def_ro("zone", &ConstraintKinks::zone)
      .def_ro("activation", &ConstraintKinks::activation);

  nb::class_<CheckReport>(m, "CheckReport", "What check_gradient() found.")
      .def_ro("passed", &CheckReport::passed)
      .def_ro("nstep", &CheckReport::nstep)
      .def_ro("reason", &CheckReport::reason)
      .def_ro("directions", &CheckReport::directions)
      .def_ro("solver_residual", &CheckReport::solver_residual)
      .def_ro("adjoint_residual", &CheckReport::adjoint_residual)
      .def_ro("nearest_kink", &CheckReport::nearest_kink)
      .def_ro("kinks", &CheckReport::kinks)
      .def_prop_ro("path", [](const CheckReport& r) { return gradient_path_name(r.path); })
      .def_ro("path_reason", &CheckReport::path_reason)
      .def_ro("oracle_difference", &CheckReport::oracle_difference)
      .def_ro("collider_difference", &CheckReport::collider_difference)
      .def_ro("nevent", &CheckReport::nevent)
      .def_ro("jump_share", &CheckReport::jump_share)
      .def_ro("features", &CheckReport::features)
      .def_ro("advice", &CheckReport::advice)
      .def_ro("warnings", &CheckReport::warnings);

  nb::class_<CheckOptions>(m, "CheckOptions", "See check.h.")
      .def(nb::init<>())
      // clang-format off
      DIFFMJ_OPTION(CheckOptions, nstep) DIFFMJ_OPTION(CheckOptions, directions)
      DIFFMJ_OPTION(CheckOptions, seed) DIFFMJ_OPTION(CheckOptions, tolerance);
  // clang-format on

  m.def(
      "check_gradient",
      [](const Model& model, const InputArrays& inputs, CheckOptions options,
         const nb::object& progress) {
        Signals signals;
        options.interrupted = [&] { return signals.raised(); };
        if (!progress.is_none()) {
          options.progress = [&](double share) { signals.call(progress, share); };
        }
        return signals.run([&] { return check_gradient(model, inputs.at(0), options); });
      },
      "model"_a, "inputs"_a, "options"_a, "progress"_a.none(),
      "Compares the adjoint with differences of mj_step.");
}

}  // namespace diffmj::python
