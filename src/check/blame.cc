#include "check/blame.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "check/directions.h"
#include "diffmj/error.h"
#include "mj/constraint_type.h"
#include "mj/handle.h"

namespace diffmj {
namespace {

constexpr double kNever = -1e9;  // [m] margin of a pair that is not to collide
// models are made anew for each suspect, which takes long where meshes are large
constexpr std::chrono::seconds kSearchTime(20);
constexpr size_t kMostNames = 3;

// Something that may be wrong: how to bring it back into a model without any of its kind.
struct Suspect {
  std::string name;
  std::function<void(const mjModel* from, mjModel* to)> restore;
};

void collide(mjModel* m, int geom, int contype, int conaffinity) {
  m->geom_contype[geom] = contype;
  m->geom_conaffinity[geom] = conaffinity;
  m->body_contype[m->geom_bodyid[geom]] |= contype;
  m->body_conaffinity[m->geom_bodyid[geom]] |= conaffinity;
}

void remove_constraints(mjModel* m) {
  std::fill_n(m->jnt_limited, m->njnt, 0);
  std::fill_n(m->tendon_limited, m->ntendon, 0);
  std::fill_n(m->dof_frictionloss, m->nv, 0.0);
  std::fill_n(m->tendon_frictionloss, m->ntendon, 0.0);
  std::fill_n(m->eq_active0, m->neq, 0);
  std::fill_n(m->body_contype, m->nbody, 0);
  std::fill_n(m->body_conaffinity, m->nbody, 0);
  for (int i = 0; i < static_cast<int>(m->ngeom); i++) collide(m, i, 0, 0);
  std::fill_n(m->pair_margin, m->npair, kNever);
  std::fill_n(m->flex_contype, m->nflex, 0);
  std::fill_n(m->flex_conaffinity, m->nflex, 0);
}

void restore_contact(const mjModel* from, int first, int second, mjModel* to) {
  bool pair = false;
  for (int i = 0; i < static_cast<int>(from->npair); i++) {
    const int a = from->pair_geom1[i], b = from->pair_geom2[i];
    if (std::minmax(a, b) != std::minmax(first, second)) continue;
    to->pair_margin[i] = from->pair_margin[i];
    pair = true;
  }
  if (pair) return;
  collide(to, first, 1, 0);
  collide(to, second, 0, 1);
}

// Constraints that carry force in the step, and equalities.
std::vector<Suspect> constraint_suspects(const Model& model, const RolloutFunction& step) {
  std::vector<Suspect> out;
  std::set<std::tuple<int, int, int>> seen;
  const auto name = [&](int type, int id) { return model.element_name(type, id); };
  for (const RolloutFunction::StepPieces& at : step.pieces()) {
    for (const PieceRow& row : at.pieces.rows) {
      const bool contact = is_contact(row.type);
      const int a = row.first, b = contact ? row.second : 0;
      if (row.zone == 0 ||
          !seen.emplace(contact ? mjCNSTR_CONTACT_ELLIPTIC : row.type, a, b).second) {
        continue;
      }
      switch (row.type) {
        case mjCNSTR_FRICTION_DOF:
          out.push_back({"the friction loss of " + model.dof_name(a), [a](auto* from, auto* to) {
                           to->dof_frictionloss[a] = from->dof_frictionloss[a];
                         }});
          break;
        case mjCNSTR_FRICTION_TENDON:
          out.push_back(
              {"the friction loss of " + name(mjOBJ_TENDON, a), [a](auto* from, auto* to) {
                 to->tendon_frictionloss[a] = from->tendon_frictionloss[a];
               }});
          break;
        case mjCNSTR_LIMIT_JOINT:
          out.push_back({"the limit of " + name(mjOBJ_JOINT, a),
                         [a](auto*, auto* to) { to->jnt_limited[a] = 1; }});
          break;
        case mjCNSTR_LIMIT_TENDON:
          out.push_back({"the limit of " + name(mjOBJ_TENDON, a),
                         [a](auto*, auto* to) { to->tendon_limited[a] = 1; }});
          break;
        default:
          if (a < 0 || b < 0) break;  // of a flex, whose contacts cannot be removed one by one
          out.push_back({"the contact of " + name(mjOBJ_GEOM, a) + " and " + name(mjOBJ_GEOM, b),
                         [a, b](auto* from, auto* to) { restore_contact(from, a, b, to); }});
      }
    }
  }
  const mjModel* m = model.mj();
  for (int i = 0; i < static_cast<int>(m->neq); i++) {
    if (!m->eq_active0[i]) continue;
    out.push_back({name(mjOBJ_EQUALITY, i), [i](auto*, auto* to) { to->eq_active0[i] = 1; }});
  }
  return out;
}

constexpr int kPassive = mjDSBL_SPRING | mjDSBL_DAMPER;

std::vector<Suspect> smooth_suspects(const Model& model) {
  const mjModel* m = model.mj();
  std::vector<Suspect> out;
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    out.push_back({model.element_name(mjOBJ_ACTUATOR, i), [i](auto* from, auto* to) {
                     to->opt.disableflags &= ~mjDSBL_ACTUATION;
                     for (int k = 0; k < static_cast<int>(to->nactuator); k++) {
                       if (k != i) std::fill_n(to->actuator_gear + 6 * k, 6, 0.0);
                     }
                     to->opt.disableflags |= from->opt.disableflags & mjDSBL_ACTUATION;
                   }});
  }
  for (int i = 0; i < static_cast<int>(m->ntendon); i++) {
    if (m->tendon_stiffness[i] == 0 && m->tendon_damping[i] == 0) continue;
    out.push_back({"the spring or damper of " + model.element_name(mjOBJ_TENDON, i),
                   [i](auto* from, auto* to) {
                     to->opt.disableflags =
                         (to->opt.disableflags & ~kPassive) | (from->opt.disableflags & kPassive);
                     std::fill_n(to->dof_damping, to->nv, 0.0);
                     std::fill_n(to->jnt_stiffness, to->njnt, 0.0);
                     for (int k = 0; k < static_cast<int>(to->ntendon); k++) {
                       if (k != i) to->tendon_stiffness[k] = to->tendon_damping[k] = 0;
                     }
                   }});
  }
  for (int i = 0; i < static_cast<int>(m->njnt); i++) {
    const int dof = m->jnt_dofadr[i];
    if (m->jnt_stiffness[i] == 0 && m->dof_damping[dof] == 0) continue;
    out.push_back({"the spring or damper of " + model.element_name(mjOBJ_JOINT, i),
                   [i](auto* from, auto* to) {
                     to->opt.disableflags =
                         (to->opt.disableflags & ~kPassive) | (from->opt.disableflags & kPassive);
                     std::fill_n(to->tendon_stiffness, to->ntendon, 0.0);
                     std::fill_n(to->tendon_damping, to->ntendon, 0.0);
                     for (int k = 0; k < static_cast<int>(to->njnt); k++) {
                       if (k != i) to->jnt_stiffness[k] = 0;
                     }
                     for (int k = 0; k < static_cast<int>(to->nv); k++) {
                       if (to->dof_jntid[k] != i) to->dof_damping[k] = 0;
                     }
                   }});
  }
  return out;
}

class Trial {
 public:
  Trial(const Model& model, const RolloutFunction& step, double tolerance,
        const std::function<Model(const Model&)>& adjoint_of)
      : model_(model), step_(step), tolerance_(tolerance), adjoint_of_(adjoint_of) {}

