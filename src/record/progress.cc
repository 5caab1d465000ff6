#include "record/progress.h"

#include <limits>

namespace diffmj {
namespace {

// Steps between two looks: a second or two. What a landing does to several contacts takes hundreds.
constexpr long kWindow = 4000;
// Where steps cost more than usual, fewer of them: so many operations, a second or two.
constexpr long kShortWindow = 1000;
constexpr double kWindowWork = 2e9;
// At the pace of a window the rest takes so many times the budget of steps; or so many times the
// evaluations of mj_step, and more work than so many operations for each step of the budget, which
// are six evaluations of a robot on its feet.
constexpr double kHopeless = 20, kSlow = 500, kStepWork = 6e5;

}  // namespace

bool Progress::follow(const Effort& effort, double time) {
  const long nstep = effort.nstep - mark_effort_.nstep;
  const double work = effort.work - mark_effort_.work;
  if (nstep < kWindow && (nstep < kShortWindow || work < kWindowWork)) return true;
  const double windows =
      time > mark_ ? (end_ - time) / (time - mark_) : std::numeric_limits<double>::infinity();
  const auto nevaluation = static_cast<double>(effort.nevaluation - mark_effort_.nevaluation);
  mark_ = time;
  mark_effort_ = effort;
  if (windows <= 0) return true;
  needed_steps_ = windows * static_cast<double>(nstep);
  needed_ratio_ = windows * nevaluation * timestep_ / (end_ - time);
  const auto budget = static_cast<double>(max_steps_);
  return needed_steps_ <= kHopeless * budget &&
         (needed_ratio_ <= kSlow || windows * work <= kStepWork * budget);
}

}  // namespace diffmj
