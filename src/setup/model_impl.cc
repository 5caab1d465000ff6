#include "setup/model_impl.h"

#include <string>

#include "diffmj/error.h"
#include "integrate/tableau.h"
#include "mj/names.h"
#include "mj/view.h"
#include "setup/differentiation.h"
#include "setup/step_method.h"
#include "setup/workspace_lease.h"
#include "stages/analytic.h"
#include "stages/cfd/pairs.h"
#include "stages/position/collision/smooth.h"

namespace diffmj {
namespace {

// a variant has the options of its base, which were checked when that was made
const ModelOptions& validated(const ModelOptions& options, const ModelImpl* base) {
  if (!base) options.validate();
  return options;
}

}  // namespace

ModelImpl::ModelImpl(const std::shared_ptr<mjModel>& compiled, const ModelOptions& asked,
                     const ModelImpl* base)
    : StepModel(compiled, choose_method(validated(asked, base), compiled.get()), asked),
      pool_(base ? base->pool_ : std::make_shared<WorkspacePool>()) {
  choose_path();
  choose_collider(base);
  choose_cfd();
  require_onset();
  if (mj()->opt.integrator == mjINT_EULER) {
    const WorkspaceLease lease(*this);
    find_euler_advance(lease->data.get());
  }
}

ModelImpl::~ModelImpl() = default;

void ModelImpl::choose_path() {
  const mjModel* m = mj();
  const bool implicit =
      m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST;
  if (m->opt.integrator == mjINT_DISCRETE) {
    path_reason = "integrator discrete: its constraint solver uses the integrator's own metric";
  } else if (m->opt.enableflags & kEnableSpeculative) {
    path_reason = "option flag speculative: contacts depend on velocities";
  } else if (m->nflex > 0 && m->opt.noslip_iterations > 0) {
    path_reason = element_name(m, mjOBJ_FLEX, 0) +
                  " with option noslip_iterations = " + std::to_string(m->opt.noslip_iterations) +
                  ": how the no-slip pass treats rows of flexes is not known";
  } else if (m->nflex > 0 && implicit && m->opt.solver == mjSOL_CG) {
    path_reason = element_name(m, mjOBJ_FLEX, 0) +
                  " with an implicit integrator and CG: its stiffness enters the solver's metric";
  }
  GradientPath path = options.gradient_path;
  if (!path_reason.empty()) {
    path = GradientPath::kDifferences;
  } else if (path == GradientPath::kAnalytic) {
    path_reason = analytic_obstacle(m);
    if (!path_reason.empty()) {
      path_reason += " has no analytic pullback yet";
      path = GradientPath::kOracle;
    }
  }
  if (options.muscle_smoothing > 0 && path != GradientPath::kAnalytic) {
    throw UnsupportedError("muscle_smoothing needs the gradient path 'analytic', and this model " +
                           (path_reason.empty() ? std::string("was requested to take another")
                                                : "cannot take it: " + path_reason) +
                           "; leave muscle_smoothing at 0");
  }
  if (path == options.gradient_path) path_reason.clear();
  if (tableau && path == GradientPath::kDifferences) {
    throw UnsupportedError(
        std::string("integrator ") + tableau->name +
        " needs the derivative of the vector field, and the path differences has none" +
        (path_reason.empty() ? "" : ": " + path_reason) + "; use one of MuJoCo's integrators");
  }
  if (!options.fallback && path > options.gradient_path) {
    throw UnsupportedError(path_reason +
                           ", and fallback is off: allow it (fallback = true), or "
                           "take the feature out of the model");
  }
  differentiation = differentiation_by(path, m);
}

void ModelImpl::choose_cfd() {
  if (!options.cfd) return;
  if (mj()->opt.noslip_iterations > 0) {
    throw UnsupportedError(
        "cfd has no no-slip pass, and this model has one (option noslip_iterations = " +
        std::to_string(mj()->opt.noslip_iterations) + "); set it to 0, or leave cfd out");
  }
  if (!differentiation.of_stages) {
    throw UnsupportedError("cfd needs the gradient path 'analytic', and this model " +
                           (path_reason.empty() ? std::string("was requested to take another")
                                                : "cannot take it: " + path_reason) +
                           "; leave cfd out");
  }
  if (options.collisions.mode == Collisions::kSmoothField) {
    throw UnsupportedError(
        "cfd and collisions smooth-field both replace the dynamics of the backward pass; leave one "
        "of them out");
  }
  cfd = std::make_unique<const CfdModel>(mj(), *options.cfd);
}

void ModelImpl::require_onset() const {
  if (options.adaptive.onset == 0 || !cfd) return;
  throw UnsupportedError(
      "onset is the width over which contacts set in, and contacts from distance have a width of "
      "their own; leave cfd out, or leave onset at 0");
}

void ModelImpl::choose_collider(const ModelImpl* base) {
  const CollisionOptions& o = options.collisions;
  if (o.mode == Collisions::kMujoco) return;
  if (o.mode != Collisions::kSmooth && !differentiation.of_stages) {
    throw UnsupportedError(std::string("collisions ") + collisions_name(o.mode) +
                           " needs the gradient path 'analytic', and this model " +
                           (path_reason.empty() ? std::string("was requested to take another")
                                                : "cannot take it: " + path_reason) +
                           "; use collisions smooth or mujoco");
  }
  if (o.mode == Collisions::kSmoothField && mj()->opt.noslip_iterations > 0) {
    throw UnsupportedError(
        "collisions smooth-field has no no-slip pass, and this model has one (option "
        "noslip_iterations = " +
        std::to_string(mj()->opt.noslip_iterations) + "); set it to 0, or use smooth-backward");
  }
  collisions_notice = pairs_without_smooth_collider(mj());
  if (!collisions_notice.empty() && !options.fallback) {
    throw UnsupportedError(
        "no smooth collider exists for " + collisions_notice +
        ", and fallback is off: allow MuJoCo's collider there (fallback = true)");
  }
  // of numbers it has those of meshes alone
  if (base && base->mj()->mesh_vert == mj()->mesh_vert) {
    smooth_collider_ = base->smooth_collider_;
  } else {
    smooth_collider_ = std::make_shared<const SmoothCollider>(mj(), o.smoothness);
  }
}

}  // namespace diffmj