  // The gradient of a changed model differs from its differences in one of a few directions.
  template <class Change>
  bool differs(Change&& change) const {
    constexpr int kDirections = 3;
    const MjModelPtr copy(mj_copyModel(nullptr, model_.mj()));
    change(copy.get());
    try {
      const Model changed = Model::from_mjmodel(copy.get(), model_.options());
      const RolloutFunction function = step_.on(changed);
      const Model adjoint = adjoint_of_ ? adjoint_of_(changed) : changed;
      StepwiseCheck check(adjoint, function, tolerance_);
      std::mt19937 random(1);
      for (int i = 0; i < kDirections; i++) {
        if (check.direction(random).verdict == CheckDirection::Verdict::kDiffers) return true;
      }
    } catch (const InputError&) {
      // without its constraints the step may diverge
    }
    return false;
  }

  std::vector<std::string> find(const std::vector<Suspect>& suspects,
                                const std::function<void(mjModel*)>& remove) const {
    std::vector<std::string> out;
    const auto end = std::chrono::steady_clock::now() + kSearchTime;
    for (const Suspect& suspect : suspects) {
      if (out.size() > kMostNames || std::chrono::steady_clock::now() > end) break;
      const bool guilty = differs([&](mjModel* m) {
        remove(m);
        suspect.restore(model_.mj(), m);
      });
      if (guilty) out.push_back(suspect.name);
    }
    return out;
  }

