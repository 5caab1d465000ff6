#include "stages/position/constraint_jacobian.h"

#include <array>

#include "base/dual.h"
#include "base/quaternion.h"
#include "base/rotation.h"
#include "stages/acceleration/constraint_parameters.h"
#include "stages/position/tendon.h"

namespace diffmj {
namespace {

class Jacobian {
 public:
  Jacobian(const mjModel* m, const mjData* d, Vec qpos_bar, const ParameterBar& params,
           Workspace& workspace)
      : m_(m), d_(d), s_(workspace.sweep), w_(workspace), qpos_bar_(qpos_bar), params_(params) {}

  void run() {
    w_.constraint.contacts.assign(static_cast<size_t>(d_->ncon), {});
    for (int i = 0, n = 1; i < d_->nefc; i += n) {
      n = 1;
      const int id = d_->efc_id[i];
      switch (d_->efc_type[i]) {
        case mjCNSTR_EQUALITY:
          n = equality(i, id);
          break;
        case mjCNSTR_FRICTION_TENDON:
          tendon(i, id, 1);
          break;
        case mjCNSTR_LIMIT_JOINT:
          if (m_->jnt_type[id] == mjJNT_BALL) ball_limit(i, id);
          break;
        case mjCNSTR_LIMIT_TENDON:
          tendon_limit(i, id);
          break;
        case mjCNSTR_CONTACT_FRICTIONLESS:
        case mjCNSTR_CONTACT_ELLIPTIC:
          n = d_->contact[id].dim;
          contact(i, n, id);
          break;
        case mjCNSTR_CONTACT_PYRAMIDAL:
          n = 2 * (d_->contact[id].dim - 1);
          contact(i, n, id);
          break;
        default:
          break;  // friction loss, limits of hinges and slides: J is constant
      }
    }
  }

 private:
  // J_bar_i
  CVec vector(int i) const {
    const auto nv = static_cast<size_t>(m_->nv);
    return CVec(w_.projection.J_bar).subspan(static_cast<size_t>(i) * nv, nv);
  }
  bool is_zero(int i) const { return eigen(vector(i)).isZero(0); }
  Vec eq_data_bar(int id) const {
    const Vec to = params_[Parameter::kEqData];
    return to.empty() ? to : to.subspan(mjNEQDATA * static_cast<size_t>(id), mjNEQDATA);
  }

  // J = scale J_tendon, and a cotangent of the tendon's length
  void tendon(int i, int tendon, double scale, double length_bar = 0) {
    if (is_zero(i)) return;
    eigen(Vec(w_.tendon.y)) = scale * eigen(vector(i));
    tendon_direction_pullback(m_, d_, tendon, length_bar, w_.tendon.y, qpos_bar_, s_, params_);
  }

  void tendon_limit(int i, int id) {
    // lower limits come first, if both of a tendon are there
    const bool second =
        i > 0 && d_->efc_type[i - 1] == mjCNSTR_LIMIT_TENDON && d_->efc_id[i - 1] == id;
    const bool upper = second || d_->efc_pos[i] != d_->ten_length[id] - m_->tendon_range[2 * id];
    tendon(i, id, upper ? -1 : 1);
  }

  // J = -axis of log q:  δaxis = (I - axis axisᵀ)/angle Jr⁻¹ δ
  void ball_limit(int i, int joint) {
    const int dof = m_->jnt_dofadr[joint];
    mjtNum quat[4], log[3];
    mju_copy4(quat, d_->qpos + m_->jnt_qposadr[joint]);
    mju_normalize4(quat);
    mju_quat2Vel(log, quat, 1);
    const Vector3 u(log);
    const double angle = u.norm();
    if (angle < mjMINVAL) return;
    const Vector3 axis = u / angle, y(&vector(i)[static_cast<size_t>(dof)]);
    const Vector3 u_bar = -(y - axis * axis.dot(y)) / angle;
    Eigen::Map<Vector3>(&qpos_bar_[static_cast<size_t>(dof)]) += dexpinv(-u, u_bar);
  }

  int equality(int i, int id) {
    switch (m_->eq_type[id]) {
      case mjEQ_JOINT:
        if (const int j2 = m_->eq_obj2id[id]; j2 >= 0) {
          const int q = m_->jnt_qposadr[j2];
          const auto dof = static_cast<size_t>(m_->jnt_dofadr[j2]);
          qpos_bar_[dof] += polynomial(id, d_->qpos[q] - m_->qpos0[q], vector(i)[dof]).second;
        }
        return 1;
      case mjEQ_TENDON:
        tendon(i, m_->eq_obj1id[id], 1);
        if (const int t2 = m_->eq_obj2id[id]; t2 >= 0) {
          const auto [slope, bar] = polynomial(id, d_->ten_length[t2] - m_->tendon_length0[t2],
                                               tendon_rate(m_, d_, t2, vector(i)));
          tendon(i, t2, -slope, bar);
        }
        return 1;
      case mjEQ_CONNECT:
        anchors(i, id);
        return 3;
      case mjEQ_WELD:
        anchors(i, id);
        relative_rotation(i + 3, id);
        return 6;
      default:
        return 1;
    }
  }

