// A fit as a page: fitted values with standard errors and correlations, what the data do not
// determine, and how the model follows recordings before and after the fit.
#ifndef DIFFMJ_FIT_REPORT_H_
#define DIFFMJ_FIT_REPORT_H_

#include <span>
#include <string>
#include <vector>

#include "diffmj/fit.h"

namespace diffmj {

// Root mean squares of a target's residuals over all segments that can be simulated, without
// weights, at two values of the parameters. Starting states are as recorded.
struct TargetError {
  std::string target;
  long count = 0;  // residuals
  double before = 0, after = 0;
};
[[nodiscard]] std::vector<TargetError> target_errors(const Objective& objective,
                                                     std::span<const double> before,
                                                     std::span<const double> after,
                                                     const RolloutOptions& options = {});

struct FitReport {
  std::string title = "Fit";
  std::string summary = {};             // a sentence or two: model, data, method
  std::vector<std::string> notes = {};  // warnings
  std::string mjcf = {};                // the fitted model; empty: it is left out
};
// One HTML file without scripts; plots are embedded. held_out may be null.
[[nodiscard]] std::string fit_report(const Objective& training, const Objective* held_out,
                                     std::span<const double> start,
                                     std::span<const FitBounds> bounds, const FitResult& result,
                                     const Uncertainty& uncertainty, const FitReport& report = {},
                                     const RolloutOptions& options = {});

}  // namespace diffmj

#endif  // DIFFMJ_FIT_REPORT_H_
