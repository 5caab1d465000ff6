// Continuous adjoints: the adjoint equation of x' = F(t, x), solved backwards in time,
//
//   p' = -(∂F/∂x)ᵀ p,     z_bar = ∫ (∂F/∂z)ᵀ p dt     for inputs and parameters z
//
// in tangents: where q rotates, (∂F/∂x)ᵀ p has v × p_q beside what the vector field gives.
//
//   interpolated   x(t) is the dense output of the steps; its own steps end where theirs do
//   backsolve      x(t) is solved backwards too, from each row of the trajectory
//
// Steps are controlled by the errors of p (and x), not by those of z_bar. They are of the method of
// the step that they go along: along a linearly implicit one they are so too, with the transposed
// of its matrix (adjoint/continuous_implicit.cc). docs/derivations/adaptive.md, eq. 10 and 11,
// stiff.md, eq. 5 to 7.
#ifndef DIFFMJ_ADJOINT_CONTINUOUS_H_
#define DIFFMJ_ADJOINT_CONTINUOUS_H_

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "adjoint/reverse_steps.h"
#include "base/parallel.h"
#include "diffmj/rollout.h"
#include "integrate/field_jacobian.h"
#include "integrate/implicit_system.h"
#include "integrate/runge_kutta.h"
#include "integrate/step.h"
#include "integrate/step_controller.h"
#include "model/parameters.h"
#include "setup/model_impl.h"

namespace diffmj {

class ContinuousAdjoint {
 public:
  // bar has the sizes and the parameters of those that interval() is given. steps: along whose
  // dense output it is solved; null: backsolve.
  ContinuousAdjoint(const Model& model, const Trajectory& trajectory, const StepBar& bar,
                    ReverseSteps* steps, Workspace& workspace);

  // From bar.next, of one cotangent, to bar.x and the inputs of interval i; intervals come last to
  // first. False if it was stopped. Throws RolloutError where the adjoint cannot be solved.
  bool interval(int i, StepBar& bar, StopSignal& stop);
  // The same of a single step n, which is loaded whole, in interval i.
  bool step(int i, int n, RungeKutta& loaded, StepBar& bar, StopSignal& stop);

  const StepControllerState& steps() const { return state_; }
  const EvaluationTimes& times() const { return times_; }

 private:
  // (∂F/∂z)ᵀ p, or its integral
  struct Quadrature {
    Matrix ctrl, ctrl_end, qfrc_applied, xfrc_applied;
    std::array<std::vector<double>, kParameterCount> params;

    explicit Quadrature(const StepBar& bar);
    void clear();
    void add(double weight, const Quadrature& other);
    void add_to(StepBar& bar) const;
    ParameterBar parameter_bar();
  };

  void set_mask(int first, int last);
  bool along(int n, RungeKutta& loaded, StepBar& bar, StopSignal& stop);
  bool solve(double begin, double end, StopSignal& stop, StepBar& bar);
  bool attempt(double t, double h);
  bool attempt_implicit(double t, double h);
  bool integrate_implicit(double t, double h);
  bool differentiate(double t);
  const StepController& controller() const {
    return stiff_controller_ && tableau_->implicit() ? *stiff_controller_ : *controller_;
  }
  bool keeps_evaluations() const;
  bool evaluate_between(double t);
  bool is_held(const Workspace::Stage& at, int j) const;
  size_t cases(const Workspace::Stage& at) const;
  bool rate(size_t i, double t, Quadrature& quadrature);
  [[noreturn]] void fail(const std::string& why, double t) const;

  const Model& model_;
  const ModelImpl& impl_;
  const Trajectory& trajectory_;
  const Tableau* tableau_;  // of the step at hand
  Workspace& workspace_;
  ReverseSteps* const steps_;       // interpolated
  std::optional<RungeKutta> back_;  // backsolve
  std::optional<StepState> x_;      // backsolve
  RowMask mask_;                    // what backsolve suppresses
  RungeKutta* along_ = nullptr;     // the step that x(t) is read from
  double step_begin_ = 0, step_size_ = 0;
  IntervalInput in_;
  std::optional<StepController> controller_, stiff_controller_;
  StepControllerState state_;
  EvaluationTimes times_;
  Matrix p_, p_stage_, p_next_;  // 1 x (2 nv + na)
  Matrix rates_;                 // nstage x (2 nv + na)
  Quadrature first_, stage_, sum_;
  bool knows_first_ = false;  // rates_ row 0 and first_ are those of the step to come
  // the constraints that carry force at the last evaluation (mj/active_set.h); the cases at the
  // first and the last stage; and whether they change within the step
  size_t active_ = 0, first_cases_ = 0, last_cases_ = 0;
  bool is_nonsmooth_ = false;
  std::vector<double> warmstart_;
  // of linearly implicit steps: the time that mjData holds, and that of the matrix; NaN: none
  double x_time_ = std::numeric_limits<double>::quiet_NaN(), jacobian_time_ = x_time_;
  std::optional<FieldJacobian> jacobian_;
  std::optional<ImplicitSystem> system_;
  std::vector<double> jacobian_qvel_;  // nv
  Matrix by_time_;                     // 1 x (2 nv + na)
  Eigen::VectorXd rhs_;                // 2 nv + na
};

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_CONTINUOUS_H_
