#include "stages/stage_model.h"

#include <utility>

#include "stages/cfd/pairs.h"
#include "stages/position/collision/smooth.h"

namespace diffmj {

StageModel::StageModel(std::shared_ptr<mjModel> compiled, bool steps_vary,
                       const ModelOptions& asked)
    : CompiledModel(std::move(compiled), steps_vary),
      options(asked),
      muscle_smoothing(asked.muscle_smoothing) {}

StageModel::~StageModel() = default;

const Collider& StageModel::smooth_collider() const { return smooth_collider_->get(); }

}  // namespace diffmj
