// text(), number(): numbers in messages.
//
//   "the step is " + number(h) + " s"
#ifndef DIFFMJ_BASE_TEXT_H_
#define DIFFMJ_BASE_TEXT_H_

#include <cstdio>
#include <string>

namespace diffmj {

// As printf writes it, of any length.
template <class... Args>
std::string text(const char* format, Args... args) {
  std::string out(static_cast<size_t>(std::snprintf(nullptr, 0, format, args...)), '\0');
  std::snprintf(out.data(), out.size() + 1, format, args...);
  return out;
}

// Six digits, as few as it needs.
inline std::string number(double x) { return text("%g", x); }

}  // namespace diffmj

#endif  // DIFFMJ_BASE_TEXT_H_
