#include "stages/position/collision/frame.h"

#include <mujoco/mujoco.h>

#include <cmath>

namespace diffmj {

void contact_frame_pullback(const Vector3& normal, const Vector3& tangent,
                            const Eigen::Matrix3d& frame_bar, Vector3& normal_bar,
                            Vector3& tangent_bar) {
  const bool given = tangent.squaredNorm() >= 0.25;  // as mju_makeFrame decides
  const Vector3 x = normal.normalized();
  Vector3 t = tangent;
  if (!given) t = std::abs(x[1]) < 0.5 ? Vector3::UnitY() : Vector3::UnitZ();
  const Vector3 w = t - x * x.dot(t);
  const double length = w.norm();
  // gradient: a tangent along the normal has no direction of its own; its part is left out
  if (length < mjMINVAL) {
    normal_bar += frame_bar.row(0).transpose();
    return;
  }
  const Vector3 y = w / length;
  Vector3 x_bar = frame_bar.row(0), y_bar = frame_bar.row(1);
  const Vector3 z_bar = frame_bar.row(2);
  // z = x × y
  x_bar += y.cross(z_bar);
  y_bar += z_bar.cross(x);
  // y = w/|w|,  w = t - x (x·t)
  const Vector3 w_bar = (y_bar - y * y.dot(y_bar)) / length;
  x_bar -= x.dot(t) * w_bar + t * x.dot(w_bar);
  if (given) tangent_bar += w_bar - x * x.dot(w_bar);
  // x = n/|n|
  normal_bar += (x_bar - x * x.dot(x_bar)) / normal.norm();
}

}  // namespace diffmj
