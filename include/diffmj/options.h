// ModelOptions, and the list of them: names, meanings, allowed values and defaults. C++, Python,
// the command line and problem files all read this list, and validate() applies its rules to all.
#ifndef DIFFMJ_OPTIONS_H_
#define DIFFMJ_OPTIONS_H_

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "diffmj/adaptive.h"
#include "diffmj/cfd.h"
#include "diffmj/collisions.h"

namespace diffmj {

// MuJoCo's integrators (kModel keeps that of the model), then Runge-Kutta methods of diffmj, which
// are adaptive except for the first: explicit ones, the linearly implicit kRodas4p, and kAuto, which
// is kTsit5 and, where its stability would limit steps, kRodas4p.
enum class Integrator {
  kModel,
  kEuler,
  kRk4,
  kImplicit,
  kImplicitFast,
  kDiscrete,
  kExplicitEuler,
  kHeun,
  kMidpoint,
  kRalston,
  kBosh3,
  kTsit5,
  kDopri5,
  kDopri8,
  kRodas4p,
  kAuto,
};

// "Euler", "RK4", "implicit", "implicitfast", "discrete", "model": MuJoCo's own words; and
// "explicit_euler", "heun", "midpoint", "ralston", "bosh3", "tsit5", "dopri5", "dopri8", "rodas4p",
// "auto".
const char* integrator_name(Integrator integrator);
// The inverse; an InputError lists the valid names and suggests the nearest.
Integrator integrator_from_name(const std::string& name);
// Whether it is an explicit Runge-Kutta method of diffmj. MuJoCo's RK4 is not one of them.
bool is_runge_kutta(Integrator integrator);
// Of them, whether it makes linearly implicit steps, at least at times.
bool is_linearly_implicit(Integrator integrator);

// How one step is differentiated (docs/gradients.md).
enum class GradientPath {
  kAnalytic,     // reverse sweeps over the stages, written by hand
  kOracle,       // implicit differentiation of the solver, differences of inverse dynamics
  kDifferences,  // differences of mj_step itself: the solution is not a root of inverse dynamics
};
const char* gradient_path_name(GradientPath path);  // "analytic", "oracle", "differences"
GradientPath gradient_path_from_name(const std::string& name);

struct ModelOptions {
  Integrator integrator = Integrator::kModel;
  // The fastest path that the model may take; slower ones are for comparison.
  GradientPath gradient_path = GradientPath::kAnalytic;
  // Whether a feature without an analytic pullback makes the model take a slower path. If not, it
  // is an UnsupportedError that names the feature.
  bool fallback = true;
  // Smooths the curves of muscles over this width, in the backward pass only, in units of the
  // muscle's optimal length, of its largest velocity and of activation. Flat pieces then have a
  // slope near their ends (docs/gradients.md). 0: the exact derivative. Needs the analytic path.
  double muscle_smoothing = 0;
  // Smooth colliders instead of MuJoCo's. kSmoothBackward and kSmoothField need the analytic path.
  CollisionOptions collisions = {};
  // Contacts from distance, in the backward pass; none: no such contacts. Needs the analytic path.
  std::optional<Cfd> cfd = {};
  // Options of the explicit Runge-Kutta methods. With another integrator they must keep their
  // defaults.
  AdaptiveOptions adaptive = {};

  // adaptive.adjoint, or the integrator's own.
  Adjoint adjoint() const;

  // Throws InputError that names an option, its value and what is allowed. Models call it when they
  // are made.
  void validate() const;
};

// The value of an option by name. monostate: the option is not set.
using OptionValue =
    std::variant<std::monostate, bool, long, double, std::vector<double>, std::string>;

enum class OptionKind { kFlag, kInteger, kNumber, kNumbers, kChoice };
const char* option_kind_name(OptionKind kind);  // "flag", "integer", "number", "numbers", "choice"

struct OptionInfo {
  std::string name = {};  // "max_steps"; on the command line --max-steps
  OptionKind kind = OptionKind::kNumber;
  std::string help = {};                  // what it does
  std::string expected = {};              // the allowed values, in words: "a number ≥ 0"
  std::string default_text = {};          // "1e-06", "the model's timestep"
  OptionValue default_value = {};         // monostate: not set
  std::vector<std::string> parts = {};    // of kNumbers: what its numbers are
  std::vector<std::string> choices = {};  // of kChoice
  bool runge_kutta = false;               // only for the explicit Runge-Kutta methods
};

// Every option of ModelOptions except cfd; of a CfdLaw; and of Cfd beside its laws.
const std::vector<OptionInfo>& model_option_list();
const std::vector<OptionInfo>& cfd_law_option_list();
const std::vector<OptionInfo>& cfd_option_list();

// Options by name. Throws InputError if a name is unknown, if a value is of another kind, and if an
// option of the explicit Runge-Kutta methods is given with another integrator, whatever its value.
// Ranges are checked by validate().
using NamedOptions = std::vector<std::pair<std::string, OptionValue>>;
ModelOptions model_options_by_name(const NamedOptions& values);
CfdLaw cfd_law_by_name(const NamedOptions& values);
void set_cfd_options(const NamedOptions& values, Cfd& cfd);

// The known name that a misspelt one most likely stands for; empty if none is similar.
std::string nearest_name(const std::string& name, std::span<const std::string> known);
// "integrator 'tsit6' is not known; did you mean 'tsit5'? Use one of ..."
std::string unknown_name(const std::string& what, const std::string& name,
                         std::span<const std::string> known);

// The current value of an option by name.
OptionValue option_value(const ModelOptions& options, const std::string& name);

}  // namespace diffmj

#endif  // DIFFMJ_OPTIONS_H_
