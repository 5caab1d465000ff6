// Problem and task files: TOML, read as JSON values with errors that name file, section and key.
#ifndef DIFFMJ_CLI_TOML_FILE_H_
#define DIFFMJ_CLI_TOML_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "cli.h"
#include "output.h"

namespace diffmj::cli {

// The whole file. Throws InputError that names the file and the line.
Json read_toml(const std::string& path);

// A table of such a file, whose keys are taken one by one; what nobody took is an error.
class Section {
 public:
  // where: "problem.toml" or "problem.toml, [fit]". value: null is an empty table.
  Section(std::string where, Json value);

  bool has(const std::string& key);
  // All throw InputError that says what was expected.
  std::string text(const std::string& key);
  double number(const std::string& key);
  int integer(const std::string& key);
  bool flag(const std::string& key);
  std::vector<double> numbers(const std::string& key);     // also a single one
  std::vector<std::string> texts(const std::string& key);  // also a single one
  Section section(const std::string& key);                 // empty if the file has none
  Json take(const std::string& key);                       // as it is
  const Json& peek(const std::string& key) const;          // the same, without taking it
  std::vector<std::string> keys() const;                   // that are left

  template <class T, class Get>
  T get_or(const std::string& key, T otherwise, Get get) {
    return has(key) ? static_cast<T>((this->*get)(key)) : otherwise;
  }

  // The key "threads"; 0 stands for one per core, as does leaving it out.
  std::optional<int> threads(std::optional<int> otherwise);

  // Throws InputError if a key is left: the message lists those that were asked for.
  void finish() const;
  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void expected(const std::string& key, const Json& value, const char* what) const;

  std::string where_;
  Json value_;
  std::vector<std::string> known_;  // keys that were asked for
};

// Options of a model that a section names as the command line does, with or without dashes:
// integrator, rtol, max_steps, cfd, collisions, ... It takes all that is left of the section.
void read_model_options(Section& section, CommonOptions& options);

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_TOML_FILE_H_
