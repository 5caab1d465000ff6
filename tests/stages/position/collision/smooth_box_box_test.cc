// The smooth collider of two boxes: differentiable where MuJoCo's jumps, MuJoCo's own away from
// transitions and in the limit, and with the derivatives that dual numbers say.
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <vector>

#include "base/dual.h"
#include "diffmj/diffmj.h"
#include "harness/check_pullback.h"
#include "harness/tolerances.h"
#include "mj/handle.h"
#include "stages/position/collision/smooth/box_box.h"

namespace diffmj {
namespace {

using Eigen::Quaterniond, Eigen::Vector3d;

struct Box {
  Vector3d size;
  Vector3d pos = Vector3d::Zero();
  Quaterniond quat = Quaterniond::Identity();
};
struct Boxes {
  Box box1, box2;
  double margin = 0;
};
using Contacts = std::vector<SmoothContact<double>>;

Vec3<double> vec3(const Vector3d& x) { return {x[0], x[1], x[2]}; }
Vector3d eigen(const Vec3<double>& x) { return {x.x, x.y, x.z}; }

SmoothGeom<double> geom_of(const Box& box) {
  const Eigen::Matrix3d mat = box.quat.toRotationMatrix();
  return {vec3(box.pos),
          {vec3(mat.col(0)), vec3(mat.col(1)), vec3(mat.col(2))},
          {box.size[0], box.size[1], box.size[2]}};
}

struct Keep {
  bool is_far(double dist) const { return dist > margin; }
  void operator()(const SmoothContact<double>& contact) const {
    if (contact.distance() <= margin) out.push_back(contact);
  }
  double margin;
  Contacts& out;
};

Contacts smooth_contacts(const Boxes& boxes, double width) {
  Contacts out;
  smooth_box_box(geom_of(boxes.box1), geom_of(boxes.box2), width, Keep{boxes.margin, out});
  return out;
}

// MuJoCo's collider, called as MuJoCo does.
class Mujoco {
 public:
  Mujoco()
      : model_(Model::from_xml("<mujoco><worldbody><geom type='box' size='1 1 1'/>"
                               "<body><freejoint/><geom type='box' size='1 1 1'/></body>"
                               "</worldbody></mujoco>")),
        m_(mj_copyModel(nullptr, model_.mj())),
        d_(mj_makeData(m_.get())) {}

  Contacts operator()(const Boxes& boxes) {
    write(0, boxes.box1);
    write(1, boxes.box2);
    std::array<mjPreContact, 64> found;
    const int n = mjCOLLISIONFUNC[mjGEOM_BOX][mjGEOM_BOX](m_.get(), d_.get(), found.data(), 0, 1,
                                                          boxes.margin);
    Contacts out;
    for (int i = 0; i < n; i++) {
      const mjPreContact& c = found[static_cast<size_t>(i)];
      out.push_back({c.dist, vec3(Vector3d(c.pos)), vec3(Vector3d(c.normal))});
    }
    return out;
  }

 private:
  void write(int geom, const Box& box) {
    for (int k = 0; k < 3; k++) {
      m_->geom_size[3 * geom + k] = box.size[k];
      d_->geom_xpos[3 * geom + k] = box.pos[k];
    }
    const std::array<double, 4> quat = {box.quat.w(), box.quat.x(), box.quat.y(), box.quat.z()};
    mju_quat2Mat(d_->geom_xmat + static_cast<ptrdiff_t>(9) * geom, quat.data());
  }

