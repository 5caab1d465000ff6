#include "check/kinks.h"

#include <mujoco/mujoco.h>

#include <cmath>

#include "stages/acceleration/constraint_solve.h"

namespace diffmj {
namespace {

constexpr const char* kShare = "share of the constraint's force range";

std::string contact_name(const Model& model, const mjContact& contact) {
  const auto side = [&](int i) {
    return contact.geom[i] >= 0 ? model.element_name(mjOBJ_GEOM, contact.geom[i])
                                : model.element_name(mjOBJ_FLEX, contact.flex[i]);
  };
  return "contact of " + side(0) + " and " + side(1);
}

std::string row_name(const Model& model, const mjData* d, int i) {
  const int id = d->efc_id[i];
  switch (d->efc_type[i]) {
    case mjCNSTR_FRICTION_DOF:
      return "friction of " + model.dof_name(id);
    case mjCNSTR_FRICTION_TENDON:
      return "friction of " + model.element_name(mjOBJ_TENDON, id);
    case mjCNSTR_LIMIT_JOINT:
      return "limit of " + model.element_name(mjOBJ_JOINT, id);
    case mjCNSTR_LIMIT_TENDON:
      return "limit of " + model.element_name(mjOBJ_TENDON, id);
    default:
      return contact_name(model, d->contact[id]);
  }
}

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

// controls near a bound, muscles whose activation meets their control
template <class Offer>
void control_kinks(const Model& model, const mjData* d, Offer&& offer) {
  constexpr double kNear = 1e-3;  // of a control's range, or of full activation
  const mjModel* m = model.mj();
  if (m->opt.disableflags & mjDSBL_ACTUATION) return;
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    for (int j = m->actuator_ctrladr[i]; j < m->actuator_ctrladr[i] + m->actuator_ctrlnum[i]; j++) {
      const double low = m->actuator_ctrlrange[2 * j], high = m->actuator_ctrlrange[2 * j + 1];
      if (!m->actuator_ctrllimited[j] || (m->opt.disableflags & mjDSBL_CLAMPCTRL)) break;
      const double distance = std::min(std::abs(d->ctrl[j] - low), std::abs(d->ctrl[j] - high));
      if (distance <= kNear) continue;  // at its bound: the check leaves it out, and says so
      offer(distance / (kNear * (high - low)), distance, "of control",
            [&] { return "control of " + model.element_name(mjOBJ_ACTUATOR, i) + " is clamped"; });
    }
    const int act = m->actuator_actadr[i];
    for (int j = act; m->actuator_actlimited[i] && j < act + m->actuator_actnum[i]; j++) {
      const double low = m->actuator_actrange[2 * i], high = m->actuator_actrange[2 * i + 1];
      const double near = std::min(std::abs(d->act[j] - low), std::abs(d->act[j] - high));
      offer(near / (kNear * (high - low)), near, "of activation", [&] {
        return "activation of " + model.element_name(mjOBJ_ACTUATOR, i) + " is clamped";
      });
    }
    if (m->actuator_dyntype[i] != mjDYN_MUSCLE) continue;
    const double distance = std::abs(d->ctrl[m->actuator_ctrladr[i]] - d->act[act]);
    offer(distance / kNear, distance, "of activation", [&] {
      return "activation of " + model.element_name(mjOBJ_ACTUATOR, i) +
             " meets its control, where its time constant changes";
    });
  }
}

}  // namespace

void nearest_kink(const Model& model, int step, const Workspace& workspace, RankedKink& nearest) {
  const mjModel* m = model.mj();
  const mjData* d = workspace.data.get();
  const auto offer = [&](double rank, double distance, const char* unit, auto&& what) {
    if (nearest.kink.step >= 0 && rank >= nearest.rank) return;
    nearest = {.kink = {.what = what(), .step = step, .distance = distance, .unit = unit},
               .rank = rank};
  };

  for (int i = 0, dim = 1; i < d->nefc; i += dim) {
    dim = constraint_rows_at(d, i);
    const ZoneDistance zone = zone_distance(d, workspace.y, i);
    if (d->efc_type[i] == mjCNSTR_EQUALITY) continue;
    offer(zone.share, zone.share, kShare, [&] { return row_name(model, d, i) + " " + zone.what; });
  }

  // activation: the distance at which the row appears or disappears, in widths of its impedance
  for (int i = 0; i < d->ncon; i++) {
    const mjContact& contact = d->contact[i];
    const double distance = std::abs(contact.dist - contact.includemargin);
    offer(distance / std::max(contact.solimp[2], mjMINVAL), distance, "m", [&] {
      return contact_name(model, contact) + (contact.efc_address >= 0 ? " opens" : " closes");
    });
  }
  control_kinks(model, d, offer);
  if (m->opt.disableflags & (mjDSBL_LIMIT | mjDSBL_CONSTRAINT)) return;
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int type = m->jnt_type[j];
    if (!m->jnt_limited[j] || (type != mjJNT_HINGE && type != mjJNT_SLIDE)) continue;
    for (int side = 0; side < 2; side++) {
      const double beyond = d->qpos[m->jnt_qposadr[j]] - m->jnt_range[2 * j + side];
      const double distance = std::abs((side == 0 ? beyond : -beyond) - m->jnt_margin[j]);
      offer(distance / std::max(m->jnt_solimp[mjNIMP * j + 2], mjMINVAL), distance,
            type == mjJNT_HINGE ? "rad" : "m",
            [&] { return "limit of " + model.element_name(mjOBJ_JOINT, j) + " switches"; });
    }
  }
}

}  // namespace diffmj
