// The task file of diffmj plan.
#ifndef DIFFMJ_CLI_TASK_H_
#define DIFFMJ_CLI_TASK_H_

#include <string>
#include <vector>

#include "cli.h"

namespace diffmj::cli {

struct Task {
  std::string title;
  std::string out;  // folder
  Setup setup;      // what is planned with, and where it starts
  Model execution;  // what is executed
  std::vector<CostTerm> cost;
  PlanOptions plan;
  MpcOptions mpc;
};

// Paths in the file are relative to it. Throws InputError that names the file, the section, the key
// and what was expected.
Task read_task(const std::string& path);

// An example with all keys.
extern const char* const kTaskExample;

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_TASK_H_
