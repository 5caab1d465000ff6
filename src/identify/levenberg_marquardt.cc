// Levenberg-Marquardt on bounded parameters, by Eigen's port of MINPACK.
//
// Starting states x_i of segments, if they are estimated, are eliminated. With J_i = ∂r_i/∂x_i,
// each trial θ' moves them by the step that is best for the linearised residuals,
//
//   x_i' = x_i - J_i⁺ (r_i + ∂r_i/∂θ (θ' - θ))
//
// and what is left for θ is the projected Jacobian (I - J_i J_i⁺) ∂r_i/∂θ (Kaufman 1975).
#include <Eigen/Dense>
#include <cmath>
#include <cstdio>
#include <limits>
#include <unsupported/Eigen/LevenbergMarquardt>

#include "diffmj/error.h"
#include "identify/eliminated_starts.h"
#include "identify/fit_run.h"

namespace diffmj {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Of segments that are left out.
template <class Rows>
void clear_rows(const std::vector<int>& first, const std::vector<char>& left_out, Rows& x) {
  for (size_t i = 0; i < left_out.size(); i++) {
    if (left_out[i]) x.middleRows(first[i], first[i + 1] - first[i]).setZero();
  }
}

// Residuals as a function of z. Segments whose rollout failed at the start are left out; a trial
// with which another one fails is refused.
class Problem : public Eigen::DenseFunctor<double> {
 public:
  Problem(FitRun& run, int n, std::vector<char> left_out)
      : Eigen::DenseFunctor<double>(run.objective().family().size(), n),
        run_(run),
        left_out_(std::move(left_out)),
        starts_(run.state().moves) {}

  int operator()(const Eigen::VectorXd& z, Eigen::VectorXd& f) const {
    const std::vector<double> theta = theta_of(z), moves = starts_.predict(theta);
    try {
      const Objective::Residuals r =
          run_.objective().residuals(theta, {.moves = moves}, run_.rollout());
      f = Eigen::Map<const Eigen::VectorXd>(r.values.data(), f.size());
      clear_rows(r.first, left_out_, f);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      f[0] = std::numeric_limits<double>::quiet_NaN();
    }
    // a trial with which anything fails has an infinite loss, and the step is made shorter
    if (!f.allFinite()) f.setConstant(std::numeric_limits<double>::infinity());
    return 0;
  }

  int df(const Eigen::VectorXd& z, Eigen::MatrixXd& J) const {
    const std::vector<double> theta = theta_of(z);
    const bool starts = run_.options().estimate_starts;
    const std::vector<double> moves = starts_.predict(theta);
    Objective::Residuals r = run_.objective().residuals(
        theta, {.theta = true, .start = starts, .moves = moves}, run_.rollout());
    if (starts) starts_.linearize(theta, moves, r);
    J = Eigen::Map<const RowMajor>(r.theta.data(), J.rows(), J.cols());
    clear_rows(r.first, left_out_, J);
    const std::vector<double> slope =
        run_.variables().slope({z.data(), static_cast<size_t>(z.size())});
    J *= Eigen::Map<const Eigen::VectorXd>(slope.data(), J.cols()).asDiagonal();
    return 0;
  }

  std::vector<double> theta_of(const Eigen::VectorXd& z) const {
    return run_.variables().theta({z.data(), static_cast<size_t>(z.size())});
  }
  // of the last trial at z
  std::vector<double> moves_at(const Eigen::VectorXd& z) const {
    return starts_.predict(theta_of(z));
  }

