#include "stages/acceleration/constraint_parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stages/acceleration/constraint_diagonal.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/cfd/law.h"
#include "stages/cfd/pairs.h"
#include "stages/position/constraint_onset.h"

namespace diffmj {
namespace {

// Cotangents of what one constraint is made of, all of its rows.
struct ConstraintBar {
  double solref[mjNREF] = {}, solimp[mjNIMP] = {};
  double friction[5] = {};
  double margin = 0;
  double log_A[2] = {};  // of the logarithm of A; of a weld's rotation apart
};

// solimp as it is used, and which of its numbers move what is used.
// gradient: exactly at a bound the slope inside, so that an optimiser can leave the bound
struct Solimp {
  explicit Solimp(const mjtNum* given) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kLow[mjNIMP] = {mjMINIMP, mjMINIMP, 0, mjMINIMP, 1};
    constexpr double kHigh[mjNIMP] = {mjMAXIMP, mjMAXIMP, kInfinity, mjMAXIMP, kInfinity};
    for (int k = 0; k < mjNIMP; k++) {
      value[k] = std::clamp(given[k], kLow[k], kHigh[k]);
      moves[k] = value[k] == given[k];
    }
  }
  double value[mjNIMP];
  bool moves[mjNIMP];
};

class Parameters {
 public:
  Parameters(const mjModel* m, const mjData* d, CVec force_bar, const ParameterBar& params,
             Workspace& workspace)
      : m_(m),
        d_(d),
        bar_(workspace.constraint.rows),
        force_bar_(force_bar),
        params_(params),
        workspace_(workspace) {}

  void run() {
    for (int i = 0, n = 1; i < d_->nefc; i += n) {
      n = 1;
      const int id = d_->efc_id[i];
      switch (d_->efc_type[i]) {
        case mjCNSTR_EQUALITY:
          n = m_->eq_type[id] == mjEQ_CONNECT ? 3 : m_->eq_type[id] == mjEQ_WELD ? 6 : 1;
          equality(i, n, id);
          break;
        case mjCNSTR_FRICTION_DOF:
          friction_loss(i, id);
          break;
        case mjCNSTR_LIMIT_JOINT:
          limit(i, id);
          break;
        case mjCNSTR_CONTACT_FRICTIONLESS:
        case mjCNSTR_CONTACT_ELLIPTIC:
          n = d_->contact[id].dim;
          contact(i, n, d_->contact[id]);
          break;
        case mjCNSTR_CONTACT_PYRAMIDAL:
          n = 2 * (d_->contact[id].dim - 1);
          contact(i, n, d_->contact[id]);
          break;
        default:
          break;  // of tendons
      }
    }
  }

  // mixing of what a contact has
  void contact_to_model(const mjContact& contact, const ConstraintBar& bar) const;

 private:
  double at(const std::vector<double>& x, int i) const { return x[static_cast<size_t>(i)]; }
  void add(Parameter p, int entry, double x) const {
    if (const Vec to = params_[p]; !to.empty()) to[static_cast<size_t>(entry)] += x;
  }
  void add(Parameter p, int row, int width, const double* x, double weight) const {
    const Vec to = params_[p];
    for (int k = 0; k < width && !to.empty(); k++) {
      to[static_cast<size_t>(row * width + k)] += weight * x[k];
    }
  }
  // K, B, I and R of n rows that share solref and solimp; law: of a contact from distance
  void softness(int i, int n, const mjtNum* solref, const mjtNum* solimp, bool own_friction_ref,
                ConstraintBar& out, const CfdLaw* law = nullptr) const {
    const Solimp s(solimp);
    const double dmax = s.value[1];
    const bool standard = solref[0] > 0, mixed = standard != (solref[1] > 0);
    double I_bar = 0, solimp_bar[mjNIMP] = {};
    for (int k = 0; k < n; k++) {
      const int row = i + k;
      const mjtNum* KBIP = d_->efc_KBIP + 4 * static_cast<ptrdiff_t>(row);
      const double K = KBIP[0], B = KBIP[1], I = KBIP[2];
      const double p = at(bar_.aref, row), r = row_violation(d_, row, workspace_).value;
      const double K_bar = -p * I * r, B_bar = -p * d_->efc_vel[row];
      I_bar -= p * K * r;
      if (force_scales(d_, i, row, workspace_)) {
        const double psi = at(bar_.J_lambda, row) * at(workspace_.constraint.J_lambda, row);
        I_bar += psi / (I * (1 - I));
        out.log_A[n == 6 && k >= 3 && d_->efc_type[i] == mjCNSTR_EQUALITY] -= psi;
      }
      solimp_bar[1] -= (2 * K * K_bar + B * B_bar) / dmax;
      // gradient: MuJoCo replaces solref of two signs by its default
      if (mixed || (own_friction_ref && k > 0)) continue;
      if (standard) {
        // gradient: 0 where refsafe lifts the time constant to two steps
        const bool safe = !(m_->opt.disableflags & mjDSBL_REFSAFE);
        if (!safe || solref[0] >= 2 * m_->opt.timestep) {
          out.solref[0] -= (2 * K * K_bar + B * B_bar) / solref[0];
        }
        out.solref[1] -= 2 * K * K_bar / solref[1];
      } else {
        out.solref[0] -= K_bar / (dmax * dmax);
        out.solref[1] -= B_bar / dmax;
      }
    }
    const bool together = d_->efc_type[i] == mjCNSTR_EQUALITY && n > 1;
    const double r = together ? mju_norm(d_->efc_pos + i, n) : d_->efc_pos[i] - d_->efc_margin[i];
    for (int k = 0; k < mjNIMP; k++) out.solimp[k] += s.moves[k] ? solimp_bar[k] : 0;
    if (law && r > 0) {
      cfd_impedance_pullback(*law, solimp, r, I_bar, out.solimp);
    } else {
      impedance_pullback(solimp, r, I_bar * constraint_onset(d_, i, workspace_.constraint.onset),
                         out.solimp);
    }
  }

