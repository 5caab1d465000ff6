#include "record/jumping_contact.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "base/rotation.h"
#include "base/text.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "setup/model_impl.h"
#include "stages/position/collision/smooth.h"

namespace diffmj {
namespace {

constexpr int kPoses = 200;
// A change from one pose to the next that is a jump: so many times what is usual, and so much of
// the depth.
constexpr double kUsual = 30, kShare = 0.01;

using Pair = std::array<int, 4>;  // geoms and flexes

// Where the contacts of a pair are: Σ depth normal, and Σ depth point over the size of the pair.
struct Place {
  Vector3 normal = Vector3::Zero(), point = Vector3::Zero();
  double depth = 0;  // [m] the largest
};

struct Trace {
  std::vector<double> changes = {};
  double most = 0, angle = 0, shift = 0, depth = 0;  // [m], [rad], share of the size, [m]

  void add(const Place& before, const Place& after) {
    const double change =
        (after.normal - before.normal).norm() + (after.point - before.point).norm();
    changes.push_back(change);
    if (change <= most) return;
    most = change;
    depth = std::max(before.depth, after.depth);
    shift = (after.point - before.point).norm() / depth;
    angle = std::atan2(before.normal.cross(after.normal).norm(), before.normal.dot(after.normal));
  }
  bool jumps() {
    // those that jump often have a quarter that does not
    const auto quarter = changes.begin() + static_cast<ptrdiff_t>(changes.size() / 4);
    std::nth_element(changes.begin(), quarter, changes.end());
    return most > std::max(kUsual * *quarter, kShare * depth);
  }
};

// [m] of the smaller geom; planes have none
double pair_size(const mjModel* m, int geom1, int geom2) {
  double size = m->stat.extent;
  for (const int geom : {geom1, geom2}) {
    if (geom >= 0 && m->geom_rbound[geom] > 0) size = std::min(size, m->geom_rbound[geom]);
  }
  return size;
}

std::map<Pair, Place> contact_places(const mjModel* m, const mjData* d) {
  std::map<Pair, Place> out;
  for (int i = 0; i < d->ncon; i++) {
    const mjContact& c = d->contact[i];
    Place& place = out[{c.geom[0], c.geom[1], c.flex[0], c.flex[1]}];
    const double depth = std::max(c.includemargin - c.dist, 0.0);
    place.normal += depth * Vector3(c.frame);
    place.point += depth / pair_size(m, c.geom[0], c.geom[1]) * Vector3(c.pos);
    place.depth = std::max(place.depth, depth);
  }
  return out;
}

}  // namespace

std::string find_jumping_contact(const Model& model, const StepStart& start, double duration,
                                 Workspace& workspace) {
  const mjModel* m = model.impl().mj();
  mjData* d = workspace.data.get();
  std::vector<double> way(start.qvel.size());
  std::map<Pair, Trace> traces;
  std::map<Pair, Place> before;
  for (int k = 0; k <= kPoses; k++) {
    const double s = duration * k / kPoses;
    for (size_t i = 0; i < way.size(); i++) {
      way[i] = s * start.qvel[i] + (start.qacc.empty() ? 0 : s * s / 2 * start.qacc[i]);
    }
    mj_call("mj_fwdPosition", [&] {
      std::copy(start.qpos.begin(), start.qpos.end(), d->qpos);
      mj_integratePos(m, d->qpos, way.data(), 1);
      mj_fwdPosition(CollidingModel(m), d);
    });
    std::map<Pair, Place> after = contact_places(m, d);
    if (k > 0) {
      // what appears or vanishes does so at depth 0
      for (const auto& [pair, place] : after) traces[pair].add(before[pair], place);
      for (const auto& [pair, place] : before) {
        if (!after.contains(pair)) traces[pair].add(place, {});
      }
    }
    before = std::move(after);
  }
  const Trace* worst = nullptr;
  Pair which{};
  for (auto& [pair, trace] : traces) {
    if (!trace.jumps() || (worst && trace.most <= worst->most)) continue;
    worst = &trace;
    which = pair;
  }
  if (!worst) return "";
  const auto side = [&](size_t k) {
    if (which[k] < 0) return model.element_name(mjOBJ_FLEX, which[k + 2]);
    const char* name = mj_id2name(m, mjOBJ_GEOM, which[k]);
    return model.element_name(mjOBJ_GEOM, which[k]) +
           (name && *name ? "" : " of " + model.element_name(mjOBJ_BODY, m->geom_bodyid[which[k]]));
  };
  // which of the two is seen
  const bool turns = worst->angle > kShare;
  const std::string how =
      turns ? "turns its normal by " + text("%.2g", worst->angle * 180 / mjPI) + " degrees"
            : "moves its points by " +
                  text("%.2g", worst->shift * pair_size(m, which[0], which[1])) + " m";
  // a surrogate's forward pass has MuJoCo's
  const bool smooth = which[0] >= 0 && which[1] >= 0 &&
                      model.options().collisions.mode != Collisions::kSmooth &&
                      has_smooth_collider(m->geom_type[which[0]], m->geom_type[which[1]]);
  return "the contact of " + side(0) + " and " + side(1) + " jumps: from one pose to the next, " +
         text("%.1g", duration / kPoses) + " s later, MuJoCo's collider " + how +
         " (they overlap by " + text("%.2g", worst->depth) + " m), and forces jump with it; " +
         (smooth ? "use collisions=\"smooth\", " : "") +
         "start where they do not overlap, exclude the pair from contact, or use MuJoCo's own "
         "steps "
         "(integrator=\"model\")";
}

void JumpingContact::rejected(const StepStart& start, double h, int interval) {
  nrejected_++;
  if (run_++ == 0) duration_ = h;
  if (run_ <= most_ || start.ncon == 0) return;
  most_ = run_;
  interval_ = interval;
  most_duration_ = duration_;
  time_ = start.time;
  const auto keep = [](CVec from, std::vector<double>& to) { to.assign(from.begin(), from.end()); };
  keep(start.qpos, qpos_);
  keep(start.qvel, qvel_);
  keep(start.act, act_);
  keep(start.qacc, qacc_);
}

void JumpingContact::accepted() {
  naccepted_++;
  run_ = 0;
}

std::string JumpingContact::what(const Model& model, Workspace& workspace) const {
  // a contact that sets in over a width rejects two or three in a row, and few on the whole
  constexpr int kInARow = 4;
  constexpr double kOfAll = 0.2;
  if (most_ < kInARow || static_cast<double>(nrejected_) < kOfAll * static_cast<double>(naccepted_))
    return "";
  const StepStart start{
      .time = time_, .qpos = qpos_, .qvel = qvel_, .act = act_, .qacc = qacc_, .act_dot = {}};
  return find_jumping_contact(model, start, most_duration_, workspace);
}

std::optional<Warning> JumpingContact::warning(const Model& model, Workspace& workspace) const {
  const std::string text = what(model, workspace);
  if (text.empty()) return {};
  return Warning{.text = "jump: at " + number(time_) + " s " + text +
                         "; the gradient does not contain the terms of such jumps",
                 .first_step = interval_,
                 .count = 1,
                 .kind = WarningKind::kJump};
}

}  // namespace diffmj
