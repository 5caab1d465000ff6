// Where limits and contacts begin or cease to be active within a step of an explicit Runge-Kutta
// method: docs/derivations/jumps.md.
//
// Constraints that become active within a step are suppressed, so that all its stages are on the
// side it began on (events/row_mask.h). Rows that are returned by reference are those of the last
// evaluation.
#ifndef DIFFMJ_EVENTS_STEP_EVENTS_H_
#define DIFFMJ_EVENTS_STEP_EVENTS_H_

#include <span>
#include <vector>

#include "events/row_mask.h"
#include "integrate/runge_kutta.h"

namespace diffmj {

// The model asks for events, and can have some.
bool has_events(const StepModel& impl);

class StepEvents final : public StepObserver {
 public:
  // Observes the method, if the model has events; both must outlive each other's use.
  StepEvents(const StepModel& impl, RungeKutta& method, Workspace& workspace,
             EvaluationTimes& times);

  // Of the step just made: something was suppressed at a stage, or at the end.
  bool suppressed() const { return suppressed_; }
  // Between two stages something moves further than the thinnest geom is thick, so that a contact
  // could come and go unseen; and looks for such between them: then suppressed() tells.
  bool travels() const;
  void look_between();
  // Something that was active where the step began is not so at a stage, and forces changed; or at
  // the end, where no stage tells of forces.
  bool lost() const { return lost_at_end_ || (lost_ && is_nonsmooth()); }
  // Constraints began or ceased to carry force within the step, or changed how: forces have a
  // corner there.
  bool is_nonsmooth() const;

  // The share of the step after which the first constraint became active, by dense output and
  // within a nanometre; 1 or more if none did. Evaluates the stage that dense output lacks.
  double find_begin();
  // The share of the step after which the first constraint, while it carries force, ceases to be
  // active; 2 if none does.
  double find_release();
  // What was suppressed at the end of the step, its last stage evaluated if that is not yet done,
  // with the rates there: rates_at_end().
  const std::vector<RowMask::Row>& suppressed_at_end();
  const Workspace::Stage& rates_at_end();
  // How much is suppressed at share θ of the step.
  size_t suppressed_between(double theta);
  // What is active at the end, and leaves first; null if nothing does, or if something is gone
  // already.
  const RowMask::Row* leaving_at_end();
  // The same with its forces: what leaves within this distance [m], while it carries force.
  const std::vector<RowMask::Row>& released_at_end(double distance);
  // The mean of φ'' = J a over rows of the evaluation just made, at these accelerations and without
  // the part of J's change, which is 0 at rest [m/s² or rad/s²].
  double curvature(std::span<const RowMask::Row> rows, CVec qacc);

  // What was active where the step began, and whether the backward pass needs it: something was
  // suppressed within the step, or released there.
  RowBase base() const { return mask_.base(); }
  bool needs_base() const { return suppressed_ || begins_with_release(); }
  // The step is made: what is active at its end is where the next one begins. jumps: the rates
  // there are those of the other side.
  void follow(bool jumps);
  // At the event that ended the step just followed these were released: they carry no force from
  // there on.
  void release(std::span<const EventConstraint> constraints);
  // The next step begins with such.
  bool begins_with_release() const { return !released_.empty(); }

  // StepObserver
  void suppress(mjData* d, bool contacts) override { mask_.suppress(d, contacts); }
  void begun(const StepStart& start) override;
  void evaluated(Workspace::Stage& at, bool last) override;
  void ended() override;

 private:
  const Tableau& tableau() const { return method_.tableau(); }
  void measure_geoms();
  void set_nodes();
  double fastest() const;
  void add_samples();
  void rows_at(double time, const Workspace::Stage& at);
  const RowMask& rows_between(double theta);
  const std::vector<RowMask::Row>& released(double distance);

  const StepModel& impl_;
  RungeKutta& method_;
  Workspace& workspace_;
  EvaluationTimes& times_;
  const bool watch_;
  RowMask mask_, end_rows_;
  bool knows_base_ = false;                // mask_ has that of the start
  std::vector<EventConstraint> released_;  // where the step begins
  bool suppressed_ = false, lost_ = false, lost_at_end_ = false;
  const Tableau* nodes_of_ = nullptr;
  std::vector<double> nodes_;    // where its stages are, ascending: 0, ..., 1
  std::vector<double> samples_;  // the same and what lies between
  std::vector<double> reach_;    // nbody: from its centre to the far end of its geoms [m]; 0: none
  double thickness_ = 0;         // [m] half of that of the thinnest geom that moves
  double speed_ = 0;             // [m/s] of the fastest point of a geom, at the stages of the step
  std::vector<RowMask::Row> leaving_;
  const RowMask nothing_;  // neither suppressed nor lost
};

}  // namespace diffmj

#endif  // DIFFMJ_EVENTS_STEP_EVENTS_H_
