// Paths of one geom past another, for tests of smooth colliders: what the contacts do along them,
// and their pullback.
#ifndef DIFFMJ_TESTS_HARNESS_COLLISION_PATHS_H_
#define DIFFMJ_TESTS_HARNESS_COLLISION_PATHS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "harness/check_pullback.h"
#include "harness/stage_fixture.h"
#include "harness/tolerances.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "setup/workspace_lease.h"
#include "stages/position/collision.h"
#include "stages/position/collision/smooth.h"

namespace diffmj {

inline ModelOptions smooth(double width, Collisions mode = Collisions::kSmooth) {
  return {.collisions = {mode, width}};
}

inline std::string plane_xml(const std::string& geom, const char* margin = "0") {
  return std::string("<mujoco><default><geom margin='") + margin +
         "'/></default><worldbody><geom type='plane' size='3 3 1'/><body><freejoint/><geom " +
         geom + "/></body></worldbody></mujoco>";
}
inline std::string pair_xml(const std::string& geom1, const std::string& geom2,
                            const char* margin = "0") {
  return std::string("<mujoco><default><geom margin='") + margin +
         "'/></default><worldbody><body><geom " + geom1 + "/></body><body><freejoint/><geom " +
         geom2 + "/></body></worldbody></mujoco>";
}

// What the contacts of a pose do together: sums over them that do not depend on their order, and in
// which a contact that leaves does so with its derivative. p = max(margin - dist, 0)
//   Σ p²,  Σ p² pos,  Σ p² pos³,  Σ p² normal
class Contacts {
 public:
  explicit Contacts(const Model& model) : model_(model), workspace_(model.impl()) {}

  Vector operator()(const Vector& qpos) {
    const mjModel* m = model_.mj();
    mjData* d = workspace_->data.get();
    // its own colliders, whichever other leases there are
    const ColliderScope scope(model_.impl().collider());
    mj_call("mj_collision", [&] {
      mju_copy(d->qpos, qpos.data(), static_cast<int>(m->nq));
      mj_kinematics(m, d);
      mj_comPos(m, d);
      mj_collision(CollidingModel(m), d);
    });
    Vector sum(10);
    for (int i = 0; i < d->ncon; i++) {
      const mjContact& c = d->contact[i];
      const double p = std::max(c.includemargin - c.dist, 0.0);
      sum[0] += p * p;
      for (size_t k = 0; k < 3; k++) {
        sum[1 + k] += p * p * c.pos[k];
        sum[4 + k] += p * p * c.pos[k] * c.pos[k] * c.pos[k];
        sum[7 + k] += p * p * c.frame[k];
      }
    }
    return sum;
  }
  const mjData* data() { return workspace_->data.get(); }

 private:
  Model model_;
  WorkspaceLease workspace_;
};

// A path of the second geom's free joint.
struct Path {
  const char* name;
  std::string xml;
  std::function<Vector(double)> qpos;
  double from, to;
  bool mujoco_jumps = true;  // if not, MuJoCo's collider is smooth there too
};

inline Vector pose(double x, double y, double z, const Vector3& axis = Vector3::UnitZ(),
                   double angle = 0) {
  const Eigen::Quaterniond q(Eigen::AngleAxisd(angle, axis.normalized()));
  return {x, y, z, q.w(), q.x(), q.y(), q.z()};
}

// A general pose near that at a share of the path, which may be symmetric.
inline Vector pose_near(const Path& path, double share, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Vector qpos = path.qpos(path.from + share * (path.to - path.from));
  for (double& q : qpos) q += 1e-3 * normal(random);
  mju_normalize4(&qpos[3]);
  return qpos;
}

// How much the slope changes between neighbouring intervals of length h, at most along the path:
// proportional to h for a function with a second derivative, constant at a kink, growing at a jump.
inline double slope_change(const Path& sweep, const Model& model, double h) {
  Contacts contacts(model);
  // not an even number of steps from any symmetric pose
  const double offset = h / std::numbers::pi;
  Vector before = contacts(sweep.qpos(sweep.from + offset)),
         here = contacts(sweep.qpos(sweep.from + offset + h));
  double largest = 0;
  for (int i = 2; sweep.from + offset + i * h < sweep.to; i++) {
    const Vector next = contacts(sweep.qpos(sweep.from + offset + i * h));
    for (size_t k = 0; k < here.size(); k++) {
      largest = std::max(largest, std::abs(next[k] - 2 * here[k] + before[k]) / h);
    }
    before = here;
    here = next;
  }
  return largest;
}

// Slopes do not jump where those of MuJoCo's contacts do.
inline void expect_smooth(const std::vector<Path>& paths, double fine) {
  const double coarse = 8 * fine;
  for (const Path& sweep : paths) {
    SCOPED_TRACE(sweep.name);
    const Model exact = Model::from_xml(sweep.xml), ours = Model::from_xml(sweep.xml, smooth(.01));
    EXPECT_EQ(ours.collisions_notice(), "");
    const double exact_ratio =
        slope_change(sweep, exact, fine) / slope_change(sweep, exact, coarse);
    const double ratio = slope_change(sweep, ours, fine) / slope_change(sweep, ours, coarse);
    if (sweep.mujoco_jumps) {
      EXPECT_GT(exact_ratio, 0.5);  // 1: a kink, 8: a jump
    }
    EXPECT_LT(ratio, 0.2);  // 1/8: a second derivative
  }
}

// The pullback of a pair's contacts, by differences of what MuJoCo's mj_collision gives.
constexpr size_t kNumbers = 13;  // of a contact: dist, pos, frame

struct SmoothOperation {
  explicit SmoothOperation(const Scene& from)
      : stage(from, {Parameter::kGeomSize, Parameter::kGeomPos, Parameter::kGeomQuat}),
        scope(from.model.impl().collider()) {
    set(Vector(stage.size()));
    ncon = stage.d->ncon;
  }
  void set(const Vector& z) {
    stage.set(z);
    mj_call("mj_collision", [&] { mj_collision(CollidingModel(stage.m), stage.d); });
  }
  Vector forward(const Vector& z) {
    set(z);
    Vector y(kNumbers * static_cast<size_t>(ncon), std::nan(""));
    if (stage.d->ncon != ncon) return y;  // inconclusive
    for (int i = 0; i < ncon; i++) {
      const mjContact& c = stage.d->contact[i];
      double* at = &y[kNumbers * static_cast<size_t>(i)];
      at[0] = c.dist;
      std::copy_n(c.pos, 3, at + 1);
      std::copy_n(c.frame, 9, at + 4);
    }
    return y;
  }
  void pull(const Vector& z, const Vector& y_bar, Vector& z_bar) {
    set(z);
    std::vector<ContactBar> bar(static_cast<size_t>(ncon));
    for (size_t i = 0; i < bar.size(); i++) {
      const double* at = &y_bar[kNumbers * i];
      bar[i].dist = at[0];
      bar[i].pos = Vector3(at + 1);
      bar[i].frame = Rotation(at + 4);
    }
    const StageBar parts(stage, z_bar);
    stage.begin_sweep();
    collision_pullback(stage.scene.model.impl(), 0, ncon, bar.data(), parts.params,
                       stage.workspace);
    kinematics_pullback(stage.m, stage.d, stage.sweep, parts.qpos, parts.qvel, {});
  }
  // not left to differences of the collider
  bool is_closed_form() {
    set(Vector(stage.size()));
    const std::vector<ContactBar> bar(
        static_cast<size_t>(ncon),
        {.dist = 1, .pos = Vector3::Ones(), .frame = Eigen::Matrix3d::Ones()});
    PairBar out(Vector3::Zero());
    return smooth_pullback(stage.scene.model.impl().smooth_collider(), stage.m, stage.d, 0, ncon,
                           bar.data(), true, out);
  }