  void equality(int i, int n, int id) const {
    ConstraintBar bar;
    softness(i, n, m_->eq_solref + mjNREF * id, m_->eq_solimp + mjNIMP * id, false, bar);
    add(Parameter::kEqSolref, id, mjNREF, bar.solref, 1);
    add(Parameter::kEqSolimp, id, mjNIMP, bar.solimp, 1);
    const int object1 = m_->eq_obj1id[id], object2 = m_->eq_obj2id[id];
    if (m_->eq_type[id] == mjEQ_CONNECT || m_->eq_type[id] == mjEQ_WELD) {
      const bool sites = m_->eq_objtype[id] == mjOBJ_SITE;
      const int body1 = sites ? m_->site_bodyid[object1] : object1;
      const int body2 = sites ? m_->site_bodyid[object2] : object2;
      inverse_weight(body1, body2, 0, bar.log_A[0]);
      if (n == 6) inverse_weight(body1, body2, 1, bar.log_A[1]);
    } else if (m_->eq_type[id] == mjEQ_JOINT) {
      inverse_weight(m_->jnt_dofadr[object1], object2 < 0 ? -1 : m_->jnt_dofadr[object2],
                     bar.log_A[0]);
    }
  }

  void friction_loss(int i, int dof) const {
    if (force_scales(d_, i, i, workspace_)) {
      inverse_weight(dof, -1, -at(bar_.J_lambda, i) * at(workspace_.constraint.J_lambda, i));
    } else if (workspace_.newton.zone[static_cast<size_t>(i)] == Zone::kLinear) {
      // f = ±frictionloss
      add(Parameter::kDofFrictionloss, dof,
          at(bar_.J_lambda, i) * at(workspace_.constraint.J_lambda, i) / d_->efc_frictionloss[i]);
    }
  }

  void limit(int i, int joint) const {
    ConstraintBar bar;
    softness(i, 1, m_->jnt_solref + mjNREF * joint, m_->jnt_solimp + mjNIMP * joint, false, bar);
    add(Parameter::kJntSolref, joint, mjNREF, bar.solref, 1);
    add(Parameter::kJntSolimp, joint, mjNIMP, bar.solimp, 1);
    const int dof = m_->jnt_dofadr[joint];
    inverse_weight(dof, -1, bar.log_A[0]);

    const double range_bar = at(bar_.pos, i);
    const mjtNum* range = m_->jnt_range + 2 * static_cast<ptrdiff_t>(joint);
    if (m_->jnt_type[joint] == mjJNT_BALL) {
      // r = max range - angle.  gradient: of two equal ones each half
      if (range[0] >= range[1])
        add(Parameter::kJntRange, 2 * joint, range_bar / (range[0] > range[1] ? 1 : 2));
      if (range[1] >= range[0])
        add(Parameter::kJntRange, 2 * joint + 1, range_bar / (range[1] > range[0] ? 1 : 2));
      return;
    }
    // r = q - lower or upper - q, with J = dr/dq
    const double J = mj_isSparse(m_) ? d_->efc_J[d_->efc_J_rowadr[i]]
                                     : d_->efc_J[static_cast<ptrdiff_t>(i) * m_->nv + dof];
    add(Parameter::kJntRange, 2 * joint + (J < 0), -J * range_bar);
  }