 private:
  const Model& model_;
  const RolloutFunction& step_;
  double tolerance_;
  std::function<Model(const Model&)> adjoint_of_;
};

std::string list(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); i++) {
    out += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNames) out += " and others";
  return out;
}

}  // namespace

std::string responsible(const Model& model, const RolloutFunction& step, double tolerance,
                        const std::function<Model(const Model&)>& adjoint_of) {
  // other forces may be much larger where others are missing: a tenth of what the whole may have
  const Trial trial(model, step, tolerance / 10, adjoint_of);
  // without constraints: is it in the smooth forces?
  const auto bare = [](mjModel* m) {
    remove_constraints(m);
    m->opt.disableflags |= mjDSBL_ACTUATION | kPassive;
  };
  if (trial.differs(bare)) {
    return "inertia, gravity or the integrator: it remains without constraints, actuators, springs "
           "and dampers";
  }
  if (trial.differs(remove_constraints)) {
    const std::vector<std::string> found = trial.find(smooth_suspects(model), bare);
    if (!found.empty()) return list(found);
    return "actuators, springs and dampers together: it remains without constraints";
  }
  const std::vector<Suspect> constraints = constraint_suspects(model, step);
  const std::vector<std::string> found = trial.find(constraints, remove_constraints);
  if (!found.empty()) return list(found);
  if (constraints.empty()) return "the step as a whole";
  std::vector<std::string> names;
  for (const Suspect& one : constraints) names.push_back(one.name);
  return "constraints that act together, none of them alone: " + list(names);
}

std::string unsteady(const Model& model, const RolloutFunction& step) {
  constexpr double kDistance = 1e-7;
  constexpr int kValues = 6;
  std::mt19937 random(1);
  const Vector u = random_vector(step.size(), kDistance, random);
  std::vector<Pieces> states;
  for (int i = 0; i < kValues; i++) {
    Vector z = u;
    for (double& value : z) value *= i;
    RolloutFunction::Value value = step(z);
    if (value.ok) states.push_back(std::move(value.pieces.front().pieces));
  }
  double most = -1;
  std::string name = "no constraint acts in that step";
  for (const PieceRow& row : step.pieces().front().pieces.rows) {
    if (row.zone == 0) continue;
    const Switch at{.row = row, .of = Switch::kZone};
    double scatter = 0;
    // third differences: a smooth force has next to none
    for (size_t i = 0; i + 3 < states.size(); i++) {
      const double third = at.value(states[i + 3]) - 3 * at.value(states[i + 2]) +
                           3 * at.value(states[i + 1]) - at.value(states[i]);
      if (std::isfinite(third)) scatter = std::max(scatter, std::abs(third));
    }
    if (scatter <= most) continue;
    most = scatter;
    const bool iterated = is_iterated(model.mj(), row);
    std::string what = step.survey().name(at);
    name = "least steady is what " + what.substr(0, what.find(" changes")) + " does" +
           (iterated ? ", which MuJoCo's collider finds by iteration" : "");
  }
  return name;
}

}  // namespace diffmj