  Stage stage;
  ColliderScope scope;
  int ncon = 0;
};

inline void expect_pullbacks(const std::vector<Path>& paths) {
  for (const Path& sweep : paths) {
    SCOPED_TRACE(sweep.name);
    // poses before, in and after the transition
    const Model model = Model::from_xml(sweep.xml, smooth(.01));
    int conclusive = 0;
    constexpr int kPoses = 21;
    for (int i = 0; i < kPoses; i++) {
      Scene scene{.name = sweep.name, .model = model, .x = default_state(model)};
      std::mt19937 random(static_cast<unsigned>(i));
      scene.x.qpos = pose_near(sweep, static_cast<double>(i) / (kPoses - 1), random);
      SmoothOperation op(scene);
      if (op.ncon == 0) continue;
      EXPECT_TRUE(op.is_closed_form());
      const Operation operation{.forward = [&](const Vector& z) { return op.forward(z); },
                                .pullback = [&](const Vector& z, const Vector& y_bar,
                                                Vector& z_bar) { op.pull(z, y_bar, z_bar); }};
      const auto result =
          check_pullback(operation, Vector(op.stage.size()), op.stage.size(),
                         {.tolerance = tolerances().stage, .step = 1e-4, .directions = 3});
      if (std::string(result.message()).find("inconclusive") != std::string::npos) continue;
      conclusive++;
      EXPECT_TRUE(result) << "pose " << i;
    }
    EXPECT_GE(3 * conclusive, 2 * kPoses) << conclusive;
  }
}

// Of two vectors, in units of the first.
inline double difference(const Vector& a, const Vector& b) {
  double largest = 0, size = 1e-12;
  for (size_t k = 0; k < a.size(); k++) {
    largest = std::max(largest, std::abs(a[k] - b[k]));
    size = std::max(size, std::abs(a[k]));
  }
  return largest / size;
}

// Contact by contact: how far the derivative of smooth-backward is from the exact one, for random
// cotangents.
inline double backward_difference(const Model& exact, const std::string& xml, double width,
                                  const Vector& qpos, std::mt19937& random) {
  const Model smooth_model = Model::from_xml(xml, smooth(width, Collisions::kSmoothBackward));
  State x = default_state(exact);
  x.qpos = qpos;
  SmoothOperation a({.name = "", .model = exact, .x = x}),
      b({.name = "", .model = smooth_model, .x = x});
  EXPECT_EQ(a.ncon, b.ncon);
  std::normal_distribution<double> normal;
  Vector y_bar(kNumbers * static_cast<size_t>(a.ncon)), zero(a.stage.size()), a_bar = zero,
                                                                              b_bar = zero;
  for (double& value : y_bar) value = normal(random);
  a.pull(zero, y_bar, a_bar);
  b.pull(zero, y_bar, b_bar);
  return difference(a_bar, b_bar);
}

}  // namespace diffmj

#endif  // DIFFMJ_TESTS_HARNESS_COLLISION_PATHS_H_
