#include "entries.h"

#include <algorithm>
#include <sstream>

namespace diffmj::cli {

std::string entry(const std::string& name, const std::string& value) {
  constexpr size_t kIndent = 18;
  constexpr size_t kWidth = 100;
  std::string text = name + std::string(kIndent - std::min(kIndent, name.size()), ' ');
  size_t column = kIndent;
  std::istringstream words(value);
  for (std::string word; words >> word;) {
    if (column > kIndent && column + 1 + word.size() > kWidth) {
      text += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    }
    if (column > kIndent) text += " ";
    text += word;
    column += word.size() + 1;
  }
  return text + "\n";
}

std::string entries(const std::string& title, const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += entry(text.empty() ? title : "", item);
  return text;
}

}  // namespace diffmj::cli
