// FieldMatrix: constraint rows. Equalities, rows of single dofs, contacts.
#include <algorithm>

#include "stages/acceleration/constraint_solve.h"
#include "stages/field_matrix.h"
#include "stages/position/collision.h"
#include "stages/position/constraint_rows.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

}  // namespace

int FieldMatrix::equality_rows(int type) {
  return type == mjEQ_CONNECT ? 3 : type == mjEQ_WELD ? 6 : 0;
}

int FieldMatrix::rows_together(int i) const {
  const bool equality = d_->efc_type[i] == mjCNSTR_EQUALITY;
  const int n = equality ? equality_rows(m_->eq_type[d_->efc_id[i]]) : 0;
  return n > 0 ? n : constraint_rows_at(d_, i);
}

void FieldMatrix::constraints() {
  // cotangents of the rows for a unit one of J λ; rows of an elliptic contact belong together, and
  // those of a connect or weld
  int ncolor = 1;
  for (int i = 0, n = 1; i < d_->nefc; i += n) {
    n = rows_together(i);
    ncolor = std::max(ncolor, n);
  }
  for (int color = 0; color < ncolor; color++) {
    unit_rows_.assign(at(d_->nefc), 0.0);
    for (int i = 0, n = 1; i < d_->nefc; i += n) {
      n = rows_together(i);
      if (color < n) unit_rows_[at(i + color)] = 1;
    }
    constraint_force_pullback(m_, d_, zeros_, unit_rows_, {}, *workspace_);
    rows_[at(color)] = workspace_->constraint.rows;
  }
  single_dof_rows();
  equalities();
  contacts();
}

void FieldMatrix::equalities() {
  for (int i = 0, n = 1; i < d_->nefc && d_->efc_type[i] == mjCNSTR_EQUALITY; i += n) {
    n = rows_together(i);
    if (n > 1) equality(i, n);
  }
}

// A connect or weld: its pullback is linear in the motions and twists of two bodies. Run once for
// every row, and once for every number of the motions by λ, it gives all there is to know.
void FieldMatrix::equality(int i, int nrow) {
  const int id = d_->efc_id[i];
  const bool sites = m_->eq_objtype[id] == mjOBJ_SITE;
  const int object[2] = {m_->eq_obj1id[id], m_->eq_obj2id[id]};
  const int body[2] = {sites ? m_->site_bodyid[object[0]] : object[0],
                       sites ? m_->site_bodyid[object[1]] : object[1]};
  Sweep& s = workspace_->sweep;
  s.clear();
  for (int b : body) {
    s.V.X[at(b)] = bodies_[at(b)].V;
    s.Q.X[at(b)] = bodies_[at(b)].Q;
    for (Vector6* x : {&s.L.X[at(b)], &s.L.X_bar[at(b)], &s.Q.X_bar[at(b)]}) x->setZero();
  }
  const auto clear = [&] {
    for (int b : body) {
      for (Vector6* x : {&s.W[at(b)], &s.A_bar[at(b)], &s.V.X_bar[at(b)], &s.Q.X_bar[at(b)],
                         &s.L.X_bar[at(b)]}) {
        x->setZero();
      }
    }
  };

  find_chain(body[0], body[1]);
  const auto n = static_cast<Eigen::Index>(chain_.size());
  Eigen::Map<Matrix> left = left_.shaped(n, nrow + 12), right = right_.shaped(nrow + 12, n),
                     velocity = velocity_.shaped(nrow, n);
  for (auto* x : {&left, &right, &velocity}) x->setZero();
  const auto for_each_side = [&](auto&& fn) {
    for (Eigen::Index c = 0; c < n; c++) {
      for (int side = 0; side < 2; side++) {
        if (!(side_[at(static_cast<int>(c))] & (1 << side))) continue;
        // one body twice, or the world: its functionals are counted once
        if (side == 1 && body[0] == body[1]) continue;
        fn(c, side, dofs_[at(chain_[at(static_cast<int>(c))])]);
      }
    }
  };
  RowsBar& bar = workspace_->constraint.rows;
  for (int k = 0; k < nrow; k++) {
    bar = rows_[at(k)];
    for (int row = i; row < i + nrow; row++) bar.J_lambda[at(row)] = row == i + k ? 1 : 0;
    equality_rows_pullback(*impl_, i, *workspace_);
    for_each_side([&](Eigen::Index c, int side, const Dof& dof) {
      const auto b = at(body[side]);
      const Vector6 &V = s.V.X[b], &V_bar = s.V.X_bar[b], &A_bar = s.A_bar[b];
      left(c, k) += s.L.X_bar[b].dot(dof.S);
      right(k, c) += s.W[b].dot(dof.S) + V_bar.dot(cross_motion(dof.S, V) + dof.u) +
                     s.Q.X_bar[b].dot(cross_motion(dof.S, s.Q.X[b] - dof.Q)) +
                     A_bar.dot(cross_motion(dof.S, s.A[b]) + dof.w + cross_motion(dof.u, V));
      velocity(k, c) += V_bar.dot(dof.S) + A_bar.dot(cross_motion(dof.S, V) + dof.u_v);
    });
    clear();
  }

  // f δ(J λ): wrenches fixed in the world, and how they change with the twists
  for (auto* x : {&bar.J_a, &bar.J_v, &bar.pos, &bar.aref}) std::fill(x->begin(), x->end(), 0.0);
  bar.J_lambda = rows_[0].J_lambda;
  equality_rows_pullback(*impl_, i, *workspace_);
  external_[at(body[0])] += s.L.X_bar[at(body[0])];
  if (body[1] != body[0]) external_[at(body[1])] += s.L.X_bar[at(body[1])];
  clear();
  for (int m = 0; m < 12; m++) {
    const int side = m / 6;
    if (side == 1 && body[0] == body[1]) break;
    s.L.X[at(body[side])][m % 6] = 1;
    equality_rows_pullback(*impl_, i, *workspace_);
    s.L.X[at(body[side])][m % 6] = 0;
    for_each_side([&](Eigen::Index c, int other, const Dof& dof) {
      if (other == side) left(c, nrow + m) += dof.S[m % 6];
      right(nrow + m, c) += s.W[at(body[other])].dot(dof.S);
    });
    clear();
  }
  add_blocks(left, right, velocity);
}

