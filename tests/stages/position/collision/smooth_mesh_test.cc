// Convex hulls for smooth colliders: drawn in, their faces, and no vertex looked at that is far.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "diffmj/diffmj.h"
#include "setup/model_impl.h"
#include "stages/position/collision/smooth/convex_shape.h"
#include "stages/position/collision/smooth/mesh.h"

namespace diffmj {
namespace {

Model mesh_model(const std::string& vertices) {
  return Model::from_xml("<mujoco><asset><mesh name='m' vertex='" + vertices +
                         "'/></asset><worldbody><geom type='plane' size='1 1 1'/><body>"
                         "<freejoint/><geom type='mesh' mesh='m'/></body></worldbody></mujoco>");
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