  Model model_;
  MjModelPtr m_;
  MjDataPtr d_;
};

// ---- what contacts do together, as in smooth_test.cc

Vector sums(const Contacts& contacts, double margin) {
  Vector sum(10);
  for (const SmoothContact<double>& c : contacts) {
    const double p = std::max(margin - c.distance(), 0.0);
    const Vector3d pos = eigen(c.pos), n = eigen(c.n);
    sum[0] += p * p;
    for (size_t k = 0; k < 3; k++) {
      const auto i = static_cast<Eigen::Index>(k);
      sum[1 + k] += p * p * pos[i];
      sum[4 + k] += p * p * pos[i] * pos[i] * pos[i];
      sum[7 + k] += p * p * n[i];
    }
  }
  return sum;
}

struct Path {
  const char* name;
  std::function<Boxes(double)> at;
  double from, to;
  bool mujoco_jumps = true;  // if not, MuJoCo's collider is smooth there too
  bool tie = false;          // between axes, which MuJoCo's decides by rounding
  double width = .01;
};

// box 1 at the origin; both are then moved as one
Boxes pair_at(const Vector3d& size1, const Vector3d& size2, const Vector3d& pos,
              const Quaterniond& quat, double margin = 0) {
  const Quaterniond turn(0.7, 0.3, -0.5, 0.4);
  const Quaterniond q = turn.normalized();
  return {{size1, Vector3d(.1, -.2, .3), q},
          {size2, q * pos + Vector3d(.1, -.2, .3), q * quat},
          margin};
}
Quaterniond turned(const Vector3d& axis, double angle) {
  return Quaterniond(Eigen::AngleAxisd(angle, axis.normalized()));
}

std::vector<Path> sweeps() {
  constexpr double kPi = std::numbers::pi;
  const Vector3d x = Vector3d::UnitX(), y = Vector3d::UnitY(), z = Vector3d::UnitZ();
  const Vector3d large(.1, .12, .08), small(.05, .06, .04), cube(.1, .1, .1), plate(.1, .08, .02);
  // cos and sin of a tilt of 45 degrees
  const double diagonal = std::sqrt(0.5);
  const Quaterniond corner = turned(Vector3d(1, -1.2, 0.1), 0.9);
  // how deep the lowest corner of the small box is under its centre
  const double low = (corner.toRotationMatrix().row(2).cwiseAbs() * small).value();
  return {
      {"face through flat",
       [=](double s) {
         return pair_at(large, small, {.01, .02, .117}, turned(y, s));
       },
       -.1, .1, false},
      {"face through flat, over a corner",
       [=](double s) {
         return pair_at(large, small, {.01, .02, .117}, turned(Vector3d(1, .6, 0), s));
       },
       -.1, .1, false},
      {"large on small through flat",
       [=](double s) {
         return pair_at(small, large, {.01, .02, .117}, turned(Vector3d(.2, 1, 0), s));
       },
       -.1, .1, false},
      {"equal boxes through flat",
       [=](double s) {
         return pair_at(cube, cube, {.02, .01, .196}, turned(y, s));
       },
       -.1, .1},
      {"aligned equal boxes through flat",
       [=](double s) {
         return pair_at(cube, cube, {0, 0, .196}, turned(y, s));
       },
       -.1, .1, true, true},
      {"corner over an edge",
       [=](double s) {
         return pair_at(large, small, {s, .02, .08 + low - .01}, corner);
       },
       .06, .2},
      {"corner over a corner",
       [=](double s) {
         return pair_at(large, small, {s, s + .02, .08 + low - .01}, corner);
       },
       .06, .2},
      {"edge over an edge",
       [=](double s) {
         return pair_at(large, small, {s, .02, .08 + .09 * diagonal - .007}, turned(y, kPi / 4));
       },
       .06, .13},
      {"edge over an edge, at an angle",
       [=](double s) {
         return pair_at(large, small, {s, .02, .08 + .09 * diagonal - .007},
                        turned(z, .2) * turned(y, kPi / 4 + .1));
       },
       .04, .15},
      {"flat over an edge",
       [=](double s) {
         return pair_at(large, small, {s, .02, .115}, turned(z, 0));
       },
       .02, .16},
      {"flat over a corner",
       [=](double s) {
         return pair_at(large, small, {s, s + .02, .115}, turned(z, 0));
       },
       .02, .16},
      {"sliding over a corner, turned",
       [=](double s) {
         return pair_at(large, small, {s, s + .02, .115}, turned(z, .3));
       },
       .02, .16},
      {"aligned equal boxes, sliding",
       [=](double s) {
         return pair_at(cube, cube, {s, 0, .195}, turned(z, 0));
       },
       -.1, .1, true, true},
      {"aligned equal boxes, sliding along the diagonal",
       [=](double s) {
         return pair_at(cube, cube, {s, .7 * s, .195}, turned(z, 0));
       },
       -.1, .1},
      {"equal boxes, sliding, nearly aligned",
       [=](double s) {
         return pair_at(cube, cube, {s, .003, .195}, turned(Vector3d(.1, .2, 1), .03));
       },
       -.1, .1},
      {"yaw through 0 on an equal box",
       [=](double s) {
         return pair_at(cube, cube, {0, 0, .195}, turned(z, s));
       },
       -.2, .2},
      {"yaw through 45 degrees on an equal box",
       [=](double s) {
         return pair_at(cube, cube, {.002, 0, .195}, turned(z, kPi / 4 + s));
       },
       -.76, .76, false},
      {"yaw of crossed plates",
       [=](double s) {
         return pair_at({.1, .03, .02}, {.1, .03, .02}, {.07, 0, .037}, turned(z, kPi / 2 + s));
       },
       -.2, .2},
      {"tilt through 45 degrees",
       [=](double s) {
         return pair_at(large, small, {.09, .02, .08 + .09 * diagonal - .025},
                        turned(y, kPi / 4 + s));
       },
       -.3, .3},
      {"edges that cross, to a face",
       [=](double s) {
         return pair_at(large, small, {s, .02, .135}, turned(z, .5) * turned(x, .8));
       },
       .05, .16},
      {"edges that cross, through parallel",
       [=](double s) {
         return pair_at(large, small, {.1462, .01, .116}, turned(Vector3d(1, 0, 1), s));
       },
       -.3, .3},
      {"edges that cross, over an end",
       [=](double s) {
         return pair_at(large, small, {.145, .1 + s, .115}, turned(Vector3d(1, 0, 1), 1.2));
       },
       -.02, .12},
      {"faces of equal overlap",
       [=](double s) {
         return pair_at(large, small, {.14 + s, .02, .11 - s}, turned(y, .02));
       },
       -.02, .02},
      {"through flat, faces of nearly equal overlap",
       [=](double s) {
         return pair_at(large, small, {.1426, .02, .11}, turned(z, s));
       },
       -.1, .1, false},
      {"edges at 8 degrees from a face",
       [=](double s) {
         return pair_at({.0532, .1141, .1601}, {.1064, .0734, .1183},
                        Vector3d(-.00953, .02186, .24662) + s * Vector3d(.0073, -.0208, -.0246),
                        turned(Vector3d(14, -7.83, -1.73), .807 * s) *
                            Quaterniond(.53659, -.81904, -.13415, .15248).normalized());
       },
       -.02, .02, true, false, 1e-3},
      {"plates through each other",
       [=](double s) {
         return pair_at(plate, plate, {.03, .02, s}, turned(Vector3d(1, 1, 0), .1));
       },
       -.02, .02},
      {"corner past a corner, in the margin",
       [=](double s) {
         return pair_at(large, small, {.13 + s, .15 - s, .08 + low - .006}, corner, .02);
       },
       -.03, .03},
  };
}

// as in smooth_test.cc: proportional to h for a function with a second derivative
double slope_change(const Path& path, const std::function<Contacts(const Boxes&)>& collide,
                    double h) {
  const double offset = h / std::numbers::pi;
  const auto at = [&](int i) {
    const Boxes boxes = path.at(path.from + offset + i * h);
    return sums(collide(boxes), boxes.margin);
  };
  Vector before = at(0), here = at(1);
  double largest = 0;
  for (int i = 2; path.from + offset + i * h < path.to; i++) {
    const Vector next = at(i);
    for (size_t k = 0; k < here.size(); k++) {
      largest = std::max(largest, std::abs(next[k] - 2 * here[k] + before[k]) / h);
    }
    before = here;
    here = next;
  }
  return largest;
}

TEST(SmoothBoxBox, SlopesDoNotJumpWhereMujocosDo) {
  // fine enough to resolve a transition over the width
  constexpr double kCoarse = 1.6e-5, kFine = 2e-6;
  Mujoco mujoco;
  for (const Path& path : sweeps()) {
    SCOPED_TRACE(path.name);
    const auto ratio = [&](const auto& collide) {
      return slope_change(path, collide, kFine) / slope_change(path, collide, kCoarse);
    };
    const double exact = ratio([&](const Boxes&b) { return mujoco(b); }),
                 ours = ratio([&](const Boxes&b) { return smooth_contacts(b, path.width); });
    if (path.mujoco_jumps) {
      EXPECT_GT(exact, 0.5);  // 1: a kink, 8: a jump
    }
    EXPECT_LT(ours, 0.3);  // 1/8: a second derivative
  }
}

// ---- derivatives

// box 1 and box 2 along z = (turn, shift, sizes) of either
constexpr size_t kAlong = 9, kNumbers = 7;

Boxes moved(const Boxes& boxes, const Vector& z) {
  Boxes out = boxes;
  for (Box* box : {&out.box1, &out.box2}) {
    const double* at = &z[box == &out.box1 ? 0 : kAlong];
    const Vector3d turn(at);
    if (turn.norm() > 0) box->quat = turned(turn, turn.norm()) * box->quat;
    box->pos += Vector3d(at + 3);
    box->size += Vector3d(at + 6);
  }
  return out;
}

using Dual18 = Dual<2 * kAlong>;

SmoothGeom<Dual18> dual_geom(const Box& box, size_t first) {
  const SmoothGeom<double> geom = geom_of(box);
  const auto vector = [&](const Vec3<double>& x, const auto& along) {
    Vec3<Dual18> out{x.x, x.y, x.z};
    for (size_t i = 0; i < 3; i++) {
      const Vector3d d = along(Vector3d::Unit(static_cast<Eigen::Index>(i)));
      out.x.d[first + i] = d[0];
      out.y.d[first + i] = d[1];
      out.z.d[first + i] = d[2];
    }
    return out;
  };
  SmoothGeom<Dual18> out;
  out.pos = vector(geom.pos, [](const Vector3d&) { return Vector3d::Zero(); });
  out.pos.x.d[first + 3] = out.pos.y.d[first + 4] = out.pos.z.d[first + 5] = 1;
  for (size_t k = 0; k < 3; k++) {
    const Vector3d axis = eigen(geom.axis[k]);
    out.axis[k] = vector(geom.axis[k], [&](const Vector3d& turn) { return turn.cross(axis); });
    out.size[k] = Dual18::variable(geom.size[k], first + 6 + k);
  }
  return out;
}

struct KeepDual {
  bool is_far(const Dual18& dist) const { return dist > margin; }
  void operator()(const SmoothContact<Dual18>& contact) const {
    if (contact.distance() <= margin) out.push_back(contact);
  }
  double margin;
  std::vector<SmoothContact<Dual18>>& out;
};

Operation contact_operation(const Boxes& boxes, double width) {
  const size_t n = smooth_contacts(boxes, width).size();
  return {.forward =
              [=](const Vector& z) {
                const Boxes at = moved(boxes, z);
                const Contacts contacts = smooth_contacts(at, width);
                if (contacts.size() != n)
                  return Vector(kNumbers * n, std::nan(""));  // inconclusive
                Vector y;
                for (const SmoothContact<double>& c : contacts) {
                  y.insert(y.end(), {c.distance(), c.pos.x, c.pos.y, c.pos.z, c.n.x, c.n.y, c.n.z});
                }
                return y;
              },
          .pullback =
              [=](const Vector& /*z*/, const Vector& y_bar, Vector& z_bar) {
                std::vector<SmoothContact<Dual18>> contacts;
                smooth_box_box(dual_geom(boxes.box1, 0), dual_geom(boxes.box2, kAlong), width,
                               KeepDual{boxes.margin, contacts});
                ASSERT_EQ(contacts.size(), n);
                for (size_t i = 0; i < n; i++) {
                  const SmoothContact<Dual18>& c = contacts[i];
                  const std::array<Dual18, kNumbers> y = {c.distance(), c.pos.x, c.pos.y, c.pos.z,
                                                          c.n.x,        c.n.y,   c.n.z};
                  for (size_t k = 0; k < kNumbers; k++) {
                    for (size_t along = 0; along < z_bar.size(); along++) {
                      z_bar[along] += y_bar[kNumbers * i + k] * y[k].d[along];
                    }
                  }
                }
              }};
}

// how many of the poses were conclusive
int check_derivatives(const std::vector<Boxes>& poses, double width) {
  int conclusive = 0;
  for (const Boxes& boxes : poses) {
    const auto result =
        check_pullback(contact_operation(boxes, width), Vector(2 * kAlong), 2 * kAlong,
                       {.tolerance = tolerances().stage, .step = 1e-5, .directions = 3});
    if (std::string(result.message()).find("inconclusive") != std::string::npos) continue;
    conclusive++;
    EXPECT_TRUE(result);
  }
  return conclusive;
}

TEST(SmoothBoxBox, DerivativesMatchDifferences) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const Path& path : sweeps()) {
    SCOPED_TRACE(path.name);
    // poses before, in and after the transition, near the path, which may be symmetric
    std::vector<Boxes> poses;
    while (poses.size() < 21) {
      Vector z(2 * kAlong);
      for (double& value : z) value = 1e-3 * normal(random);
      const double s = std::uniform_real_distribution<double>(path.from, path.to)(random);
      poses.push_back(moved(path.at(s), z));
      if (smooth_contacts(poses.back(), path.width).empty()) poses.pop_back();
    }
    EXPECT_GE(check_derivatives(poses, path.width), 14);
  }
}

