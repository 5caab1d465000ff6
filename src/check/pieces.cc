#include "check/pieces.h"

#include <algorithm>
#include <cmath>

#include "mj/constraint_type.h"
#include "setup/model_impl.h"
#include "stages/acceleration/noslip.h"

namespace diffmj {
namespace {

// [m] that a contact may move between two states that are a distance h apart: the place of a
// contact that moves faster jumps
double far(double h) { return std::min(5e-3, 1e-9 + 200 * h); }
constexpr double kNearest = 5e-3;

// the bound x is beyond: -1, 0 or 1; a number at a bound is inside
PieceLaw beyond(double x, double low, double high) {
  return {.piece = x < low    ? -1
                   : x > high ? 1
                              : 0,
          .value = std::abs(x - low) < std::abs(x - high) ? x - low : x - high};
}

// the bound that a clamped number is at: -1, 0 or 1
PieceLaw clamped(double x, double low, double high) {
  return {.piece = x <= low    ? -1
                   : x >= high ? 1
                               : 0,
          .value = std::abs(x - low) < std::abs(x - high) ? x - low : x - high};
}

bool same_constraint(const PieceRow& a, const PieceRow& b) {
  return a.type == b.type && a.first == b.first && a.second == b.second && a.index == b.index &&
         a.sweep == b.sweep;
}

double apart(const PieceRow& a, const PieceRow& b) {
  return is_contact(a.type) ? mju_dist3(a.pos, b.pos) : 0;
}

// The row of other that belongs to each row of base, or -1: of several contacts of two geoms, the
// nearest ones first.
std::vector<int> match(const std::vector<PieceRow>& base, const std::vector<PieceRow>& other,
                       double most) {
  struct Candidate {
    double distance;
    int base, other;
  };
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < base.size(); i++) {
    for (size_t k = 0; k < other.size(); k++) {
      if (!same_constraint(base[i], other[k])) continue;
      const double distance = apart(base[i], other[k]);
      if (distance < most) {
        candidates.push_back({distance, static_cast<int>(i), static_cast<int>(k)});
      }
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.distance < b.distance; });
  std::vector<int> out(base.size(), -1);
  std::vector<bool> taken(other.size(), false);
  for (const Candidate& c : candidates) {
    if (out[static_cast<size_t>(c.base)] >= 0 || taken[static_cast<size_t>(c.other)]) continue;
    out[static_cast<size_t>(c.base)] = c.other;
    taken[static_cast<size_t>(c.other)] = true;
  }
  return out;
}

// Sweeps that only one of both has, and updates with another case. Constraints that only one has
// are among the rows of the main solver.
void noslip_changes(const std::vector<PieceRow>& base, const std::vector<PieceRow>& other,
                    double most, std::vector<Switch>& out) {
  const std::vector<int> partner = match(base, other, most);
  std::vector<bool> known(other.size(), false);
  for (size_t i = 0; i < base.size(); i++) {
    const PieceRow& a = base[i];
    if (partner[i] < 0) {
      if (a.type == kSweep) out.push_back({.row = a, .of = Switch::kViolation, .side = -1});
      continue;
    }
    const PieceRow& b = other[static_cast<size_t>(partner[i])];
    known[static_cast<size_t>(partner[i])] = true;
    if (a.zone == b.zone) continue;
    const double side = a.value[0] != 0 ? a.value[0] : -b.value[0];
    out.push_back({.row = a, .of = Switch::kZone, .side = side > 0 ? 1.0 : -1.0});
  }
  for (size_t k = 0; k < other.size(); k++) {
    if (known[k] || other[k].type != kSweep) continue;
    out.push_back({.row = other[k], .of = Switch::kViolation, .side = 1, .at_base = false});
  }
}

}  // namespace

bool Switch::operator==(const Switch& other) const {
  if (evaluation != other.evaluation) return false;
  if (law >= 0 || other.law >= 0) return law == other.law;
  return of == other.of && same_constraint(row, other.row) && apart(row, other.row) < kNearest;
}

double Switch::value(const Pieces& pieces) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (law >= 0) return pieces.laws[static_cast<size_t>(law)].value;
  if (of == kPlace) return kNone;
  double nearest = kNearest, found = kNone;
  for (const PieceRow& one : row.sweep < 0 ? pieces.rows : pieces.noslip) {
    if (!same_constraint(row, one) || apart(row, one) >= nearest) continue;
    nearest = apart(row, one);
    found = of == kViolation ? one.violation : one.value[of == kZone ? 0 : 1];
  }
  return found;
}

