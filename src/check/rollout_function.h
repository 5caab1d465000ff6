// The rollout as a function of its inputs, with the pieces that its steps are on.
#ifndef DIFFMJ_CHECK_ROLLOUT_FUNCTION_H_
#define DIFFMJ_CHECK_ROLLOUT_FUNCTION_H_

#include <functional>
#include <vector>

#include "check/pieces.h"
#include "diffmj/gradient.h"
#include "diffmj/rollout.h"
#include "diffmj/state.h"
#include "stages/step_input.h"

namespace diffmj {

// z = (tangent of the initial state, every control) to the sum of how far all states move from
// those of the base rollout, weighted by cotangents. With adaptive steps their sizes stay those of
// the base. The model must be tight, or its solver's noise is what differences measure.
class RolloutFunction {
 public:
  using Vector = std::vector<double>;

  // Throws InputError if the rollout fails.
  RolloutFunction(const Model& model, const RolloutInput& input, int nstep,
                  std::function<bool()> interrupted);

  // Cotangents of the rows of the rollout.
  Vector qpos_bar, qvel_bar, act_bar;  // (nstep + 1) x {nv, nv, na}

  size_t size() const { return static_cast<size_t>(model_.ntangent()) + ctrl_.size(); }
  int nstep() const { return nstep_; }
  const Trajectory& base() const { return base_; }
  const PieceSurvey& survey() const { return survey_; }
  // Of every evaluation that the base makes, with the step (or interval) it is in.
  struct StepPieces {
    int step;
    Pieces pieces;
  };
  const std::vector<StepPieces>& pieces() const { return pieces_; }

  // A contact that carries force and that MuJoCo finds by iteration; null if there is none.
  const PieceRow* iterated() const;

  struct Value {
    bool ok = false;  // the perturbed rollout reached its end
    double sum = 0;
    double distance = 0;  // |z|
    std::vector<StepPieces> pieces = {};
  };
  Value operator()(const Vector& z) const;

  // What changes between the base and z; the first step at which something does.
  struct Changes {
    int step = -1;
    std::vector<Switch> switches;
  };
  Changes changes(const Value& value) const;

  // (qpos_tangent, qvel, act, every ctrl), by the model itself, or by another that differs in its
  // path or adjoint only.
  Vector gradient(const Model& by) const;
  Cotangents cotangents() const {
    return {.qpos_tangent = qpos_bar, .qvel = qvel_bar, .act = act_bar};
  }

  // Step i alone, at the state and with the inputs that the base had; this must outlive it.
  RolloutFunction step(int i) const;
  // The same inputs and cotangents for another model of the same size; this must outlive it.
  RolloutFunction on(const Model& other) const;

 private:
  RolloutInput perturbed(const Vector& z, State& x, Vector& ctrl) const;
  Value walk(const Vector& z) const;
  Value walk_adaptive(const Vector& z) const;
  double weigh(int i, CVec qpos, CVec qvel, CVec act) const;

  const Model& model_;
  RolloutInput input_;
  int nstep_;
  std::function<bool()> interrupted_;
  PieceSurvey survey_;
  State x_;
  Vector ctrl_;  // nstep x nu
  Trajectory base_;
  std::vector<StepPieces> pieces_;
};

// (qpos_tangent, qvel, act, every ctrl)
std::vector<double> flat(const Gradient& gradient);

// The states that steps of a trajectory began at, with the number of the step, or of the interval
// the step is in.
void for_each_step(const Model& model, const Trajectory& trajectory,
                   const std::function<void(int, const StepInput&)>& look);

}  // namespace diffmj

#endif  // DIFFMJ_CHECK_ROLLOUT_FUNCTION_H_