// dofs that carry either body, the last first
void FieldMatrix::find_chain(int body0, int body1) {
  chain_.clear();
  side_.clear();
  for (int j0 = last_dof(m_, body0), j1 = last_dof(m_, body1); j0 >= 0 || j1 >= 0;) {
    const int j = std::max(j0, j1);
    chain_.push_back(j);
    side_.push_back((j0 == j ? 1 : 0) | (j1 == j ? 2 : 0));
    if (j0 == j) j0 = m_->dof_parentid[j];
    if (j1 == j) j1 = m_->dof_parentid[j];
  }
}

// left right to q, and the first columns of left times velocity to v, over the dofs of the chain
void FieldMatrix::add_blocks(const Eigen::Map<Matrix>& left, const Eigen::Map<Matrix>& right,
                             const Eigen::Map<Matrix>& velocity) {
  const auto n = static_cast<Eigen::Index>(chain_.size());
  Eigen::Map<Matrix> block = block_.shaped(n, n);
  const auto add = [&](int offset) {
    for (Eigen::Index r = 0; r < n; r++) {
      double* row = G.row(chain_[at(static_cast<int>(r))]).data() + offset;
      for (Eigen::Index c = 0; c < n; c++) row[chain_[at(static_cast<int>(c))]] += block(r, c);
    }
  };
  // without the scratch that Eigen's product of large matrices allocates
  block.noalias() = left.lazyProduct(right);
  add(0);
  block.noalias() = left.leftCols(velocity.rows()).lazyProduct(velocity);
  add(nv_);
}

