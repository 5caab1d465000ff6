// A table of options: how the fields of a struct are named, described, read, written and checked.
//
// The default of an option is that of the struct, and what is allowed is stated once, as a Range.
#ifndef DIFFMJ_MODEL_OPTION_TABLE_H_
#define DIFFMJ_MODEL_OPTION_TABLE_H_

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "diffmj/error.h"
#include "diffmj/options.h"

namespace diffmj {

// Numbers from low to high.
struct Range {
  std::string noun = "a number";
  double low = 0;
  bool above = false;  // low itself is not allowed
  double high = std::numeric_limits<double>::infinity();
  bool below = false;     // high itself is not allowed
  bool infinite = false;  // infinity is allowed, too

  bool has(double x) const;
  std::string words() const;  // "a number ≥ 0"
};

// An option, apart from the struct it is a field of.
struct OptionRule {
  OptionInfo info = {};
  std::vector<Range> ranges = {};  // one per number; none: no number

  // The value as the kind demands it: integers where numbers are expected become numbers. Throws
  // InputError if it cannot be.
  OptionValue converted(const OptionValue& value) const;
  // Throws InputError if a number is out of its range. who: "cfd: ", or empty.
  void require_range(const std::string& who, const OptionValue& value) const;
};

template <class Struct>
struct Option : OptionRule {
  std::function<OptionValue(const Struct&)> get = {};
  std::function<void(Struct&, const OptionValue&)> set = {};  // the value is of the right kind
};

// The text of a value: "0.001", "true", "0.2 0.4 0"; empty if it is not set.
std::string option_text(const OptionValue& value);

// An InputError that suggests the nearest name.
[[noreturn]] void throw_unknown_option(const std::string& name,
                                       const std::vector<OptionInfo>& list);

template <class Struct>
class OptionTable {
 public:
  explicit OptionTable(std::vector<Option<Struct>> options) : options_(std::move(options)) {
    for (Option<Struct>& option : options_) {
      OptionInfo& info = option.info;
      info.default_value = option.get(Struct());
      if (info.default_text.empty()) info.default_text = option_text(info.default_value);
      list_.push_back(info);
    }
  }

  const std::vector<OptionInfo>& list() const { return list_; }
  const std::vector<Option<Struct>>& options() const { return options_; }

  const Option<Struct>& at(const std::string& name) const {
    for (const Option<Struct>& option : options_) {
      if (option.info.name == name) return option;
    }
    throw_unknown_option(name, list_);
  }

  void set(const NamedOptions& values, Struct& out) const {
    for (const auto& [name, value] : values) {
      const Option<Struct>& option = at(name);
      option.set(out, option.converted(value));
    }
  }

  void require_ranges(const std::string& who, const Struct& x) const {
    for (const Option<Struct>& option : options_) option.require_range(who, option.get(x));
  }

 private:
  std::vector<Option<Struct>> options_;
  std::vector<OptionInfo> list_;
};

}  // namespace diffmj

#endif  // DIFFMJ_MODEL_OPTION_TABLE_H_
