#include "listed_options.h"

#include <algorithm>
#include <charconv>

#include "cli.h"

namespace diffmj::cli {
namespace {

std::string option_name(const std::string& prefix, const OptionInfo& info) {
  std::string name = info.name;
  std::replace(name.begin(), name.end(), '_', '-');
  return prefix + name;
}

bool takes_no_value(const OptionInfo& info) {
  return info.kind == OptionKind::kFlag && info.default_value == OptionValue(false);
}

std::string value_text(const OptionInfo& info) {
  switch (info.kind) {
    case OptionKind::kFlag:
      return "BOOL";
    case OptionKind::kInteger:
      return "N";
    case OptionKind::kNumber:
      return "X";
    case OptionKind::kChoice:
      return "NAME";
    case OptionKind::kNumbers:
      break;
  }
  std::string text;
  for (const std::string& part : info.parts) text += (text.empty() ? "" : " ") + part;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string help_text(const OptionInfo& info) {
  if (takes_no_value(info)) return info.help;
  std::string choices;
  for (const std::string& x : info.choices) choices += (choices.empty() ? ": " : ", ") + x;
  return info.help + choices + " (default " + info.default_text + ")";
}

OptionValue parse(const OptionInfo& info, const std::string& option,
                  const std::vector<std::string>& words) {
  const auto fail = [&](const std::string& word) {
    throw InputError(option + " is '" + word + "', expected " + info.expected);
  };
  switch (info.kind) {
    case OptionKind::kFlag: {
      bool value = false;
      if (!CLI::detail::lexical_cast(words[0], value)) fail(words[0]);
      return value;
    }
    case OptionKind::kInteger: {
      long value = 0;
      const char* last = words[0].c_str() + words[0].size();
      const auto [stop, status] = std::from_chars(words[0].c_str(), last, value);
      if (status != std::errc() || stop != last) fail(words[0]);
      return value;
    }
    case OptionKind::kNumber:
      return parse_number(words[0], option);
    case OptionKind::kNumbers: {
      std::vector<double> values;
      for (const std::string& word : words) values.push_back(parse_number(word, option));
      return values;
    }
    case OptionKind::kChoice:
      break;
  }
  return words[0];
}

}  // namespace

CLI::Option* add_listed_option(CLI::App& command, const OptionInfo& info, const std::string& prefix,
                               OptionWords& words) {
  const std::string name = option_name(prefix, info), key = info.name;
  if (takes_no_value(info)) {
    return command.add_flag_callback(
        name, [&words, key] { words[key] = {"true"}; }, help_text(info));
  }
  const auto count = static_cast<int>(std::max<size_t>(info.parts.size(), 1));
  return command
      .add_option_function<std::vector<std::string>>(
          name, [&words, key](const std::vector<std::string>& given) { words[key] = given; },
          help_text(info))
      ->expected(count)
      ->option_text(value_text(info));
}

NamedOptions read_listed_options(const std::vector<OptionInfo>& list, const std::string& prefix,
                                 const OptionWords& words) {
  NamedOptions out;
  for (const OptionInfo& info : list) {
    const auto given = words.find(info.name);
    if (given == words.end()) continue;
    out.emplace_back(info.name, parse(info, option_name(prefix, info), given->second));
  }
  return out;
}

}  // namespace diffmj::cli
