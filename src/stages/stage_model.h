// A model as its stages see it: compiled, with how the vector field is evaluated and pulled back.
// What that is setup/model_impl.h chooses.
#ifndef DIFFMJ_STAGES_STAGE_MODEL_H_
#define DIFFMJ_STAGES_STAGE_MODEL_H_

#include <memory>
#include <string>

#include "diffmj/model.h"
#include "mj/collider.h"
#include "model/compiled_model.h"
#include "stages/differentiation.h"

namespace diffmj {

class CfdModel;        // stages/cfd/pairs.h
class SmoothCollider;  // stages/position/collision/smooth.h

class StageModel : public CompiledModel {
 public:
  const ModelOptions options;  // as they were asked for
  Differentiation differentiation;
  std::string path_reason;        // why it is not the path that was asked for; empty: it is
  const double muscle_smoothing;  // as in options
  // Names the pairs of shapes that have no smooth collider but were asked to; empty if there are
  // none.
  std::string collisions_notice;
  // What MuJoCo's calls on this model ask for; null: MuJoCo's own colliders.
  const Collider* collider() const {
    return options.collisions.mode == Collisions::kSmooth ? &smooth_collider() : nullptr;
  }
  // The same where derivatives are taken of another field than the rollout's.
  const Collider* backward_collider() const {
    return options.collisions.mode == Collisions::kSmoothField ? &smooth_collider() : collider();
  }
  // The one that was asked for, forward or backward.
  const Collider& smooth_collider() const;
  // The backward pass takes the derivative of another field (stages/surrogate_field.h).
  bool has_surrogate_field() const {
    return cfd || options.collisions.mode == Collisions::kSmoothField;
  }
  std::unique_ptr<const CfdModel> cfd;  // contacts from distance; null: none

 protected:
  StageModel(std::shared_ptr<mjModel> compiled, bool steps_vary, const ModelOptions& options);
  ~StageModel();

  std::shared_ptr<const SmoothCollider> smooth_collider_;  // null: none was asked for
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_STAGE_MODEL_H_
