// The names of options, and options by name.
#include "base/names.h"
#include "diffmj/options.h"
#include "model/option_choices.h"

namespace diffmj {
namespace {

constexpr std::pair<Integrator, const char*> kIntegrators[] = {
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
    {Integrator::kRodas4p, "rodas4p"},
    {Integrator::kAuto, "auto"},
};
constexpr std::pair<GradientPath, const char*> kPaths[] = {
    {GradientPath::kAnalytic, "analytic"},
    {GradientPath::kOracle, "oracle"},
    {GradientPath::kDifferences, "differences"},
};
constexpr std::pair<Control, const char*> kControls[] = {
    {Control::kHold, "hold"},
    {Control::kLinear, "linear"},
};
constexpr std::pair<Adjoint, const char*> kAdjoints[] = {
    {Adjoint::kDiscrete, "discrete"},
    {Adjoint::kInterpolated, "interpolated"},
    {Adjoint::kBacksolve, "backsolve"},
};
constexpr std::pair<Collisions, const char*> kCollisions[] = {
    {Collisions::kMujoco, "mujoco"},
    {Collisions::kSmooth, "smooth"},
    {Collisions::kSmoothBackward, "smooth-backward"},
    {Collisions::kSmoothField, "smooth-field"},
};
constexpr std::pair<OptionKind, const char*> kKinds[] = {
    {OptionKind::kFlag, "flag"},     {OptionKind::kInteger, "integer"},
    {OptionKind::kNumber, "number"}, {OptionKind::kNumbers, "numbers"},
    {OptionKind::kChoice, "choice"},
};

}  // namespace

const char* integrator_name(Integrator x) { return name_of(kIntegrators, x); }
Integrator integrator_from_name(const std::string& name) {
  return value_of("integrator", kIntegrators, name);
}
bool is_runge_kutta(Integrator x) { return x >= Integrator::kExplicitEuler; }
bool is_linearly_implicit(Integrator x) { return x >= Integrator::kRodas4p; }

Adjoint ModelOptions::adjoint() const {
  if (adaptive.adjoint) return *adaptive.adjoint;
  return is_linearly_implicit(integrator) ? Adjoint::kInterpolated : Adjoint::kDiscrete;
}

const char* gradient_path_name(GradientPath x) { return name_of(kPaths, x); }
GradientPath gradient_path_from_name(const std::string& name) {
  return value_of("gradient_path", kPaths, name);
}

const char* control_name(Control x) { return name_of(kControls, x); }
Control control_from_name(const std::string& name) { return value_of("control", kControls, name); }

const char* adjoint_name(Adjoint x) { return name_of(kAdjoints, x); }
Adjoint adjoint_from_name(const std::string& name) { return value_of("adjoint", kAdjoints, name); }

const char* collisions_name(Collisions x) { return name_of(kCollisions, x); }
Collisions collisions_from_name(const std::string& name) {
  return value_of("collisions", kCollisions, name);
}

const char* option_kind_name(OptionKind x) { return name_of(kKinds, x); }

std::vector<std::string> integrator_names() { return names_of(kIntegrators); }
std::vector<std::string> gradient_path_names() { return names_of(kPaths); }
std::vector<std::string> control_names() { return names_of(kControls); }
std::vector<std::string> adjoint_names() { return names_of(kAdjoints); }
std::vector<std::string> collisions_names() { return names_of(kCollisions); }

std::vector<std::string> runge_kutta_names() {
  std::vector<std::string> out;
  for (const auto& [value, name] : kIntegrators) {
    if (is_runge_kutta(value)) out.emplace_back(name);
  }
  return out;
}

}  // namespace diffmj
