// A model as its steps see it: stages, and the method that makes steps of them.
#ifndef DIFFMJ_INTEGRATE_STEP_MODEL_H_
#define DIFFMJ_INTEGRATE_STEP_MODEL_H_

#include <cstddef>
#include <memory>

#include "stages/stage_model.h"

namespace diffmj {

template <class Real>
struct TableauOf;  // integrate/tableau.h
using Tableau = TableauOf<double>;

struct StepMethod {
  const Tableau* tableau = nullptr;  // of an explicit Runge-Kutta method; null: MuJoCo integrates
  double interval = 0;               // [s] between rows of a trajectory
};

class StepModel : public StageModel {
 public:
  const Tableau* tableau;  // as in StepMethod
  double interval;         // [s]
  // The places that a workspace has for Runge-Kutta stages, and for the state after them.
  size_t nplace() const;

 protected:
  StepModel(std::shared_ptr<mjModel> compiled, const StepMethod& method,
            const ModelOptions& options);
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STEP_MODEL_H_