PieceSurvey::PieceSurvey(const Model& model) : model_(model) {
  const mjModel* m = model.mj();
  const bool acts = !(m->opt.disableflags & mjDSBL_ACTUATION);
  const bool clamps = !(m->opt.disableflags & mjDSBL_CLAMPCTRL);
  const bool implicit =
      m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST;
  for (int i = 0; acts && i < static_cast<int>(m->nactuator); i++) {
    const int ctrl = m->actuator_ctrladr[i], act = m->actuator_actadr[i];
    for (int j = ctrl; clamps && j < ctrl + m->actuator_ctrlnum[i]; j++) {
      if (m->actuator_ctrllimited[j]) laws_.push_back({LawKind::kControl, i, j});
    }
    for (int j = act; m->actuator_actlimited[i] && j < act + m->actuator_actnum[i]; j++) {
      laws_.push_back({LawKind::kActivation, i, j});
    }
    if (m->actuator_dyntype[i] == mjDYN_MUSCLE) {
      laws_.push_back({LawKind::kMuscleControl, i, ctrl});
      laws_.push_back({LawKind::kMuscleLevel, i, act});
      // with tausmooth the time constant has no corner
      if (m->actuator_dynprm[mjNDYN * i + 2] < mjMINVAL) {
        laws_.push_back({LawKind::kTimeConstant, i, act});
      }
    }
    if (implicit && m->actuator_gaintype[i] == mjGAIN_MUSCLE) {
      laws_.push_back({LawKind::kMuscleVelocity, i, 0});
    }
    if (m->actuator_forcelimited[i]) laws_.push_back({LawKind::kForce, i, 0});
  }
  for (int i = 0; acts && i < static_cast<int>(m->njnt); i++) {
    if (m->jnt_actfrclimited[i] && m->jnt_type[i] >= mjJNT_SLIDE) {
      laws_.push_back({LawKind::kJointForce, i, m->jnt_dofadr[i]});
    }
  }
  for (int i = 0; i < static_cast<int>(m->ntendon); i++) {
    const mjtNum* rest = m->tendon_lengthspring + 2 * static_cast<ptrdiff_t>(i);
    if (m->tendon_stiffness[i] != 0 && rest[1] > rest[0]) {
      laws_.push_back({LawKind::kTendonSpring, i, 0});
    }
  }
}

PieceLaw PieceSurvey::look_at(const Law& law, const mjData* d, CVec act, CVec act_next) const {
  const mjModel* m = model_.mj();
  const int i = law.id;
  const auto item = static_cast<size_t>(law.item);
  // what a muscle sees of its control
  const auto control = [&] {
    const int j = m->actuator_ctrladr[i];
    double ctrl = d->ctrl[j];
    if (m->actuator_ctrllimited[j] && !(m->opt.disableflags & mjDSBL_CLAMPCTRL)) {
      ctrl = std::clamp(ctrl, m->actuator_ctrlrange[2 * j], m->actuator_ctrlrange[2 * j + 1]);
    }
    return ctrl;
  };
  switch (law.kind) {
    case LawKind::kControl:
      return beyond(d->ctrl[item], m->actuator_ctrlrange[2 * item],
                    m->actuator_ctrlrange[2 * item + 1]);
    case LawKind::kMuscleControl:
      return beyond(control(), 0, 1);
    case LawKind::kMuscleLevel:
      return beyond(act[item], 0, 1);
    case LawKind::kActivation: {
      if (act_next.empty()) return {};
      const double low = m->actuator_actrange[2 * i], high = m->actuator_actrange[2 * i + 1];
      PieceLaw out = clamped(act_next[item], low, high);
      // at a bound and not driven against it: inside
      if (act[item] == act_next[item] && d->act_dot[item] == 0) out.piece = 0;
      return out;
    }
    case LawKind::kTimeConstant: {
      const double ctrl = control(), distance = std::clamp(ctrl, 0.0, 1.0) - act[item];
      const bool corner = distance == 0 && (ctrl == 0 || act[item] == 1);
      return {.piece = corner ? PieceLaw::kCorner : distance > 0 ? 1 : 0, .value = distance};
    }
    case LawKind::kMuscleVelocity: {
      const double velocity = d->actuator_velocity[m->actuator_outadr[i]];
      return {.piece = velocity > 0 ? 1 : 0, .value = velocity};
    }
    case LawKind::kForce:
      return clamped(d->actuator_force[m->actuator_outadr[i]], m->actuator_forcerange[2 * i],
                     m->actuator_forcerange[2 * i + 1]);
    case LawKind::kJointForce:
      return clamped(d->qfrc_actuator[item], m->jnt_actfrcrange[2 * i],
                     m->jnt_actfrcrange[2 * i + 1]);
    case LawKind::kTendonSpring: {
      const mjtNum* rest = m->tendon_lengthspring + 2 * static_cast<ptrdiff_t>(i);
      return beyond(d->ten_length[i], rest[0], rest[1]);
    }
  }
  return {};
}

