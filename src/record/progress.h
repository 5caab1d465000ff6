// Whether a rollout gets anywhere: the pace of its steps against the budget that is left.
#ifndef DIFFMJ_RECORD_PROGRESS_H_
#define DIFFMJ_RECORD_PROGRESS_H_

namespace diffmj {

// What a rollout has cost so far. Nothing here depends on the clock.
struct Effort {
  long nstep = 0;        // steps, accepted or not
  long nevaluation = 0;  // of forward dynamics
  // Operations, about a nanosecond each: a rough count that grows as the seconds do.
  double work = 0;
};

class Progress {
 public:
  // [s] where the rollout begins and is to end, and the model's timestep; the limit of its steps.
  Progress(double begin, double end, double timestep, long max_steps)
      : end_(end), timestep_(timestep), max_steps_(max_steps), mark_(begin) {}

  // After this effort, at this time [s]. False if over the last of it the time moved so little that
  // the steps that are left would have to be very many times longer.
  bool follow(const Effort& effort, double time);
  // What the rest would take at the last pace; 0: not known.
  double needed_steps() const { return needed_steps_; }
  // The same in evaluations, in units of what mj_step would make.
  double needed_ratio() const { return needed_ratio_; }

 private:
  double end_, timestep_;
  long max_steps_;
  double mark_;         // [s] at the last look
  Effort mark_effort_;  // then
  double needed_steps_ = 0, needed_ratio_ = 0;
};

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_PROGRESS_H_
