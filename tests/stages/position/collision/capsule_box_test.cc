// The second contact of a capsule and a box: each of the places it may have.
#include "stages/position/collision/capsule_box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "stages/position/collision_operation.h"

namespace diffmj {
namespace {

constexpr double kRadius = 0.02, kHalf = 0.15;  // [m] of the capsule

// a long capsule and a slab that it reaches across
Scene capsule_and_slab() {
  const Model model =
      Model::from_xml(
          "<mujoco><worldbody><body><freejoint/><geom type='capsule' size='.02 .15' mass='1'/>"
          "</body><body><freejoint/><geom type='box' size='.05 .04 .03' mass='1'/></body>"
          "</worldbody></mujoco>")
          .tightened();
  return {.name = "capsule and slab", .model = model, .x = default_state(model)};
}

// a random pose in which they are near each other
void pose(unsigned seed, Scene& scene) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < 14; i++) scene.x.qpos[i] = normal(random);
  for (const size_t body : {0U, 7U}) {
    for (size_t k = 0; k < 3; k++) scene.x.qpos[body + k] *= body == 0 ? 1 : 0.05;
    mju_normalize4(&scene.x.qpos[body + 3]);
  }
  for (size_t k = 0; k < 3; k++) scene.x.qpos[7 + k] += scene.x.qpos[k];
}

struct Places {
  double first, second;           // on the capsule's axis
  std::array<double, 3> crossed;  // |way across the box| / its width, along each of its sides
};
Places places(const mjModel* m, const mjData* d) {
  const GeomPose capsule(m, d, 0), box(m, d, 1);
  const auto place = [&](const mjContact& contact) {
    const Vector3 n(contact.frame), pos(contact.pos);
    return capsule.axis(2).dot(pos - (0.5 * contact.dist + kRadius) * n - capsule.pos);
  };
  Places out{.first = place(d->contact[0]), .second = place(d->contact[1]), .crossed = {}};
  for (int k = 0; k < 3; k++) {
    out.crossed[static_cast<size_t>(k)] =
        std::abs((out.second - out.first) * capsule.axis(2).dot(box.axis(k))) / (2 * box.size[k]);
  }
  return out;
}

// The capsule's end just beyond a corner or an edge of the slab, its axis sloping away over it.
void pose_end(unsigned seed, Scene& scene) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  const double slope = 0.05 + 0.4 * unit(random), yaw = 0.6 * unit(random) - 0.3;
  const bool corner = seed % 2 == 0;
  const Vector3 end(-0.05 - 0.004 * unit(random),
                    corner ? -0.04 - 0.004 * unit(random) : 0.06 * unit(random) - 0.03,
                    0.03 + 0.005 + 0.013 * unit(random));
  const Vector3 axis(std::cos(slope) * std::cos(yaw), std::cos(slope) * std::sin(yaw),
                     std::sin(slope));
  const Vector3 pos = end + kHalf * axis;
  std::fill_n(scene.x.qpos.begin(), 14, 0.0);
  std::copy_n(pos.data(), 3, scene.x.qpos.begin());
  const Vector3 up = seed % 4 < 2 ? axis : Vector3(-axis);  // which of its ends it is
  mju_quatZ2Vec(&scene.x.qpos[3], up.data());
  scene.x.qpos[10] = 1;
}

// x = x1 ± 2 size_k / |axis · side_k|: next to a corner or across an edge, as far from the first as
// the box is wide; how many of the poses were such, by side of the box
std::array<int, 3> check_across(unsigned poses, void (*pose_with)(unsigned, Scene&), bool at_end) {
  const Scene base = capsule_and_slab();
  int inconclusive = 0;
  std::array<int, 3> compared = {};
  for (unsigned seed = 1; seed <= poses; seed++) {
    Scene scene = base;
    pose_with(seed, scene);
    CollisionOperation collision(scene);
    if (collision.base.size() != 2 * kNumbers) continue;
    const Places at = places(collision.stage.m, collision.stage.d);
    const auto is_end = [](double x) { return std::abs(std::abs(x) - kHalf) < 1e-9; };
    if (is_end(at.second) || is_end(at.first) != at_end) continue;
    const auto crossed = std::find_if(at.crossed.begin(), at.crossed.end(),
                                      [](double x) { return std::abs(x - 1) < 1e-9; });
    // in deep penetrations the collider's normal is of none of the features
    if (crossed == at.crossed.end() || !collision.is_closed_form()) continue;
    SCOPED_TRACE("pose " + std::to_string(seed));
    const auto result =
        check_pullback(collision.operation(), Vector(collision.nz), collision.nz,
                       {.tolerance = tolerances().stage, .step = 1e-5, .directions = 3});
    if (std::string(result.message()).find("inconclusive") != std::string::npos) {
      inconclusive++;
      continue;
    }
    EXPECT_TRUE(result);
    compared[static_cast<size_t>(crossed - at.crossed.begin())]++;
  }
  EXPECT_LE(inconclusive, 10);
  return compared;
}

TEST(CapsuleBox, SecondContactAcrossTheBox) {
  for (const int count : check_across(6000, pose, false)) EXPECT_GE(count, 10);
}

TEST(CapsuleBox, SecondContactAcrossTheBoxFromTheCapsulesEnd) {
  const std::array<int, 3> compared = check_across(2000, pose_end, true);
  EXPECT_GE(compared[0], 10) << compared[1] << " " << compared[2];
}

}  // namespace
}  // namespace diffmj