 private:
  FitRun& run_;
  std::vector<char> left_out_;
  // Eigen takes a functor for constant
  mutable EliminatedStarts starts_;
};

// Which segments fail at z.
std::vector<char> failing(const Objective::Residuals& r) {
  std::vector<char> out;
  for (size_t i = 0; i + 1 < r.first.size(); i++) {
    const auto k = static_cast<size_t>(r.first[i]);
    out.push_back(r.first[i + 1] > r.first[i] && std::isnan(r.values[k]));
  }
  return out;
}

// By how much a change of one parameter by 1 % of its size would lower the loss, relative to it, if
// the loss were straight. Where the method stops of itself this is 1e-10 or less, unless the loss
// jumps.
double slope(const Eigen::MatrixXd& J, const Eigen::VectorXd& f) {
  return 0.01 * 2 * (J.transpose() * f).lpNorm<Eigen::Infinity>() / f.squaredNorm();
}
constexpr double kStationary = 1e-3;
constexpr double kExact = 1e-6;  // residuals after a fit, relative to those before

std::string warning(bool running, double slope, int iteration) {
  if (running) {
    return "Levenberg-Marquardt had not converged after " + std::to_string(iteration) +
           " iterations; allow more";
  }
  if (slope < kStationary) return "";
  char text[400];
  std::snprintf(
      text, sizeof(text),
      "Levenberg-Marquardt stopped where the loss does not fall along its gradient (a "
      "change of 1 %% should lower it by %.2g %%): the loss jumps there, as it does where "
      "a contact is made or missed; use shorter segments, estimate starting states, or "
      "another start",
      100 * slope);
  return text;
}

}  // namespace

void levenberg_marquardt(FitRun& run) {
  const Objective& objective = run.objective();
  FitState& state = run.state();
  Eigen::VectorXd z = Eigen::Map<const Eigen::VectorXd>(state.z.data(), objective.family().size());
  if (run.options().estimate_starts && state.moves.empty()) {
    const Model model = objective.family().at(run.variables().theta(state.z));
    state.moves.resize(static_cast<size_t>(objective.nsegment() * model.ntangent()));
  }
  // once more if rollouts that failed at the start do not fail any longer
  while (true) {
    const Objective::Residuals start =
        objective.residuals(run.variables().theta(state.z), {.moves = state.moves}, run.rollout());
    const int n = static_cast<int>(start.values.size());
    if (n < z.size()) {
      throw InputError("fit: there are " + std::to_string(n) + " residuals for " +
                       std::to_string(z.size()) + " parameters; use more recordings, or adam");
    }
    const int good = objective.nsegment() - start.nfailed;
    const std::vector<char> left_out = failing(start);
    Problem problem(run, n, left_out);
    Eigen::LevenbergMarquardt<Problem> method(problem);
    // z is relative to the parameters' sizes already: no first step is larger than they are
    method.setExternalScaling(true);
    method.diag().setOnes(z.size());
    method.setFactor(1);
    method.setMaxfev(std::numeric_limits<int>::max());
    method.minimizeInit(z);
    const double first = method.fnorm();
    const auto loss = [&] { return 0.5 * method.fnorm() * method.fnorm() / good; };
    const auto record = [&] {
      state.z.assign(z.data(), z.data() + z.size());
      const bool best = loss() < state.loss;
      const int k = state.iteration++;
      return run.record(
          {.iteration = k, .loss = loss(), .theta = problem.theta_of(z), .nfailed = start.nfailed},
          best);
    };
    if (state.history.empty() && !record()) return;
    bool running = true;
    while (running && state.iteration <= run.options().iterations) {
      const double before = method.fnorm();
      running = method.minimizeOneStep(z) == Eigen::LevenbergMarquardtSpace::Running;
      if (method.fnorm() < before) state.moves = problem.moves_at(z);
      if (!record()) return;
    }
    // of a fit without residuals only rounding is left, which may point anywhere
    const bool exact = method.fnorm() <= kExact * first;
    const double left = exact ? 0 : slope(method.jacobian(), method.fvec());
    run.result().converged = !running && left < kStationary;
    run.result().warning = warning(running, left, state.iteration - 1);
    if (running || start.nfailed == 0) return;
    const Objective::Residuals end =
        objective.residuals(run.variables().theta(state.z), {.moves = state.moves}, run.rollout());
    if (failing(end) == left_out) return;
    state.loss = std::numeric_limits<double>::infinity();  // of other segments
  }
}

}  // namespace diffmj
