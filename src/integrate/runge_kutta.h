// One step of a Runge-Kutta method (integrate/tableau.h) on states x = (q, v, w), and the pullback
// of explicit ones; Munthe-Kaas on rotations, so that they keep the order:
//
//   stage i:  u_i = h Σ_j A_ij k_j,   q_i = q ⊕ u_i,   v_i = v + h Σ_j A_ij a_j,   w_i likewise
//             a_i, wdot_i = F(t + c_i h, x_i),         k_i = dexpinv(u_i) v_i
//   result:   the same with b_j in place of A_ij; within the step, with b_j(θ)
//
// In linearly implicit methods the increments of integrate/rosenbrock.h take the places of k_j, a_j
// and wdot_j in these sums.
//
// An activation that is an exact filter follows its own solution instead, as MuJoCo's
// mj_nextActivation does over a step: with s = θ h, τ its time constant, wdot its rate at the start
// and σ the slope of its control,
//
//   w(s) = w + wdot τ (1 - e^(-s/τ)) + σ (s - τ (1 - e^(-s/τ)))
//
// Activations with a range are clamped to it, at every stage. docs/derivations/adaptive.md, eq. 8.
#ifndef DIFFMJ_INTEGRATE_RUNGE_KUTTA_H_
#define DIFFMJ_INTEGRATE_RUNGE_KUTTA_H_

#include <memory>
#include <span>
#include <vector>

#include "integrate/rosenbrock.h"
#include "integrate/stage_watch.h"
#include "integrate/step.h"
#include "integrate/step_controller.h"
#include "integrate/step_model.h"
#include "integrate/step_observer.h"
#include "integrate/tableau.h"
#include "mj/view.h"
#include "stages/vector_field.h"
#include "stages/workspace.h"

namespace diffmj {

// What drives the motion between two rows of the trajectory.
struct IntervalInput {
  double begin = 0, end = 0;        // [s]
  CVec ctrl, ctrl_end;              // nu; ctrl_end empty: ctrl is held; ctrl empty: 0
  CVec qfrc_applied, xfrc_applied;  // held; empty: 0

  // The share of ctrl_end in the control at time t.
  double share(double t) const { return ctrl_end.empty() ? 0 : (t - begin) / (end - begin); }
  double control(double t, int j) const;
};

// What a step starts from.
struct StepStart {
  double time = 0;       // [s]
  CVec qpos, qvel, act;  // nq, nv, na
  // nv, na: the rates there, if the step before ended with them; empty: they are evaluated.
  CVec qacc, act_dot;
  int nefc = 0, ncon = 0;    // with qacc
  size_t active = 0;         // with qacc: which constraints carry force
  CVec qacc_warmstart = {};  // nv: of the first evaluation
};

// A step that was made. Its stages follow from it without another evaluation.
struct MadeStep {
  double time = 0, h = 0;     // [s]; h < 0: backwards
  CVec qpos, qvel, act;       // nq, nv, na: at its start
  CVec qacc, act_dot;         // nstage x {nv, na}
  std::span<const int> nefc;  // nstage: constraint rows
  CVec increments = {};       // nsolve x (2 nv + na): of implicit methods, in place of the rates
};

class RungeKutta {
 public:
  using Stage = Workspace::Stage;

  // The method is impl.tableau until another is chosen; its stages are workspace.stages, the state
  // after the step the last of them.
  RungeKutta(const StepModel& impl, Workspace& workspace);

  // Follows all steps from here on, and suppresses constraints in them. It must outlive this.
  void observe(StepObserver& observer) {
    observer_ = &observer;
    suppression_ = &observer;
  }
  // The same of constraints alone; null: all act.
  void suppress(RowSuppression* suppression) { suppression_ = suppression; }
  // Looks at the stages of all steps from here on. It must outlive this.
  void watch(StageWatch& watch) { watch_ = &watch; }

  const Tableau& tableau() const { return *tableau_; }
  // From the next step on; impl.tableau or impl.stiff_tableau.
  void use(const Tableau& tableau);
  // [1/s] |λ| of the fastest mode where the step at hand, an implicit one, began; an estimate.
  double fastest_rate() { return implicit_->fastest_rate(); }
  // Of the step at hand.
  const StepStart& start() const { return start_; }
  double h() const { return h_; }  // [s]
  Stage& stage(size_t i) { return workspace_.stages[i]; }
  Stage& end() { return workspace_.stages.back(); }

  // Makes a step of size h, but for a last stage that can wait (finish()). False as soon as a
  // number is not finite or larger than MuJoCo's limit, or the watch ends the step.
  bool step(const StepStart& start, const IntervalInput& in, double h, EvaluationTimes& times);
  bool finish(EvaluationTimes& times);
  // Error of the step as eq. 3 has it, to be added to what else the norm is over.
  void add_error(ErrorNorm& norm);
  // That of what contacts from distance at its stages would add to velocities, a hundred times.
  void add_cfd_error(ErrorNorm& norm);

  // A first step to try (adaptive.md, eq. 5); leaves the rates at the start in stage 0. 0 if they
  // are not finite.
  double first_step(const StepController& controller, const StepStart& start,
                    const IntervalInput& in, EvaluationTimes& times);

  // The same in parts: begin, then place and evaluate stage after stage.
  void begin(const StepStart& start, const IntervalInput& in, double h);
  bool place(size_t i);
  bool evaluate(size_t i, EvaluationTimes& times);
  bool place_end();

  // A step that was made, with its stages. Spans and input must live as long as it is used.
  void load(const MadeStep& step, const IntervalInput& in);
  // The state at a share θ of the step, from dense output; stages up to nk must be there.
  bool place_between(double theta, Stage& at);
  // Forward dynamics at a state, and what they read.
  bool evaluate(double time, CVec warmstart, Stage& at, EvaluationTimes& times);
  StepInput input_at(double time, Stage& at) const;

  // Adds what the start and the inputs of the loaded step, an explicit one, receive; bar.next is of
  // its end.
  void pullback(StepBar& bar);
  // a, act_dot = F at such a state: adds to bar what it and the inputs receive of at.a_bar and
  // at.act_dot_bar. evaluated: the workspace's mjData holds that evaluation.
  void field_pullback(double time, Stage& at, const VectorFieldBar& bar, bool evaluated);
  // The step left activation j at a bound: what it was before does not matter.
  bool stopped_at_end(int j) const;

 private:
  struct Filter {  // an activation that is an exact filter
    int activation, actuator, control;
    double tau;                        // [s]
    double slope = 0;                  // of the control, over the step
    bool limited[2] = {false, false};  // the control is clamped at the start, at the end
  };

  bool place(std::span<const double> weights, double theta, Stage& at);
  bool begin_implicit();
  bool evaluate(double time, CVec warmstart, bool last, Stage& at, EvaluationTimes& times);
  double activation(std::span<const double> weights, double theta, int j) const;
  double limited(int j, double w) const;
  void activations_pullback(std::span<const double> weights, double theta,
                            const Eigen::Ref<const Matrix>& act_bar, StepBar& bar);

  const StepModel& impl_;
  const Tableau* tableau_;
  Workspace& workspace_;
  std::unique_ptr<Rosenbrock> implicit_;  // null until an implicit method is used
  std::vector<double> ctrl_rate_;         // nu
  std::vector<Filter> filters_;
  std::vector<int> filter_of_;  // na: index of filters_, -1
  StepStart start_;
  IntervalInput in_;
  double h_ = 0;
  StepObserver* observer_ = nullptr;
  RowSuppression* suppression_ = nullptr;
  StageWatch* watch_ = nullptr;
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_RUNGE_KUTTA_H_
