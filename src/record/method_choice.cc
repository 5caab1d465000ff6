#include "record/method_choice.h"

namespace diffmj {
namespace {

// An implicit step costs about as much as two explicit ones.
constexpr double kWorth = 2;
// So many steps in a row: what a contact does when it begins is over by then.
constexpr int kStiffSteps = 3, kOtherSteps = 5;
// h |λ| at which every explicit method of order 5 is stable, also where oscillations have no
// damping.
constexpr double kStable = 0.9;

}  // namespace

bool MethodChoice::look(double wish, double limit) {
  if (!impl_.stiff_tableau) return false;
  if (implicit()) {
    if (count_ < kOtherSteps) return false;
    use(*impl_.tableau);
    return true;
  }
  count_ = wish > kWorth * limit ? count_ + 1 : 0;
  if (count_ < kStiffSteps) return false;
  use(*impl_.stiff_tableau);
  return true;
}

void MethodChoice::follow(double h) {
  if (!impl_.stiff_tableau || !implicit()) return;
  count_ = h * method_.fastest_rate() < kStable ? count_ + 1 : 0;
}

void MethodChoice::use(const Tableau& tableau) {
  method_.use(tableau);
  count_ = 0;
}

}  // namespace diffmj
