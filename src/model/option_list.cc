// The options of a model: the one place that has their names, meanings and ranges.
#include "model/option_list.h"

#include <mujoco/mujoco.h>

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/text.h"
#include "diffmj/error.h"
#include "diffmj/options.h"
#include "model/option_choices.h"
#include "model/option_table.h"

namespace diffmj {
namespace {

// fields that may be unset, and those that may not
template <class T>
OptionValue value_of_field(const T& field) {
  return field;
}
OptionValue value_of_field(int field) { return static_cast<long>(field); }
template <class T>
OptionValue value_of_field(const std::optional<T>& field) {
  return field ? value_of_field(*field) : OptionValue();
}

// field: [](auto& x) -> auto& { return x.width; }
template <class Struct, class Field>
Option<Struct> numeric(OptionKind kind, const char* name, Field field, const Range& range,
                       const char* help, const char* default_text) {
  Option<Struct> out;
  out.info = {.name = name,
              .kind = kind,
              .help = help,
              .expected = range.words(),
              .default_text = default_text};
  out.ranges = {range};
  out.get = [field](const Struct& x) { return value_of_field(field(x)); };
  return out;
}

template <class Struct, class Field>
Option<Struct> number(const char* name, Field field, const Range& range, const char* help,
                      const char* default_text = "") {
  Option<Struct> out = numeric<Struct>(OptionKind::kNumber, name, field, range, help, default_text);
  out.set = [field](Struct& x, const OptionValue& value) { field(x) = std::get<double>(value); };
  return out;
}

template <class Struct, class Field>
Option<Struct> integer(const char* name, Field field, const Range& range, const char* help,
                       const char* default_text = "") {
  Option<Struct> out =
      numeric<Struct>(OptionKind::kInteger, name, field, range, help, default_text);
  out.set = [field, name](Struct& x, const OptionValue& value) {
    const long given = std::get<long>(value);
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field(x))>, long>) {
      field(x) = given;
    } else {
      // an int may be shorter than what Python and the command line hand over
      const auto kept = static_cast<int>(given);
      if (kept != given) {
        throw InputError(std::string(name) + " is " + std::to_string(given) +
                         ", expected an integer up to " +
                         std::to_string(std::numeric_limits<int>::max()));
      }
      field(x) = kept;
    }
  };
  return out;
}

template <class Struct, class Field>
Option<Struct> flag(const char* name, Field field, const char* help) {
  Option<Struct> out;
  out.info = {.name = name, .kind = OptionKind::kFlag, .help = help, .expected = "true or false"};
  out.get = [field](const Struct& x) { return OptionValue(field(x)); };
  out.set = [field](Struct& x, const OptionValue& value) { field(x) = std::get<bool>(value); };
  return out;
}

template <class Struct, class Field, class ToName, class FromName>
Option<Struct> choice(const char* name, Field field, std::vector<std::string> names, ToName to_name,
                      FromName from_name, const char* help) {
  Option<Struct> out;
  out.info = {.name = name,
              .kind = OptionKind::kChoice,
              .help = help,
              .expected = "one of " + joined(names),
              .choices = std::move(names)};
  out.get = [field, to_name](const Struct& x) { return std::string(to_name(field(x))); };
  out.set = [field, from_name](Struct& x, const OptionValue& value) {
    field(x) = from_name(std::get<std::string>(value));
  };
  return out;
}

// the same of a field that may be unset
template <class Struct, class Field, class ToName, class FromName>
Option<Struct> optional_choice(const char* name, Field field, std::vector<std::string> names,
                               ToName to_name, FromName from_name, const char* help,
                               const char* default_text) {
  Option<Struct> out;
  out.info = {.name = name,
              .kind = OptionKind::kChoice,
              .help = help,
              .expected = "one of " + joined(names),
              .default_text = default_text,
              .choices = std::move(names)};
  out.get = [field, to_name](const Struct& x) {
    return field(x) ? OptionValue(std::string(to_name(*field(x)))) : OptionValue();
  };
  out.set = [field, from_name](Struct& x, const OptionValue& value) {
    field(x) = from_name(std::get<std::string>(value));
  };
  return out;
}

// several numbers that belong together; fields: [](auto& x) { return std::vector{&x.p, &x.i}; }
template <class Struct, class Fields>
Option<Struct> numbers(const char* name, Fields fields, std::vector<std::string> parts,
                       std::vector<Range> ranges, const char* help) {
  Option<Struct> out;
  out.info = {.name = name,
              .kind = OptionKind::kNumbers,
              .help = help,
              .expected = std::to_string(parts.size()) + " numbers, " + joined(parts),
              .parts = std::move(parts)};
  out.ranges = std::move(ranges);
  out.get = [fields](const Struct& x) {
    std::vector<double> values;
    for (const double* field : fields(x)) values.push_back(*field);
    return OptionValue(values);
  };
  out.set = [fields](Struct& x, const OptionValue& value) {
    const auto& values = std::get<std::vector<double>>(value);
    size_t k = 0;
    for (double* field : fields(x)) *field = values[k++];
  };
  return out;
}