// Which constraint a row is of.
PieceRow PieceSurvey::describe(const mjData* d, int i) const {
  const mjModel* m = model_.mj();
  const int type = d->efc_type[i], id = d->efc_id[i];
  PieceRow row{.type = type, .first = id};
  row.violation = d->efc_pos[i] - d->efc_margin[i];
  if (is_contact(type)) {
    const mjContact& contact = d->contact[id];
    row.first = contact.geom[0] >= 0 ? contact.geom[0] : -2 - contact.flex[0];
    row.second = contact.geom[1] >= 0 ? contact.geom[1] : -2 - contact.flex[1];
    row.index = i - contact.efc_address;
    std::copy_n(contact.pos, 3, row.pos);
  } else if (type == mjCNSTR_FRICTION_DOF || type == mjCNSTR_FRICTION_TENDON) {
    row.violation = -1;
  } else if (i > 0 && d->efc_type[i - 1] == type && d->efc_id[i - 1] == id) {
    row.second = 1;
  } else if (type == mjCNSTR_LIMIT_JOINT && m->jnt_type[id] >= mjJNT_SLIDE) {
    // the lower limit pushes upwards
    const mjtNum* range = m->jnt_range + 2 * static_cast<ptrdiff_t>(id);
    row.second = d->qpos[m->jnt_qposadr[id]] > (range[0] + range[1]) / 2 ? 1 : 0;
  } else if (type == mjCNSTR_LIMIT_TENDON) {
    const mjtNum* range = m->tendon_range + 2 * static_cast<ptrdiff_t>(id);
    row.second = d->ten_length[id] > (range[0] + range[1]) / 2 ? 1 : 0;
  }
  return row;
}

void PieceSurvey::look_at_rows(const mjData* d, CVec qacc, std::vector<PieceRow>& rows) const {
  const mjModel* m = model_.mj();
  std::vector<double> y(static_cast<size_t>(d->nefc));
  mj_mulJacVec(m, d, y.data(), qacc.data());
  for (size_t i = 0; i < y.size(); i++) y[i] -= d->efc_aref[i];
  for (int i = 0, dim = 1; i < d->nefc; i += dim) {
    dim = constraint_rows_at(d, i);
    const int type = d->efc_type[i];
    if (type == mjCNSTR_EQUALITY) continue;
    const Zone zone = constraint_zone(d, y, i);
    const double yi = y[static_cast<size_t>(i)];
    PieceRow row = describe(d, i);
    row.zone = static_cast<int>(zone);
    row.value[0] = yi;
    if (type == mjCNSTR_CONTACT_ELLIPTIC) {
      const mjContact& contact = d->contact[d->efc_id[i]];
      double T = 0;
      for (int j = 1; j < contact.dim; j++) {
        T = std::hypot(T, contact.friction[j - 1] * y[static_cast<size_t>(i + j)]);
      }
      const double N = contact.mu * yi;
      row.value[0] = N - contact.mu * T;
      row.value[1] = contact.mu * N + T;
    } else if (type == mjCNSTR_FRICTION_DOF || type == mjCNSTR_FRICTION_TENDON) {
      row.value[0] = d->efc_R[i] * d->efc_frictionloss[i] - std::abs(yi);
      if (zone == Zone::kLinear && yi < 0) row.zone = -row.zone;
    }
    rows.push_back(row);
  }
}

