#include "cfd.h"

#include <cstdio>

namespace diffmj::cli {
namespace {

constexpr const char* kNumbers = "width d_c d_0 midpoint power softplus";

CfdLaw read_law(const std::string& text, const std::string& where) {
  CfdLaw law;
  double* const to[] = {&law.width, &law.d_c, &law.d_0, &law.midpoint, &law.power, &law.softplus};
  const std::vector<double> numbers = parse_numbers(text, where);
  if (numbers.empty() || numbers.size() > std::size(to)) {
    throw InputError(where + " has " + std::to_string(numbers.size()) +
                     " numbers, expected 1 to 6: " + kNumbers);
  }
  for (size_t k = 0; k < numbers.size(); k++) *to[k] = numbers[k];
  return law;
}

// NAME=LAW
std::pair<std::string, CfdLaw> read_named(const std::string& option, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    throw InputError(option + " is '" + text + "', expected names, '=' and " + kNumbers);
  }
  const std::string name = text.substr(0, equals);
  return {name, read_law(text.substr(equals + 1), option + " " + name)};
}

Json json_law(const CfdLaw& law) {
  return {{"width", law.width},       {"d_c", law.d_c},     {"d_0", law.d_0},
          {"midpoint", law.midpoint}, {"power", law.power}, {"softplus", law.softplus}};
}

}  // namespace

void add_cfd_options(CLI::App& command, CfdArguments& a) {
  constexpr const char* kGroup = "Contacts from distance, a surrogate of the gradient";
  command
      .add_option("--cfd", a.law,
                  "width [m], then d_c, d_0, midpoint, power, softplus; or 'model': its numerics")
      ->option_text("\"WIDTH ...\"")
      ->group(kGroup);
  command.add_option("--cfd-geom", a.geoms, "those of a geom's contacts; may be given again")
      ->option_text("\"NAME=WIDTH ...\"")
      ->group(kGroup);
  command.add_option("--cfd-pair", a.pairs, "those of two geoms; may be given again")
      ->option_text("\"NAME,NAME=WIDTH ...\"")
      ->group(kGroup);
  command
      .add_option("--cfd-max-contacts", a.max_contacts,
                  "at one state, the nearest (default " + std::to_string(Cfd().max_contacts) + ")")
      ->option_text("N")
      ->group(kGroup);
  command
      .add_flag("--cfd-controls-steps", a.controls_steps,
                "adaptive steps are as small as forces from distance ask for")
      ->group(kGroup);
  command
      .add_flag("--cfd-forward", a.forward,
                "not physical, to look at: the rollout has forces from distance, too")
      ->group(kGroup);
}

std::optional<Cfd> read_cfd_options(const CfdArguments& a) {
  if (a.law.empty()) {
    if (!a.geoms.empty() || !a.pairs.empty() || a.max_contacts || a.controls_steps || a.forward) {
      throw InputError("options --cfd-... are given without --cfd; add --cfd WIDTH");
    }
    return std::nullopt;
  }
  Cfd out;
  if (a.law != "model") out.law = read_law(a.law, "--cfd");
  for (const std::string& text : a.geoms) out.geoms.insert(read_named("--cfd-geom", text));
  for (const std::string& text : a.pairs) {
    const auto [names, law] = read_named("--cfd-pair", text);
    const size_t comma = names.find(',');
    if (comma == std::string::npos) {
      throw InputError("--cfd-pair is of '" + names + "', expected two geoms, with a comma");
    }
    out.pairs[{names.substr(0, comma), names.substr(comma + 1)}] = law;
  }
  if (a.max_contacts) out.max_contacts = *a.max_contacts;
  out.controls_steps = a.controls_steps;
  out.forward = a.forward;
  return out;
}

Json json_cfd(const Cfd& cfd) {
  Json out = cfd.law ? json_law(*cfd.law) : Json{{"law", "model"}};
  for (const auto& [name, law] : cfd.geoms) out["geoms"][name] = json_law(law);
  for (const auto& [names, law] : cfd.pairs) {
    out["pairs"][names.first + "," + names.second] = json_law(law);
  }
  out["max_contacts"] = cfd.max_contacts;
  out["controls_steps"] = cfd.controls_steps;
  out["forward"] = cfd.forward;
  return out;
}

void report_cfd(const Gradient& gradient) {
  if (gradient.cfd_capped == 0) return;
  std::fprintf(stderr,
               "diffmj: warning: contacts from distance: at %ld of %ld states there are more than "
               "--cfd-max-contacts, and only the nearest were kept\n",
               gradient.cfd_capped, gradient.cfd_evaluations);
}

}  // namespace diffmj::cli
