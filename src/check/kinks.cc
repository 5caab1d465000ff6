#include "check/kinks.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/noslip.h"

namespace diffmj {
namespace {

constexpr const char* kShare = "share of the constraint's force range";

// Distance of y to the next zone, relative to the sizes it is made of; in [0, 1].
struct ZoneDistance {
  double share = 1;
  const char* what = "changes zone";
};
ZoneDistance zone_distance(const mjData* d, CVec y, int i) {
  const double* yi = &y[static_cast<size_t>(i)];
  const auto relative = [](double a, double b) {
    const double scale = std::abs(a) + std::abs(b);
    return scale > 0 ? std::abs(a - b) / scale : 0.0;
  };
  switch (d->efc_type[i]) {
    case mjCNSTR_EQUALITY:
      return {};
    case mjCNSTR_FRICTION_DOF:
    case mjCNSTR_FRICTION_TENDON:
      return {relative(std::abs(*yi), d->efc_R[i] * d->efc_frictionloss[i]),
              "changes between sticking and sliding"};
    case mjCNSTR_CONTACT_ELLIPTIC: {
      const mjContact& contact = d->contact[d->efc_id[i]];
      double T = 0;
      for (int j = 1; j < contact.dim; j++) T = std::hypot(T, contact.friction[j - 1] * yi[j]);
      const double N = contact.mu * yi[0];
      const double open = relative(N, contact.mu * T), slide = relative(-contact.mu * N, T);
      return open < slide ? ZoneDistance{open, "loses or gains force"}
                          : ZoneDistance{slide, "changes between sticking and sliding"};
    }
    default:
      // y = J a - aref is zero where the force vanishes
      return {relative(*yi + d->efc_aref[i], d->efc_aref[i]), "loses or gains force"};
  }
}

// 0 if a joint is at its limit, whatever the joint; < 0 beyond
double limit_distance(const mjModel* m, const mjData* d, int joint, int side) {
  const mjtNum* range = m->jnt_range + 2 * static_cast<ptrdiff_t>(joint);
  const mjtNum* q = d->qpos + m->jnt_qposadr[joint];
  if (m->jnt_type[joint] != mjJNT_BALL) return side == 0 ? *q - range[0] : range[1] - *q;
  mjtNum quat[4], rotation[3];
  mju_copy4(quat, q);
  mju_normalize4(quat);
  mju_quat2Vel(rotation, quat, 1);
  return std::max(range[0], range[1]) - mju_norm3(rotation);
}

}  // namespace

template <class What>
void KinkSurvey::offer(double rank, double distance, const char* unit, int step, What&& what,
                       Ranked& to) {
  if (to.kink.step >= 0 && rank >= to.rank) return;
  to = {.kink = {.what = what(), .step = step, .distance = distance, .unit = unit}, .rank = rank};
}

KinkSurvey::Found& KinkSurvey::find(Kind kind, int first, int second) {
  Found& found = found_[{kind, first, second}];
  if (!found.constraint.empty()) return found;
  const auto name = [&](int type, int id) { return model_.element_name(type, id); };
  switch (kind) {
    case Kind::kFrictionDof:
      found.constraint = "friction of " + model_.dof_name(first);
      break;
    case Kind::kFrictionTendon:
      found.constraint = "friction of " + name(mjOBJ_TENDON, first);
      break;
    case Kind::kLimitJoint:
      found.constraint = "limit of " + name(mjOBJ_JOINT, first);
      break;
    case Kind::kLimitTendon:
      found.constraint = "limit of " + name(mjOBJ_TENDON, first);
      break;
    case Kind::kGeoms:
    case Kind::kGeomAndFlex:
    case Kind::kFlexes:
      found.constraint = "contact of " +
                         name(kind == Kind::kFlexes ? mjOBJ_FLEX : mjOBJ_GEOM, first) + " and " +
                         name(kind == Kind::kGeoms ? mjOBJ_GEOM : mjOBJ_FLEX, second);
      break;
  }
  return found;
}

KinkSurvey::Found& KinkSurvey::find(const mjContact& contact) {
  const int *geom = contact.geom, *flex = contact.flex;
  if (geom[0] >= 0 && geom[1] >= 0) return find(Kind::kGeoms, geom[0], geom[1]);
  if (geom[0] >= 0) return find(Kind::kGeomAndFlex, geom[0], flex[1]);
  if (geom[1] >= 0) return find(Kind::kGeomAndFlex, geom[1], flex[0]);
  return find(Kind::kFlexes, flex[0], flex[1]);
}

KinkSurvey::Found& KinkSurvey::find_row(const mjData* d, int i) {
  const int id = d->efc_id[i];
  switch (d->efc_type[i]) {
    case mjCNSTR_FRICTION_DOF:
      return find(Kind::kFrictionDof, id);
    case mjCNSTR_FRICTION_TENDON:
      return find(Kind::kFrictionTendon, id);
    case mjCNSTR_LIMIT_JOINT:
      return find(Kind::kLimitJoint, id);
    case mjCNSTR_LIMIT_TENDON:
      return find(Kind::kLimitTendon, id);
    default:
      return find(d->contact[id]);
  }
}

void KinkSurvey::look(int step, Workspace& workspace) {
  look_at_rows(step, workspace);
  if (has_noslip(model_.mj()) && workspace.data->nefc > 0) look_at_noslip(step, workspace);
  look_at_contacts(step, workspace.data.get());
  look_at_limits(step, workspace.data.get());
  look_at_controls(step, workspace.data.get());
}

// zones
void KinkSurvey::look_at_rows(int step, const Workspace& workspace) {
  const mjData* d = workspace.data.get();
  for (int i = 0, dim = 1; i < d->nefc; i += dim) {
    dim = constraint_rows_at(d, i);
    if (d->efc_type[i] == mjCNSTR_EQUALITY) continue;
    const ZoneDistance zone = zone_distance(d, workspace.newton.y, i);
    Found& found = find_row(d, i);
    offer(
        zone.share, zone.share, kShare, step, [&] { return found.constraint + " " + zone.what; },
        found.zone);
  }
}

// bounds of the no-slip pass, and its number of sweeps
void KinkSurvey::look_at_noslip(int step, Workspace& workspace) {
  const mjData* d = workspace.data.get();
  noslip_case_distances(d, share_, workspace);
  for (size_t k = 0; k < share_.size(); k++) {
    Found& found = find_row(d, workspace.noslip.blocks[k].row);
    offer(
        share_[k], share_[k], kShare, step,
        [&] { return found.constraint + " changes between sticking and sliding (no-slip)"; },
        found.zone);
  }
  const double distance = workspace.noslip.stop_distance;
  offer(
      distance, distance, "share of noslip_tolerance", step,
      [] { return std::string("the no-slip pass has another number of sweeps"); }, sweeps_);
}

// activation: the distance at which the row appears or vanishes, in widths of its impedance
void KinkSurvey::look_at_contacts(int step, const mjData* d) {
  for (int i = 0; i < d->ncon; i++) {
    const mjContact& contact = d->contact[i];
    const bool in_gap = contact.efc_address < 0;
    if (in_gap && contact.exclude != 1) continue;  // has no dof to act on
    Found& found = find(contact);
    const double distance = std::abs(contact.dist - contact.includemargin);
    offer(
        distance / std::max(contact.solimp[2], mjMINVAL), distance, "m", step,
        [&] { return found.constraint + (in_gap ? " closes" : " opens"); }, found.activation);
  }
}

void KinkSurvey::look_at_limits(int step, const mjData* d) {
  const mjModel* m = model_.mj();
  if (m->opt.disableflags & (mjDSBL_LIMIT | mjDSBL_CONSTRAINT)) return;
  const auto see = [&](Kind kind, int id, double signed_distance, double margin, double width,
                       const char* unit) {
    Found& found = find(kind, id);
    const double distance = std::abs(signed_distance - margin);
    offer(
        distance / std::max(width, mjMINVAL), distance, unit, step,
        [&] { return found.constraint + " switches"; }, found.activation);
  };
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int type = m->jnt_type[j];
    if (!m->jnt_limited[j] || type == mjJNT_FREE) continue;
    for (int side = 0; side < (type == mjJNT_BALL ? 1 : 2); side++) {
      see(Kind::kLimitJoint, j, limit_distance(m, d, j, side), m->jnt_margin[j],
          m->jnt_solimp[mjNIMP * j + 2], type == mjJNT_SLIDE ? "m" : "rad");
    }
  }
  for (int i = 0; i < static_cast<int>(m->ntendon); i++) {
    if (!m->tendon_limited[i]) continue;
    const bool fixed = m->wrap_type[m->tendon_adr[i]] == mjWRAP_JOINT;
    for (int side = 0; side < 2; side++) {
      const double beyond = d->ten_length[i] - m->tendon_range[2 * i + side];
      see(Kind::kLimitTendon, i, side == 0 ? beyond : -beyond, m->tendon_margin[i],
          m->tendon_solimp_lim[mjNIMP * i + 2], fixed ? "of length" : "m");
    }
  }
}

