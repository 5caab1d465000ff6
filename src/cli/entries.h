// Reports for people: a name and its value beside it, on as many lines as it needs.
#ifndef DIFFMJ_CLI_ENTRIES_H_
#define DIFFMJ_CLI_ENTRIES_H_

#include <cstdio>
#include <string>
#include <vector>

namespace diffmj::cli {

// printf into a string
template <class... Args>
std::string line(const char* format, Args... args) {
  char text[512];
  std::snprintf(text, sizeof(text), format, args...);
  return text;
}

std::string entry(const std::string& name, const std::string& value);
// One entry per item; only the first has the title.
std::string entries(const std::string& title, const std::vector<std::string>& items);

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_ENTRIES_H_