  // of a contact from distance, else null
  const CfdLaw* law_of(const mjContact& contact) const {
    if (workspace_.constraint.violation.empty()) return nullptr;
    return &workspace_.cfd.model->law(
        workspace_.cfd.law[static_cast<size_t>(&contact - d_->contact)]);
  }

  void contact(int i, int n, const mjContact& contact) const {
    ConstraintBar bar;
    const bool own = (contact.solreffriction[0] > 0) == (contact.solreffriction[1] > 0) &&
                     !mju_isZero(contact.solreffriction, mjNREF);
    softness(i, n, contact.solref, contact.solimp,
             own && d_->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC, bar, law_of(contact));
    for (int k = 0; k < n; k++) bar.margin -= at(bar_.pos, i + k);
    if (d_->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC) {
      elliptic_friction(i, contact, bar);
    } else if (d_->efc_type[i] == mjCNSTR_CONTACT_PYRAMIDAL) {
      pyramidal_friction(i, contact, bar);
    }
    inverse_weight(m_->geom_bodyid[contact.geom[0]], m_->geom_bodyid[contact.geom[1]], 0,
                   bar.log_A[0]);
    contact_to_model(contact, bar);
  }

  // (J λ)ᵀ f with what friction it has: D_j ∝ μ_j²/μ₁² for j ≥ 2 where the contact sticks,
  // -D₀/(1 + μ²) (y₀ - T) (b₀ - G/T) where it slides, T² = Σ μ_j² y_j², G = Σ μ_j² y_j b_j
  void elliptic_friction(int i, const mjContact& contact, ConstraintBar& out) const {
    const double* y = &workspace_.newton.y[static_cast<size_t>(i)];
    const double* b = &workspace_.constraint.J_lambda[static_cast<size_t>(i)];
    const double* f = &bar_.J_lambda[static_cast<size_t>(i)];
    const mjtNum* friction = contact.friction;
    const Zone zone = workspace_.newton.zone[static_cast<size_t>(i)];
    if (zone == Zone::kQuadratic) {
      for (int j = 2; j < contact.dim; j++) {
        out.friction[j - 1] += 2 * f[j] * b[j] / friction[j - 1];
        out.friction[0] -= 2 * f[j] * b[j] / friction[0];
      }
    } else if (zone == Zone::kCone) {
      double T2 = 0, G = 0, psi = 0;
      for (int j = 0; j < contact.dim; j++) {
        psi += f[j] * b[j];
        if (j == 0) continue;
        const double square = friction[j - 1] * friction[j - 1];
        T2 += square * y[j] * y[j];
        G += square * y[j] * b[j];
      }
      const double T = std::sqrt(T2), mu2 = contact.mu * contact.mu;
      const double scale = -d_->efc_D[i] / (1 + mu2);
      const double T_bar = scale * (-(b[0] - G / T) + (y[0] - T) * G / T2);
      const double G_bar = -scale * (y[0] - T) / T;
      for (int j = 1; j < contact.dim; j++) {
        out.friction[j - 1] += friction[j - 1] * y[j] * (T_bar * y[j] / T + 2 * G_bar * b[j]);
      }
      out.friction[0] -= 2 * mu2 / (1 + mu2) * psi / friction[0];
    }
  }

  // rows 2 k and 2 k + 1 are normal ± μ_k tangent_k: half their difference is the tangent's
  // velocity
  void pyramidal_friction(int i, const mjContact& contact, ConstraintBar& out) const {
    const mjtNum* friction = contact.friction;
    for (int k = 0; k < contact.dim - 1; k++) {
      const int up = i + 2 * k, down = up + 1;
      const auto difference = [&](const auto& x) { return x(up) - x(down); };
      const double lambda = difference([&](int row) {
        const double b = at(workspace_.constraint.J_lambda, row);
        return force_bar_.empty() ? b : b - force_bar_[static_cast<size_t>(row)];
      });
      const double a =
          difference([&](int row) { return at(workspace_.newton.y, row) + d_->efc_aref[row]; });
      const double v = difference([&](int row) { return d_->efc_vel[row]; });
      const auto bar = [&](const std::vector<double>& x) { return at(x, up) - at(x, down); };
      out.friction[k] +=
          (bar(bar_.J_lambda) * lambda + bar(bar_.J_a) * a + bar(bar_.J_v) * v) / (2 * friction[k]);
    }
    out.friction[0] += 2 * out.log_A[0] / friction[0];
    if (!diagonal_is_exact(m_)) {
      out.friction[0] += 2 * friction[0] / (1 + friction[0] * friction[0]) * out.log_A[0];
    }
  }

