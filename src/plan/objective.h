// The cost of a plan as a function of its decision variables, for many at once.
#ifndef DIFFMJ_PLAN_OBJECTIVE_H_
#define DIFFMJ_PLAN_OBJECTIVE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "diffmj/plan.h"
#include "plan/variables.h"
#include "record/control_law.h"

namespace diffmj {

// The model with this timestep [s]; none: its own.
Model with_timestep(const Model& model, std::optional<double> timestep);

class PlanObjective {
 public:
  PlanObjective(const Model& model, Cost cost, const PlanOptions& options);

  const Model& model() const { return model_; }
  const Cost& cost() const { return cost_; }
  const PlanVariables& variables() const { return variables_; }

  // Copies what rollouts start from. Throws InputError.
  void set_start(const RolloutInput& start);

  using Value = PlanValue;
  // fill(i, z): the decision variables of number i, called from any thread. Values in out, whose
  // memory is used again. PlanOptions::evaluate computes them, if it is there. Throws Interrupted.
  using Fill = std::function<void(int i, std::vector<double>& z)>;
  void evaluate(int n, const Fill& fill, bool gradient, std::vector<Value>& out,
                const std::function<bool()>& interrupted = {});
  // The same on threads here.
  void evaluate_here(int n, const Fill& fill, bool gradient, std::span<Value> out,
                     const std::function<bool()>& interrupted);
  // The same without gradients, of at most kMost rollouts, which are kept until the next call; and
  // then the gradients of some of them. Not for own costs.
  void evaluate_kept(int n, const Fill& fill, std::vector<Value>& out,
                     const std::function<bool()>& interrupted = {});
  void differentiate_kept(std::span<const int> which, std::vector<Value>& out,
                          const std::function<bool()>& interrupted = {});

  // The same without gradients for controls that follow the state, of at most kMost rollouts: z of
  // fill is the start, and law(i, in, z) writes the knots of it that the control at a step needs
  // and no step before did. What was rolled out is there until the next call.
  static constexpr int kMost = 64;  // held in memory at once
  using Law = std::function<void(int i, const LawInput& in, Vec z)>;
  void evaluate_laws(int n, const Fill& fill, const Law& law, std::vector<Value>& out,
                     const std::function<bool()>& interrupted = {});
  struct Rolled {
    std::vector<double> z;
    Trajectory trajectory;
    Poses poses;
  };
  const std::vector<double>& z(int i) const { return z_[static_cast<size_t>(i)]; }
  // Swaps number i of it with x.
  void swap(int i, Rolled& x);

 private:
  RolloutInput start() const;  // a view of what set_start copied
  void require_places(size_t n);
  void evaluate_values(int n, const Fill& fill, std::span<Value> out,
                       const std::function<bool()>& interrupted);
  // law: empty, or what evaluate_laws was given
  // keep: stages, which gradients need
  void evaluate_chunk(int begin, int n, const Fill& fill, const Law& law, bool gradient, bool keep,
                      std::span<Value> out, const std::function<bool()>& interrupted);
  // Calls fn(0), ..., fn(n - 1) on threads. Throws Interrupted.
  void each(size_t n, const std::function<void(size_t)>& fn,
            const std::function<bool()>& interrupted) const;
  void evaluate_elsewhere(const Fill& fill, bool gradient, std::span<Value> out) const;
  // Of the rollout in place k: its steps; its value from the cost; the gradient.
  void roll_out(size_t k, const Law& law, bool keep, const std::function<bool()>& interrupted);
  void finish(size_t k, const Law& law, bool gradient, Value& value,
              const std::function<bool()>& interrupted);
  void pull_back(size_t k, Value& value, const std::function<bool()>& interrupted);

  Model model_;
  Cost cost_;
  PlanOptions options_;
  PlanVariables variables_;
  // of the start
  std::vector<double> qpos_, qvel_, act_, ctrl_, qfrc_, xfrc_, mocap_pos_, mocap_quat_;
  double time_ = 0;
  // of rollouts: those of a chunk, or one per thread
  std::vector<std::vector<double>> z_;
  std::vector<PlanInputs> inputs_;
  std::vector<Trajectory> trajectories_;
  std::vector<Poses> poses_;
  std::vector<Cost::Evaluation> evaluations_;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_OBJECTIVE_H_