// The sweeps are MuJoCo's: their number and the case of each update are part of the piece.
void PieceSurvey::look_at_noslip(Workspace& workspace, std::vector<PieceRow>& rows) const {
  const mjData* d = workspace.data.get();
  const Noslip& pass = workspace.noslip;
  for (size_t k = 0; k < pass.sweeps.size(); k++) {
    const Noslip::Sweep& sweep = pass.sweeps[k];
    PieceRow row{.type = kSweep, .first = sweep.island, .zone = 1, .violation = -1};
    row.sweep = sweep.number;
    if (sweep.number > 0) {
      row.violation = model_.mj()->opt.noslip_tolerance - pass.sweeps[k - 1].improvement;
    }
    rows.push_back(row);
  }
  std::vector<double> margin;
  noslip_case_margins(d, margin, workspace);
  for (size_t k = 0; k < pass.updates.size(); k++) {
    const Noslip::Update& update = pass.updates[k];
    const Noslip::Block& block = pass.blocks[static_cast<size_t>(update.block)];
    PieceRow row = describe(d, block.row);
    row.sweep = pass.sweeps[static_cast<size_t>(update.sweep)].number;
    // without a bound there is no force, whatever the case
    row.zone = std::isnan(margin[k]) ? 0 : 1 + static_cast<int>(update.which);
    row.value[0] = margin[k];
    rows.push_back(row);
  }
}

Pieces PieceSurvey::look(Workspace& workspace, CVec act, CVec act_next) const {
  Pieces out;
  const mjData* d = workspace.data.get();
  if (has_noslip(model_.mj()) && d->nefc > 0) {
    noslip_solve(model_.impl(), workspace);
    look_at_rows(d, workspace.noslip.qacc, out.rows);
    look_at_noslip(workspace, out.noslip);
  } else {
    look_at_rows(d, CVec(d->qacc, static_cast<size_t>(model_.nv())), out.rows);
  }
  out.laws.reserve(laws_.size());
  for (const Law& law : laws_) out.laws.push_back(look_at(law, d, act, act_next));
  return out;
}

std::vector<Switch> PieceSurvey::changes(const Pieces& base, const Pieces& other, double h) const {
  std::vector<Switch> out;
  for (size_t i = 0; i < laws_.size(); i++) {
    const PieceLaw &a = base.laws[i], &b = other.laws[i];
    if (a.piece == b.piece || a.piece == PieceLaw::kCorner) continue;
    // the number is of the side on which the base is, or 0 there
    const double side = a.value != 0 ? a.value : -b.value;
    out.push_back({.law = static_cast<int>(i), .side = side > 0 ? 1.0 : -1.0});
  }
  const std::vector<int> partner = match(base.rows, other.rows, far(h));
  std::vector<bool> known(other.rows.size(), false);
  for (const int k : partner) {
    if (k >= 0) known[static_cast<size_t>(k)] = true;
  }
  // a contact that is elsewhere
  const auto find_elsewhere = [&](const PieceRow& row) {
    for (size_t k = 0; k < other.rows.size(); k++) {
      if (!known[k] && same_constraint(row, other.rows[k])) return static_cast<int>(k);
    }
    return -1;
  };
  for (size_t i = 0; i < base.rows.size(); i++) {
    const PieceRow& a = base.rows[i];
    if (partner[i] < 0) {
      const int elsewhere = find_elsewhere(a);
      if (elsewhere >= 0) {
        known[static_cast<size_t>(elsewhere)] = true;
        if (a.zone != 0 || other.rows[static_cast<size_t>(elsewhere)].zone != 0) {
          out.push_back({.row = a, .of = Switch::kPlace});
        }
      } else if (a.zone != 0) {
        out.push_back({.row = a, .of = Switch::kViolation, .side = -1});
      }
      continue;
    }
    const PieceRow& b = other.rows[static_cast<size_t>(partner[i])];
    if (a.zone == b.zone) continue;
    // of an elliptic contact: between sliding and sticking, if neither is without force
    const bool second = a.type == mjCNSTR_CONTACT_ELLIPTIC && a.zone != 0 && b.zone != 0;
    const double value = a.value[second ? 1 : 0];
    const double side = value != 0 ? value : -b.value[second ? 1 : 0];
    out.push_back({.row = a,
                   .of = second ? Switch::kOtherZone : Switch::kZone,
                   .side = side > 0 ? 1.0 : -1.0});
  }
  for (size_t k = 0; k < other.rows.size(); k++) {
    if (known[k] || other.rows[k].zone == 0) continue;
    out.push_back({.row = other.rows[k], .of = Switch::kViolation, .side = 1, .at_base = false});
  }
  noslip_changes(base.noslip, other.noslip, far(h), out);
  return out;
}

