// Convex hulls for smooth colliders: drawn in, their faces, and no vertex looked at that is far.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "diffmj/diffmj.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "mj/handle.h"
#include "setup/model_impl.h"
#include "stages/position/collision/smooth/convex_shape.h"
#include "stages/position/collision/smooth/mesh.h"

namespace diffmj {
namespace {

Model mesh_model(const std::string& vertices, const ModelOptions& options = {}) {
  return Model::from_xml("<mujoco><asset><mesh name='m' vertex='" + vertices +
                             "'/></asset><worldbody><geom type='plane' size='1 1 1'/><body>"
                             "<freejoint/><geom type='mesh' mesh='m'/></body></worldbody></mujoco>",
                         options);
}

std::string ball(int count) {
  std::string text;
  for (int i = 0; i < count; i++) {
    const double z = 1 - (2 * i + 1.0) / count, angle = 2.399963 * i, r = std::sqrt(1 - z * z);
    for (const double x : {.1 * r * std::cos(angle), .1 * r * std::sin(angle), .1 * z}) {
      text += std::to_string(x) + " ";
    }
  }
  return text;
}

const char* const kCuboid =
    "-.1 -.2 -.3 .1 -.2 -.3 -.1 .2 -.3 .1 .2 -.3 -.1 -.2 .3 .1 -.2 .3 -.1 .2 .3 .1 .2 .3";

TEST(SmoothMesh, CornersAreDrawnInFromTheirFaces) {
  const Model model = mesh_model(kCuboid);
  const SmoothMesh mesh(model.mj(), 0, 1e-2);
  std::vector<Vec3<double>> all;
  mesh.near({0, 0, 1}, 10, 10, all);
  ASSERT_EQ(all.size(), 8U);
  // axes of the mesh are those of its inertia, in any order
  std::array<double, 3> size = {.1, .2, .3};
  for (const Vec3<double>& x : all) {
    std::array<double, 3> corner = {std::abs(x.x), std::abs(x.y), std::abs(x.z)};
    std::sort(corner.begin(), corner.end());
    for (size_t k = 0; k < 3; k++) EXPECT_NEAR(corner[k], size[k] - mesh.rounding(), 1e-7);
  }
  EXPECT_TRUE(mesh.has_faces());
  EXPECT_NE(mesh.face({0.001, 0, -1}, 0.01), nullptr);
  EXPECT_EQ(mesh.face({0.6, 0, 0.8}, 0.01), nullptr);
  EXPECT_EQ(mesh.roundness(), 0);
}

TEST(SmoothMesh, FacetsOfABallAreNoFaces) {
  const Model model = mesh_model(ball(1000));
  const SmoothMesh mesh(model.mj(), 0, 1e-3);
  EXPECT_FALSE(mesh.has_faces());
  EXPECT_NEAR(mesh.roundness(), .1, .03);
}

TEST(SmoothMesh, TheMeanOfAllVerticesIsThatOfThoseThatAreNear) {
  for (const int count : {5, 12, 1000}) {
    const Model model = mesh_model(ball(count));
    const SmoothMesh mesh(model.mj(), 0, 1e-3);
    EXPECT_EQ(mesh.vertices().rows(), count);
    const double T = kTemperature * mesh.width();
    std::vector<Vec3<double>> near;
    for (int i = 0; i < 50; i++) {
      const Vec3<double> v = {std::cos(i), std::sin(i) * std::cos(3 * i),
                              std::sin(i) * std::sin(3 * i)};
      mesh.near(v, 0, kLowest * T, near);
      const SupportPoint expected = mean_vertex(near, v, T), all = mean_vertex(mesh, v, T);
      EXPECT_NEAR(norm(all.x - expected.x), 0, 1e-15);
      // [m] of a mesh of 0.1 m, where differences of squares are divided by T
      EXPECT_NEAR(all.xx, expected.xx, 1e-12);
      EXPECT_NEAR(all.yz, expected.yz, 1e-12);
    }
  }
}

// A sole of 16 corners. Its sides are facets of something round, and what it stands on is not.
TEST(SmoothMesh, ASoleOfManyCornersStandsOnFourEnds) {
  std::string vertices;
  for (const char* z : {" -.02 ", " .02 "}) {
    for (int i = 0; i < 16; i++) {
      const double angle = mjPI * (i + .5) / 8;
      vertices +=
          std::to_string(.1 * std::cos(angle)) + " " + std::to_string(.05 * std::sin(angle)) + z;
    }
  }
  for (const double width : {1e-4, 3e-4}) {
    ModelOptions options;
    options.collisions = {.mode = Collisions::kSmooth, .smoothness = width};
    const Model model = mesh_model(vertices, options);
    const MjDataPtr data(mj_makeData(model.mj()));
    mjData* d = data.get();
    for (const double depth : {1e-4, 5e-4}) {
      d->qpos[2] = .02 - depth;
      const ColliderScope scope(model.impl().collider());
      mj_call("mj_fwdPosition", [&] { mj_fwdPosition(CollidingModel(model.mj()), d); });
      ASSERT_EQ(d->ncon, 4) << width << " " << depth;
      // apart in both directions
      for (int k = 0; k < 2; k++) {
        double low = 0, high = 0;
        for (int i = 0; i < 4; i++) {
          low = std::min(low, d->contact[i].pos[k]);
          high = std::max(high, d->contact[i].pos[k]);
        }
        EXPECT_GT(high, k == 0 ? .09 : .035);
        EXPECT_LT(low, k == 0 ? -.09 : -.035);
      }
    }
  }
}

TEST(SmoothMesh, LooksAtVerticesThatAreNear) {
  const Model model = mesh_model(ball(5000));
  const SmoothMesh mesh(model.mj(), 0, 1e-3);
  const double T = kTemperature * mesh.width(), reach = kLowest * T, tilt = 0.01;
  std::vector<Vec3<double>> all, near;
  mesh.near({0, 0, 1}, 10, 10, all);
  EXPECT_EQ(all.size(), 5000U);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  const auto direction = [&] {
    const Vec3<double> v = {normal(random), normal(random), normal(random)};
    return (1 / norm(v)) * v;
  };
  for (int i = 0; i < 20; i++) {
    const Vec3<double> v = direction();
    mesh.near(v, tilt, reach, near);
    EXPECT_LT(near.size(), all.size() / 20);
    // and has all that matter, for directions that are a little off too
    const Vec3<double> off = v + (0.9 * tilt) * direction(), u = (1 / norm(off)) * off;
    const SupportPoint of_near = mean_vertex(near, u, T), of_all = mean_vertex(all, u, T);
    EXPECT_LT(norm(of_near.x - of_all.x), 1e-12);
    EXPECT_NEAR(of_near.xx, of_all.xx, 1e-8);
  }
}

}  // namespace
}  // namespace diffmj