#define DIFFMJ_FIELD(member) \
  [](auto& x) -> auto& { return x.member; }

const Range kTime{.noun = "a time", .low = 0, .above = true};
const Range kTolerance{};
const Range kImpedance{.noun = "an impedance", .high = mjMAXIMP};
const Range kInteger{.noun = "an integer", .low = 1};

OptionTable<ModelOptions> make_model_table() {
  using M = ModelOptions;
  std::vector<Option<M>> all = {
      choice<M>("integrator", DIFFMJ_FIELD(integrator), integrator_names(), integrator_name,
                integrator_from_name,
                "the integrator: 'model' keeps that of the model; the others are MuJoCo's or "
                "adaptive Runge-Kutta methods; 'auto' is for any robot"),
      choice<M>("gradient_path", DIFFMJ_FIELD(gradient_path), gradient_path_names(),
                gradient_path_name, gradient_path_from_name,
                "the fastest way of differentiating a step that the model may take; slower ones "
                "are for comparison"),
      flag<M>("fallback", DIFFMJ_FIELD(fallback),
              "whether a feature that the gradient path does not support makes the model take a "
              "slower one; otherwise it is an error"),
      number<M>("muscle_smoothing", DIFFMJ_FIELD(muscle_smoothing), {.noun = "a width"},
                "width over which the curves of muscles are smoothed in the backward pass; 0: the "
                "exact gradient"),
      choice<M>("collisions", DIFFMJ_FIELD(collisions.mode), collisions_names(), collisions_name,
                collisions_from_name,
                "which colliders compute the contacts; smooth-backward and smooth-field change "
                "the gradient only"),
      number<M>("smoothness", DIFFMJ_FIELD(collisions.smoothness),
                {.noun = "a width", .above = true},
                "width over which the cases of a smooth collider are blended [m]"),
  };
  const std::vector<Option<M>> runge_kutta = {
      number<M>("rtol", DIFFMJ_FIELD(adaptive.stepping.rtol), kTolerance,
                "relative tolerance for the error of a step"),
      number<M>("atol", DIFFMJ_FIELD(adaptive.stepping.atol), kTolerance,
                "absolute tolerance for the error of a step"),
      integer<M>("max_steps", DIFFMJ_FIELD(adaptive.stepping.max_steps), kInteger,
                 "limit of the accepted and rejected steps of a rollout"),
      number<M>("step", DIFFMJ_FIELD(adaptive.step), kTime,
                "take constant steps of this size, or a little less, instead of adaptive ones [s]",
                "adaptive steps"),
      number<M>("interval", DIFFMJ_FIELD(adaptive.interval), kTime,
                "time between rows of states and of controls [s]", "the model's timestep"),
      choice<M>("control", DIFFMJ_FIELD(adaptive.control), control_names(), control_name,
                control_from_name, "controls between their rows"),
      flag<M>("events", DIFFMJ_FIELD(adaptive.events),
              "whether steps end where a contact or limit becomes active, and the gradient "
              "includes the jump of the forces there"),
      number<M>("onset", DIFFMJ_FIELD(adaptive.onset), {.noun = "a width"},
                "width over which contacts and limits set in, so that their forces do not jump "
                "[m or rad]; 0: at once, as MuJoCo's"),
      optional_choice<M>("adjoint", DIFFMJ_FIELD(adaptive.adjoint), adjoint_names(), adjoint_name,
                         adjoint_from_name, "how the steps are differentiated",
                         "discrete; of rodas4p and auto interpolated"),
      integer<M>("checkpoints", DIFFMJ_FIELD(adaptive.checkpoints), kInteger,
                 "number of states inside the rollout that are kept for the backward pass; the "
                 "steps between them are recomputed",
                 "every step"),
      number<M>("adjoint_rtol", DIFFMJ_FIELD(adaptive.adjoint_rtol), kTolerance,
                "relative tolerance of the adjoints interpolated and backsolve", "rtol"),
      number<M>("adjoint_atol", DIFFMJ_FIELD(adaptive.adjoint_atol), kTolerance,
                "absolute tolerance of the adjoints interpolated and backsolve", "atol"),
      number<M>("min_step", DIFFMJ_FIELD(adaptive.stepping.min_step), {.noun = "a time"},
                "a rollout fails if a step of this size is rejected [s]"),
      number<M>("max_step", DIFFMJ_FIELD(adaptive.stepping.max_step),
                {.noun = "a time", .above = true, .infinite = true}, "the largest step [s]",
                "none"),
      numbers<M>(
          "pid",
          [](auto& x) {
            auto& s = x.adaptive.stepping;
            return std::vector{&s.p, &s.i, &s.d};
          },
          {"p", "i", "d"}, {{}, {.above = true}, {}}, "coefficients of the step controller"),
      number<M>("safety", DIFFMJ_FIELD(adaptive.stepping.safety),
                {.above = true, .high = 1, .below = true},
                "factor on the step that the controller proposes"),
      numbers<M>(
          "step_ratio",
          [](auto& x) {
            auto& s = x.adaptive.stepping;
            return std::vector{&s.shrink, &s.grow};
          },
          {"shrink", "grow"},
          {{.above = true, .high = 1, .below = true}, {.low = 1, .above = true}},
          "bounds of the ratio of a step to the one before"),
  };
  for (Option<M> option : runge_kutta) {
    option.info.runge_kutta = true;
    all.push_back(std::move(option));
  }
  return OptionTable<M>(std::move(all));
}

