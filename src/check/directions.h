// The adjoint against differences in one direction: over the whole rollout, or step by step.
//
// Differences count only where all their samples are on the pieces of the base (check/pieces.h).
// Where that holds on both sides of the base they are central, where it holds on one side they are
// of that side. Where it holds on neither, each step is compared by itself,
//
//   p[i+1] · ∂x[i+1]/∂(x[i], u[i]) · w   against   (x_bar[i], u_bar[i]) · w
//
// in a direction w that leads away from every kink at that step; the adjoints p[i] are those of the
// rollout, so that the chain rule gives the whole gradient if every step agrees.
#ifndef DIFFMJ_CHECK_DIRECTIONS_H_
#define DIFFMJ_CHECK_DIRECTIONS_H_

#include <memory>
#include <random>
#include <vector>

#include "check/rollout_function.h"
#include "diffmj/check.h"

namespace diffmj {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b);
Vector random_vector(size_t n, double scale, std::mt19937& random);

// In the direction u, over the whole rollout. kAtKink: neither side stays on the pieces of the
// base.
CheckDirection check_rollout(const RolloutFunction& function, const Vector& gradient,
                             const Vector& u, double tolerance);

// The steps of a rollout, one by one.
class StepwiseCheck {
 public:
  // The function, whose cotangents are set, must outlive this.
  StepwiseCheck(const Model& model, const RolloutFunction& function, double tolerance);

  // In one random direction per step; the numbers are sums over steps, the verdict is the worst.
  CheckDirection direction(std::mt19937& random);
  // With the cotangents p[i+1] of its end.
  const RolloutFunction& step(int i) const;
  // Of the adjoints chained step by step: how far they are from a gradient of the whole, relative
  // to its largest entry.
  double distance(const Vector& gradient) const;
  // What directions left out at some step, by name; empty if they covered everything.
  std::vector<std::string> left_out() const;

 private:
  struct Slope {
    Switch at;
    std::vector<std::pair<int, double>> of;  // place in (q, v, act, ctrl) and slope
  };
  struct Step {
    RolloutFunction function;
    Vector gradient = {};
    std::vector<Slope> slopes = {};    // that are known
    std::vector<size_t> blocked = {};  // places of directions that are left out
  };
  void find_slopes(Step& step, const std::vector<Switch>& switches, const Vector& z);
  static const Slope* known_slope(const Step& step, const Switch& at);
  // A direction that keeps to the pieces of the base up to reach, or nothing, and then what is in
  // the way.
  bool lead_away(Step& step, double reach, std::mt19937& random, Vector& u,
                 std::vector<Switch>& in_the_way);
  bool block_places(Step& step, double reach);
  CheckDirection check(int i, std::mt19937& random);

  const Model& model_;
  double tolerance_;
  bool has_stages_;  // a step evaluates the dynamics at several states
  std::vector<Step> steps_;
  Vector chained_;  // of the initial state
};

}  // namespace diffmj

#endif  // DIFFMJ_CHECK_DIRECTIONS_H_