  // A = sum of what two bodies have for translation (0) or rotation (1)
  void inverse_weight(int body1, int body2, int kind, double log_A_bar) const {
    const double A = m_->body_invweight0[2 * body1 + kind] + m_->body_invweight0[2 * body2 + kind];
    if (log_A_bar == 0 || diagonal_is_exact(m_)) return;
    add(Parameter::kBodyInvweight0, 2 * body1 + kind, log_A_bar / A);
    add(Parameter::kBodyInvweight0, 2 * body2 + kind, log_A_bar / A);
  }
  // of one or two dofs
  void inverse_weight(int dof1, int dof2, double log_A_bar) const {
    const double A = m_->dof_invweight0[dof1] + (dof2 < 0 ? 0 : m_->dof_invweight0[dof2]);
    if (log_A_bar == 0 || diagonal_is_exact(m_)) return;
    add(Parameter::kDofInvweight0, dof1, log_A_bar / A);
    if (dof2 >= 0) add(Parameter::kDofInvweight0, dof2, log_A_bar / A);
  }

  // is this contact what the pair gives?
  bool is_of_pair(const mjContact& contact, int pair) const {
    const int g1 = m_->pair_geom1[pair], g2 = m_->pair_geom2[pair];
    const bool same = (contact.geom[0] == g1 && contact.geom[1] == g2) ||
                      (contact.geom[0] == g2 && contact.geom[1] == g1);
    if (!same || contact.dim != m_->pair_dim[pair] ||
        contact.includemargin != m_->pair_margin[pair] ||
        !std::equal(contact.solref, contact.solref + mjNREF, m_->pair_solref + mjNREF * pair) ||
        !std::equal(contact.solimp, contact.solimp + mjNIMP, m_->pair_solimp + mjNIMP * pair)) {
      return false;
    }
    for (int k = 0; k < 5; k++) {
      if (contact.friction[k] != std::max(mjMINMU, m_->pair_friction[5 * pair + k])) return false;
    }
    return true;
  }

  // the geom of higher priority decides; of the same, solmix weighs, friction is the larger one,
  // and solref the smaller one unless both are time constants. Margins add up.
  void contact_to_geoms(const mjContact& contact, const ConstraintBar& bar) const {
    const int geom[2] = {contact.geom[0], contact.geom[1]};
    double mix[2] = {};
    bool decides[2] = {};
    for (int side = 0; side < 2; side++) {
      const int mine = m_->geom_priority[geom[side]], its = m_->geom_priority[geom[1 - side]];
      decides[side] = mine >= its;
      mix[side] = mine > its ? 1 : mine < its ? 0 : solmix(geom[side], geom[1 - side]);
    }
    const bool same = decides[0] && decides[1];
    // gradient: of two equal numbers each has half
    const auto share = [&](int side, double mine, double its, bool larger) {
      if (!same) return decides[side] ? 1.0 : 0.0;
      return mine == its ? 0.5 : (mine > its) == larger ? 1.0 : 0.0;
    };
    const double friction_bar[3] = {bar.friction[0] + bar.friction[1], bar.friction[2],
                                    bar.friction[3] + bar.friction[4]};
    for (int side = 0; side < 2; side++) {
      const int mine = geom[side], its = geom[1 - side];
      add(Parameter::kGeomMargin, mine, bar.margin);
      add(Parameter::kGeomSolimp, mine, mjNIMP, bar.solimp, mix[side]);
      const mjtNum *ref = m_->geom_solref + mjNREF * mine, *other = m_->geom_solref + mjNREF * its;
      for (int k = 0; k < mjNREF; k++) {
        const bool weighed = !same || (ref[0] > 0 && other[0] > 0);
        add(Parameter::kGeomSolref, mjNREF * mine + k,
            bar.solref[k] * (weighed ? mix[side] : share(side, ref[k], other[k], false)));
      }
      for (int k = 0; k < 3; k++) {
        const double friction = m_->geom_friction[3 * mine + k];
        // gradient: friction below MuJoCo's least does not move what is used
        if (friction < mjMINMU) continue;
        add(Parameter::kGeomFriction, 3 * mine + k,
            friction_bar[k] * share(side, friction, m_->geom_friction[3 * its + k], true));
      }
    }
  }

