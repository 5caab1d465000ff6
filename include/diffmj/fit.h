// Objective and fit(): parameters of a model from segments of recordings, by gradients.
#ifndef DIFFMJ_FIT_H_
#define DIFFMJ_FIT_H_

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "diffmj/identify.h"
#include "diffmj/recording.h"

namespace diffmj {

// The mean over segments of ½ Σ weight residual² (Target), as a function of parameters.
class Objective {
 public:
  // Throws InputError if there are no segments.
  Objective(ParametricModel family, std::vector<Segment> segments);

  const ParametricModel& family() const { return *family_; }
  int nsegment() const { return static_cast<int>(segments_->size()); }

  struct Value {
    double loss = 0;
    std::vector<double> gradient;  // of the loss, one number per parameter; empty: not asked for
    // Segments whose rollout failed: they count neither in the loss nor in the gradient.
    int nfailed = 0;
    std::string message;  // of the first of them
  };
  // which: numbers of segments; empty: all. All segments are one batch on options.nthread threads,
  // sums are taken in their order: the result does not depend on the threads. Throws RolloutError
  // if every rollout fails, and what ParametricModel::at and jacobian throw.
  [[nodiscard]] Value evaluate(std::span<const double> theta, bool gradient = true,
                               std::span<const int> which = {},
                               const RolloutOptions& options = {}) const;

  // √weight residual of all segments, those of failed rollouts NaN.
  [[nodiscard]] std::vector<double> residuals(std::span<const double> theta,
                                              const RolloutOptions& options = {}) const;

 private:
  std::shared_ptr<const ParametricModel> family_;
  std::shared_ptr<const std::vector<Segment>> segments_;
};

struct FitBounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// θ = θ(z), free variables z for bounded parameters: within two bounds a logistic curve, above or
// below one a softplus, without bounds linear. θ(0) is the start, and dθ/dz there the size of the
// parameter, or of its distance from the bound.
class FitVariables {
 public:
  // bounds: one per parameter, or none. Throws InputError if a bound excludes the start; names are
  // for the message.
  FitVariables(std::span<const double> start, std::span<const FitBounds> bounds,
               std::span<const std::string> names = {});

  [[nodiscard]] std::vector<double> theta(std::span<const double> z) const;
  // dθ/dz, one number each.
  [[nodiscard]] std::vector<double> slope(std::span<const double> z) const;

 private:
  struct One {
    enum class Kind { kFree, kLow, kHigh, kBoth };
    double start = 0;
    FitBounds bounds = {};
    Kind kind = Kind::kFree;
    double scale = 1, offset = 0;
  };
  std::vector<One> all_;
};

struct FitStep {
  int iteration = 0;
  double loss = 0;
  std::vector<double> theta, gradient;
  double seconds = 0;  // since the fit began
  int nfailed = 0;
};

// Adam on free variables (FitVariables). Defaults are those of the paper.
struct FitOptions {
  std::vector<FitBounds> bounds = {};  // one per parameter, or none
  int iterations = 100;
  double rate = 0.03;  // of z: relative to the parameters' sizes
  double beta1 = 0.5, beta2 = 0.9;
  int minibatch = 0;  // segments per iteration, drawn without replacement; 0: all
  unsigned seed = 0;
  int nthread = 0;
  double tolerance = 0;  // ends where a full-batch gradient in z is smaller than this; 0: never
  std::function<bool()> interrupted = {};
  std::function<void(const FitStep&)> progress = {};  // after every iteration
};

struct FitResult {
  std::vector<double> theta;  // of the smallest loss that was seen; of minibatches the last
  double loss = 0;            // there, over all segments
  std::vector<FitStep> history;
  bool interrupted = false;  // what was reached until then
};
// Throws InputError if a bound excludes the start.
[[nodiscard]] FitResult fit(const Objective& objective, std::span<const double> start,
                            const FitOptions& options = {});

// How well the data determine the parameters: the covariance σ² (JᵀJ)⁻¹ of the least-squares
// estimate, J by differences of the residuals, σ² = |r|²/(n - p).
struct Uncertainty {
  std::vector<double> error;        // standard errors; infinite where the data say nothing
  std::vector<double> correlation;  // p x p
  // Directions of parameters, relative to their sizes, that the data do not determine: p numbers
  // each.
  std::vector<std::vector<double>> undetermined;
};
[[nodiscard]] Uncertainty uncertainty(const Objective& objective, std::span<const double> theta,
                                      const RolloutOptions& options = {});

}  // namespace diffmj

#endif  // DIFFMJ_FIT_H_