void FieldMatrix::single_dof_rows() {
  const RowsBar& bar = rows_[0];
  const CVec a = problem_->qacc, v = problem_->in.qvel;
  const auto tendon = [&](int i, int id) {
    Tendon& t = tendons_[at(id)];
    // the sign of the row's J appears twice, but once in its force
    double sign = 1;
    if (d_->efc_type[i] == mjCNSTR_LIMIT_TENDON) {
      const bool second =
          i > 0 && d_->efc_type[i - 1] == mjCNSTR_LIMIT_TENDON && d_->efc_id[i - 1] == id;
      if (second || d_->efc_pos[i] != d_->ten_length[id] - m_->tendon_range[2 * id]) sign = -1;
    }
    t.T += sign * bar.J_lambda[at(i)];
    t.row_a += bar.J_a[at(i)];
    t.by_velocity += bar.J_v[at(i)];
    t.by_length += bar.pos[at(i)];
  };
  for (int i = 0; i < d_->nefc; i++) {
    const auto row = at(i);
    const int id = d_->efc_id[i];
    switch (d_->efc_type[i]) {
      case mjCNSTR_FRICTION_DOF:
        G(id, nv_ + id) += bar.J_v[row];
        break;
      case mjCNSTR_LIMIT_JOINT: {
        const int dof = m_->jnt_dofadr[id];
        G(dof, dof) += bar.pos[row];
        G(dof, nv_ + dof) += bar.J_v[row];
        break;
      }
      case mjCNSTR_FRICTION_TENDON:
      case mjCNSTR_LIMIT_TENDON:
        tendon(i, id);
        break;
      case mjCNSTR_EQUALITY: {
        if (equality_rows(m_->eq_type[id]) > 0) break;
        if (m_->eq_type[id] == mjEQ_TENDON) {
          tendon(i, m_->eq_obj1id[id]);
          break;
        }
        // r = x_1 - p(x_2):  J = (1, -p'),  which turns with x_2
        const int j1 = m_->eq_obj1id[id], j2 = m_->eq_obj2id[id];
        const int dof[2] = {m_->jnt_dofadr[j1], j2 < 0 ? -1 : m_->jnt_dofadr[j2]};
        double J[2] = {1, 0}, curve = 0;
        if (j2 >= 0) {
          const int q = m_->jnt_qposadr[j2];
          const mjtNum* c = m_->eq_data + mjNEQDATA * id;
          const double x = d_->qpos[q] - m_->qpos0[q];
          J[1] = -(c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4])));
          curve = -(2 * c[2] + x * (6 * c[3] + x * 12 * c[4]));
          const double rate = curve * (bar.J_a[row] * a[at(dof[1])] + bar.J_v[row] * v[at(dof[1])]);
          for (int n = 0; n < 2; n++) G(dof[n], dof[1]) += J[n] * rate;
          G(dof[1], dof[1]) += bar.J_lambda[row] * curve;
        }
        for (int n = 0; n < 2; n++) {
          for (int k = 0; k < 2; k++) {
            if (dof[n] < 0 || dof[k] < 0) continue;
            G(dof[n], dof[k]) += J[n] * bar.pos[row] * J[k];
            G(dof[n], nv_ + dof[k]) += J[n] * bar.J_v[row] * J[k];
          }
        }
        break;
      }
      default:
        return;  // contacts come last
    }
  }
}

void FieldMatrix::contacts() {
  ContactJacobian geometry;
  for (int first = 0, n = 0; first < d_->ncon; first += n) {
    n = contacts_of_pair(d_, first);
    for (int k = 0; k < n; k++) {
      const mjContact& one = d_->contact[first + k];
      if (one.efc_address < 0) continue;
      // without force there is nothing to differentiate
      bool any = false;
      const int i = one.efc_address;
      const int nrow = d_->efc_type[i] == mjCNSTR_CONTACT_PYRAMIDAL  ? 2 * (one.dim - 1)
                       : d_->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC ? one.dim
                                                                     : 1;
      for (int row = i; row < i + nrow; row++) {
        const bool elliptic = d_->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC;
        any = any || workspace_->newton.zone[at(elliptic ? i : row)] != Zone::kSatisfied;
      }
      if (!any) continue;
      collision_jacobian(*impl_, first, n, k, *workspace_, geometry);
      contact(one, geometry);
    }
  }
}

namespace {

// (s_a, s_v, s_r) and f of a contact, in its space, from the rows that are its edges or axes.
struct ContactLaw {
  static constexpr int kMost = 6;
  using Small = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, kMost, kMost>;
  using SmallVector = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, kMost, 1>;