// ---- MuJoCo's contacts

// Boxes of random sizes along a random direction, at a random depth; turned by any angle, or by an
// angle of about `tilt`.
Boxes random_boxes(std::mt19937& random, Mujoco& mujoco, double margin, double tilt = INFINITY) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const auto size = [&] {
    return Vector3d(.05 + .15 * uniform(random), .05 + .15 * uniform(random),
                    .05 + .15 * uniform(random));
  };
  const auto direction = [&] {
    return Vector3d(normal(random), normal(random), normal(random)).normalized();
  };
  const Vector3d size1 = size(), size2 = size(), way = direction();
  const double angle =
      std::isinf(tilt) ? 2 * std::numbers::pi * uniform(random) : tilt * normal(random);
  const Quaterniond quat = turned(direction(), angle);
  const auto at = [&](double distance, double within) {
    return pair_at(size1, size2, distance * way, quat, within);
  };
  double low = 0, high = 1;
  for (int i = 0; i < 40; i++) {
    const double middle = 0.5 * (low + high);
    (mujoco(at(middle, 0)).empty() ? high : low) = middle;
  }
  return at(low - .01 + (margin + .01) * uniform(random), margin);
}

// the largest difference between contacts and those of other that are nearest; infinite if there
// are not as many
double difference(const Contacts& a, const Contacts& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (const SmoothContact<double>& one : a) {
    double nearest = INFINITY;
    for (const SmoothContact<double>& other : b) {
      nearest = std::min(nearest, std::abs(one.distance() - other.distance()) +
                                      (eigen(one.pos) - eigen(other.pos)).norm() +
                                      (eigen(one.n) - eigen(other.n)).norm());
    }
    largest = std::max(largest, nearest);
  }
  return largest;
}

