#include "base/names.h"

#include <algorithm>
#include <cctype>

namespace diffmj {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Letters to insert, delete, replace or exchange with their neighbour, to turn one word into the
// other, whatever their case.
size_t edit_distance(const std::string& a, const std::string& b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> cost((a.size() + 1) * width);
  const auto at = [&](size_t i, size_t j) -> size_t& { return cost[i * width + j]; };
  for (size_t i = 0; i <= a.size(); i++) at(i, 0) = i;
  for (size_t j = 0; j <= b.size(); j++) at(0, j) = j;
  for (size_t i = 1; i <= a.size(); i++) {
    for (size_t j = 1; j <= b.size(); j++) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

std::string joined(std::span<const std::string> words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string nearest_name(const std::string& name, std::span<const std::string> known) {
  std::string nearest;
  // a third of the letters may be wrong: more would suggest words that have little in common
  size_t smallest = name.size() / 3 + 1;
  for (const std::string& word : known) {
    const size_t distance = edit_distance(name, word);
    if (distance >= smallest || distance >= word.size()) continue;
    smallest = distance;
    nearest = word;
  }
  return nearest;
}

std::string unknown_name(const std::string& what, const std::string& name,
                         std::span<const std::string> known) {
  // a short list reads as a sentence
  constexpr size_t kFew = 4;
  std::string all;
  if (known.size() <= kFew && known.size() > 1) {
    all = joined(known.first(known.size() - 1)) + " or " + known.back();
  } else {
    all = "one of " + joined(known);
  }
  const std::string nearest = nearest_name(name, known);
  return what + " '" + name + "' is not known; " +
         (nearest.empty() ? "use " : "did you mean '" + nearest + "'? Use ") + all;
}

}  // namespace diffmj
