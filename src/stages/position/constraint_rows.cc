#include "stages/position/constraint_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/dual.h"
#include "base/quaternion.h"
#include "base/rotation.h"
#include "stages/position/collision.h"

namespace diffmj {
namespace {

// Cotangents of the three velocities a row gives: of λ, a and v.
struct VelocityBar {
  double lambda = 0, a = 0, v = 0;
};

class Rows {
 public:
  Rows(const StageModel& impl, Vec qpos_bar, Vec qvel_bar, const ParameterBar& params,
       Workspace& workspace)
      : impl_(impl),
        m_(impl.mj()),
        d_(workspace.data.get()),
        bar_(workspace.constraint.rows),
        s_(workspace.sweep),
        workspace_(workspace),
        qpos_bar_(qpos_bar),
        qvel_bar_(qvel_bar),
        params_(params) {}

  void run() {
    for (int i = 0; i < d_->nefc;) {
      switch (d_->efc_type[i]) {
        case mjCNSTR_EQUALITY:
          i += equality(i);
          break;
        case mjCNSTR_FRICTION_DOF:
          qvel_bar_[static_cast<size_t>(d_->efc_id[i])] += bar_.J_v[static_cast<size_t>(i)];
          i++;
          break;
        case mjCNSTR_FRICTION_TENDON:
          tendon(i, d_->efc_id[i], 1);
          i++;
          break;
        case mjCNSTR_LIMIT_JOINT:
          i += limit(i);
          break;
        case mjCNSTR_LIMIT_TENDON:
          tendon_limit(i);
          i++;
          break;
        case mjCNSTR_CONTACT_FRICTIONLESS:
        case mjCNSTR_CONTACT_PYRAMIDAL:
        case mjCNSTR_CONTACT_ELLIPTIC:
          i = d_->nefc;  // contacts come last
          break;
        default:
          i++;  // not on this path: constraint_obstacle
      }
    }
    contacts();
  }

  void run_equality(int i) { equality(i); }

 private:
  double at(const std::vector<double>& x, int i) const { return x[static_cast<size_t>(i)]; }
  // Jλ_bar λ + Ja_bar a + Jv_bar v, of one dof
  double weighted(int i, int dof) const {
    const auto k = static_cast<size_t>(dof);
    return at(bar_.J_lambda, i) * s_.L.y[k] + at(bar_.J_a, i) * s_.Q.y[k] +
           at(bar_.J_v, i) * s_.V.y[k];
  }
  // a row that is a constant multiple of one dof's velocity, and of its violation's
  void scalar(int i, int dof, double J) {
    const auto k = static_cast<size_t>(dof);
    qvel_bar_[k] += J * at(bar_.J_v, i);
    qpos_bar_[k] += J * at(bar_.pos, i);
  }

  // a row that is a constant multiple of a tendon's rate, and of its violation's
  void tendon(int i, int tendon, double J) {
    TendonBar& bar = workspace_.tendon.bars[static_cast<size_t>(tendon)];
    bar.rate[TendonBar::kLambda] += J * at(bar_.J_lambda, i);
    bar.rate[TendonBar::kA] += J * at(bar_.J_a, i);
    bar.rate[TendonBar::kV] += J * at(bar_.J_v, i);
    bar.length += J * at(bar_.pos, i);
  }

  void tendon_limit(int i) {
    // lower limits come first, if both of a tendon are there
    const int id = d_->efc_id[i];
    const bool second =
        i > 0 && d_->efc_type[i - 1] == mjCNSTR_LIMIT_TENDON && d_->efc_id[i - 1] == id;
    const bool upper = second || d_->efc_pos[i] != d_->ten_length[id] - m_->tendon_range[2 * id];
    tendon(i, id, upper ? -1 : 1);
    if (const Vec to = params_[Parameter::kTendonRange]; !to.empty()) {
      to[2 * static_cast<size_t>(id) + (upper ? 1 : 0)] += (upper ? 1 : -1) * at(bar_.pos, i);
    }
  }