// of random poses, the share that has MuJoCo's contacts to rounding
double share_of_mujocos(double width, double margin, double tilt = INFINITY) {
  Mujoco mujoco;
  std::mt19937 random(1);
  constexpr int kPoses = 4000;
  int same = 0;
  for (int i = 0; i < kPoses; i++) {
    const Boxes boxes = random_boxes(random, mujoco, margin, tilt);
    same += difference(mujoco(boxes), smooth_contacts(boxes, width)) < 1e-9;
  }
  return static_cast<double>(same) / kPoses;
}

TEST(SmoothBoxBox, IsMujocosInTheLimit) {
  for (const double margin : {0.0, 0.02}) {
    EXPECT_GE(share_of_mujocos(1e-8, margin), 0.999);
    EXPECT_GE(share_of_mujocos(1e-8, margin, 0.1), 0.999);
    EXPECT_GE(share_of_mujocos(1e-8, margin, 0.01), 0.999);
  }
}

// The best edges are all but the axis of the face, others are not and are better than the face too:
// MuJoCo has the face.
TEST(SmoothBoxBox, FaceIsNotReplacedByEdgesThatAreNotTheBest) {
  Mujoco mujoco;
  const Boxes boxes =
      pair_at({.1082, .1137, .16}, {.103, .0703, .0574}, {.124264, -.177572, .212192},
              Quaterniond(.999964, -.0075, .001246, -.003857).normalized());
  EXPECT_EQ(mujoco(boxes).size(), 4);
  EXPECT_LT(difference(mujoco(boxes), smooth_contacts(boxes, 1e-9)), 1e-12);
}

