#include "integrate/manifold.h"

#include <algorithm>
#include <cmath>

namespace diffmj {
namespace {

Eigen::Map<const Vector3> vector3(CVec x, int at) {
  return Eigen::Map<const Vector3>(&x[static_cast<size_t>(at)]);
}
Eigen::Map<Vector3> vector3(Vec x, int at) {
  return Eigen::Map<Vector3>(&x[static_cast<size_t>(at)]);
}

// Calls fn(qpos address, dof address) for every quaternion, other(qpos address, dof address) for
// every other coordinate.
template <class Quaternion, class Other>
void for_each_coordinate(const mjModel* m, Quaternion&& quaternion, Other&& other) {
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int q = m->jnt_qposadr[j], v = m->jnt_dofadr[j];
    switch (m->jnt_type[j]) {
      case mjJNT_FREE:
        for (int k = 0; k < 3; k++) other(q + k, v + k);
        quaternion(q + 3, v + 3);
        break;
      case mjJNT_BALL:
        quaternion(q, v);
        break;
      default:
        other(q, v);
    }
  }
}

}  // namespace

void integrate_pos_pullback(const mjModel* m, CVec u, CVec q_next_bar, Vec q_bar, Vec u_bar) {
  for_each_coordinate(
      m,
      [&](int, int v) {
        const Vector3 uv = vector3(u, v), y_bar = vector3(q_next_bar, v);
        vector3(q_bar, v) += rotate(uv, y_bar);
        vector3(u_bar, v) += right_jacobian_transposed(uv, y_bar);
      },
      [&](int, int v) {
        const auto i = static_cast<size_t>(v);
        q_bar[i] += q_next_bar[i];
        u_bar[i] += q_next_bar[i];
      });
}

void stage_velocity(const mjModel* m, CVec u, CVec v, Vec k) {
  std::copy(v.begin(), v.end(), k.begin());
  for_each_coordinate(
      m, [&](int, int dof) { vector3(k, dof) = dexpinv(vector3(u, dof), vector3(v, dof)); },
      [](int, int) {});
}

void stage_velocity_pullback(const mjModel* m, CVec u, CVec v, CVec k_bar, Vec u_bar, Vec v_bar) {
  for_each_coordinate(
      m,
      [&](int, int dof) {
        Vector3 uv_bar = Vector3::Zero(), vv_bar = Vector3::Zero();
        dexpinv_pullback(vector3(u, dof), vector3(v, dof), vector3(k_bar, dof), uv_bar, vv_bar);
        vector3(u_bar, dof) += uv_bar;
        vector3(v_bar, dof) += vv_bar;
      },
      [&](int, int dof) { v_bar[static_cast<size_t>(dof)] += k_bar[static_cast<size_t>(dof)]; });
}

void position_rate_pullback(const mjModel* m, CVec v, CVec rate_bar, Vec q_bar, Vec v_bar) {
  eigen(v_bar) += eigen(rate_bar);
  for_each_coordinate(
      m,
      [&](int, int dof) { vector3(q_bar, dof) += vector3(v, dof).cross(vector3(rate_bar, dof)); },
      [](int, int) {});
}

void position_magnitudes(const mjModel* m, CVec qpos, Vec magnitude) {
  for_each_coordinate(
      m, [&](int, int dof) { vector3(magnitude, dof).setOnes(); },
      [&](int q, int dof) {
        magnitude[static_cast<size_t>(dof)] = std::abs(qpos[static_cast<size_t>(q)]);
      });
}

void cotangent_to_tangent(const mjModel* m, CVec qpos, CVec qpos_bar, Vec tangent_bar) {
  for_each_coordinate(
      m,
      [&](int q, int v) {
        const Eigen::Vector4d unit =
            Eigen::Map<const Eigen::Vector4d>(&qpos[static_cast<size_t>(q)]).normalized();
        const Eigen::Map<const Eigen::Vector4d> y_bar(&qpos_bar[static_cast<size_t>(q)]);
        vector3(tangent_bar, v) += quaternion_tangent(unit).transpose() * y_bar;
      },
      [&](int q, int v) {
        tangent_bar[static_cast<size_t>(v)] += qpos_bar[static_cast<size_t>(q)];
      });
}

void cotangent_to_ambient(const mjModel* m, CVec qpos, CVec tangent_bar, Vec qpos_bar) {
  for_each_coordinate(
      m,
      [&](int q, int v) {
        const auto i = static_cast<size_t>(q);
        std::fill_n(&qpos_bar[i], 4, 0.0);
        quaternion_cotangent_to_ambient(&qpos[i], vector3(tangent_bar, v), &qpos_bar[i]);
      },
      [&](int q, int v) {
        qpos_bar[static_cast<size_t>(q)] = tangent_bar[static_cast<size_t>(v)];
      });
}

}  // namespace diffmj
