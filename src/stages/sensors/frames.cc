#include <cmath>

#include "base/quaternion.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/sensors/sensors_internal.h"

namespace diffmj {
namespace {

Eigen::Map<Vector3> row3(Vec x, int i) {
  return Eigen::Map<Vector3>(x.data() + 3 * static_cast<ptrdiff_t>(i));
}

// s = Rᵀ u in the axes R of a frame: hands back u_bar, and turns the frame
Vector3 local_vector_pullback(const SensorContext& c, const SensorFrame& frame, const Vector3& u,
                              CVec s_bar) {
  const Vector3 u_bar = frame.mat * vector3(s_bar);
  frame_wrench(c, frame, u_bar.cross(u), Vector3::Zero());
  return u_bar;
}

// acceleration of a frame as an accelerometer at its origin has it, gravity included
struct FrameAcceleration {
  FrameAcceleration(const SensorContext& c, const SensorFrame& frame) {
    const auto b = static_cast<size_t>(frame.body);
    w = c.sweep.V.X[b].head<3>();
    v = velocity_at(c.sweep.V.X[b], frame.point);
    angular = c.sweep.A[b].head<3>();
    linear = velocity_at(c.sweep.A[b], frame.point) + w.cross(v);
  }
  Vector3 w, v, angular, linear;
};

void acceleration_pullback(const SensorContext& c, const SensorFrame& frame,
                           const FrameAcceleration& at, const Vector3& angular_bar,
                           const Vector3& F) {
  const auto b = static_cast<size_t>(frame.body);
  c.sweep.A_bar[b] += wrench_at(frame.point, angular_bar, F);
  // F · (ω × v):  ω_bar = v × F,  v_bar = F × ω
  c.sweep.V.X_bar[b] += wrench_at(frame.point, at.v.cross(F), F.cross(at.w));
  // the point moves: F · (α × δp + ω × (ω × δp))
  frame_wrench(c, frame, Vector3::Zero(), F.cross(at.angular) + F.cross(at.w).cross(at.w));
  if (const Vec to = c.bar.params[Parameter::kGravity]; !to.empty()) {
    if (!(c.m->opt.disableflags & mjDSBL_GRAVITY)) row3(to, 0) -= F;
  }
}

Quat<double> quaternion_of(const mjModel* m, const mjData* d, int objtype, int id) {
  mjtNum q[4];
  const auto times = [&](int body, const mjtNum* local) {
    mju_mulQuat(q, d->xquat + 4 * static_cast<ptrdiff_t>(body), local);
  };
  switch (objtype) {
    case mjOBJ_XBODY:
      mju_copy4(q, d->xquat + 4 * static_cast<ptrdiff_t>(id));
      break;
    case mjOBJ_BODY:
      times(id, m->body_iquat + 4 * static_cast<ptrdiff_t>(id));
      break;
    case mjOBJ_GEOM:
      times(m->geom_bodyid[id], m->geom_quat + 4 * static_cast<ptrdiff_t>(id));
      break;
    case mjOBJ_SITE:
      times(m->site_bodyid[id], m->site_quat + 4 * static_cast<ptrdiff_t>(id));
      break;
    default:
      times(m->cam_bodyid[id], m->cam_quat + 4 * static_cast<ptrdiff_t>(id));
  }
  return {q[0], q[1], q[2], q[3]};
}

// s = conj(q_ref) q:  δq = ½ ξ q,  δq_ref = ½ ξ_ref q_ref
void quaternion_pullback(const SensorContext& c, const SensorFrame& frame,
                         const SensorFrame* reference, CVec s_bar) {
  const Quat<double> q = quaternion_of(c.m, c.d, frame.objtype, frame.id);
  Quat<double> conjugate{1, 0, 0, 0};
  if (reference) {
    const Quat<double> r = quaternion_of(c.m, c.d, reference->objtype, reference->id);
    conjugate = {r.w, -r.x, -r.y, -r.z};
  }
  Vector3 torque;
  for (int k = 0; k < 3; k++) {
    const Quat<double> unit{0, k == 0 ? 0.5 : 0.0, k == 1 ? 0.5 : 0.0, k == 2 ? 0.5 : 0.0};
    const Quat<double> change = conjugate * unit * q;
    torque[k] =
        s_bar[0] * change.w + s_bar[1] * change.x + s_bar[2] * change.y + s_bar[3] * change.z;
  }
  frame_wrench(c, frame, torque, Vector3::Zero());
  if (reference) frame_wrench(c, *reference, -torque, Vector3::Zero());
}

// velocities, relative to a reference frame that may move and turn:
//   angular:  Rᵀ (ω - ω_ref),   linear:  Rᵀ (v - v_ref + r × ω_ref),   r = p - p_ref
void frame_velocity_sensor(const SensorContext& c, const SensorFrame& frame,
                           const SensorFrame* reference, bool linear, CVec s_bar) {
  if (!reference) {
    const Vector3 u_bar = vector3(s_bar);
    frame_velocity_pullback(c, frame, linear ? Vector3(Vector3::Zero()) : u_bar,
                            linear ? u_bar : Vector3(Vector3::Zero()));
    return;
  }
  const Vector6 &X = c.sweep.V.X[static_cast<size_t>(frame.body)],
                &X_ref = c.sweep.V.X[static_cast<size_t>(reference->body)];
  const Vector3 w_ref = X_ref.head<3>();
  if (!linear) {
    const Vector3 u_bar = local_vector_pullback(c, *reference, X.head<3>() - w_ref, s_bar);
    frame_velocity_pullback(c, frame, u_bar, Vector3::Zero());
    frame_velocity_pullback(c, *reference, -u_bar, Vector3::Zero());
    return;
  }
  const Vector3 r = frame.pos - reference->pos;
  const Vector3 u =
      velocity_at(X, frame.point) - velocity_at(X_ref, reference->point) + r.cross(w_ref);
  const Vector3 u_bar = local_vector_pullback(c, *reference, u, s_bar);
  frame_velocity_pullback(c, frame, Vector3::Zero(), u_bar);
  frame_velocity_pullback(c, *reference, u_bar.cross(r), -u_bar);
  const Vector3 r_bar = w_ref.cross(u_bar);
  frame_wrench(c, frame, Vector3::Zero(), r_bar);
  frame_wrench(c, *reference, Vector3::Zero(), -r_bar);
}

// pixels: u = Rᵀ (p - p_cam),  s = (-fx u₀/u₂, fy u₁/u₂) + centre
void projection_pullback(const SensorContext& c, int sensor, CVec s_bar) {
  const mjModel* m = c.m;
  const int camera = m->sensor_refid[sensor];
  const SensorFrame site(m, c.d, mjOBJ_SITE, m->sensor_objid[sensor]);
  const SensorFrame view(m, c.d, mjOBJ_CAMERA, camera);
  const float *size = m->cam_sensorsize + 2 * camera, *lens = m->cam_intrinsic + 4 * camera;
  const int* pixels = m->cam_resolution + 2 * camera;
  double fx = 0.5 / std::tan(m->cam_fovy[camera] * mjPI / 360) * pixels[1], fy = fx;
  if (size[0] != 0 && size[1] != 0) {
    fx = static_cast<double>(lens[0]) / size[0] * pixels[0];
    fy = static_cast<double>(lens[1]) / size[1] * pixels[1];
  }
  const Vector3 r = site.pos - view.pos, u = view.mat.transpose() * r;
  if (std::abs(u[2]) < mjMINVAL) return;
  const double per_x = -fx * s_bar[0] / u[2], per_y = fy * s_bar[1] / u[2];
  const double local[3] = {per_x, per_y, -(per_x * u[0] + per_y * u[1]) / u[2]};
  const Vector3 r_bar = local_vector_pullback(c, view, r, local);
  frame_wrench(c, site, Vector3::Zero(), r_bar);
  frame_wrench(c, view, Vector3::Zero(), -r_bar);
}

}  // namespace

SensorFrame::SensorFrame(const mjModel* m, const mjData* d, int type, int object)
    : objtype(type), id(object), body(object) {
  const auto at3 = 3 * static_cast<ptrdiff_t>(object), at9 = 9 * static_cast<ptrdiff_t>(object);
  const mjtNum *p = d->xpos + at3, *R = d->xmat + at9;
  switch (type) {
    case mjOBJ_BODY:
      p = d->xipos + at3;
      R = d->ximat + at9;
      break;
    case mjOBJ_GEOM:
      body = m->geom_bodyid[object];
      p = d->geom_xpos + at3;
      R = d->geom_xmat + at9;
      break;
    case mjOBJ_SITE:
      body = m->site_bodyid[object];
      p = d->site_xpos + at3;
      R = d->site_xmat + at9;
      break;
    case mjOBJ_CAMERA:
      body = m->cam_bodyid[object];
      p = d->cam_xpos + at3;
      R = d->cam_xmat + at9;
      break;
    default:
      break;
  }
  pos = Vector3(p);
  point = from_origin(m, d, body, p);
  mat = Rotation(R);
  moves = m->body_dofnum[m->body_weldid[body]] > 0;
}

void frame_wrench(const SensorContext& c, const SensorFrame& frame, const Vector3& torque,
                  const Vector3& force) {
  const Vector6 wrench = wrench_at(frame.point, torque, force);
  const auto b = static_cast<size_t>(frame.body);
  switch (frame.objtype) {
    case mjOBJ_BODY:
      c.sweep.W_inertial[b] += wrench;
      break;
    case mjOBJ_GEOM:
      geom_pullback(c.m, c.d, frame.id, wrench, c.sweep, c.bar.params);
      break;
    case mjOBJ_SITE:
      if (const Vec to = c.bar.params[Parameter::kSitePos]; !to.empty()) {
        row3(to, frame.id) += Rotation(c.d->xmat + 9 * frame.body).transpose() * force;
      }
      c.sweep.W[b] += wrench;
      break;
    default:
      c.sweep.W[b] += wrench;
  }
}

void frame_velocity_pullback(const SensorContext& c, const SensorFrame& frame, const Vector3& w_bar,
                             const Vector3& v_bar) {
  const auto b = static_cast<size_t>(frame.body);
  c.sweep.V.X_bar[b] += wrench_at(frame.point, w_bar, v_bar);
  // the point moves: v_bar · (ω × δp)
  const Vector3 w = c.sweep.V.X[b].head<3>();
  frame_wrench(c, frame, Vector3::Zero(), v_bar.cross(w));
}

void frame_sensor_pullback(const SensorContext& c, int sensor, CVec s_bar) {
  const mjModel* m = c.m;
  const int type = m->sensor_type[sensor];
  if (type == mjSENS_CAMPROJECTION) {
    projection_pullback(c, sensor, s_bar);
    return;
  }
  const bool on_site = type == mjSENS_ACCELEROMETER || type == mjSENS_GYRO ||
                       type == mjSENS_VELOCIMETER || type == mjSENS_MAGNETOMETER;
  const SensorFrame frame(m, c.d, on_site ? +mjOBJ_SITE : m->sensor_objtype[sensor],
                          m->sensor_objid[sensor]);
  const int ref = on_site ? -1 : m->sensor_refid[sensor];
  const SensorFrame other(m, c.d, ref < 0 ? frame.objtype : m->sensor_reftype[sensor],
                          ref < 0 ? frame.id : ref);
  const SensorFrame* reference = ref < 0 ? nullptr : &other;
  const auto b = static_cast<size_t>(frame.body);
  const Vector6& V = c.sweep.V.X[b];
  const Vector3 zero = Vector3::Zero();

  switch (type) {
    case mjSENS_FRAMEPOS: {
      Vector3 u_bar = vector3(s_bar);
      if (reference) {
        u_bar = local_vector_pullback(c, other, frame.pos - other.pos, s_bar);
        frame_wrench(c, other, zero, -u_bar);
      }
      frame_wrench(c, frame, zero, u_bar);
      break;
    }
    case mjSENS_FRAMEXAXIS:
    case mjSENS_FRAMEYAXIS:
    case mjSENS_FRAMEZAXIS: {
      const Vector3 axis = frame.mat.col(type - mjSENS_FRAMEXAXIS);
      const Vector3 u_bar =
          reference ? local_vector_pullback(c, other, axis, s_bar) : vector3(s_bar);
      frame_wrench(c, frame, axis.cross(u_bar), zero);
      break;
    }
    case mjSENS_FRAMEQUAT:
      quaternion_pullback(c, frame, reference, s_bar);
      break;
    case mjSENS_FRAMELINVEL:
    case mjSENS_FRAMEANGVEL:
      frame_velocity_sensor(c, frame, reference, type == mjSENS_FRAMELINVEL, s_bar);
      break;
    case mjSENS_MAGNETOMETER:
      local_vector_pullback(c, frame, Vector3(m->opt.magnetic), s_bar);
      break;
    case mjSENS_VELOCIMETER:
      frame_velocity_pullback(c, frame, zero,
                              local_vector_pullback(c, frame, velocity_at(V, frame.point), s_bar));
      break;
    case mjSENS_GYRO:
      frame_velocity_pullback(c, frame, local_vector_pullback(c, frame, V.head<3>(), s_bar), zero);
      break;
    default: {
      // accelerations; MuJoCo has 0 for what no dof carries
      if (!frame.moves) break;
      const FrameAcceleration at(c, frame);
      if (type == mjSENS_ACCELEROMETER) {
        const Vector3 F = local_vector_pullback(c, frame, at.linear, s_bar);
        acceleration_pullback(c, frame, at, zero, F);
      } else if (type == mjSENS_FRAMELINACC) {
        acceleration_pullback(c, frame, at, zero, vector3(s_bar));
      } else {
        acceleration_pullback(c, frame, at, vector3(s_bar), zero);
      }
    }
  }
}

}  // namespace diffmj
