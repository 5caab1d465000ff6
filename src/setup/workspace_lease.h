// Workspaces for the length of a scope, from those that a model and its variants keep.
//
//   WorkspaceLease workspace(model.impl());
//   mjData* d = workspace->data.get();
#ifndef DIFFMJ_SETUP_WORKSPACE_LEASE_H_
#define DIFFMJ_SETUP_WORKSPACE_LEASE_H_

#include <memory>
#include <mutex>
#include <vector>

#include "mj/collider.h"
#include "setup/model_impl.h"
#include "stages/workspace.h"

namespace diffmj {

// Workspaces that nobody uses, of a model and its variants.
struct WorkspacePool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Workspace>> idle;
};

// While it exists, MuJoCo collides as the model asks.
class WorkspaceLease {
 public:
  explicit WorkspaceLease(const ModelImpl& impl);
  ~WorkspaceLease();
  WorkspaceLease(const WorkspaceLease&) = delete;
  WorkspaceLease& operator=(const WorkspaceLease&) = delete;
  Workspace& operator*() const { return *workspace_; }
  Workspace* operator->() const { return workspace_.get(); }

 private:
  const ModelImpl& impl_;
  std::unique_ptr<Workspace> workspace_;
  ColliderScope collider_;
};

}  // namespace diffmj

#endif  // DIFFMJ_SETUP_WORKSPACE_LEASE_H_