  int limit(int i) {
    const int joint = d_->efc_id[i], dof = m_->jnt_dofadr[joint];
    if (m_->jnt_type[joint] != mjJNT_BALL) {
      // the row of the lower limit is +1, of the upper -1: J = dr/dq
      const double J = mj_isSparse(m_) ? d_->efc_J[d_->efc_J_rowadr[i]]
                                       : d_->efc_J[static_cast<ptrdiff_t>(i) * impl_.nv + dof];
      scalar(i, dof, J);
      return 1;
    }
    mjtNum quat[4], log[3];
    mju_copy4(quat, d_->qpos + m_->jnt_qposadr[joint]);
    mju_normalize4(quat);
    mju_quat2Vel(log, quat, 1);
    const Vector3 u(log);
    const double angle = u.norm();
    if (angle < mjMINVAL) return 1;
    const Vector3 axis = u / angle;
    Vector3 w;
    for (int k = 0; k < 3; k++) {
      scalar(i, dof + k, -axis[k]);
      w[k] = weighted(i, dof + k);
    }
    // J = -axis:  δaxis = (I - axis axisᵀ)/angle Jr⁻¹ δ
    const Vector3 u_bar = -(w - axis * axis.dot(w)) / angle;
    Eigen::Map<Vector3>(&qpos_bar_[static_cast<size_t>(dof)]) += dexpinv(-u, u_bar);
    return 1;
  }

  int equality(int i) {
    const int id = d_->efc_id[i];
    switch (m_->eq_type[id]) {
      case mjEQ_JOINT:
        joint_equality(i);
        return 1;
      case mjEQ_TENDON:
        tendon_equality(i);
        return 1;
      case mjEQ_CONNECT:
        anchors(i);
        return 3;
      case mjEQ_WELD:
        anchors(i);
        relative_rotation(i + 3);
        return 6;
      default:
        return 1;
    }
  }

  // the numbers of one equality, if they are wanted
  Vec eq_data_bar(int id) const {
    const Vec to = params_[Parameter::kEqData];
    return to.empty() ? to : to.subspan(mjNEQDATA * static_cast<size_t>(id), mjNEQDATA);
  }

