#include "base/require.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace diffmj {

void require_finite(const std::string& who, const char* name, std::span<const double> x,
                    size_t width) {
  const auto bad = std::find_if(x.begin(), x.end(), [](double value) {
    return !std::isfinite(value) || std::abs(value) > kMaxMagnitude;
  });
  if (bad == x.end()) return;
  const auto i = static_cast<size_t>(bad - x.begin());
  const std::string where =
      width > 0 && x.size() > width ? text("[%zu, %zu]", i / width, i % width) : text("[%zu]", i);
  throw InputError(who + ": " + name + where + " is " + number(*bad) +
                   "; it must be finite and at most 1e10 in magnitude");
}

void require_size(const std::string& who, const char* name, size_t size, size_t a, size_t b,
                  const std::string& shape) {
  if (size == a || size == b) return;
  throw InputError(who + ": " + name + " has " + std::to_string(size) + " numbers, expected " +
                   shape);
}

void require_memory(const std::string& who, double bytes) {
  // no machine is too small for this, and to ask the system takes as long as a short rollout's step
  constexpr double kAlwaysThere = 16e6;
  if (bytes <= kAlwaysThere) return;
  // most of the machine's memory; beyond it the system kills processes instead of refusing
  constexpr double kShare = 0.8;
  const double physical =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= kShare * physical) return;
  throw MemoryError(who + text(": the record needs %.3g GB and this machine has %.3g GB; use fewer "
                               "steps, or several shorter rollouts",
                               bytes * 1e-9, physical * 1e-9));
}

}  // namespace diffmj
