// What a Model shares between its copies and between threads.
#ifndef DIFFMJ_MODEL_MODEL_IMPL_H_
#define DIFFMJ_MODEL_MODEL_IMPL_H_

#include <memory>
#include <string>
#include <vector>

#include "diffmj/model.h"
#include "mj/collider.h"
#include "mj/handle.h"

namespace diffmj {

class CfdModel;        // stages/cfd/pairs.h
class SmoothCollider;  // stages/position/collision/smooth.h
class Workspace;
template <class Real>
struct TableauOf;  // integrate/tableau.h
using Tableau = TableauOf<double>;

// How mj_step turns accelerations into velocities, v' = v + h b.
enum class Advance {
  kExplicit,           // b = a
  kImplicitSymmetric,  // (M + h B) b = M a, B diagonal: Euler with damping
  kImplicit,           // (M - h D) b = M a, D not symmetric: implicit, implicitfast
};

// Workspaces that nobody uses, of a model and its variants.
struct WorkspacePool;

class ModelImpl {
 public:
  // base: the model this one is a variant of (model/variant.h), with which it shares workspaces
  // and, where the meshes are the same, colliders.
  ModelImpl(std::shared_ptr<mjModel> compiled, const ModelOptions& options,
            const ModelImpl* base = nullptr);
  ~ModelImpl();

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
  const ModelOptions options;        // as they were asked for
  const Tableau* tableau = nullptr;  // of an explicit Runge-Kutta method; null: MuJoCo integrates
  double interval = 0;               // [s] between rows of a trajectory
  GradientPath path = GradientPath::kAnalytic;
  std::string path_reason;
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

  // Scratch for one thread, made on first use and kept. Locked once per rollout, not per step.
  std::unique_ptr<Workspace> take_workspace() const;
  void give_back(std::unique_ptr<Workspace> workspace) const;

 private:
  void choose_integrator();
  void tighten(mjOption& opt) const;
  void refuse_unsupported() const;
  void choose_path();
  void choose_cfd();
  void choose_advance();
  void choose_collider(const ModelImpl* base);

  std::shared_ptr<mjModel> mj_;
  std::unique_ptr<const mjModel> tight_, main_solver_;  // of the pointers
  std::shared_ptr<const SmoothCollider> collider_;
  std::shared_ptr<WorkspacePool> pool_;
};

// A workspace for the length of a scope, in which MuJoCo collides as the model asks.
class WorkspaceLease {
 public:
  explicit WorkspaceLease(const ModelImpl& impl);
  ~WorkspaceLease();
  WorkspaceLease(const WorkspaceLease&) = delete;
  WorkspaceLease& operator=(const WorkspaceLease&) = delete;
  Workspace& operator*() { return *workspace_; }
  Workspace* operator->() { return workspace_.get(); }

 private:
  const ModelImpl& impl_;
  std::unique_ptr<Workspace> workspace_;
  ColliderScope collider_;
};

// User callbacks would run on our threads, without Python's lock: refused by name.
void require_no_callbacks(const char* who);

}  // namespace diffmj

#endif  // DIFFMJ_MODEL_MODEL_IMPL_H_