  // r = x_1 - p(x_2), p = Σ c_k x^k: J of x_2 is -p', which varies. rate is what the row's
  // cotangents make of x_2's own rates. Returns p'; adds to eq_data and to the cotangent of x_2.
  double polynomial(int i, double x, double rate, double& x_bar) {
    const int id = d_->efc_id[i];
    const mjtNum* c = m_->eq_data + mjNEQDATA * id;
    x_bar -= (2 * c[2] + x * (6 * c[3] + x * 12 * c[4])) * rate;
    const Vec data_bar = eq_data_bar(id);
    double power = 1;
    for (size_t k = 1; k <= 4 && !data_bar.empty(); k++, power *= x) {
      data_bar[k] -= power * (x * at(bar_.pos, i) + static_cast<double>(k) * rate);
    }
    return c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4]));
  }

  void joint_equality(int i) {
    const int id = d_->efc_id[i], j1 = m_->eq_obj1id[id], j2 = m_->eq_obj2id[id];
    scalar(i, m_->jnt_dofadr[j1], 1);
    if (const Vec to = eq_data_bar(id); !to.empty()) to[0] -= at(bar_.pos, i);
    if (j2 < 0) return;
    const int q = m_->jnt_qposadr[j2], dof = m_->jnt_dofadr[j2];
    const double slope = polynomial(i, d_->qpos[q] - m_->qpos0[q], weighted(i, dof),
                                    qpos_bar_[static_cast<size_t>(dof)]);
    scalar(i, dof, -slope);
  }

  void tendon_equality(int i) {
    const int id = d_->efc_id[i], t1 = m_->eq_obj1id[id], t2 = m_->eq_obj2id[id];
    tendon(i, t1, 1);
    if (const Vec to = eq_data_bar(id); !to.empty()) to[0] -= at(bar_.pos, i);
    if (t2 < 0) return;
    const double rate = at(bar_.J_lambda, i) * tendon_rate(m_, d_, t2, s_.L.y) +
                        at(bar_.J_a, i) * tendon_rate(m_, d_, t2, s_.Q.y) +
                        at(bar_.J_v, i) * tendon_rate(m_, d_, t2, s_.V.y);
    const double slope = polynomial(i, d_->ten_length[t2] - m_->tendon_length0[t2], rate,
                                    workspace_.tendon.bars[static_cast<size_t>(t2)].length);
    tendon(i, t2, -slope);
  }

  // the two points of a connect or weld: rows are the world coordinates of their difference
  void anchors(int i) {
    const int id = d_->efc_id[i];
    const bool sites = m_->eq_objtype[id] == mjOBJ_SITE, weld = m_->eq_type[id] == mjEQ_WELD;
    const Vector3 lambda(&bar_.J_lambda[static_cast<size_t>(i)]),
        a(&bar_.J_a[static_cast<size_t>(i)]), v(&bar_.J_v[static_cast<size_t>(i)]),
        r(&bar_.pos[static_cast<size_t>(i)]), aref(&bar_.aref[static_cast<size_t>(i)]);
    for (int side = 0; side < 2; side++) {
      const int object = side == 0 ? m_->eq_obj1id[id] : m_->eq_obj2id[id];
      const int body = sites ? m_->site_bodyid[object] : object;
      const int anchor = 3 * (weld ? 1 - side : side);
      const mjtNum* local = m_->eq_data + mjNEQDATA * id + anchor;
      Vector3 world;
      if (sites) {
        world = Vector3(d_->site_xpos + 3 * object);
      } else {
        world = Vector3(d_->xpos + 3 * body) + Rotation(d_->xmat + 9 * body) * Vector3(local);
      }
      const Vector3 point = from_origin(m_, d_, body, world.data());
      const double sign = side == 0 ? 1 : -1;
      const auto b = static_cast<size_t>(body);
      const Vector6 before = s_.W[b];
      point_force_pullback(body, point, Vector3::Zero(), lambda, sign, s_.L, s_.W);
      point_force_pullback(body, point, Vector3::Zero(), a, sign, s_.Q, s_.W);
      point_force_pullback(body, point, Vector3::Zero(), v, sign, s_.V, s_.W);
      bias_acceleration(body, point, -sign * aref);
      s_.W[b] += sign * wrench_at(point, Vector3::Zero(), r);
      // the point moves in its body
      const Vec to = sites ? params_[Parameter::kSitePos] : eq_data_bar(id);
      if (!to.empty()) {
        const Vector6 added = s_.W[b] - before;
        Eigen::Map<Vector3>(&to[static_cast<size_t>(sites ? 3 * object : anchor)]) +=
            Rotation(d_->xmat + 9 * body).transpose() * added.tail<3>();
      }
    }
  }

  // J̇ v of a point: its acceleration where nothing but velocity acts, (A - Q) at the point + ω ×
  // v_point; weighted with F. Gravity, which A carries, is the same for both points of a row.
  void bias_acceleration(int body, const Vector3& point, const Vector3& F) {
    const auto b = static_cast<size_t>(body);
    const Vector6 bias = s_.A[b] - s_.Q.X[b], &V = s_.V.X[b];
    const Vector3 w = V.head<3>(), alpha = bias.head<3>(), v = velocity_at(V, point);
    const Vector6 wrench = wrench_at(point, Vector3::Zero(), F);
    s_.A_bar[b] += wrench;
    s_.Q.X_bar[b] -= wrench;
    // F · (ω × v):  ω_bar = v × F,  v_bar = F × ω
    s_.V.X_bar[b] += wrench_at(point, v.cross(F), F.cross(w));
    // the point moves: F · (α × δp + ω × (ω × δp))
    s_.W[b] += wrench_at(point, Vector3::Zero(), F.cross(alpha) + F.cross(w).cross(w));
  }

  // rows of a weld's rotation: r = scale vec(conj(q2) q1),  J y = ½ scale vec(conj(q2) (ω1 - ω2)(y)
  // q1)
  void relative_rotation(int i);

  void contacts();
  void contact(int i, const mjContact& contact, ContactBar& out);

  const StageModel& impl_;
  const mjModel* m_;
  mjData* d_;
  RowsBar& bar_;
  Sweep& s_;
  Workspace& workspace_;
  Vec qpos_bar_, qvel_bar_;
  const ParameterBar& params_;
};

// Rows of a weld's rotation, for torquescale 1: what it weighs of r, J λ, J a, J v and -J̇ v. first
// is q1, second conj(q2); angular velocities are pure quaternions. Linear in first.
template <class T>
struct RotationRows {
  using Q = Quat<T>;
  Q lambda, a, w1, w2, alpha;  // relative ones of λ and a, of the two bodies, relative J̇ v

