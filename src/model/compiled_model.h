// A model as MuJoCo compiled it, with the options that every rollout needs, in the versions that
// derivatives need; what has no derivative is refused. How it is differentiated is not known here
// (setup/model_impl.h).
#ifndef DIFFMJ_MODEL_COMPILED_MODEL_H_
#define DIFFMJ_MODEL_COMPILED_MODEL_H_

#include <mujoco/mujoco.h>

#include <memory>
#include <vector>

#include "mj/handle.h"

namespace diffmj {

// How mj_step turns accelerations into velocities, v' = v + h b.
enum class Advance {
  kExplicit,           // b = a
  kImplicitSymmetric,  // (M + h B) b = M a, B diagonal: Euler with damping
  kImplicit,           // (M - h D) b = M a, D not symmetric: implicit, implicitfast
};

class CompiledModel {
 public:
  // steps_vary: steps have sizes of their own, and step control would see the solver's tolerance as
  // noise of the vector field. The integrator must be set in the options.
  CompiledModel(std::shared_ptr<mjModel> compiled, bool steps_vary);

  const mjModel* mj() const { return mj_.get(); }
  std::shared_ptr<const mjModel> shared_mj() const { return mj_; }
  // tolerances at machine precision, no warm start; otherwise the same model
  const mjModel* tight() const { return tight_.get(); }
  // the same model without its no-slip pass, for the solver
  const mjModel* main_solver() const { return main_solver_.get(); }

  int nq, nv, na, nu, nbody, nmocap;
  std::vector<int> ctrl_actuator,
      act_actuator;  // nu, na: the actuator a control or activation is of
  const int id;      // of this model among all that were made
  Advance advance = Advance::kExplicit;
  // Euler: as soon as any joint is damped, the step is implicit in it.
  bool euler_damps = false;

 protected:
  // Sets advance where the integrator is Euler. d: scratch, of this model.
  void find_euler_advance(mjData* d);

 private:
  void refuse_unsupported() const;

  std::shared_ptr<mjModel> mj_;
  std::unique_ptr<const mjModel> tight_, main_solver_;  // of the pointers
};

// mj_makeData; MemoryError if it does not fit.
MjDataPtr make_data(const CompiledModel& model);

// mj_copyModel; MemoryError if it does not fit.
MjModelPtr copy_model(const mjModel* source);

}  // namespace diffmj

#endif  // DIFFMJ_MODEL_COMPILED_MODEL_H_
