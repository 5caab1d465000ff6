// Whether a rollout gets anywhere: the pace of its steps against the budget that is left.
#ifndef DIFFMJ_RECORD_PROGRESS_H_
#define DIFFMJ_RECORD_PROGRESS_H_

namespace diffmj {

class Progress {
 public:
  // [s] where the rollout begins and is to end, and the limit of its steps.
  Progress(double begin, double end, long max_steps)
      : end_(end), max_steps_(max_steps), mark_(begin) {}

  // After nstep steps, accepted or not, at this time [s]. False if over the last of them the time
  // moved so little that the steps that are left would have to be very many times longer.
  bool follow(long nstep, double time);
  // The steps that the rest would take at the last pace; 0: not known.
  double needed() const { return needed_; }

 private:
  double end_;
  long max_steps_;
  double mark_;         // [s] at the last look
  long mark_step_ = 0;  // steps then
  double needed_ = 0;
};

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_PROGRESS_H_
