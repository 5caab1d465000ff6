// Targets of a residual: constant, or a Reference over time.
#ifndef DIFFMJ_PLAN_REFERENCE_H_
#define DIFFMJ_PLAN_REFERENCE_H_

#include <string>
#include <vector>

#include "diffmj/cost.h"
#include "mj/view.h"

namespace diffmj {

class TargetRows {
 public:
  TargetRows() = default;
  explicit TargetRows(std::vector<double> constant) : values_(std::move(constant)) {}
  // given: empty, or a constant target; over_time: empty, or a reference; otherwise: what the
  // target is if both are empty. who and name are for messages. Throws InputError.
  TargetRows(const std::string& who, const std::string& name, const std::vector<double>& given,
             const Reference& over_time, std::vector<double> otherwise);

  // The numbers at a time [s].
  class Row {
   public:
    Row(const double* before, const double* after, double part)
        : before_(before), after_(after), part_(part) {}
    double operator[](size_t k) const { return before_[k] + part_ * (after_[k] - before_[k]); }
    // Number k to k + 3 as a rotation.
    void quat(size_t k, mjtNum out[4]) const;

   private:
    const double *before_, *after_;
    double part_;
  };
  Row at(double time) const;

  // Numbers k to k + 3 of rows are quaternions: gives them length 1, and each the sign that is
  // nearer to the one before it. Returns whether none is zero.
  bool normalize(size_t k);

 private:
  std::vector<double> time_;    // empty: constant
  std::vector<double> values_;  // a row for each
  size_t width_ = 0;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_REFERENCE_H_
