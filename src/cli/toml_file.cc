#include "toml_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace diffmj::cli {
namespace {

Json json_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json out = Json::object();
    for (const auto& [key, value] : *table) out[std::string(key.str())] = json_of(value);
    return out;
  }
  if (const auto* array = node.as_array()) {
    Json out = Json::array();
    for (const auto& value : *array) out.push_back(json_of(value));
    return out;
  }
  if (const auto x = node.value_exact<std::string>()) return *x;
  if (const auto x = node.value_exact<int64_t>()) return *x;
  if (const auto x = node.value_exact<double>()) return *x;
  if (const auto x = node.value_exact<bool>()) return *x;
  std::ostringstream text;  // dates and times
  text << toml::node_view<const toml::node>(&node);
  return text.str();
}

// an option of the command line, without its dashes
std::string key_of(const CLI::Option& option) {
  std::string name = option.get_single_name();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string unknown_key(const std::string& key, const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) known.push_back(key_of(*option));
  return unknown_name("key", key, known);
}

}  // namespace

Json read_toml(const std::string& path) {
  try {
    return json_of(toml::parse_file(path));
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw InputError(path + (at.line > 0 ? ", line " + std::to_string(at.line) : "") + ": " +
                     std::string(error.description()));
  }
}

Section::Section(std::string where, Json value)
    : where_(std::move(where)), value_(std::move(value)) {
  if (value_.is_null()) value_ = Json::object();
  if (!value_.is_object()) throw InputError(where_ + " is " + value_.dump() + ", expected a table");
}

void Section::expected(const std::string& key, const Json& value, const char* what) const {
  throw InputError(
      where_ + ": " + key +
      (value.is_null() ? " is missing, expected " : " is " + value.dump() + ", expected ") + what);
}

bool Section::has(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  return value_.contains(key);
}

Json Section::take(const std::string& key) {
  if (!has(key)) return nullptr;
  Json out = value_[key];
  value_.erase(key);
  return out;
}

const Json& Section::peek(const std::string& key) const { return value_.at(key); }

std::string Section::text(const std::string& key) {
  const Json x = take(key);
  if (!x.is_string()) expected(key, x, "a string");
  return x.get<std::string>();
}

double Section::number(const std::string& key) {
  const Json x = take(key);
  if (!x.is_number()) expected(key, x, "a number");
  return x.get<double>();
}

int Section::integer(const std::string& key) {
  const Json x = take(key);
  if (!x.is_number_integer() || x.get<int64_t>() > std::numeric_limits<int>::max() ||
      x.get<int64_t>() < std::numeric_limits<int>::min()) {
    expected(key, x, "a whole number");
  }
  return x.get<int>();
}

bool Section::flag(const std::string& key) {
  const Json x = take(key);
  if (!x.is_boolean()) expected(key, x, "true or false");
  return x.get<bool>();
}

std::vector<double> Section::numbers(const std::string& key) {
  const Json x = take(key);
  const Json all = x.is_array() ? x : Json::array({x});
  std::vector<double> out;
  for (const Json& y : all) {
    if (!y.is_number()) expected(key, x, "a number or a list of numbers");
    out.push_back(y.get<double>());
  }
  return out;
}

std::vector<std::string> Section::texts(const std::string& key) {
  const Json x = take(key);
  const Json all = x.is_array() ? x : Json::array({x});
  std::vector<std::string> out;
  for (const Json& y : all) {
    if (!y.is_string()) expected(key, x, "a string or a list of strings");
    out.push_back(y.get<std::string>());
  }
  return out;
}

Section Section::section(const std::string& key) { return {where_ + ", [" + key + "]", take(key)}; }

std::vector<std::string> Section::keys() const {
  std::vector<std::string> out;
  for (const auto& item : value_.items()) out.push_back(item.key());
  return out;
}

std::optional<int> Section::threads(std::optional<int> otherwise) {
  if (!has("threads")) return otherwise;
  const int count = integer("threads");
  if (count == 0) return std::nullopt;
  return count;
}

void Section::finish() const {
  if (value_.empty()) return;
  throw InputError(where_ + ": " + unknown_name("key", value_.begin().key(), known_));
}

void read_model_options(Section& section, CommonOptions& options) {
  CLI::App app;
  add_model_options(app, options);
  app.set_help_flag();
  std::vector<std::string> words;
  for (const std::string& key : section.keys()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', '-');
    const Json value = section.take(key);
    const Json all = value.is_array() ? value : Json::array({value});
    const CLI::Option* option = app.get_option_no_throw("--" + name);
    if (!option) throw InputError(section.where() + ": " + unknown_key(key, app));
    words.push_back("--" + name);
    for (const Json& x : all) {
      // an option without a value is given or not
      if (x.is_boolean() && option->get_expected_max() == 0) {
        if (!x.get<bool>()) words.pop_back();
        continue;
      }
      words.push_back(x.is_string() ? x.get<std::string>() : x.dump());
    }
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes a vector
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw InputError(section.where() + ": " + error.what() +
                     "; names are those of the command line (diffmj grad --help)");
  }
}

}  // namespace diffmj::cli
