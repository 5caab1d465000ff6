// What a Model shares between its copies and between threads: the model that was compiled, and how
// it is stepped and differentiated. That is chosen here, once: the gradient path, the method of
// steps, the collider, contacts from distance.
#ifndef DIFFMJ_SETUP_MODEL_IMPL_H_
#define DIFFMJ_SETUP_MODEL_IMPL_H_

#include <memory>

#include "diffmj/model.h"
#include "integrate/step_model.h"

namespace diffmj {

class Workspace;
struct WorkspacePool;  // setup/workspace_lease.h

class ModelImpl : public StepModel {
 public:
  // base: the model this one is a variant of (model/variant.h), with which it shares workspaces
  // and, where the meshes are the same, colliders.
  ModelImpl(const std::shared_ptr<mjModel>& compiled, const ModelOptions& options,
            const ModelImpl* base = nullptr);
  ~ModelImpl();

  // Scratch for one thread, made on first use and kept. Locked once per rollout, not per step.
  std::unique_ptr<Workspace> take_workspace() const;
  void give_back(std::unique_ptr<Workspace> workspace) const;

 private:
  void choose_path();
  void choose_collider(const ModelImpl* base);
  void choose_cfd();
  void require_onset() const;

  std::shared_ptr<WorkspacePool> pool_;
};

}  // namespace diffmj

#endif  // DIFFMJ_SETUP_MODEL_IMPL_H_
