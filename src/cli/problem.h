// The problem file of diffmj identify.
#ifndef DIFFMJ_CLI_PROBLEM_H_
#define DIFFMJ_CLI_PROBLEM_H_

#include <optional>
#include <string>
#include <vector>

#include "cli.h"

namespace diffmj::cli {

struct Problem {
  std::string title;
  std::string model_file;
  std::string out;  // folder
  ParametricModel family;
  std::vector<double> start;
  std::vector<Recording> recordings;
  Split split;
  SegmentOptions segments;
  FitOptions fit;
  ResidualLoss loss;
};

// Paths in the file are relative to it. Throws InputError that names the file, the section, the key
// and what was expected.
Problem read_problem(const std::string& path);

// An example with all keys.
extern const char* const kProblemExample;

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_PROBLEM_H_