OptionTable<CfdLaw> make_law_table() {
  return OptionTable<CfdLaw>({
      number<CfdLaw>("width", DIFFMJ_FIELD(width), {.noun = "a distance"},
                     "largest distance of a contact [m]; 0: no contacts from distance"),
      number<CfdLaw>("d_c", DIFFMJ_FIELD(d_c), kImpedance, "impedance at the width"),
      number<CfdLaw>("d_0", DIFFMJ_FIELD(d_0), kImpedance, "impedance at the margin of the contact",
                     "that of the contact's solimp, at most 0.01"),
      number<CfdLaw>("midpoint", DIFFMJ_FIELD(midpoint), {.above = true, .high = 1},
                     "midpoint of the spline, counted from the far end"),
      number<CfdLaw>("power", DIFFMJ_FIELD(power), {.low = 1}, "power of the spline"),
      number<CfdLaw>("softplus", DIFFMJ_FIELD(softplus), {.noun = "a distance"},
                     "scale of the softplus in the reference acceleration [m]",
                     "a hundredth of the width"),
  });
}

OptionTable<Cfd> make_cfd_table() {
  return OptionTable<Cfd>({
      integer<Cfd>("max_contacts", DIFFMJ_FIELD(max_contacts), kInteger,
                   "largest number of contacts from distance at one state; the nearest are kept"),
      flag<Cfd>("controls_steps", DIFFMJ_FIELD(controls_steps),
                "include forces from distance in the error of adaptive steps"),
      flag<Cfd>("forward", DIFFMJ_FIELD(forward),
                "apply forces from distance in the rollout, too; not physical, for inspection"),
  });
}

#undef DIFFMJ_FIELD

const OptionTable<ModelOptions>& model_table() {
  static const OptionTable<ModelOptions> table = make_model_table();
  return table;
}
const OptionTable<CfdLaw>& law_table() {
  static const OptionTable<CfdLaw> table = make_law_table();
  return table;
}
const OptionTable<Cfd>& cfd_table() {
  static const OptionTable<Cfd> table = make_cfd_table();
  return table;
}

[[noreturn]] void throw_needs_runge_kutta(const std::vector<std::string>& names,
                                          Integrator integrator) {
  throw InputError(
      joined(names) + (names.size() == 1 ? " is" : " are") + " for diffmj's Runge-Kutta methods (" +
      joined(runge_kutta_names()) + "), but integrator is '" + integrator_name(integrator) +
      "'; choose one of them, or leave " + (names.size() == 1 ? "it" : "them") + " out");
}

// rules between options
void require_consistent(const ModelOptions& options) {
  const AdaptiveOptions& o = options.adaptive;
  const StepControl& s = o.stepping;
  if (options.integrator == Integrator::kExplicitEuler && !o.step) {
    throw InputError(
        "integrator explicit_euler has no estimate of its error: give it a constant step, or use "
        "tsit5");
  }
  if (!o.step && s.rtol + s.atol == 0) {
    throw InputError("rtol and atol are 0, expected one of them > 0");
  }
  if (s.max_step < s.min_step) {
    throw InputError("max_step is " + diffmj::number(s.max_step) +
                     ", expected a time that is not below min_step, " + diffmj::number(s.min_step));
  }
  // positions of the order of a metre: what is narrower than their errors is not resolved
  const double narrowest = 5 * (s.rtol + s.atol);
  if (!o.step && o.onset > 0 && o.onset < narrowest) {
    throw InputError(
        "onset is " + diffmj::number(o.onset) +
        ", expected 0 or a width that the tolerance resolves, at least 5 (rtol + atol) "
        "= " +
        diffmj::number(narrowest) + "; use a larger onset or a smaller tolerance");
  }
  const double rtol = o.adjoint_rtol.value_or(s.rtol), atol = o.adjoint_atol.value_or(s.atol);
  if (!o.step && options.adjoint() != Adjoint::kDiscrete && rtol + atol == 0) {
    throw InputError("adjoint_rtol and adjoint_atol are 0, expected one of them > 0");
  }
}

