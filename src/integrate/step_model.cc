#include "integrate/step_model.h"

#include <utility>

#include "integrate/tableau.h"

namespace diffmj {

StepModel::StepModel(std::shared_ptr<mjModel> compiled, const StepMethod& method,
                     const ModelOptions& asked)
    : StageModel(std::move(compiled), method.tableau != nullptr, asked),
      tableau(method.tableau),
      interval(method.interval) {}

size_t StepModel::nplace() const { return tableau ? tableau->nk + 1 : kRk4.nstage; }

}  // namespace diffmj
