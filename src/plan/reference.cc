#include "plan/reference.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "diffmj/error.h"

namespace diffmj {
namespace {

void require_times(const std::string& who, const std::vector<double>& time) {
  for (size_t i = 0; i < time.size(); i++) {
    if (!std::isfinite(time[i])) {
      throw InputError(
          who + text(": time %zu of the reference is %g, expected a finite number", i, time[i]));
    }
    if (i > 0 && time[i] <= time[i - 1]) {
      throw InputError(who +
                       text(": times of the reference must increase, but %g s comes after %g s",
                            time[i], time[i - 1]));
    }
  }
}

}  // namespace

TargetRows::TargetRows(const std::string& who, const std::string& name,
                       const std::vector<double>& given, const Reference& over_time,
                       std::vector<double> otherwise)
    : time_(over_time.time), values_(over_time.values), width_(otherwise.size()) {
  if (time_.empty() && values_.empty()) {
    if (!given.empty() && given.size() != width_) {
      throw InputError(who + ": " + name + " has " + std::to_string(given.size()) +
                       " numbers, expected " + std::to_string(width_));
    }
    values_ = given.empty() ? std::move(otherwise) : given;
    return;
  }
  if (!given.empty()) {
    throw InputError(who + ": " + name + " is constant, and there is a reference over time, too; " +
                     "give one of them");
  }
  require_times(who, time_);
  if (values_.size() != time_.size() * width_) {
    throw InputError(who + ": the reference has " + std::to_string(values_.size()) +
                     " numbers at " + std::to_string(time_.size()) + " times, expected " +
                     std::to_string(width_) + " at each");
  }
  for (const double x : values_) {
    if (!std::isfinite(x)) {
      throw InputError(who + text(": a number of the reference is %g, expected finite ones", x));
    }
  }
}

TargetRows::Row TargetRows::at(double time) const {
  const double* values = values_.data();
  if (time_.size() < 2 || time <= time_.front()) return {values, values, 0};
  if (time >= time_.back()) {
    const double* last = values + (time_.size() - 1) * width_;
    return {last, last, 0};
  }
  const auto next =
      static_cast<size_t>(std::upper_bound(time_.begin(), time_.end(), time) - time_.begin());
  const double* after = values + next * width_;
  return {after - width_, after, (time - time_[next - 1]) / (time_[next] - time_[next - 1])};
}

void TargetRows::Row::quat(size_t k, mjtNum out[4]) const {
  for (size_t i = 0; i < 4; i++) out[i] = (*this)[k + i];
  mju_normalize4(out);
}

bool TargetRows::normalize(size_t k) {
  bool good = true;
  double* before = nullptr;
  for (size_t i = 0; i < std::max<size_t>(time_.size(), 1); i++) {
    double* quat = values_.data() + i * width_ + k;
    good = good && mju_norm(quat, 4) > mjMINVAL;
    mju_normalize4(quat);
    // q and -q are one rotation: the way between two of them is the short one
    if (before && mju_dot(before, quat, 4) < 0) mju_scl(quat, quat, -1, 4);
    before = quat;
  }
  return good;
}

}  // namespace diffmj