// controls near a bound, muscles whose activation meets their control
void KinkSurvey::look_at_controls(int step, const mjData* d) {
  constexpr double kNear = 1e-3;  // of a control's range, or of full activation
  const mjModel* m = model_.mj();
  if (m->opt.disableflags & mjDSBL_ACTUATION) return;
  const auto see = [&](int i, double distance, double size, const char* unit,
                       const std::string& what, const char* change) {
    offer(
        distance / (kNear * size), distance, unit, step,
        [&] { return what + model_.element_name(mjOBJ_ACTUATOR, i) + change; }, control_);
  };
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    for (int j = m->actuator_ctrladr[i]; j < m->actuator_ctrladr[i] + m->actuator_ctrlnum[i]; j++) {
      const double low = m->actuator_ctrlrange[2 * j], high = m->actuator_ctrlrange[2 * j + 1];
      if (!m->actuator_ctrllimited[j] || (m->opt.disableflags & mjDSBL_CLAMPCTRL)) continue;
      const double distance = std::min(std::abs(d->ctrl[j] - low), std::abs(d->ctrl[j] - high));
      // the usual place of controls, which would hide every other kink: named by a sentence instead
      if (distance <= kNear * (high - low)) {
        const auto same = [&](const AtBound& one) { return one.control == j; };
        if (std::none_of(at_bound_.begin(), at_bound_.end(), same)) {
          at_bound_.push_back({.actuator = i, .control = j, .step = step});
        }
        continue;
      }
      see(i, distance, high - low, "of control", "control of ", " is clamped");
    }
    const int act = m->actuator_actadr[i];
    for (int j = act; m->actuator_actlimited[i] && j < act + m->actuator_actnum[i]; j++) {
      const double low = m->actuator_actrange[2 * i], high = m->actuator_actrange[2 * i + 1];
      const double near = std::min(std::abs(d->act[j] - low), std::abs(d->act[j] - high));
      see(i, near, high - low, "of activation", "activation of ", " is clamped");
    }
    // implicit integrators use the slope of a muscle's force-velocity curve, which bends at rest
    const bool implicit =
        m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST;
    if (implicit && m->actuator_gaintype[i] == mjGAIN_MUSCLE) {
      const int out = m->actuator_outadr[i];
      const double* prm = m->actuator_gainprm + mjNGAIN * i;
      const double* range = m->actuator_lengthrange + 2 * out;
      const double L0 = (range[1] - range[0]) / std::max(mjMINVAL, prm[1] - prm[0]);
      see(i, std::abs(d->actuator_velocity[out]) / std::max(mjMINVAL, L0 * prm[6]), 1,
          "of the largest velocity", "velocity of ",
          " changes its sign, where its force-velocity curve bends");
    }
    // with tausmooth the time constant has no corner
    const bool blends = m->actuator_dynprm[mjNDYN * i + 2] >= mjMINVAL;
    if (m->actuator_dyntype[i] != mjDYN_MUSCLE || blends) continue;
    const int j = m->actuator_ctrladr[i];
    double ctrl = d->ctrl[j];
    if (m->actuator_ctrllimited[j] && !(m->opt.disableflags & mjDSBL_CLAMPCTRL)) {
      ctrl = std::clamp(ctrl, m->actuator_ctrlrange[2 * j], m->actuator_ctrlrange[2 * j + 1]);
    }
    const double distance = std::abs(std::clamp(ctrl, 0.0, 1.0) - d->act[act]);
    see(i, distance, 1, "of activation", "activation of ",
        " meets its control, where its time constant changes");
  }
}

