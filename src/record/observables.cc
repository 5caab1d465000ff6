#include "diffmj/observables.h"

#include <mujoco/mujoco.h>

#include "base/names.h"
#include "base/suggestion.h"
#include "diffmj/error.h"

namespace diffmj {
namespace {

constexpr Observable kObservables[] = {
    {"xpos", mjOBJ_BODY, 3, &Poses::xpos, &Cotangents::xpos},
    {"xquat", mjOBJ_BODY, 4, &Poses::xquat, &Cotangents::xquat},
    {"xmat", mjOBJ_BODY, 9, &Poses::xmat, &Cotangents::xmat},
    {"site_xpos", mjOBJ_SITE, 3, &Poses::site_xpos, &Cotangents::site_xpos},
    {"site_xmat", mjOBJ_SITE, 9, &Poses::site_xmat, &Cotangents::site_xmat},
    {"geom_xpos", mjOBJ_GEOM, 3, &Poses::geom_xpos, &Cotangents::geom_xpos},
    {"geom_xmat", mjOBJ_GEOM, 9, &Poses::geom_xmat, &Cotangents::geom_xmat},
    {"subtree_com", mjOBJ_BODY, 3, &Poses::subtree_com, &Cotangents::subtree_com},
    {"body_linvel", mjOBJ_BODY, 3, &Poses::body_linvel, &Cotangents::body_linvel},
    {"body_angvel", mjOBJ_BODY, 3, &Poses::body_angvel, &Cotangents::body_angvel},
    {"site_linvel", mjOBJ_SITE, 3, &Poses::site_linvel, &Cotangents::site_linvel},
    {"site_angvel", mjOBJ_SITE, 3, &Poses::site_angvel, &Cotangents::site_angvel},
};

}  // namespace

int Observable::count(const Model& model) const {
  if (element == mjOBJ_BODY) return model.nbody();
  return element == mjOBJ_SITE ? model.nsite() : model.ngeom();
}

std::span<const Observable> observables() { return kObservables; }

const Observable& observable(const std::string& name) {
  std::vector<std::string> known;
  for (const Observable& x : kObservables) {
    if (name == x.name) return x;
    known.emplace_back(x.name);
  }
  throw InputError("observable '" + name + "' is unknown; expected one of " + joined(known) +
                   did_you_mean(name, known));
}

}  // namespace diffmj
