// The library's lists of options on the command line: max_steps is --max-steps, with the help and
// the default of the list.
#ifndef DIFFMJ_CLI_LISTED_OPTIONS_H_
#define DIFFMJ_CLI_LISTED_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "diffmj/options.h"

namespace diffmj::cli {

// The options that were given, as text, by their name in the list. A flag that is given has one
// word, its count.
using OptionWords = std::map<std::string, std::vector<std::string>>;

// Adds one option. prefix: "--", or "--cfd-". A flag whose default is false takes no value.
CLI::Option* add_listed_option(CLI::App& command, const OptionInfo& info, const std::string& prefix,
                               OptionWords& words);

// Throws InputError if a text is no number or no flag.
NamedOptions read_listed_options(const std::vector<OptionInfo>& list, const std::string& prefix,
                                 const OptionWords& words);

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_LISTED_OPTIONS_H_