  double solmix(int mine, int its) const {
    const double x = m_->geom_solmix[mine], y = m_->geom_solmix[its];
    if (x < mjMINVAL) return y < mjMINVAL ? 0.5 : 0;
    return y < mjMINVAL ? 1 : x / (x + y);
  }

  const mjModel* m_;
  const mjData* d_;
  const RowsBar& bar_;
  CVec force_bar_;
  const ParameterBar& params_;
  const Workspace& workspace_;
};

void Parameters::contact_to_model(const mjContact& contact, const ConstraintBar& bar) const {
  // gradient: with the flag override the options' numbers count
  if (m_->opt.enableflags & mjENBL_OVERRIDE) return;
  const auto npair = static_cast<int>(m_->npair);
  int count = 0;
  for (int pair = 0; pair < npair; pair++) count += is_of_pair(contact, pair);
  if (count == 0) {
    contact_to_geoms(contact, bar);
    return;
  }
  // the same pair twice makes every contact twice
  for (int pair = 0; pair < npair; pair++) {
    if (!is_of_pair(contact, pair)) continue;
    add(Parameter::kPairSolref, pair, mjNREF, bar.solref, 1.0 / count);
    add(Parameter::kPairSolimp, pair, mjNIMP, bar.solimp, 1.0 / count);
    add(Parameter::kPairMargin, pair, bar.margin / count);
    for (int k = 0; k < 5; k++) {
      // gradient: friction below MuJoCo's least does not move what is used
      if (m_->pair_friction[5 * pair + k] < mjMINMU) continue;
      add(Parameter::kPairFriction, 5 * pair + k, bar.friction[k] / count);
    }
  }
}

}  // namespace

void impedance_pullback(const mjtNum* solimp, double r, double I_bar, double* solimp_bar) {
  const Solimp s(solimp);
  const double dmin = s.value[0], dmax = s.value[1], width = s.value[2], midpoint = s.value[3],
               power = s.value[4];
  double bar[mjNIMP] = {};
  const double x = std::abs(r) / std::max(width, mjMINVAL);
  if (width <= mjMINVAL) {
    // MuJoCo takes the mean
    bar[0] = bar[1] = 0.5 * I_bar;
  } else if (x >= 1) {
    bar[1] = I_bar;
  } else if (x <= 0) {
    bar[0] = I_bar;
  } else {
    // y = w up to the midpoint, 1 - w beyond, w = z (z/c)^(power - 1)
    const bool below = x <= midpoint;
    const double z = below ? x : 1 - x, c = below ? midpoint : 1 - midpoint, sign = below ? 1 : -1;
    const double bend = std::pow(z / c, power - 1), w = z * bend;
    const double y = below ? w : 1 - w, y_bar = I_bar * (dmax - dmin);
    bar[0] = (1 - y) * I_bar;
    bar[1] = y * I_bar;
    bar[2] = -y_bar * power * bend * x / width;
    bar[3] = -y_bar * (power - 1) * w / c;
    bar[4] = y_bar * sign * w * std::log(z / c);
  }
  for (int k = 0; k < mjNIMP; k++) solimp_bar[k] += s.moves[k] ? bar[k] : 0;
}

void contact_friction_pullback(const mjModel* m, const mjContact& contact, int k,
                               double friction_bar, const ParameterBar& params,
                               Workspace& workspace) {
  ConstraintBar bar;
  bar.friction[k] = friction_bar;
  Parameters(m, workspace.data.get(), {}, params, workspace).contact_to_model(contact, bar);
}

void constraint_parameters_pullback(const mjModel* m, const mjData* d, CVec force_bar,
                                    const ParameterBar& params, Workspace& workspace) {
  constexpr Parameter kFields[] = {
      Parameter::kGeomFriction,  Parameter::kGeomSolref,   Parameter::kGeomSolimp,
      Parameter::kGeomMargin,    Parameter::kPairFriction, Parameter::kPairSolref,
      Parameter::kPairSolimp,    Parameter::kPairMargin,   Parameter::kJntRange,
      Parameter::kJntSolref,     Parameter::kJntSolimp,    Parameter::kDofFrictionloss,
      Parameter::kEqSolref,      Parameter::kEqSolimp,     Parameter::kBodyInvweight0,
      Parameter::kDofInvweight0,
  };
  const bool any = std::any_of(std::begin(kFields), std::end(kFields),
                               [&](Parameter p) { return params.wants(p); });
  if (any) Parameters(m, d, force_bar, params, workspace).run();
}

}  // namespace diffmj
