// Machine formats: JSON and CSV, to standard output or to a file that appears when it is complete.
#ifndef DIFFMJ_CLI_OUTPUT_H_
#define DIFFMJ_CLI_OUTPUT_H_

#include <cstdio>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli.h"

namespace diffmj::cli {

using Json = nlohmann::ordered_json;

// Where a subcommand writes. A file is written under another name beside it and renamed by
// finish(), so that nobody sees half of it; without finish() it never appears. Throws Error if the
// system refuses, Interrupted after a Ctrl-C.
class Output {
 public:
  explicit Output(const std::string& path);  // empty: standard output
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(const std::string& text);
  void finish();

 private:
  [[noreturn]] void fail() const;

  std::FILE* file_;
  std::string path_;       // empty: standard output
  std::string temporary_;  // renamed to path_; empty: path_ is written directly
};

// The shortest text that reads back as the same double (at most 17 significant digits).
std::string number_text(double value);
// "a,b,c\n"
std::string csv_row(std::initializer_list<std::string> cells);

// Indented, but what holds only numbers and strings stays on one line; what is not finite becomes
// null.
std::string json_text(const Json& value);
// rows x width as an array of arrays
Json json_rows(std::span<const double> values, size_t rows, int width);
// The keys that begin every result: model, start, nstep, path; adaptive, of explicit Runge-Kutta
// methods.
Json json_header(const Setup& setup);
Json json_warnings(const std::vector<Warning>& warnings);

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_OUTPUT_H_
