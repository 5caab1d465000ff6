// Contacts that MuJoCo keeps are kept: along a path, a contact of MuJoCo's that neither begins nor
// ends nearby has a smooth one near it, of nearly the same depth.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <tuple>
#include <vector>

#include "harness/collision_paths.h"
#include "harness/models.h"

namespace diffmj {
namespace {

constexpr double kPi = std::numbers::pi, kWidth = 1e-3;
constexpr int kPoses = 601, kNearby = 20;

const char* const kCylinder = "type='cylinder' size='.09 .12'";
const char* const kCoin = "type='cylinder' size='.05 .01'";
const char* const kBox = "type='box' size='.08 .11 .13'";
const char* const kCapsule = "type='capsule' size='.04 .1'";
const char* const kCuboid = "type='mesh' mesh='cuboid'";
const char* const kTurned = "type='mesh' mesh='turned'";
const char* const kWedge = "type='mesh' mesh='wedge'";

// turned: a square prism whose edges are between its axes
std::string kept_xml(const std::string& geom1, const std::string& geom2) {
  return "<mujoco><asset><mesh name='cuboid' vertex='-1 -1 -1 1 -1 -1 -1 1 -1 1 1 -1 -1 -1 1 1 -1 "
         "1 -1 1 1 1 1 1' scale='.08 .11 .13'/><mesh name='turned' vertex='1 0 -.6 0 1 -.6 -1 0 "
         "-.6 0 -1 -.6 1 0 .6 0 1 .6 -1 0 .6 0 -1 .6' scale='.1 .1 .1'/><mesh name='wedge' "
         "vertex='-.1 -.1 -.06 .1 -.1 -.06 -.1 .12 -.06 .1 .12 -.06 -.08 0 .1 .09 0 "
         ".1'/></asset><worldbody><body><geom " +
         geom1 + "/></body><body><freejoint/><geom " + geom2 + "/></body></worldbody></mujoco>";
}

struct Kept {
  Vector3 pos;
  double dist;
};

std::vector<Kept> contacts_at(Contacts& contacts, const Vector& qpos) {
  contacts(qpos);
  const mjData* d = contacts.data();
  std::vector<Kept> out;
  for (int i = 0; i < d->ncon; i++) out.push_back({Vector3(d->contact[i].pos), d->contact[i].dist});
  return out;
}

// of a list, the one nearest in place
const Kept* nearest(const std::vector<Kept>& list, const Vector3& pos) {
  const auto farther = [&](const Kept& a, const Kept& b) {
    return (a.pos - pos).norm() < (b.pos - pos).norm();
  };
  const auto it = std::min_element(list.begin(), list.end(), farther);
  return it == list.end() ? nullptr : &*it;
}

struct Survey {
  int contacts = 0, missing = 0;
  double where = 0;  // of one that is missing
};

// `reach`: within which a contact counts as the same [m]
Survey survey(const Path& path, double reach) {
  Contacts exact(Model::from_xml(path.xml)), ours(Model::from_xml(path.xml, smooth(kWidth)));
  const auto at = [&](int i) { return path.from + (path.to - path.from) * (i + .4321) / kPoses; };
  std::vector<std::vector<Kept>> a, b;
  for (int i = 0; i < kPoses; i++) {
    a.push_back(contacts_at(exact, path.qpos(at(i))));
    b.push_back(contacts_at(ours, path.qpos(at(i))));
  }
  // goes on without a jump
  const auto goes_on = [&](int from, int step, const Kept& contact) {
    Vector3 pos = contact.pos;
    for (int k = 1; k <= kNearby; k++) {
      const Kept* next = nearest(a[static_cast<size_t>(from + step * k)], pos);
      if (!next || (next->pos - pos).norm() > 5e-3) return false;
      pos = next->pos;
    }
    return true;
  };
  Survey out;
  for (int i = kNearby; i < kPoses - kNearby; i++) {
    for (const Kept& contact : a[static_cast<size_t>(i)]) {
      if (contact.dist > -1e-4 || !goes_on(i, 1, contact) || !goes_on(i, -1, contact)) continue;
      out.contacts++;
      const auto& list = b[static_cast<size_t>(i)];
      if (std::any_of(list.begin(), list.end(), [&](const Kept& x) {
            return (x.pos - contact.pos).norm() < reach && std::abs(x.dist - contact.dist) < kWidth;
          })) {
        continue;
      }
      out.missing++;
      out.where = at(i);
    }
  }
  return out;
}

void expect_kept(const std::string& name, const std::string& xml,
                 const std::function<Vector(double)>& qpos, double to, double reach) {
  const Survey found = survey({name.c_str(), xml, qpos, -to, to}, reach);
  EXPECT_GT(found.contacts, kPoses / 2) << name;
  EXPECT_EQ(found.missing, 0) << name << " of " << found.contacts << ", at " << found.where;
}

Vector tilted(double height, double direction, double angle) {
  return pose(0, 0, height, Vector3(std::cos(direction), std::sin(direction), 0), angle);
}

TEST(SmoothKept, OnAPlane) {
  struct Shape {
    const char* name;
    const char* geom;
    double height;
  };
  for (const Shape& shape : {Shape{"box", kBox, .13}, Shape{"cuboid", kCuboid, .13},
                             Shape{"turned", kTurned, .06}, Shape{"wedge", kWedge, .06}}) {
    for (const double depth : {5e-4, 2e-3, 5e-3}) {
      for (const double direction : {0.0, .3, 1.2, 1.571, 2.6}) {
        expect_kept(
            std::string(shape.name) + " " + std::to_string(depth) + " tilted about " +
                std::to_string(direction),
            kept_xml("type='plane' size='3 3 1'", shape.geom),
            [&](double s) { return tilted(shape.height - depth, direction, s); }, .06, .03);
      }
    }
  }
}

// The three points of a rim turn with the direction of the tilt, MuJoCo's and ours, but ours stand
// still as the cylinder stands: places are not the same then, depths nearly are.
TEST(SmoothKept, CylinderOnAPlane) {
  for (const auto& [geom, half, radius] : {std::tuple(kCylinder, .12, .09), {kCoin, .01, .05}}) {
    for (const double depth : {2e-3, 5e-3}) {
      for (int i = 0; i < 12; i++) {
        const double direction = 2 * std::numbers::pi * i / 12 + .01;
        Contacts exact(Model::from_xml(plane_xml(geom))),
            ours(Model::from_xml(plane_xml(geom), smooth(kWidth)));
        for (double angle = 0; angle < .1; angle += 1e-3) {
          const Vector qpos = tilted(half - depth, direction, angle);
          const auto a = contacts_at(exact, qpos), b = contacts_at(ours, qpos);
          // tilts of which MuJoCo still has all three, well below the plane
          if (radius * angle > depth) break;
          ASSERT_EQ(a.size(), 3u);
          ASSERT_EQ(b.size(), 3u) << direction << " " << angle;
          const double turning = radius * angle / kWidth;
          for (const Kept& contact : a) {
            const Kept* same = nearest(b, contact.pos);
            if (turning > 2.5) {
              EXPECT_LT((same->pos - contact.pos).norm(), 1e-9);
              EXPECT_LT(std::abs(same->dist - contact.dist), 1e-9);
            }
            EXPECT_LT(std::abs(same->dist - contact.dist), 1.5 * kWidth);
          }
        }
      }
    }
  }
}

TEST(SmoothKept, PairsOfBoxesCapsulesAndMeshes) {
  const Vector3 x = Vector3::UnitX(), y = Vector3::UnitY(), z = Vector3::UnitZ();
  for (const double depth : {5e-4, 2e-3, 5e-3}) {
    const auto about = [](const Vector3& axis, double angle) {
      return Eigen::Quaterniond(Eigen::AngleAxisd(angle, axis.normalized()));
    };
    const auto at = [](double px, double py, double pz, const Eigen::Quaterniond& q) {
      return Vector{px, py, pz, q.w(), q.x(), q.y(), q.z()};
    };
    const double boxes = .26 - depth, capsule = .17 - depth;
    const std::string of = " " + std::to_string(depth);
    expect_kept(
        "box on box, tilted" + of, kept_xml(kBox, kBox),
        [&](double s) {
          return at(.02, .01, boxes, about({1, .4, .2}, s));
        },
        .03, .01);
    expect_kept(
        "box on box, over an edge" + of, kept_xml(kBox, kBox),
        [&](double s) { return at(.1 + s, .02 + .3 * s, boxes, about(z, .3)); }, .06, .01);
    expect_kept(
        "box on box, turning" + of, kept_xml(kBox, kBox),
        [&](double s) { return at(.02, .01, boxes, about(z, s)); }, .4, .01);
    expect_kept(
        "box on mesh, tilted" + of, kept_xml(kBox, kCuboid),
        [&](double s) { return at(.02, .01, boxes, about(x, s)); }, .01, .01);
    expect_kept(
        "capsule on box, tilted" + of, kept_xml(kBox, kCapsule),
        [&](double s) {
          return at(.02, .01, capsule, about({.5, 1, .3}, s) * about(y, kPi / 2));
        },
        .03, .01);
  }
}

}  // namespace
}  // namespace diffmj
