#include "record/progress.h"

#include <limits>

namespace diffmj {
namespace {

// Steps between two looks: a second or two. What a landing does to several contacts takes hundreds.
constexpr long kWindow = 4000;
// At the pace of a window the rest takes so many times the budget.
constexpr double kHopeless = 20;

}  // namespace

bool Progress::follow(long nstep, double time) {
  if (nstep - mark_step_ < kWindow) return true;
  const double pace = (time - mark_) / static_cast<double>(nstep - mark_step_);
  mark_ = time;
  mark_step_ = nstep;
  needed_ = pace > 0 ? (end_ - time) / pace : std::numeric_limits<double>::infinity();
  return needed_ <= kHopeless * static_cast<double>(max_steps_);
}

}  // namespace diffmj
