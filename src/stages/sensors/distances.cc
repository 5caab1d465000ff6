// Distance, normal and segment between two geoms, or the nearest geoms of two bodies; MuJoCo:
// mj_geomDistance.
//
// The distance itself changes with the nearest points alone, δd = n · (δp₂ - δp₁). Where these lie
// depends on the shapes: the normal and the segment are differenced in the poses of the two geoms.
#include <array>
#include <cmath>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/sensors/sensors_internal.h"

namespace diffmj {
namespace {

// The nearest points that MuJoCo's iterating collider finds are good to 1e-10 m: large steps, and
// smaller ones only where the points switch to other features nearby. [m or rad]
constexpr double kSteps[] = {5e-4, 1e-4, 1e-5, 1e-6};
// What two one-sided differences of a smooth function may be apart, relative to their size: more
// is a jump of the nearest points.
constexpr double kSmooth = 0.02;

using Segment = Eigen::Matrix<double, 6, 1>;

struct Nearest {
  int geom[2] = {-1, -1};
  double distance = 0;
  Segment segment = Segment::Zero();
};

struct Geoms {
  int begin, end;
};

Geoms geoms_of(const mjModel* m, int type, int id) {
  if (type == mjOBJ_GEOM) return {id, id + 1};
  return {m->body_geomadr[id], m->body_geomadr[id] + m->body_geomnum[id]};
}

double distance_of(const mjModel* m, mjData* d, int geom1, int geom2, double cutoff,
                   Segment& segment) {
  double out = 0;
  // MuJoCo's own colliders, whatever the model's contacts have
  const ColliderScope scope(nullptr);
  mj_call("mj_geomDistance",
          [&] { out = mj_geomDistance(m, d, geom1, geom2, cutoff, segment.data()); });
  return out;
}

Nearest nearest_of(const mjModel* m, mjData* d, int sensor) {
  const Geoms first = geoms_of(m, m->sensor_objtype[sensor], m->sensor_objid[sensor]);
  const Geoms second = geoms_of(m, m->sensor_reftype[sensor], m->sensor_refid[sensor]);
  Nearest out;
  out.distance = m->sensor_cutoff[sensor];
  for (int geom1 = first.begin; geom1 < first.end; geom1++) {
    for (int geom2 = second.begin; geom2 < second.end; geom2++) {
      Segment segment = Segment::Zero();
      const double distance = distance_of(m, d, geom1, geom2, m->sensor_cutoff[sensor], segment);
      if (distance >= out.distance) continue;
      out = {.geom = {geom1, geom2}, .distance = distance, .segment = segment};
    }
  }
  return out;
}

// bar · (normal or segment)
double weigh(const Segment& segment, bool normal, CVec bar) {
  if (!normal) return eigen(bar).dot(segment);
  const Vector3 n = segment.tail<3>() - segment.head<3>();
  return vector3(bar).dot(n) / n.norm();
}

// moves a geom by itself: δ of its place, or a rotation
class MovedGeom {
 public:
  MovedGeom(mjData* d, int geom) : pos_(d->geom_xpos + 3 * geom), mat_(d->geom_xmat + 9 * geom) {
    mju_copy3(pos0_, pos_);
    mju_copy(mat0_, mat_, 9);
  }
  ~MovedGeom() { restore(); }
  MovedGeom(const MovedGeom&) = delete;
  MovedGeom& operator=(const MovedGeom&) = delete;

  void move(int k, double h) {
    restore();
    if (k < 3) {
      pos_[k] += h;
      return;
    }
    const mjtNum axis[3] = {k == 3 ? 1.0 : 0.0, k == 4 ? 1.0 : 0.0, k == 5 ? 1.0 : 0.0};
    mjtNum quat[4], turn[9];
    mju_axisAngle2Quat(quat, axis, h);
    mju_quat2Mat(turn, quat);
    mju_mulMatMat(mat_, turn, mat0_, 3, 3, 3);
  }

 private:
  void restore() {
    mju_copy3(pos_, pos0_);
    mju_copy(mat_, mat0_, 9);
  }
  mjtNum *pos_, *mat_;
  mjtNum pos0_[3], mat0_[9];
};

}  // namespace

void distance_sensor_pullback(const SensorContext& c, int sensor, CVec s_bar) {
  // iterating colliders, to machine precision
  const mjModel* m = c.impl.tight();
  const int type = m->sensor_type[sensor];
  const Nearest at = nearest_of(m, c.d, sensor);
  if (at.geom[0] < 0) return;  // beyond the cutoff
  const SensorFrame frames[2] = {{m, c.d, mjOBJ_GEOM, at.geom[0]},
                                 {m, c.d, mjOBJ_GEOM, at.geom[1]}};

  if (type == mjSENS_GEOMDIST && at.distance != 0) {
    const Vector3 n = (at.segment.tail<3>() - at.segment.head<3>()) / at.distance;
    for (int side = 0; side < 2; side++) {
      const Vector3 F = (side == 0 ? -s_bar[0] : s_bar[0]) * n;
      const Vector3 lever = at.segment.segment<3>(3 * side) - frames[side].pos;
      frame_wrench(c, frames[side], lever.cross(F), F);
    }
    return;
  }

  const auto value = [&] {
    Segment segment = Segment::Zero();
    const double distance =
        distance_of(m, c.d, at.geom[0], at.geom[1], m->sensor_cutoff[sensor], segment);
    return type == mjSENS_GEOMDIST ? s_bar[0] * distance
                                   : weigh(segment, type == mjSENS_GEOMNORMAL, s_bar);
  };
  const double here = value();
  double size = 0;
  for (const double x : s_bar) size = std::max(size, std::abs(x));
  // false: it bends within the step
  const auto differentiate = [&](MovedGeom& moved, int k, double h, double& slope) {
    std::array<double, 4> f = {};
    for (size_t i = 0; i < 4; i++) {
      constexpr std::array<double, 4> kAt = {1, -1, 2, -2};
      moved.move(k, kAt[i] * h);
      f[i] = value();
    }
    slope = (8 * (f[0] - f[1]) - f[2] + f[3]) / (12 * h);
    const double bend = std::abs(f[0] - 2 * here + f[1]) / h;
    return bend <= kSmooth * (size + std::abs(slope));
  };
  for (int side = 0; side < 2; side++) {
    std::array<double, 6> slope = {};
    {
      MovedGeom moved(c.d, at.geom[side]);
      for (int k = 0; k < 6; k++) {
        bool smooth = false;
        for (const double h : kSteps) {
          smooth = differentiate(moved, k, h, slope[static_cast<size_t>(k)]);
          if (smooth) break;
        }
        if (smooth) continue;
        throw UnsupportedError(sensor_name(m, sensor) +
                               ": the nearest points of the two geoms are not unique or switch "
                               "here (flat faces, edges), so that it has no derivative; use a "
                               "distance sensor, or leave its cotangent out at this state");
      }
    }
    frame_wrench(c, frames[side], Vector3(slope[3], slope[4], slope[5]),
                 Vector3(slope[0], slope[1], slope[2]));
  }
}

}  // namespace diffmj