TEST(SmoothBoxBox, IsMujocosAwayFromTransitions) {
  for (const double margin : {0.0, 0.02}) {
    EXPECT_GE(share_of_mujocos(1e-3, margin), 0.85);
    EXPECT_GE(share_of_mujocos(1e-4, margin), 0.97);
  }
}

TEST(SmoothBoxBox, ConvergesToMujocosAsWidthGoesToZero) {
  Mujoco mujoco;
  for (const Path& path : sweeps()) {
    if (path.tie) continue;
    SCOPED_TRACE(path.name);
    double last = INFINITY;
    // above, faces of both boxes may be there while MuJoCo has one of them
    for (const double width : {1e-3, 1e-4, 1e-5, 1e-6}) {
      double mean = 0;
      constexpr int kPoses = 200;
      for (int i = 0; i < kPoses; i++) {
        const Boxes boxes = path.at(path.from + (path.to - path.from) * (i + .4321) / kPoses);
        const Vector a = sums(mujoco(boxes), boxes.margin),
                     b = sums(smooth_contacts(boxes, width), boxes.margin);
        for (size_t k = 0; k < a.size(); k++) mean += std::abs(a[k] - b[k]) / kPoses;
      }
      EXPECT_LE(mean, last);
      last = mean;
    }
    EXPECT_LT(last, 1e-12);
  }
}