std::string KinkSurvey::controls_at_bounds() const {
  if (at_bound_.empty()) return {};
  const AtBound& first = at_bound_.front();
  const size_t others = at_bound_.size() - 1;
  return "control of " + model_.element_name(mjOBJ_ACTUATOR, first.actuator) +
         " is at a bound of its range at step " + std::to_string(first.step) +
         (others == 0   ? ""
          : others == 1 ? ", and 1 other control is at some step"
                        : ", and " + std::to_string(others) + " other controls are at some step") +
         ": the gradient is that of the side it is on, at the bound itself of the inside; the "
         "nearest kink does not count such controls";
}

Kink KinkSurvey::nearest() const {
  const Ranked* best = &control_;
  if (sweeps_.kink.step >= 0 && (best->kink.step < 0 || sweeps_.rank < best->rank)) best = &sweeps_;
  for (const auto& [key, found] : found_) {
    for (const Ranked* one : {&found.zone, &found.activation}) {
      if (one->kink.step >= 0 && (best->kink.step < 0 || one->rank < best->rank)) best = one;
    }
  }
  return best->kink;
}

std::vector<ConstraintKinks> KinkSurvey::constraints() const {
  const auto rank = [](const Ranked& one) {
    if (one.kink.step < 0) return std::numeric_limits<double>::infinity();
    return one.rank;
  };
  std::vector<std::pair<double, const Found*>> order;
  for (const auto& [key, found] : found_) {
    order.emplace_back(std::min(rank(found.zone), rank(found.activation)), &found);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ConstraintKinks> out;
  out.reserve(order.size());
  for (const auto& [first, found] : order) {
    out.push_back({.constraint = found->constraint,
                   .zone = found->zone.kink,
                   .activation = found->activation.kink});
  }
  return out;
}

}  // namespace diffmj
