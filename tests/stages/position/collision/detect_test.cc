// Which of the contacts that the collider finds is one that is known.
#include "stages/position/collision/detect.h"

#include <gtest/gtest.h>

namespace diffmj {
namespace {

mjPreContact contact(double x, double dist, double normal_x) {
  mjPreContact out = {};
  out.pos[0] = x;
  out.dist = dist;
  out.normal[0] = normal_x;
  out.normal[2] = 1;
  return out;
}

TEST(Detected, NearestIsOfPlaceThenDistanceThenNormal) {
  const mjtNum origin[3] = {}, up[3] = {0, 0, 1};
  Detected found;
  EXPECT_EQ(found.nearest(origin, 0, up), -1);
  found.n = 3;
  found.contact[0] = contact(0.01, -0.002, 0);
  found.contact[1] = contact(0, -0.002, 0);
  found.contact[2] = contact(0, 0.003, 0);
  // two at one place differ in their distances, one of either sign
  EXPECT_EQ(found.nearest(origin, -0.002, up), 1);
  EXPECT_EQ(found.nearest(origin, 0.0025, up), 2);
  const mjtNum right[3] = {0.01, 0, 0};
  EXPECT_EQ(found.nearest(right, -0.002, up), 0);
  // two at one place and distance, in their normals
  found.contact[2] = contact(0, -0.002, 0.5);
  const mjtNum tilted[3] = {0.4, 0, 1};
  EXPECT_EQ(found.nearest(origin, -0.002, up), 1);
  EXPECT_EQ(found.nearest(origin, -0.002, tilted), 2);
}

}  // namespace
}  // namespace diffmj
