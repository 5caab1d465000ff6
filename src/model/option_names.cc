// The names of options, and options by name.
#include <array>
#include <utility>

#include "diffmj/error.h"
#include "diffmj/model.h"

namespace diffmj {
namespace {

constexpr std::array<std::pair<Integrator, const char*>, 14> kIntegratorNames = {{
    {Integrator::kModel, "model"},
    {Integrator::kEuler, "Euler"},
    {Integrator::kRk4, "RK4"},
    {Integrator::kImplicit, "implicit"},
    {Integrator::kImplicitFast, "implicitfast"},
    {Integrator::kDiscrete, "discrete"},
    {Integrator::kExplicitEuler, "explicit_euler"},
    {Integrator::kHeun, "heun"},
    {Integrator::kMidpoint, "midpoint"},
    {Integrator::kRalston, "ralston"},
    {Integrator::kBosh3, "bosh3"},
    {Integrator::kTsit5, "tsit5"},
    {Integrator::kDopri5, "dopri5"},
    {Integrator::kDopri8, "dopri8"},
}};

}  // namespace

const char* integrator_name(Integrator integrator) {
  for (const auto& [value, name] : kIntegratorNames) {
    if (value == integrator) return name;
  }
  return "?";
}

const char* gradient_path_name(GradientPath path) {
  switch (path) {
    case GradientPath::kAnalytic:
      return "analytic";
    case GradientPath::kOracle:
      return "oracle";
    case GradientPath::kDifferences:
      return "differences";
  }
  return "?";
}

Integrator integrator_from_name(const std::string& name) {
  std::string known;
  for (const auto& [value, word] : kIntegratorNames) {
    if (name == word) return value;
    known += std::string(known.empty() ? "" : ", ") + word;
  }
  throw InputError("integrator '" + name + "' is not known; use one of " + known);
}

const char* control_name(Control control) { return control == Control::kHold ? "hold" : "linear"; }

const char* adjoint_name(Adjoint adjoint) {
  return adjoint == Adjoint::kDiscrete       ? "discrete"
         : adjoint == Adjoint::kInterpolated ? "interpolated"
                                             : "backsolve";
}

Control control_from_name(const std::string& name) {
  for (const Control x : {Control::kHold, Control::kLinear}) {
    if (name == control_name(x)) return x;
  }
  throw InputError("control '" + name + "' is not known; use hold or linear");
}

Adjoint adjoint_from_name(const std::string& name) {
  for (const Adjoint x : {Adjoint::kDiscrete, Adjoint::kInterpolated, Adjoint::kBacksolve}) {
    if (name == adjoint_name(x)) return x;
  }
  throw InputError("adjoint '" + name + "' is not known; use discrete, interpolated or backsolve");
}

const char* collisions_name(Collisions mode) {
  switch (mode) {
    case Collisions::kMujoco:
      return "mujoco";
    case Collisions::kSmooth:
      return "smooth";
    case Collisions::kSmoothBackward:
      return "smooth-backward";
    case Collisions::kSmoothField:
      return "smooth-field";
  }
  return "";
}

Collisions collisions_from_name(const std::string& name) {
  for (const Collisions x : {Collisions::kMujoco, Collisions::kSmooth, Collisions::kSmoothBackward,
                             Collisions::kSmoothField}) {
    if (name == collisions_name(x)) return x;
  }
  throw InputError("collisions '" + name +
                   "' is not known; use mujoco, smooth, smooth-backward or smooth-field");
}

}  // namespace diffmj
