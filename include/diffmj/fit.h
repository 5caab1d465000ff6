// Objective and fit(): fits parameters of a model to segments of recordings, by gradients.
#ifndef DIFFMJ_FIT_H_
#define DIFFMJ_FIT_H_

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diffmj/cfd.h"
#include "diffmj/identify.h"
#include "diffmj/recording.h"

namespace diffmj {

// What a residual r adds to the loss: ½ s² ρ(r²/s²), where s is the scale and r the residual times
// the root of its weight. Below s all are nearly ½ r². Beyond it, all but kLinear grow more slowly:
// few large residuals, for example of segments in which a contact begins a step too early, do not
// decide the fit. Names and formulas are those of scipy.optimize.least_squares.
struct ResidualLoss {
  enum class Kind {
    kLinear,  // ρ(u) = u: least squares
    kSoftL1,  // 2 (√(1 + u) - 1)
    kHuber,   // u up to 1, 2 √u - 1 beyond
    kCauchy,  // log(1 + u)
  };
  Kind kind = Kind::kLinear;
  double scale = 1;
};
// "linear", "soft_l1", "huber", "cauchy"; an InputError lists the valid names.
ResidualLoss::Kind residual_loss_from_name(const std::string& name);
const char* residual_loss_name(ResidualLoss::Kind kind);

// A segment simulated with a model.
struct SegmentValue {
  bool ok = false;      // its rollout came to its end
  std::string message;  // if not: why
  double loss = 0;      // Σ ½ weight residual², or of the other loss
  // Gradient of the loss in fields of mjModel, if requested.
  std::map<std::string, std::vector<double>> params;
  CfdCounts cfd = {};  // of a gradient with contacts from distance
};
// One value per segment, which does not depend on the other segments. fields: in which gradients
// are computed, if gradient is true. Throws RolloutError if a gradient is not finite, and
// Interrupted.
[[nodiscard]] std::vector<SegmentValue> segment_values(const Model& model,
                                                       std::span<const Segment* const> segments,
                                                       const ResidualLoss& loss, bool gradient,
                                                       const std::vector<std::string>& fields,
                                                       const RolloutOptions& options = {});

// The mean over segments of Σ ½ weight residual² (Target), or of Σ ½ s² ρ(weight residual² / s²),
// as a function of parameters.
class Objective {
 public:
  // Throws InputError if there are no segments, or if the scale of the loss is not positive.
  Objective(ParametricModel family, std::vector<Segment> segments, ResidualLoss loss = {});

  const ParametricModel& family() const { return *family_; }
  int nsegment() const { return static_cast<int>(segments_->size()); }
  const std::vector<Segment>& segments() const { return *segments_; }
  const ResidualLoss& loss() const { return loss_; }

  struct Value {
    double loss = 0;
    std::vector<double> gradient;  // of the loss, one number per parameter; empty: not requested
    // Segments whose rollout failed: they count neither in the loss nor in the gradient.
    int nfailed = 0;
    std::string message;  // of the first of them
    CfdCounts cfd = {};   // of gradients with contacts from distance
  };
  // which: numbers of segments; empty: all. All segments are one batch on options.nthread threads.
  // Sums are taken in their order, so the result does not depend on the number of threads. Throws
  // RolloutError if every rollout fails, and the errors of ParametricModel::at and jacobian.
  [[nodiscard]] Value evaluate(std::span<const double> theta, bool gradient = true,
                               std::span<const int> which = {},
                               const RolloutOptions& options = {}) const;
  // Computes the values of segments elsewhere, for example on other machines, by segment_values();
  // which: numbers of segments. evaluate() calls it on its own thread and takes the sums. Empty: on
  // threads here.
  using Elsewhere = std::function<std::vector<SegmentValue>(
      const Model& model, std::span<const int> which, bool gradient,
      const std::vector<std::string>& fields)>;
  void evaluate_by(Elsewhere elsewhere) { elsewhere_ = std::move(elsewhere); }

  // Residuals r of all segments, each times the square root of its weight; those of weight 0 are
  // left out. With a loss other than kLinear they are ±s √ρ(r²/s²), so that half their squares are
  // the loss.
  struct Residuals {
    std::vector<double> values;  // n; of a failed rollout NaN
    std::vector<int> first;      // nsegment + 1: where those of a segment begin; the last is n
    std::vector<double> theta;   // n x size(): derivatives in the parameters; 0 where failed
    std::vector<double> start;   // n x ntangent: in the state that the segment starts from
    int nfailed = 0;
    std::string message;  // of the first of them
  };
  struct ResidualOptions {
    // Which derivatives to compute. The tangents of all of them go through each rollout once
    // (rollout_pushforward); adaptive steps take one pullback per residual instead.
    bool theta = false, start = false;
    // Moves of the segments' starting states, nsegment x ntangent; empty: as recorded.
    std::span<const double> moves = {};
  };
  [[nodiscard]] Residuals residuals(std::span<const double> theta, const ResidualOptions& what,
                                    const RolloutOptions& options = {}) const;
  [[nodiscard]] std::vector<double> residuals(std::span<const double> theta,
                                              const RolloutOptions& options = {}) const {
    return residuals(theta, {}, options).values;
  }

