#include "model/option_table.h"

#include <cmath>

#include "base/names.h"
#include "base/text.h"

namespace diffmj {
namespace {

std::string quoted(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? "'" + *text + "'" : option_text(value);
}

double number_of(const OptionValue& value) {
  if (const auto* x = std::get_if<long>(&value)) return static_cast<double>(*x);
  return std::get<double>(value);
}

bool is_number(const OptionValue& value) {
  return std::holds_alternative<long>(value) || std::holds_alternative<double>(value);
}

}  // namespace

bool Range::has(double x) const {
  if (std::isnan(x) || (std::isinf(x) && !infinite)) return false;
  return (above ? x > low : x >= low) && (below ? x < high : x <= high);
}

std::string Range::words() const {
  if (std::isinf(high)) return noun + (above ? " > " : " ≥ ") + number(low);
  if (above && below) return noun + " between " + number(low) + " and " + number(high);
  if (above) return noun + " above " + number(low) + " and at most " + number(high);
  return noun + " from " + number(low) + " to " + number(high);
}

std::string option_text(const OptionValue& value) {
  struct Text {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(long x) const { return std::to_string(x); }
    std::string operator()(double x) const { return number(x); }
    std::string operator()(const std::vector<double>& all) const {
      std::string out;
      for (const double x : all) out += (out.empty() ? "" : " ") + number(x);
      return out;
    }
    std::string operator()(const std::string& x) const { return x; }
  };
  return std::visit(Text(), value);
}

OptionValue OptionRule::converted(const OptionValue& value) const {
  switch (info.kind) {
    case OptionKind::kFlag:
      if (std::holds_alternative<bool>(value)) return value;
      break;
    case OptionKind::kInteger:
      if (std::holds_alternative<long>(value)) return value;
      break;
    case OptionKind::kNumber:
      if (is_number(value)) return number_of(value);
      break;
    case OptionKind::kNumbers:
      if (const auto* all = std::get_if<std::vector<double>>(&value)) {
        if (all->size() == ranges.size()) return value;
      }
      break;
    case OptionKind::kChoice:
      if (std::holds_alternative<std::string>(value)) return value;
      break;
  }
  throw InputError(info.name + " is " + quoted(value) + ", expected " + info.expected);
}

void OptionRule::require_range(const std::string& who, const OptionValue& value) const {
  const auto require = [&](const std::string& name, const Range& range, double x) {
    if (range.has(x)) return;
    throw InputError(who + name + " is " + number(x) + ", expected " + range.words() +
                     "; leave it out for the default, " + info.default_text);
  };
  if (is_number(value)) {
    require(info.name, ranges[0], number_of(value));
  } else if (const auto* all = std::get_if<std::vector<double>>(&value)) {
    for (size_t k = 0; k < all->size(); k++) {
      require(info.parts[k] + " (of " + info.name + ")", ranges[k], (*all)[k]);
    }
  }
}

void throw_unknown_option(const std::string& name, const std::vector<OptionInfo>& list) {
  std::vector<std::string> known;
  for (const OptionInfo& info : list) known.push_back(info.name);
  throw InputError(unknown_name("option", name, known));
}

}  // namespace diffmj
