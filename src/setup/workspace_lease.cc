#include "setup/workspace_lease.h"

#include <utility>

namespace diffmj {

std::unique_ptr<Workspace> ModelImpl::take_workspace() const {
  std::unique_ptr<Workspace> workspace;
  {
    const std::lock_guard lock(pool_->mutex);
    if (!pool_->idle.empty()) {
      workspace = std::move(pool_->idle.back());
      pool_->idle.pop_back();
    }
  }
  if (!workspace) workspace = std::make_unique<Workspace>(*this, nplace());
  if (workspace->model_id != id) {
    // copies of another variant's numbers
    workspace->probes.model.reset();
    workspace->probes.collision_model.reset();
    workspace->model_id = id;
  }
  return workspace;
}

void ModelImpl::give_back(std::unique_ptr<Workspace> workspace) const {
  const std::lock_guard lock(pool_->mutex);
  pool_->idle.push_back(std::move(workspace));
}

WorkspaceLease::WorkspaceLease(const ModelImpl& impl)
    : impl_(impl), workspace_(impl.take_workspace()), collider_(impl.collider()) {}

WorkspaceLease::~WorkspaceLease() { impl_.give_back(std::move(workspace_)); }

}  // namespace diffmj
