// Continuous adjoints: the adjoint equation of x' = F(t, x), solved backwards in time,
//
//   p' = -(∂F/∂x)ᵀ p,     z_bar = ∫ (∂F/∂z)ᵀ p dt     for inputs and parameters z
//
// in tangents: where q rotates, (∂F/∂x)ᵀ p has v × p_q beside what the vector field gives.
//
//   interpolated   x(t) is the dense output of the steps; its own steps end where theirs do
//   backsolve      x(t) is solved backwards too, from each row of the trajectory
//
// Where a constraint changes its case p' jumps. The interpolated adjoint locates such corners on
// the dense output, and its steps end there (eq. 14).
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
#include "stages/acceleration/constraint_cases.h"

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
  double inside(double t) const;
  bool evaluate_between(double t);
  bool stays_in_case(double t);
  bool look_ahead(double t);
  void locate_corner();
  bool is_held(const Workspace::Stage& at, int j) const;
  size_t case_hash(const Workspace::Stage& at) const;
  double corner_width() const;
  bool rate(size_t i, double t, Quadrature& quadrature, bool watch = true);
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
  // Cases of constraints: at the first stage of a step, at its last evaluation, and on the far side
  // of a corner. A corner that the attempt came upon is between the times near_ and far_; NaN:
  // none.
  const bool locates_;
  ConstraintCases first_cases_, cases_, near_cases_, far_cases_, before_cases_;
  CaseChange change_;
  double near_ = 0, far_ = std::numeric_limits<double>::quiet_NaN();
  int ncorner_ = 0;  // in the step of the rollout
  // x is read between these times alone: those of the steps' piece between two corners
  double piece_begin_ = 0, piece_end_ = 0;
  double same_until_ = 0;  // up to this time the cases are those of the first stage
  double ahead_time_ = std::numeric_limits<double>::quiet_NaN();  // where qacc is known
  std::vector<double> ahead_qacc_;                                // nv
  // a hash of the constraints that carry force at the last evaluation (mj/active_set.h), and of
  // cases at the first and the last stage: where they are not located, and of what leaves no jump
  size_t active_ = 0, first_hash_ = 0, last_hash_ = 0;
  double severity_ = 1;  // by how much the error of the step is to be smaller
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
