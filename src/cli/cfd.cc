#include "cfd.h"

#include <cstdio>

namespace diffmj::cli {
namespace {

// "width d_c d_0 midpoint power softplus"
std::string law_names() {
  std::string names;
  for (const OptionInfo& info : cfd_law_option_list()) {
    names += (names.empty() ? "" : " ") + info.name;
  }
  return names;
}

CfdLaw read_law(const std::string& text, const std::string& where) {
  return cfd_law_from_numbers(where, parse_numbers(text, where));
}

// NAME=LAW
std::pair<std::string, CfdLaw> read_named(const std::string& option, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    throw InputError(option + " is '" + text + "', expected names, '=' and " + law_names());
  }
  const std::string name = text.substr(0, equals);
  return {name, read_law(text.substr(equals + 1), option + " " + name)};
}

Json json_law(const CfdLaw& law) {
  Json out = {{"width", law.width}, {"d_c", law.d_c}};
  if (law.d_0) out["d_0"] = *law.d_0;
  out["midpoint"] = law.midpoint;
  out["power"] = law.power;
  if (law.softplus) out["softplus"] = *law.softplus;
  return out;
}

}  // namespace

void add_cfd_options(CLI::App& command, CfdArguments& a) {
  constexpr const char* kGroup = "Contacts from distance, a surrogate of the gradient";
  command
      .add_option("--cfd", a.law,
                  "the law of contacts: " + law_names() +
                      ", or the first of them, where -1 keeps the default of d_0 or softplus; or "
                      "'model', the law in the model's custom numerics")
      ->option_text("\"WIDTH ...\"")
      ->group(kGroup);
  command.add_option("--cfd-geom", a.geoms, "the law for the contacts of a geom; may be repeated")
      ->option_text("\"NAME=WIDTH ...\"")
      ->group(kGroup);
  command
      .add_option("--cfd-pair", a.pairs, "the law for the contacts of two geoms; may be repeated")
      ->option_text("\"NAME,NAME=WIDTH ...\"")
      ->group(kGroup);
  for (const OptionInfo& info : cfd_option_list()) {
    add_listed_option(command, info, "--cfd-", a.options)->group(kGroup);
  }
}

std::optional<Cfd> read_cfd_options(const CfdArguments& a) {
  if (a.law.empty()) {
    if (!a.geoms.empty() || !a.pairs.empty() || !a.options.empty()) {
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
      throw InputError("--cfd-pair is for '" + names +
                       "', expected the names of two geoms with a comma between them");
    }
    out.pairs[{names.substr(0, comma), names.substr(comma + 1)}] = law;
  }
  set_cfd_options(read_listed_options(cfd_option_list(), "--cfd-", a.options), out);
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

void report_cfd(const CfdCounts& counts) {
  const std::string text = counts.warning();
  if (!text.empty()) std::fprintf(stderr, "diffmj: warning: %s\n", text.c_str());
}

}  // namespace diffmj::cli