 private:
  std::shared_ptr<const ParametricModel> family_;
  std::shared_ptr<const std::vector<Segment>> segments_;
  ResidualLoss loss_;
  Elsewhere elsewhere_;
};

struct FitBounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// θ = θ(z), free variables z for bounded parameters: logistic between two bounds, softplus at a
// single bound, linear without bounds. θ(0) is the start, and dθ/dz there is the size of the
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
  std::vector<double> theta = {};
  std::vector<double> gradient = {};  // of the loss in θ; Levenberg-Marquardt has none
  double seconds = 0;                 // since the fit began
  int nfailed = 0;
};

enum class FitMethod {
  kAdam,                // also of minibatches; defaults are the paper's
  kLevenbergMarquardt,  // Eigen's (MINPACK's): few iterations, all segments in each of them
};
const char* fit_method_name(FitMethod method);  // "adam", "lm"
// The inverse; an InputError lists the valid names.
FitMethod fit_method_from_name(const std::string& name);

struct FitOptions {
  FitMethod method = FitMethod::kAdam;
  std::vector<FitBounds> bounds = {};  // one per parameter, or none
  int iterations = 100;
  double rate = 0.03;               // Adam's, of z: relative to the parameters' sizes
  double beta1 = 0.5, beta2 = 0.9;  // Adam's
  // Adam's: segments per iteration, without replacement; none: all.
  std::optional<int> minibatch = {};
  unsigned seed = 0;  // of minibatches
  // The state that a segment starts from is a variable, too, which its first row measures like any
  // other: for data whose noise matters in a short segment. Levenberg-Marquardt eliminates it.
  bool estimate_starts = false;
  std::optional<int> nthread = {};  // none: one per core
  double tolerance = 0;  // Adam ends where a full-batch gradient in z is smaller; 0: never
  std::function<bool()> interrupted = {};
  std::function<void(const FitStep&)> progress = {};  // after every iteration
  // A file that is written every second and at the end; empty: none. With resume a fit continues
  // from it, if it exists: Adam as if it had not been stopped, bit for bit, Levenberg-Marquardt
  // from the parameters that it had reached. iterations counts from the first start. Throws
  // InputError if the file belongs to another problem.
  std::string checkpoint = {};
  bool resume = false;
};

struct FitResult {
  std::vector<double> theta;  // of the smallest loss that was seen; of minibatches the last
  double loss = 0;            // there, over all segments
  std::vector<double> moves;  // of starting states, if they were estimated
  std::vector<FitStep> history;
  bool converged = false;    // it ended before its iterations, because nothing improves any more
  bool interrupted = false;  // what was reached until then
  // Of an error during the fit, for example parameters with which the model does not compile; the
  // result is the best so far. Errors at the start are thrown.
  std::string message;
  // From Levenberg-Marquardt: why the values may not be a minimum. It did not converge, or its
  // steps became too small although the gradient is not.
  std::string warning;
  CfdCounts cfd = {};  // of gradients with contacts from distance
};
// Throws InputError if a bound excludes the start.
[[nodiscard]] FitResult fit(const Objective& objective, std::span<const double> start,
                            const FitOptions& options = {});

// How well the data determine the parameters: the covariance σ² (JᵀJ)⁻¹ of the least-squares
// estimate, σ² = |r|²/(n - p), where starting states that were estimated are eliminated from J and
// counted in p. Standard errors are those, or, if larger, those that allow arbitrary correlation of
// the residuals within a recording (within a segment, if there are few recordings). With a loss
// other than kLinear, r and J are those of Objective::Residuals. Neither includes bias, for example
// from a wrong model or from noise of starting states that acts on one side.
struct Uncertainty {
  std::vector<double> error;        // standard errors; infinite where the data say nothing
  std::vector<double> correlation;  // p x p
  // Directions of parameters, relative to their sizes, that the data do not determine: p numbers
  // each.
  std::vector<std::vector<double>> undetermined;
};
// moves: of starting states that were estimated; empty: they were not.
[[nodiscard]] Uncertainty uncertainty(const Objective& objective, std::span<const double> theta,
                                      const RolloutOptions& options = {},
                                      std::span<const double> moves = {});

}  // namespace diffmj

#endif  // DIFFMJ_FIT_H_