// ---- boxes that lie on each other

// the width of a pair of cubes, (3)
double shape_width_of(double width, double size) { return 1 / (1 / width + 12 / size); }

TEST(SmoothBoxBox, StackHasMujocosFourContacts) {
  Mujoco mujoco;
  const Vector3d cube(.1, .1, .1);
  for (const double depth : {1e-5, 1e-3, 5e-3}) {
    // along the axes of the world: MuJoCo's have four only where rounding leaves no sliver
    const Boxes boxes{{cube}, {cube, {0, 0, .2 - depth}}};
    const Contacts ours = smooth_contacts(boxes, 1e-3);
    EXPECT_EQ(ours.size(), 4);
    EXPECT_LT(difference(mujoco(boxes), ours), 1e-14);
  }
}

TEST(SmoothBoxBox, HasMujocosNumberOfContacts) {
  constexpr double kPi = std::numbers::pi;
  const Vector3d y = Vector3d::UnitY(), z = Vector3d::UnitZ();
  const Vector3d cube(.1, .1, .1), bar(.1, .03, .02);
  const double edge = .1 * std::sqrt(2.0), corner = .1 * std::sqrt(3.0);
  const struct {
    const char* name;
    Boxes boxes;
    size_t n;
  } cases[] = {
      {"turned by 45 degrees", pair_at(cube, cube, {0, 0, .199}, turned(z, kPi / 4)), 8},
      {"half over", pair_at(cube, cube, {.1, .1, .199}, turned(z, 0)), 4},
      {"crossed bars", pair_at(bar, bar, {0, 0, .039}, turned(z, kPi / 2)), 4},
      {"small on large", pair_at(cube, .5 * bar, {.01, .02, .109}, turned(z, .3)), 4},
      {"large on small", pair_at(.5 * bar, cube, {.01, .02, .109}, turned(z, .3)), 4},
      {"on an edge", pair_at(2 * cube, cube, {0, 0, .2 + edge - .001}, turned(y, kPi / 4)), 2},
      {"on a corner",
       pair_at(2 * cube, cube, {0, 0, .2 + corner - .001},
               Quaterniond::FromTwoVectors(Vector3d(1, 1, 1), z)),
       1},
      {"edges that cross",
       pair_at(cube, cube, (2 * edge - .001) * Vector3d(1, 0, 1).normalized(),
               turned(Vector3d(1, 0, 1), kPi / 2)),
       1},
  };
  Mujoco mujoco;
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(mujoco(one.boxes).size(), one.n);
    EXPECT_EQ(smooth_contacts(one.boxes, 1e-3).size(), one.n);
    EXPECT_LT(difference(mujoco(one.boxes), smooth_contacts(one.boxes, 1e-3)), 1e-12);
  }
}

