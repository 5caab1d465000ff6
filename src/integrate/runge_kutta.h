// One step of an explicit Runge-Kutta method (integrate/tableau.h) on states x = (q, v, w), and its
// pullback; Munthe-Kaas on rotations, so that they keep the order:
//
//   stage i:  u_i = h Σ_j A_ij k_j,   q_i = q ⊕ u_i,   v_i = v + h Σ_j A_ij a_j,   w_i likewise
//             a_i, wdot_i = F(t + c_i h, x_i),         k_i = dexpinv(u_i) v_i
//   result:   the same with b_j in place of A_ij; within the step, with b_j(θ)
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

#include <span>
#include <vector>

#include "integrate/step.h"
#include "integrate/step_controller.h"
#include "integrate/step_model.h"
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
  // What an event there released: it carries no force from here on.
  std::span<const EventConstraint> released = {};
};

// A step that was made. Its stages follow from it without another evaluation.
struct MadeStep {
  double time = 0, h = 0;     // [s]; h < 0: backwards
  CVec qpos, qvel, act;       // nq, nv, na: at its start
  CVec qacc, act_dot;         // nstage x {nv, na}
  std::span<const int> nefc;  // nstage: constraint rows
  bool masked = false;        // something that became active was held back in it,
  std::span<const EventConstraint> released = {};  // or was released where it begins
};

class RungeKutta {
 public:
  using Stage = Workspace::Stage;

  // The method is impl.tableau; its stages are workspace.stages, the state after the step the last
  // of them.
  RungeKutta(const StepModel& impl, Workspace& workspace);

  const Tableau& tableau() const { return tableau_; }
  Stage& stage(size_t i) { return workspace_.stages[i]; }
  Stage& end() { return workspace_.stages.back(); }

  // Makes a step of size h, but for a last stage that can wait (finish()). False as soon as a
  // number is not finite or larger than MuJoCo's limit.
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

  // Events, where the model asks for them: constraints that become active within a step are held
  // back, so that all its stages are on the side it began on (mj/row_mask.h). Rows that are
  // returned by reference are those of the last evaluation.
  //
  // Something was held back at a stage, or at the end.
  bool held() const { return held_; }
  // Between two stages something moves further than the thinnest geom is thick, so that a contact
  // could come and go unseen; and looks for such between them: then held() tells.
  bool travels() const;
  void look_between(EvaluationTimes& times);
  // The share of the step after which the first of them became active, by dense output and within a
  // nanometre; 1 or more if none did. Evaluates the stage that dense output lacks.
  double find_event(EvaluationTimes& times);
  // Something that was active where the step began is not so at a stage, and forces changed; or at
  // the end, where no stage tells of forces.
  bool lost() const { return lost_at_end_ || (lost_ && bends()); }
  // The share of the step after which the first of them, while it carries force, ceases to be
  // active; 2 if none does.
  double find_release(EvaluationTimes& times);
  // What is active at the end, and leaves first; null if nothing does, or if something is gone
  // already.
  const RowMask::Row* leaving_at_end(EvaluationTimes& times);
  // The same with its forces: what leaves within this distance [m], while it carries force.
  const std::vector<RowMask::Row>& released_at_end(double distance, EvaluationTimes& times);
  // What was held back at the end of the step, its last stage evaluated if that is not yet done,
  // with the rates there: rates_at_end().
  const std::vector<RowMask::Row>& held_at_end(EvaluationTimes& times);
  const Stage& rates_at_end();
  // The mean of φ'' = J a over rows of the evaluation just made, at these accelerations and without
  // the part of J's change, which is 0 at rest [m/s² or rad/s²].
  double curvature(std::span<const RowMask::Row> rows, CVec qacc);
  // Constraints began or ceased to carry force within the step, or changed how: forces have a
  // corner there.
  bool bends() const;
  // How much is held back at share θ of the step.
  size_t held_between(double theta);
  // The step is made: what is active at its end is where the next one begins. An event: the rates
  // there are those of the other side.
  void follow(bool event);
  // The state is another one.
  void forget() { knows_rows_ = false; }

  // The same in parts: begin, then place and evaluate stage after stage.
  void begin(const StepStart& start, const IntervalInput& in, double h);
  bool place(size_t i);
  bool evaluate(size_t i, EvaluationTimes& times);
  bool place_end();

  // A step that was made, with its stages. Spans and input must live as long as it is used.
  void load(const MadeStep& step, const IntervalInput& in);
  // Holds back what is not active at this position, and has become so since this time, and what is
  // released there; until the next step begins, or with own_rows(false) until clear_mask().
  void set_mask(CVec qpos, double time, std::span<const EventConstraint> released = {});
  void clear_mask();
  void own_rows(bool yes) { own_rows_ = yes; }
  // The state at a share θ of the step, from dense output; stages up to nk must be there.
  bool place_between(double theta, Stage& at);
  // Forward dynamics at a state, and what they read.
  bool evaluate(double time, CVec warmstart, Stage& at, EvaluationTimes& times);
  StepInput input_at(double time, Stage& at) const;

  // Adds what the start and the inputs of the loaded step receive; bar.next is of its end.
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
  void rows_at(double time, const Stage& at);
  void add_samples();
  double fastest() const;
  const RowMask& rows_between(double theta);
  const std::vector<RowMask::Row>& released(double distance);
  double activation(std::span<const double> weights, double theta, int j) const;
  double limited(int j, double w) const;
  void activations_pullback(std::span<const double> weights, double theta,
                            const Eigen::Ref<const Matrix>& act_bar, StepBar& bar);

  const StepModel& impl_;
  const Tableau& tableau_;
  Workspace& workspace_;
  std::vector<Filter> filters_;
  std::vector<int> filter_of_;  // na: index of filters_, -1
  StepStart start_;
  IntervalInput in_;
  double h_ = 0;
  // events
  const bool watch_;
  bool own_rows_ = true;  // steps hold back what is not active where they begin
  mutable RowMask mask_, end_rows_;
  bool masking_ = false;     // mask_ has a base: evaluations hold back what becomes active
  bool knows_rows_ = false;  // its base is of the start
  bool held_ = false, lost_ = false, lost_at_end_ = false;
  std::vector<double> nodes_;    // where stages are, ascending: 0, ..., 1
  std::vector<double> samples_;  // the same and what lies between
  std::vector<double> reach_;    // nbody: from its centre to the far end of its geoms [m]; 0: none
  double thickness_ = 0;         // [m] half of that of the thinnest geom that moves
  double speed_ = 0;             // [m/s] of the fastest point of a geom, at the stages of the step
  std::vector<RowMask::Row> released_;
  const RowMask nothing_;  // neither held nor lost
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_RUNGE_KUTTA_H_