  // J of x₂ is -p'(x), p = Σ c_k x^k: returns p' and the cotangent of x, where x₂ has that rate
  std::pair<double, double> polynomial(int id, double x, double rate) {
    const mjtNum* c = m_->eq_data + mjNEQDATA * id;
    const Vec data_bar = eq_data_bar(id);
    double power = 1;
    for (size_t k = 1; k <= 4 && !data_bar.empty(); k++, power *= x) {
      data_bar[k] -= power * static_cast<double>(k) * rate;
    }
    return {c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4])),
            -(2 * c[2] + x * (6 * c[3] + x * 12 * c[4])) * rate};
  }

  int body_of(int id, int side) const {
    const int object = side == 0 ? m_->eq_obj1id[id] : m_->eq_obj2id[id];
    return m_->eq_objtype[id] == mjOBJ_SITE ? m_->site_bodyid[object] : object;
  }

  // the two points of a connect or weld: row k is coordinate k of their relative velocity
  void anchors(int i, int id) {
    const bool sites = m_->eq_objtype[id] == mjOBJ_SITE, weld = m_->eq_type[id] == mjEQ_WELD;
    for (int side = 0; side < 2; side++) {
      const int object = side == 0 ? m_->eq_obj1id[id] : m_->eq_obj2id[id];
      const int body = body_of(id, side), anchor = 3 * (weld ? 1 - side : side);
      const double sign = side == 0 ? 1 : -1;
      const Rotation R(d_->xmat + 9 * body);
      const Vector3 world = sites ? Vector3(d_->site_xpos + 3 * object)
                                  : Vector3(Vector3(d_->xpos + 3 * body) +
                                            R * Vector3(m_->eq_data + mjNEQDATA * id + anchor));
      const Vector3 point = from_origin(m_, d_, body, world.data());
      Vector3 point_bar = Vector3::Zero();
      for (int k = 0; k < 3; k++) {
        const Vector3 F = sign * Vector3::Unit(k);
        const Vector3 w = motion_of(m_, d_, body, vector(i + k)).head<3>();
        add_motion_bar(m_, body, vector(i + k), wrench_at(point, Vector3::Zero(), F), s_);
        // the point moves: F · (ω × δpoint)
        point_bar += F.cross(w);
      }
      s_.W[static_cast<size_t>(body)] += wrench_at(point, Vector3::Zero(), point_bar);
      const Vec to = sites ? params_[Parameter::kSitePos] : eq_data_bar(id);
      if (!to.empty()) {
        Eigen::Map<Vector3>(&to[static_cast<size_t>(sites ? 3 * object : anchor)]) +=
            R.transpose() * point_bar;
      }
    }
  }

  // rows of a weld's rotation: J y = ½ scale vec(conj(q2) (ω1 - ω2)(y) q1)
  void relative_rotation(int i, int id) {
    const bool sites = m_->eq_objtype[id] == mjOBJ_SITE;
    const int body1 = body_of(id, 0), body2 = body_of(id, 1);
    const mjtNum* data = m_->eq_data + mjNEQDATA * id;
    const double scale = data[10];
    mjtNum q1[4], q2[4];
    mju_mulQuat(q1, d_->xquat + 4 * body1,
                sites ? m_->site_quat + 4 * m_->eq_obj1id[id] : data + 6);
    if (sites) {
      mju_mulQuat(q2, d_->xquat + 4 * body2, m_->site_quat + 4 * m_->eq_obj2id[id]);
    } else {
      mju_copy4(q2, d_->xquat + 4 * body2);
    }

    // inputs: rotations of the two bodies, and the relative angular velocity of each row
    using T = Dual<15>;
    using Q = Quat<T>;
    const auto input = [](const Vector3& value, size_t at) {
      Q out{T(0.0), T(value[0]), T(value[1]), T(value[2])};
      out.x.d[at] = out.y.d[at + 1] = out.z.d[at + 2] = 1;
      return out;
    };
    const auto moved = [](const Q& q, const Q& by, double size) {
      return Q{q.w + size * by.w, q.x + size * by.x, q.y + size * by.y, q.z + size * by.z};
    };
    const Q start1{T(q1[0]), T(q1[1]), T(q1[2]), T(q1[3])};
    const Q start2{T(q2[0]), T(-q2[1]), T(-q2[2]), T(-q2[3])};
    const Q first = moved(start1, input(Vector3::Zero(), 0) * start1, 0.5);
    const Q second = moved(start2, start2 * input(Vector3::Zero(), 3), -0.5);
    std::array<Vector3, 3> w;
    T sum(0.0);
    for (size_t k = 0; k < 3; k++) {
      const CVec y = vector(i + static_cast<int>(k));
      w[k] = motion_of(m_, d_, body1, y).head<3>() - motion_of(m_, d_, body2, y).head<3>();
      const Q velocity = second * input(w[k], 6 + 3 * k) * first;
      sum = sum + 0.5 * scale * (k == 0 ? velocity.x : k == 1 ? velocity.y : velocity.z);
    }

    if (const Vec to = eq_data_bar(id); !to.empty()) {
      const auto weigh = [&](const mjtNum* q) {
        double total = 0;
        for (size_t k = 0; k < 3; k++) {
          const Quat<double> v = Quat<double>{q2[0], -q2[1], -q2[2], -q2[3]} *
                                 Quat<double>{0, w[k][0], w[k][1], w[k][2]} *
                                 Quat<double>{q[0], q[1], q[2], q[3]};
          total += 0.5 * (k == 0 ? v.x : k == 1 ? v.y : v.z);
        }
        return total;
      };
      // q1 = xquat relpose; the rows are linear in it
      to[10] += weigh(q1);
      for (size_t k = 0; k < 4 && !sites; k++) {
        mjtNum unit[4] = {}, q[4];
        unit[k] = 1;
        mju_mulQuat(q, d_->xquat + 4 * body1, unit);
        to[6 + k] += scale * weigh(q);
      }
    }

    const auto part = [&](size_t at) { return Vector3(sum.d[at], sum.d[at + 1], sum.d[at + 2]); };
    s_.W[static_cast<size_t>(body1)].head<3>() += part(0);
    s_.W[static_cast<size_t>(body2)].head<3>() += part(3);
    for (size_t k = 0; k < 3; k++) {
      const Vector6 bar = spatial(part(6 + 3 * k), Vector3::Zero());
      const CVec y = vector(i + static_cast<int>(k));
      add_motion_bar(m_, body1, y, bar, s_);
      add_motion_bar(m_, body2, y, -bar, s_);
    }
  }

  // velocities in the contact's frame: normal, two tangents, spin, two rolls; edges of a pyramid
  // are normal ± friction_k times one of them
  void contact(int i, int n, int id) {
    const mjContact& contact = d_->contact[id];
    ContactBar& out = w_.constraint.contacts[static_cast<size_t>(id)];
    const int body1 = m_->geom_bodyid[contact.geom[0]], body2 = m_->geom_bodyid[contact.geom[1]];
    const Vector3 p1 = from_origin(m_, d_, body1, contact.pos),
                  p2 = from_origin(m_, d_, body2, contact.pos);
    const Rotation frame(contact.frame);
    const bool pyramid = d_->efc_type[i] == mjCNSTR_CONTACT_PYRAMIDAL;
    for (int row = 0; row < n; row++) {
      if (is_zero(i + row)) continue;
      const CVec y = vector(i + row);
      const Vector6 X1 = motion_of(m_, d_, body1, y), X2 = motion_of(m_, d_, body2, y);
      const Vector3 u = velocity_at(X2, p2) - velocity_at(X1, p1), w = X2.head<3>() - X1.head<3>();
      Vector3 F = Vector3::Zero(), T = Vector3::Zero();
      const auto add = [&](int k, double weight) {
        (k < 3 ? F : T) += weight * frame.row(k % 3);
        out.frame.row(k % 3) += weight * (k < 3 ? u : w).transpose();
      };
      if (pyramid) {
        const int k = 1 + row / 2;
        const double sign = row % 2 == 0 ? 1 : -1;
        add(0, 1);
        add(k, sign * contact.friction[k - 1]);
        const double velocity = frame.row(k % 3).dot(k < 3 ? u : w);
        if (params_.wants(Parameter::kGeomFriction) || params_.wants(Parameter::kPairFriction)) {
          contact_friction_pullback(m_, contact, k - 1, sign * velocity, params_, w_);
        }
      } else {
        add(row, 1);
      }
      add_motion_bar(m_, body1, y, -wrench_at(p1, T, F), s_);
      add_motion_bar(m_, body2, y, wrench_at(p2, T, F), s_);
      // the place moves: F · (ω × δpos)
      out.pos += F.cross(w);
    }
  }

  const mjModel* m_;
  const mjData* d_;
  Sweep& s_;
  Workspace& w_;
  Vec qpos_bar_;
  const ParameterBar& params_;
};

}  // namespace

void constraint_jacobian_pullback(const mjModel* m, const mjData* d, Vec qpos_bar,
                                  const ParameterBar& params, Workspace& workspace) {
  Jacobian(m, d, qpos_bar, params, workspace).run();
}

}  // namespace diffmj
