// Directions that lead away from switches: points inside of half spaces.
#ifndef DIFFMJ_CHECK_HALF_SPACES_H_
#define DIFFMJ_CHECK_HALF_SPACES_H_

#include <functional>
#include <utility>
#include <vector>

#include "check/pieces.h"

namespace diffmj {

// side (slope · u) ≥ least: u leads away from a switch.
struct HalfSpace {
  Switch at;
  std::vector<std::pair<int, double>> slope;  // places of u, and slopes in them
  double length = 0;                          // of the slope
  double least = 0;

  double missing(const std::vector<double>& u) const;
  bool has(const std::vector<double>& u) const { return missing(u) <= 0.1 * least; }
};

// Moves u into all half spaces. False if it does not succeed. fix: changes u to what must hold
// beside it.
bool move_inside(const std::vector<HalfSpace>& spaces, const std::function<void()>& fix,
                 std::vector<double>& u);

}  // namespace diffmj

#endif  // DIFFMJ_CHECK_HALF_SPACES_H_
