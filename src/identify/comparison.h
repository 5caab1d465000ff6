// Recorded and simulated numbers side by side.
#ifndef DIFFMJ_IDENTIFY_COMPARISON_H_
#define DIFFMJ_IDENTIFY_COMPARISON_H_

#include <span>
#include <string>
#include <vector>

#include "diffmj/fit.h"

namespace diffmj {

// One number of a target over the segments of one recording.
struct Series {
  std::string name;  // "qpos[2]"
  std::vector<double> time, recorded;
  // Simulated, NaN between two segments: times of rows, and values at two θ.
  std::vector<double> simulated_time, before, after;
  double misfit = 0;  // root mean square of before - recorded over the spread of what is recorded
};

// Of the recording that the first segment is of: the numbers with the largest misfits before, at
// most count of them.
std::vector<Series> worst_series(const Objective& objective, std::span<const double> before,
                                 std::span<const double> after, size_t count);

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_COMPARISON_H_
