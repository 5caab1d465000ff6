// The contacts of one pair of geoms as an operation for check_pullback.
#ifndef DIFFMJ_TESTS_STAGES_POSITION_COLLISION_OPERATION_H_
#define DIFFMJ_TESTS_STAGES_POSITION_COLLISION_OPERATION_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/stage_fixture.h"
#include "setup/model_impl.h"
#include "stages/position/collision.h"

namespace diffmj {

constexpr size_t kNumbers = 13;  // of a contact: dist, pos, frame

// z is the tangent of the free joints, then sizes and frames of the geoms; y are the contacts,
// matched to those at z = 0
struct CollisionOperation {
  explicit CollisionOperation(const Scene &from)
      : stage(from, {Parameter::kGeomSize, Parameter::kGeomPos, Parameter::kGeomQuat}),
        nv(static_cast<size_t>(from.model.nv())),
        nparam(static_cast<size_t>(10 * from.model.mj()->ngeom)),
        nz(nv + nparam) {
    set(Vector(nz));
    base = contacts();
  }

  void set(const Vector &z) {
    Vector all(stage.size());
    std::copy_n(z.begin(), nv, all.begin());
    std::copy_n(z.begin() + static_cast<ptrdiff_t>(nv), nparam,
                all.end() - static_cast<ptrdiff_t>(nparam));
    stage.set(all);
    mj_collision(stage.m, stage.d);
  }
  Vector contacts() const {
    Vector y;
    for (int i = 0; i < stage.d->ncon; i++) {
      const mjContact &c = stage.d->contact[i];
      y.push_back(c.dist);
      y.insert(y.end(), c.pos, c.pos + 3);
      y.insert(y.end(), c.frame, c.frame + 9);
    }
    return y;
  }
  Vector matched() const {
    const Vector found = contacts();
    Vector y(base.size(), std::nan(""));  // a lost contact is inconclusive
    for (size_t i = 0; i < base.size(); i += kNumbers) {
      double least = std::numeric_limits<double>::infinity();
      for (size_t j = 0; j < found.size(); j += kNumbers) {
        // prisms of a height field share edges: contacts at one place differ in
        // the rest
        const double distance = mju_dist3(&base[i + 1], &found[j + 1]) +
                                std::abs(base[i] - found[j]) +
                                0.01 * mju_dist3(&base[i + 4], &found[j + 4]);
        if (distance >= least) continue;
        least = distance;
        std::copy_n(found.begin() + static_cast<ptrdiff_t>(j), kNumbers,
                    y.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    return y;
  }
  // contacts stay where they are as the bodies move by next to nothing
  bool is_steady() {
    for (size_t k = 0; k < 2 * nv; k++) {
      Vector z(nz);
      z[k / 2] = k % 2 == 0 ? 1e-7 : -1e-7;
      set(z);
      const Vector y = matched();
      for (size_t i = 0; i < y.size(); i++) {
        if (!(std::abs(y[i] - base[i]) < 1e-4)) return false;
      }
    }
    return true;
  }
  std::vector<ContactBar> contact_bar(const Vector &y_bar) const {
    std::vector<ContactBar> bar(base.size() / kNumbers);
    for (size_t i = 0; i < bar.size(); i++) {
      const double *at = &y_bar[kNumbers * i];
      bar[i].dist = at[0];
      bar[i].pos = Vector3(at + 1);
      bar[i].frame = Rotation(at + 4);
    }
    return bar;
  }
  void pull(const Vector &y_bar, Vector &z_bar) {
    const std::vector<ContactBar> bar = contact_bar(y_bar);
    Vector all_bar(stage.size());
    const StageBar parts(stage, all_bar);
    stage.begin_sweep();
    collision_pullback(stage.scene.model.impl(), 0, stage.d->ncon, bar.data(), parts.params,
                       stage.workspace);
    kinematics_pullback(stage.m, stage.d, stage.sweep, parts.qpos, parts.qvel, {});
    for (size_t k = 0; k < nv; k++) z_bar[k] += parts.qpos[k];
    for (size_t k = 0; k < nparam; k++) z_bar[nv + k] += all_bar[all_bar.size() - nparam + k];
  }
  // not left to differences of the collider
  bool is_closed_form() {
    set(Vector(nz));
    const std::vector<ContactBar> bar = contact_bar(Vector(base.size(), 1.0));
    PairBar out(Vector3(stage.d->contact[0].pos));
    return closed_form_pullback(stage.scene.model.impl(), 0, stage.d->ncon, bar.data(),
                                stage.workspace, out);
  }
  Operation operation() {
    return {.forward =
                [this](const Vector &z) {
                  set(z);
                  return matched();
                },
            .pullback =
                [this](const Vector &z, const Vector &y_bar, Vector &z_bar) {
                  set(z);
                  pull(y_bar, z_bar);
                }};
  }

  Stage stage;
  size_t nv, nparam, nz;
  Vector base;
};

}  // namespace diffmj

#endif  // DIFFMJ_TESTS_STAGES_POSITION_COLLISION_OPERATION_H_
