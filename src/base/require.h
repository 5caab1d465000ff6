// Checks of what a caller hands in. Each message names who asked, what, its value and the remedy.
#ifndef DIFFMJ_BASE_REQUIRE_H_
#define DIFFMJ_BASE_REQUIRE_H_

#include <span>
#include <string>

#include "diffmj/error.h"

namespace diffmj {

// Numbers beyond this are "bad" to MuJoCo (mjMAXVAL), which would reset the state or drop controls.
inline constexpr double kMaxMagnitude = 1e10;

// Every number finite and of a magnitude MuJoCo accepts; width is the length of a row, for the
// message.
void require_finite(const std::string& who, const char* name, std::span<const double> x,
                    size_t width);

// size must be one of a or b (give b = a for a single choice); shape says it in words.
void require_size(const std::string& who, const char* name, size_t size, size_t a, size_t b,
                  const std::string& shape);

// Throws MemoryError if bytes exceed what this machine has.
void require_memory(const std::string& who, double bytes);

}  // namespace diffmj

#endif  // DIFFMJ_BASE_REQUIRE_H_
