#include "record/method_choice.h"

#include <algorithm>

#include "stages/field_matrix.h"

namespace diffmj {
namespace {

// Evaluations of an explicit step, and of an implicit one with its matrix: from matrices, or from a
// pullback per row.
constexpr double kExplicit = 6, kMatrices = 6, kPerRow = 1.2;
// So many steps in a row: what a contact does when it begins is over by then.
constexpr int kStiffSteps = 3, kOtherSteps = 5;
// Explicit steps until the next try; twice as many each time that implicit ones were not worth it.
constexpr int kWait = 4, kLongWait = 256;
// h |λ| at the limits of explicit methods of order 5, in whatever direction λ is.
constexpr double kLeastRadius = 0.9, kMostRadius = 5;

}  // namespace

MethodChoice::MethodChoice(const StepModel& impl, RungeKutta& method)
    : impl_(impl),
      method_(method),
      worth_((kExplicit + (FieldMatrix::obstacle(impl).empty() ? kMatrices : kPerRow * impl.nv)) /
             kExplicit),
      patience_(kWait) {}

bool MethodChoice::look(double wish, double limit) {
  if (!impl_.stiff_tableau) return false;
  if (implicit()) {
    if (count_ < kOtherSteps) return false;
    const bool paid = time_ > worth_ * limit_ * nimplicit_;
    patience_ = paid ? kWait : std::min(2 * patience_, kLongWait);
    wait_ = patience_;
    use(*impl_.tableau);
    return true;
  }
  count_ = wait_ == 0 && wish > worth_ * limit ? count_ + 1 : 0;
  if (count_ < kStiffSteps) return false;
  limit_ = limit;
  nimplicit_ = 0;
  time_ = 0;
  use(*impl_.stiff_tableau);
  return true;
}

void MethodChoice::follow(double h) {
  if (!impl_.stiff_tableau) return;
  if (!implicit()) {
    wait_ = std::max(wait_ - 1, 0);
    return;
  }
  const double rate = method_.fastest_rate();
  time_ += h;
  if (nimplicit_++ == 0) radius_ = std::clamp(limit_ * rate, kLeastRadius, kMostRadius);
  count_ = h * rate < worth_ * radius_ ? count_ + 1 : 0;
}

void MethodChoice::use(const Tableau& tableau) {
  method_.use(tableau);
  count_ = 0;
}

}  // namespace diffmj
