// Names of the values of an enumeration, and errors for names that are not known.
#ifndef DIFFMJ_BASE_NAMES_H_
#define DIFFMJ_BASE_NAMES_H_

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "diffmj/error.h"
#include "diffmj/options.h"

namespace diffmj {

// "a, b, c"
std::string joined(std::span<const std::string> words);

template <class Value, size_t N>
std::vector<std::string> names_of(const std::pair<Value, const char*> (&table)[N]) {
  std::vector<std::string> out;
  for (const auto& entry : table) out.emplace_back(entry.second);
  return out;
}

template <class Value, size_t N>
const char* name_of(const std::pair<Value, const char*> (&table)[N], Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "?";
}

// Throws InputError; what names the option.
template <class Value, size_t N>
Value value_of(const std::string& what, const std::pair<Value, const char*> (&table)[N],
               const std::string& name) {
  for (const auto& [value, known] : table) {
    if (name == known) return value;
  }
  throw InputError(unknown_name(what, name, names_of(table)));
}

}  // namespace diffmj

#endif  // DIFFMJ_BASE_NAMES_H_