std::vector<std::pair<int, double>> PieceSurvey::slope(const Switch& at) const {
  if (at.law < 0) return {};
  const mjModel* m = model_.mj();
  const Law& law = laws_[static_cast<size_t>(at.law)];
  const int act = 2 * model_.nv(), ctrl = act + model_.na();
  switch (law.kind) {
    case LawKind::kControl:
    case LawKind::kMuscleControl:
      return {{ctrl + law.item, 1}};
    case LawKind::kActivation:
    case LawKind::kMuscleLevel:
      return {{act + law.item, 1}};
    case LawKind::kTimeConstant:
      return {{act + law.item, -1}, {ctrl + m->actuator_ctrladr[law.id], 1}};
    default:
      return {};
  }
}

std::vector<PieceSurvey::Corner> PieceSurvey::corners(const Pieces& base, CVec act) const {
  std::vector<Corner> out;
  const int first_act = 2 * model_.nv(), first_ctrl = first_act + model_.na();
  for (size_t i = 0; i < laws_.size(); i++) {
    if (base.laws[i].piece != PieceLaw::kCorner) continue;
    const Law& law = laws_[i];
    out.push_back({first_act + law.item, first_ctrl + model_.mj()->actuator_ctrladr[law.id],
                   act[static_cast<size_t>(law.item)] == 0 ? 1.0 : -1.0});
  }
  return out;
}

std::string PieceSurvey::name(const Switch& at) const {
  const auto name = [&](int type, int id) { return model_.element_name(type, id); };
  if (at.law >= 0) {
    const Law& law = laws_[static_cast<size_t>(at.law)];
    switch (law.kind) {
      case LawKind::kControl:
      case LawKind::kMuscleControl:
        return "control of " + name(mjOBJ_ACTUATOR, law.id) + " is clamped";
      case LawKind::kActivation:
      case LawKind::kMuscleLevel:
        return "activation of " + name(mjOBJ_ACTUATOR, law.id) + " is clamped";
      case LawKind::kTimeConstant:
        return "activation of " + name(mjOBJ_ACTUATOR, law.id) +
               " meets its control, where its time constant changes";
      case LawKind::kMuscleVelocity:
        return "velocity of " + name(mjOBJ_ACTUATOR, law.id) +
               " changes its sign, where its force-velocity curve bends";
      case LawKind::kForce:
        return "force of " + name(mjOBJ_ACTUATOR, law.id) + " is clamped";
      case LawKind::kJointForce:
        return "actuator force of " + name(mjOBJ_JOINT, law.id) + " is clamped";
      case LawKind::kTendonSpring:
        return "spring of " + name(mjOBJ_TENDON, law.id) + " enters its dead band";
    }
  }
  if (at.row.type == kSweep) return "the no-slip pass has another number of sweeps";
  const char* const what = at.of == Switch::kViolation ? " begins or ends"
                           : at.row.sweep >= 0
                               ? " changes between sticking and sliding (no-slip)"
                               : " changes between sticking and sliding, or loses its force";
  switch (at.row.type) {
    case mjCNSTR_FRICTION_DOF:
      return "friction of " + model_.dof_name(at.row.first) + what;
    case mjCNSTR_FRICTION_TENDON:
      return "friction of " + name(mjOBJ_TENDON, at.row.first) + what;
    case mjCNSTR_LIMIT_JOINT:
      return "limit of " + name(mjOBJ_JOINT, at.row.first) + " begins or ends";
    case mjCNSTR_LIMIT_TENDON:
      return "limit of " + name(mjOBJ_TENDON, at.row.first) + " begins or ends";
    default: {
      const auto side = [&](int id) {
        return id >= 0 ? name(mjOBJ_GEOM, id) : name(mjOBJ_FLEX, -2 - id);
      };
      const std::string contact =
          "contact of " + side(at.row.first) + " and " + side(at.row.second);
      return at.of == Switch::kPlace ? "place of the " + contact + " jumps" : contact + what;
    }
  }
}

bool is_iterated(const mjModel* m, const PieceRow& row) {
  if (!is_contact(row.type) || row.first < 0 || row.second < 0) return false;
  const auto [first, second] = std::minmax(m->geom_type[row.first], m->geom_type[row.second]);
  if (first == mjGEOM_PLANE) return false;
  const bool sphere_cylinder = first == mjGEOM_SPHERE && second == mjGEOM_CYLINDER;
  const auto general = [](int type) {
    return type == mjGEOM_ELLIPSOID || type == mjGEOM_CYLINDER || type == mjGEOM_MESH;
  };
  return (general(first) || general(second)) && !sphere_cylinder;
}

}  // namespace diffmj