  T weigh(const RowsBar& bar, int i, const Q& first, const Q& second) const {
    const auto half = [](const Q& q) { return Q{0.5 * q.w, 0.5 * q.x, 0.5 * q.y, 0.5 * q.z}; };
    const auto plus = [](const Q& p, const Q& q) {
      return Q{p.w + q.w, p.x + q.x, p.y + q.y, p.z + q.z};
    };
    const auto minus = [](const Q& q) { return Q{-q.w, -q.x, -q.y, -q.z}; };
    const Q w = plus(w1, minus(w2));
    const auto velocity = [&](const Q& x) { return half(second * x * first); };
    // d/dt of J v with accelerations of velocity alone
    const Q J_dot = plus(velocity(alpha), plus(minus(half(second * half(w2) * w * first)),
                                               half(second * w * half(w1) * first)));
    T sum(0.0);
    const auto add = [&](const std::vector<double>& weights, double sign, const Q& q) {
      const double* c = &weights[static_cast<size_t>(i)];
      sum = sum + sign * c[0] * q.x + sign * c[1] * q.y + sign * c[2] * q.z;
    };
    add(bar.pos, 1, second * first);
    add(bar.J_lambda, 1, velocity(lambda));
    add(bar.J_a, 1, velocity(a));
    add(bar.J_v, 1, velocity(w));
    add(bar.aref, -1, J_dot);
    return sum;
  }
};