// Through all transitions some contact has its full weight: those that have reach as far in any
// direction as MuJoCo's do, but for what the width is.
TEST(SmoothBoxBox, CarriesAsFarAsMujocos) {
  Mujoco mujoco;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  constexpr double kWidth = 4e-3, kDepth = 1e-3;
  const double w = shape_width_of(kWidth, .1);
  const Vector3d cube(.1, .1, .1);
  int partial = 0;
  for (int i = 0; i < 2000; i++) {
    // aligned to within a few widths
    const Boxes boxes =
        pair_at(cube, cube, {4 * w * uniform(random), 4 * w * uniform(random), .2 - kDepth},
                turned(Vector3d::UnitZ(), 4 * w / .1 * uniform(random)));
    const Contacts exact = mujoco(boxes), ours = smooth_contacts(boxes, kWidth);
    const Eigen::Matrix3d mat = boxes.box1.quat.toRotationMatrix();
    for (int k = 0; k < 16; k++) {
      const double angle = 2 * std::numbers::pi * k / 16;
      const Vector3d direction = std::cos(angle) * mat.col(0) + std::sin(angle) * mat.col(1);
      const auto reach = [&](const Contacts& contacts) {
        double out = -1;
        for (const SmoothContact<double>& c : contacts) {
          if (c.distance() > -kDepth + 1e-12) {
            partial++;
            continue;
          }
          out = std::max(out, direction.dot(eigen(c.pos) - boxes.box1.pos));
        }
        return out;
      };
      EXPECT_NEAR(reach(ours), reach(exact), 3 * w);
    }
  }
  EXPECT_GT(partial, 1000);  // contacts on their way out were there
}

// ---- how many

TEST(SmoothBoxBox, HasNoMoreContactsThanThereIsRoomFor) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  const Vector3d cube(.1, .1, .1);
  size_t most = 0, most_shallow = 0;
  for (int i = 0; i < 20000; i++) {
    // any orientation of which axes of the two are nearly parallel; the second half all but in the
    // same place
    const bool shallow = i < 10000;
    const double scale = shallow ? .005 : .002;
    const auto noise = [&] {
      return Vector3d(scale * normal(random), scale * normal(random), scale * normal(random));
    };
    const Vector3d turn = noise() / .1;
    const Vector3d pos = shallow ? Vector3d(0, 0, .195) : Vector3d::Zero();
    Boxes boxes = pair_at(cube, cube, pos + noise(), turned(turn, turn.norm()));
    boxes.margin = .01;
    const size_t n = smooth_contacts(boxes, .01).size();
    most = std::max(most, n);
    if (shallow) most_shallow = std::max(most_shallow, n);
  }
  EXPECT_LE(most_shallow, 24);
  EXPECT_EQ(most, kMaxBoxBox);
}

}  // namespace
}  // namespace diffmj