  ContactLaw(const mjData* d, const mjContact& contact, std::span<const RowsBar> rows)
      : s_a(Small::Zero(contact.dim, contact.dim)),
        s_v(Small::Zero(contact.dim, contact.dim)),
        s_r(SmallVector::Zero(contact.dim)),
        f(SmallVector::Zero(contact.dim)) {
    if (d->efc_type[contact.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL) {
      read_edges(contact, rows[0]);
    } else {
      read_axes(contact, rows);
    }
  }

  // normal ± friction_k tangent_k
  void read_edges(const mjContact& contact, const RowsBar& bar) {
    for (int k = 1; k < contact.dim; k++) {
      for (int side = 0; side < 2; side++) {
        const auto row = at(contact.efc_address + 2 * (k - 1) + side);
        const double slope = (side == 0 ? 1 : -1) * contact.friction[k - 1];
        const int index[2] = {0, k};
        const double weight[2] = {1, slope};
        for (int p = 0; p < 2; p++) {
          f[index[p]] += weight[p] * bar.J_lambda[row];
          s_r[index[p]] += weight[p] * bar.pos[row];
          for (int q = 0; q < 2; q++) {
            s_a(index[p], index[q]) += weight[p] * weight[q] * bar.J_a[row];
            s_v(index[p], index[q]) += weight[p] * weight[q] * bar.J_v[row];
          }
        }
      }
    }
  }

  void read_axes(const mjContact& contact, std::span<const RowsBar> rows) {
    const int i = contact.efc_address;
    for (int k = 0; k < contact.dim; k++) {
      const RowsBar& bar = rows[at(k)];
      f[k] = rows[0].J_lambda[at(i + k)];
      s_r[k] = bar.pos[at(i)];
      for (int l = 0; l < contact.dim; l++) {
        s_a(k, l) = bar.J_a[at(i + l)];
        s_v(k, l) = bar.J_v[at(i + l)];
      }
    }
  }

  Small s_a, s_v;
  SmallVector s_r, f;
};

}  // namespace

// In the contact's space j_k = frame_k · (relative velocity), k < dim, the force f and, with
// (s_a, s_v, s_r) of rows_, docs/derivations/field_matrix.md, eq. 8:
//   Σ_k (j_k λ) [Σ_l s_a_kl δ(j_l a) + s_v_kl δ(j_l v) + s_r_k δdist] + Σ_k f_k δ(j_k λ)
void FieldMatrix::contact(const mjContact& contact, const ContactJacobian& geometry) {
  const int dim = contact.dim;
  const ContactLaw law(d_, contact, rows_);

  const int body[2] = {m_->geom_bodyid[contact.geom[0]], m_->geom_bodyid[contact.geom[1]]};
  const Vector3 point[2] = {from_origin(m_, d_, body[0], contact.pos),
                            from_origin(m_, d_, body[1], contact.pos)};
  const Rotation frame(contact.frame);
  const auto in_contact = [&](const Vector3& u, const Vector3& w) {
    ContactLaw::SmallVector out(dim);
    for (int k = 0; k < dim; k++) out[k] = frame.row(k % 3).dot(k < 3 ? u : w);
    return out;
  };
  Vector3 F = Vector3::Zero(), T = Vector3::Zero();
  for (int k = 0; k < dim; k++) (k < 3 ? F : T) += law.f[k] * frame.row(k % 3).transpose();
  for (int side = 0; side < 2; side++) {
    external_[at(body[side])] += (side == 0 ? -1 : 1) * wrench_at(point[side], T, F);
  }

  // relative motions by a and v
  const Body &b0 = bodies_[at(body[0])], &b1 = bodies_[at(body[1])];
  const Vector3 u_a = velocity_at(b1.Q, point[1]) - velocity_at(b0.Q, point[0]),
                w_a = b1.Q.head<3>() - b0.Q.head<3>(),
                u_v = velocity_at(b1.V, point[1]) - velocity_at(b0.V, point[0]),
                w_v = b1.V.head<3>() - b0.V.head<3>();

  find_chain(body[0], body[1]);
  const auto n = static_cast<Eigen::Index>(chain_.size());
  Eigen::Map<Matrix> left = left_.shaped(n, dim + 6), right = right_.shaped(dim + 6, n),
                     velocity = velocity_.shaped(dim, n);
  for (Eigen::Index c = 0; c < n; c++) {
    const Dof& dof = dofs_[at(chain_[at(static_cast<int>(c))])];
    const int sides = side_[at(static_cast<int>(c))];
    Vector3 u = Vector3::Zero(), w = u, du_a = u, dw_a = u, du_v = u, dw_v = u;
    Eigen::Matrix<double, 7, 1> moved = Eigen::Matrix<double, 7, 1>::Zero();
    for (int side = 0; side < 2; side++) {
      if (!(sides & (1 << side))) continue;
      const double sign = side == 0 ? -1 : 1;
      const Vector3& p = point[side];
      moved.noalias() += geometry.middleCols<6>(6 * side) * dof.S;
      u += sign * velocity_at(dof.S, p);
      w += sign * dof.S.head<3>();
      // all axes behind the dof turn with it: δX = S × (X - X of the frame before)
      const Body& b = side == 0 ? b0 : b1;
      const Vector6 dQ = cross_motion(dof.S, b.Q - dof.Q), dV = cross_motion(dof.S, b.V - dof.V);
      du_a += sign * velocity_at(dQ, p);
      dw_a += sign * dQ.head<3>();
      du_v += sign * velocity_at(dV, p);
      dw_v += sign * dV.head<3>();
    }
    const Vector3 dpos = moved.segment<3>(1), turn = moved.tail<3>();
    const ContactLaw::SmallVector d_a = in_contact(du_a + w_a.cross(dpos) + u_a.cross(turn),
                                                   dw_a + w_a.cross(turn)),
                                  d_v = in_contact(du_v + w_v.cross(dpos) + u_v.cross(turn),
                                                   dw_v + w_v.cross(turn)),
                                  j = in_contact(u, w);
    left.row(c).head(dim) = j.transpose();
    left.row(c).segment<3>(dim) = F.cross(w).transpose();
    left.row(c).tail<3>() = (F.cross(u) + T.cross(w)).transpose();
    right.col(c).head(dim) = law.s_a * d_a + law.s_v * d_v + moved[0] * law.s_r;
    right.col(c).tail<6>() = moved.tail<6>();
    velocity.col(c) = law.s_v * j;
  }
  add_blocks(left, right, velocity);
}

}  // namespace diffmj