// what linearly implicit steps have no use for
void require_explicit_for(const ModelOptions& options) {
  if (!is_linearly_implicit(options.integrator)) return;
  const std::string who = std::string(", but integrator ") + integrator_name(options.integrator) +
                          " makes linearly implicit steps";
  if (options.adjoint() == Adjoint::kDiscrete) {
    throw InputError("adjoint is 'discrete'" + who +
                     ", whose derivative would need second derivatives of the dynamics; use "
                     "adjoint 'interpolated', or an explicit method such as tsit5");
  }
  if (options.adjoint() == Adjoint::kBacksolve) {
    throw InputError("adjoint is 'backsolve'" + who +
                     " for motions that decay fast, and solved backwards these grow as fast; use "
                     "adjoint 'interpolated'");
  }
  if (options.integrator == Integrator::kAuto && options.adaptive.step) {
    throw InputError(
        "step is given, but integrator auto chooses its method by the step that a tolerance "
        "allows; leave step out, or use tsit5 or rodas4p");
  }
}

void require_cfd(const Cfd& cfd) {
  cfd_table().require_ranges("cfd: ", cfd);
  if (cfd.law) require_law("cfd", *cfd.law);
  for (const auto& [name, law] : cfd.geoms) require_law("cfd of geom '" + name + "'", law);
  for (const auto& [names, law] : cfd.pairs) {
    require_law("cfd of geoms '" + names.first + "' and '" + names.second + "'", law);
  }
}

}  // namespace

const std::vector<OptionInfo>& model_option_list() { return model_table().list(); }
const std::vector<OptionInfo>& cfd_law_option_list() { return law_table().list(); }
const std::vector<OptionInfo>& cfd_option_list() { return cfd_table().list(); }

void require_law(const std::string& who, const CfdLaw& law) {
  law_table().require_ranges(who + ": ", law);
}

void ModelOptions::validate() const {
  if (!is_runge_kutta(integrator)) {
    std::vector<std::string> set;
    for (const Option<ModelOptions>& option : model_table().options()) {
      const OptionInfo& info = option.info;
      if (info.runge_kutta && option.get(*this) != info.default_value) set.push_back(info.name);
    }
    if (!set.empty()) throw_needs_runge_kutta(set, integrator);
  }
  model_table().require_ranges("", *this);
  require_consistent(*this);
  require_explicit_for(*this);
  if (cfd) require_cfd(*cfd);
}

ModelOptions model_options_by_name(const NamedOptions& values) {
  ModelOptions out;
  model_table().set(values, out);
  std::vector<std::string> needs_runge_kutta;
  for (const auto& [name, value] : values) {
    if (model_table().at(name).info.runge_kutta) needs_runge_kutta.push_back(name);
  }
  if (!needs_runge_kutta.empty() && !is_runge_kutta(out.integrator)) {
    throw_needs_runge_kutta(needs_runge_kutta, out.integrator);
  }
  return out;
}

CfdLaw cfd_law_by_name(const NamedOptions& values) {
  CfdLaw out;
  law_table().set(values, out);
  return out;
}

std::string CfdCounts::warning() const {
  if (capped == 0) return "";
  return "contacts from distance: at " + std::to_string(capped) + " of " +
         std::to_string(evaluations) +
         " states there are more than max_contacts, and only the nearest were kept; use a larger "
         "max_contacts, a smaller width, or laws of single geoms";
}

CfdLaw cfd_law_from_numbers(const std::string& who, std::span<const double> numbers) {
  const std::vector<Option<CfdLaw>>& options = law_table().options();
  if (numbers.empty() || numbers.size() > options.size()) {
    std::string names;
    for (const Option<CfdLaw>& option : options) {
      names += (names.empty() ? "" : " ") + option.info.name;
    }
    throw InputError(who + " has " + std::to_string(numbers.size()) + " numbers, expected 1 to " +
                     std::to_string(options.size()) + ": " + names);
  }
  CfdLaw out;
  for (size_t k = 0; k < numbers.size(); k++) {
    const bool may_be_unset = std::holds_alternative<std::monostate>(options[k].info.default_value);
    if (may_be_unset && numbers[k] == -1) continue;
    options[k].set(out, numbers[k]);
  }
  return out;
}

void set_cfd_options(const NamedOptions& values, Cfd& cfd) { cfd_table().set(values, cfd); }

OptionValue option_value(const ModelOptions& options, const std::string& name) {
  return model_table().at(name).get(options);
}

}  // namespace diffmj