void Rows::relative_rotation(int i) {
  const int id = d_->efc_id[i];
  const bool sites = m_->eq_objtype[id] == mjOBJ_SITE;
  const int object1 = m_->eq_obj1id[id], object2 = m_->eq_obj2id[id];
  const int body1 = sites ? m_->site_bodyid[object1] : object1,
            body2 = sites ? m_->site_bodyid[object2] : object2;
  const mjtNum* data = m_->eq_data + mjNEQDATA * id;
  const double scale = data[10];
  mjtNum q1[4], q2[4];
  mju_mulQuat(q1, d_->xquat + 4 * body1, sites ? m_->site_quat + 4 * object1 : data + 6);
  if (sites) {
    mju_mulQuat(q2, d_->xquat + 4 * body2, m_->site_quat + 4 * object2);
  } else {
    mju_copy4(q2, d_->xquat + 4 * body2);
  }

  // inputs: rotations of the two bodies, their angular velocities, relative ones of λ and a, and
  // relative J̇ v
  constexpr int kInputs = 21;
  using T = Dual<kInputs>;
  using Q = Quat<T>;
  const auto b1 = static_cast<size_t>(body1), b2 = static_cast<size_t>(body2);
  const auto input = [](const Vector3& value, size_t at) {
    Q out{T(0.0), T(value[0]), T(value[1]), T(value[2])};
    out.x.d[at] = out.y.d[at + 1] = out.z.d[at + 2] = 1;
    return out;
  };
  const auto angular = [&](const Motion& motion) -> Vector3 {
    return motion.X[b1].head<3>() - motion.X[b2].head<3>();
  };
  const Vector3 bias = (s_.A[b1] - s_.Q.X[b1] - s_.A[b2] + s_.Q.X[b2]).head<3>();
  const Q turn1 = input(Vector3::Zero(), 0), turn2 = input(Vector3::Zero(), 3);
  const RotationRows<T> rows{input(angular(s_.L), 12), input(angular(s_.Q), 15),
                             input(s_.V.X[b1].head<3>(), 6), input(s_.V.X[b2].head<3>(), 9),
                             input(bias, 18)};
  const auto moved = [](const Q& q, const Q& by, double size) {
    return Q{q.w + size * by.w, q.x + size * by.x, q.y + size * by.y, q.z + size * by.z};
  };
  const Q start1{T(q1[0]), T(q1[1]), T(q1[2]), T(q1[3])};
  const Q start2{T(q2[0]), T(-q2[1]), T(-q2[2]), T(-q2[3])};
  const Q first = moved(start1, turn1 * start1, 0.5);    // q1, turned
  const Q second = moved(start2, start2 * turn2, -0.5);  // conj(q2), turned
  const T sum = scale * rows.weigh(bar_, i, first, second);

  if (const Vec to = eq_data_bar(id); !to.empty()) {
    const auto pure = [](const Vector3& x) { return Quat<double>{0, x[0], x[1], x[2]}; };
    const RotationRows<double> still{pure(angular(s_.L)), pure(angular(s_.Q)),
                                     pure(s_.V.X[b1].head<3>()), pure(s_.V.X[b2].head<3>()),
                                     pure(bias)};
    const auto weigh = [&](const mjtNum* q) {
      return still.weigh(bar_, i, {q[0], q[1], q[2], q[3]}, {q2[0], -q2[1], -q2[2], -q2[3]});
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
  const auto angular_bar = [](std::vector<Vector6>& to, size_t b, const Vector3& value) {
    to[b].head<3>() += value;
  };
  angular_bar(s_.W, b1, part(0));
  angular_bar(s_.W, b2, part(3));
  angular_bar(s_.V.X_bar, b1, part(6));
  angular_bar(s_.V.X_bar, b2, part(9));
  angular_bar(s_.L.X_bar, b1, part(12));
  angular_bar(s_.L.X_bar, b2, -part(12));
  angular_bar(s_.Q.X_bar, b1, part(15) - part(18));
  angular_bar(s_.Q.X_bar, b2, part(18) - part(15));
  angular_bar(s_.A_bar, b1, part(18));
  angular_bar(s_.A_bar, b2, -part(18));
}

// one contact: velocities in its frame, c of λ, a and v for (normal, two tangents, spin, two rolls)
void Rows::contact(int i, const mjContact& contact, ContactBar& out) {
  const int dim = contact.dim;
  VelocityBar c[6] = {};
  const auto add = [&](int k, double weight, int row) {
    c[k].lambda += weight * at(bar_.J_lambda, row);
    c[k].a += weight * at(bar_.J_a, row);
    c[k].v += weight * at(bar_.J_v, row);
  };
  if (d_->efc_type[i] == mjCNSTR_CONTACT_PYRAMIDAL) {
    // edges: normal ± friction_k tangent_k, all with the violation dist
    for (int k = 1; k < dim; k++) {
      const int row = i + 2 * (k - 1);
      const double friction = contact.friction[k - 1];
      add(0, 1, row);
      add(0, 1, row + 1);
      add(k, friction, row);
      add(k, -friction, row + 1);
      out.dist += at(bar_.pos, row) + at(bar_.pos, row + 1);
    }
  } else {
    for (int k = 0; k < dim; k++) add(k, 1, i + k);
    out.dist += at(bar_.pos, i);
  }

  const int body1 = m_->geom_bodyid[contact.geom[0]], body2 = m_->geom_bodyid[contact.geom[1]];
  const auto b1 = static_cast<size_t>(body1), b2 = static_cast<size_t>(body2);
  const Vector3 p1 = from_origin(m_, d_, body1, contact.pos),
                p2 = from_origin(m_, d_, body2, contact.pos);
  const Rotation frame(contact.frame);
  const auto motion = [&](Motion& motion, double VelocityBar::*weight) {
    const Vector6 &X1 = motion.X[b1], &X2 = motion.X[b2];
    const Vector3 u = velocity_at(X2, p2) - velocity_at(X1, p1), w = X2.head<3>() - X1.head<3>();
    Vector3 F = Vector3::Zero(), T = Vector3::Zero();
    for (int k = 0; k < dim; k++) {
      const double weighted = c[k].*weight;
      const Vector3 row = frame.row(k % 3);
      (k < 3 ? F : T) += weighted * row;
      out.frame.row(k % 3) += weighted * (k < 3 ? u : w).transpose();
    }
    motion.X_bar[b1] -= wrench_at(p1, T, F);
    motion.X_bar[b2] += wrench_at(p2, T, F);
    // the place moves: F · (ω × δpos)
    out.pos += F.cross(w);
  };
  motion(s_.L, &VelocityBar::lambda);
  motion(s_.Q, &VelocityBar::a);
  motion(s_.V, &VelocityBar::v);
}

void Rows::contacts() {
  std::array<ContactBar, mjMAXCONPAIR> bar;
  for (int first = 0, n = 0; first < d_->ncon; first += n) {
    n = contacts_of_pair(d_, first);
    bool any = false;
    for (int k = 0; k < n; k++) {
      const mjContact& one = d_->contact[first + k];
      ContactBar& one_bar = bar[static_cast<size_t>(k)];
      one_bar = {};
      if (one.efc_address < 0) continue;
      if (!workspace_.constraint.contacts.empty()) {
        one_bar = workspace_.constraint.contacts[static_cast<size_t>(first + k)];
      }
      contact(one.efc_address, one, one_bar);
      any = any || one_bar.any();
    }
    if (any) collision_pullback(impl_, first, n, bar.data(), params_, workspace_);
  }
}

}  // namespace

void constraint_rows_pullback(const StageModel& impl, Vec qpos_bar, Vec qvel_bar,
                              const ParameterBar& params, Workspace& workspace) {
  Rows(impl, qpos_bar, qvel_bar, params, workspace).run();
}

void equality_rows_pullback(const StageModel& impl, int i, Workspace& workspace) {
  Rows(impl, {}, {}, {}, workspace).run_equality(i);
}

std::string constraint_obstacle(const mjModel* m) {
  if (m->flg_adhesion) return "adhesion of contacts";
  if (m->flg_surfacevel) return "surface velocity of a geom";
  return "";
}

}  // namespace diffmj
