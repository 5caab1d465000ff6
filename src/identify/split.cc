// split(): which recordings are held out.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/text.h"
#include "diffmj/error.h"
#include "diffmj/recording.h"

namespace diffmj {

Split split(int n, double share, unsigned seed) {
  if (n < 0) throw InputError("split: n is " + std::to_string(n) + ", expected at least 0");
  if (!(share >= 0 && share < 1)) {
    throw InputError(text("split: share is %g, expected at least 0 and less than 1", share));
  }
  if (share > 0 && n < 2) {
    throw InputError("split: " + std::to_string(n) +
                     " recordings cannot be split; give two or more, or share = 0");
  }
  std::vector<int> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  // std::shuffle differs between standard libraries
  std::mt19937_64 random(seed);
  for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[random() % i]);
  int held_out = static_cast<int>(std::lround(share * n));
  if (share > 0) held_out = std::clamp(held_out, 1, n - 1);
  Split out;
  out.held_out.assign(order.begin(), order.begin() + held_out);
  out.training.assign(order.begin() + held_out, order.end());
  std::sort(out.held_out.begin(), out.held_out.end());
  std::sort(out.training.begin(), out.training.end());
  return out;
}

}  // namespace diffmj
