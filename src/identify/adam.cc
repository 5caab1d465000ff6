// Adam on bounded parameters.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

#include "diffmj/error.h"
#include "identify/fit_run.h"

namespace diffmj {
namespace {

// Segments of one iteration: all, or the next of a shuffled order.
class Minibatches {
 public:
  Minibatches(int n, std::optional<int> size, unsigned seed)
      : size_(size.value_or(n)), random_(seed) {
    if (size_ >= n) return;
    order_.resize(static_cast<size_t>(n));
    std::iota(order_.begin(), order_.end(), 0);
    at_ = order_.size();
  }
  bool whole() const { return order_.empty(); }
  std::vector<int> next() {
    if (whole()) return {};
    std::vector<int> out;
    while (out.size() < static_cast<size_t>(size_)) {
      if (at_ == order_.size()) {
        // std::shuffle differs between standard libraries
        for (size_t i = order_.size(); i > 1; i--) std::swap(order_[i - 1], order_[random_() % i]);
        at_ = 0;
      }
      out.push_back(order_[at_++]);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

 private:
  int size_;
  std::mt19937_64 random_;
  std::vector<int> order_;
  size_t at_ = 0;
};

// A gradient that is smaller than this times the loss is rounding, and no reason to move.
constexpr double kEpsilon = 1e-6;

}  // namespace

void adam(FitRun& run) {
  const FitOptions& options = run.options();
  FitState& state = run.state();
  const size_t n = state.z.size();
  Minibatches batches(run.objective().nsegment(), options.minibatch, options.seed);
  // of a fit that goes on, the order of segments does, too
  for (int k = 0; k < state.iteration; k++) (void)batches.next();
  if (state.m.empty()) {
    state.m.resize(n);
    state.v.resize(n);
  }
  while (true) {
    const int k = state.iteration;
    const bool last = k >= options.iterations;
    const std::vector<double> theta = run.variables().theta(state.z);
    const Objective::Value value = run.objective().evaluate(
        theta, !last, last ? std::vector<int>() : batches.next(), run.rollout());
    run.result().cfd += value.cfd;
    double size = 0;
    if (!last) {
      const std::vector<double> slope = run.variables().slope(state.z);
      for (size_t i = 0; i < n; i++) {
        const double g = value.gradient[i] * slope[i];
        size = std::max(size, std::abs(g));
        state.m[i] = options.beta1 * state.m[i] + (1 - options.beta1) * g;
        state.v[i] = options.beta2 * state.v[i] + (1 - options.beta2) * g * g;
        const double m = state.m[i] / (1 - std::pow(options.beta1, k + 1)),
                     v = state.v[i] / (1 - std::pow(options.beta2, k + 1));
        if (v > 0) state.z[i] -= options.rate * m / (std::sqrt(v) + kEpsilon * value.loss);
      }
      state.iteration++;
    }
    // of minibatches losses do not compare: the last one counts
    const bool best = value.loss < state.loss || !batches.whole();
    if (!run.record({.iteration = k,
                     .loss = value.loss,
                     .theta = theta,
                     .gradient = value.gradient,
                     .nfailed = value.nfailed},
                    best) ||
        last) {
      return;
    }
    if (batches.whole() && size < options.tolerance) {
      run.result().converged = true;
      return;
    }
  }
}

}  // namespace diffmj
