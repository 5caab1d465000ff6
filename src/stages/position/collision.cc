#include "stages/position/collision.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "mj/collider.h"
#include "stages/position/collision/box_box.h"
#include "stages/position/collision/capsule_box.h"
#include "stages/position/collision/convex.h"
#include "stages/position/collision/detect.h"
#include "stages/position/collision/differences.h"
#include "stages/position/collision/nearest.h"
#include "stages/position/collision/plane.h"
#include "stages/position/collision/readings.h"
#include "stages/position/collision/smooth.h"

namespace diffmj {
namespace {

// a contact without the solver's own Hessian of its cone
constexpr size_t kBeforeCone = offsetof(mjContact, H),
                 kAfterCone = kBeforeCone + sizeof(mjContact::H),
                 kContactBytes = sizeof(mjContact) - sizeof(mjContact::H);

PairContactBar contact_bar(const PairContact& contact, const Vector3& tangent,
                           const ContactBar& bar) {
  PairContactBar out{.dist = bar.dist, .pos = bar.pos};
  contact_frame_pullback(contact.n, tangent, bar.frame, out.n, out.tangent);
  return out;
}

// pairs whose contacts are nearest points in MuJoCo's own closed form
bool is_nearest(int type1, int type2) {
  if (type1 == mjGEOM_CAPSULE) return type2 == mjGEOM_CAPSULE;
  return type1 == mjGEOM_SPHERE && (type2 == mjGEOM_SPHERE || type2 == mjGEOM_CAPSULE ||
                                    type2 == mjGEOM_CYLINDER || type2 == mjGEOM_BOX);
}

// How much of what turns about a plane's normal is differentiated: all, unless derivatives are
// smooth.
double turning_of(const StageModel& impl, const std::array<GeomPose, 2>& geom) {
  const CollisionOptions& o = impl.options.collisions;
  const GeomPose& other = geom[1];
  if (o.mode != Collisions::kSmoothBackward || geom[0].type != mjGEOM_PLANE) return 1;
  const double sin_tilt = geom[0].axis(2).cross(other.axis(2)).norm();
  // a capsule turns a contact's frame, which has the distance of its ends for a lever
  const double size = other.type == mjGEOM_CAPSULE ? other.size[1] : other.size[0];
  return turning_weight(sin_tilt, size, o.smoothness);
}

// takes the tangents' turn about the normal out of the cotangents of a frame, all of it for 0
ContactBar without_turn(const mjContact& contact, double turning, const ContactBar& bar) {
  ContactBar out = bar;
  const Rotation frame(contact.frame);
  const Eigen::RowVector3d y = frame.row(1), z = frame.row(2);
  out.frame.row(1) -= (1 - turning) * z.dot(bar.frame.row(1)) * z;
  out.frame.row(2) -= (1 - turning) * y.dot(bar.frame.row(2)) * y;
  return out;
}

// MuJoCo's colliders in closed form; false, with out half written, if a contact is not known
bool primitive_pullback(const StageModel& impl, const mjData* d, int first, int n,
                        const ContactBar* bar, PairBar& out) {
  const mjModel* m = impl.mj();
  const mjContact* contacts = d->contact + first;
  const std::array<GeomPose, 2> geom = {GeomPose(m, d, contacts[0].geom[0]),
                                        GeomPose(m, d, contacts[0].geom[1])};
  const int type1 = geom[0].type, type2 = geom[1].type;
  if (type1 == mjGEOM_CAPSULE && type2 == mjGEOM_BOX) {
    std::array<PairContactBar, 2> pair_bar;
    if (n > 2) return false;
    for (int i = 0; i < n; i++) {
      pair_bar[static_cast<size_t>(i)] =
          contact_bar(PairContact(contacts[i]), Vector3::Zero(), bar[i]);
    }
    return capsule_box_pullback(geom, contacts, n, pair_bar.data(), out);
  }
  const bool plane = type1 == mjGEOM_PLANE, boxes = type1 == mjGEOM_BOX && type2 == mjGEOM_BOX;
  if (!plane && !boxes && !is_nearest(type1, type2)) return false;
  const Vector3 tangent =
      plane && type2 == mjGEOM_CAPSULE ? geom[1].axis(2) : Vector3(Vector3::Zero());
  const double turning = turning_of(impl, geom);
  for (int i = 0; i < n; i++) {
    if (!bar[i].any()) continue;
    const PairContact contact(contacts[i]);
    const bool turns = turning < 1 && type2 == mjGEOM_CAPSULE;
    const PairContactBar one =
        contact_bar(contact, tangent, turns ? without_turn(contacts[i], turning, bar[i]) : bar[i]);
    if (!(plane   ? plane_pullback(geom, contact, one, turning, out)
          : boxes ? box_box_pullback(geom, contact, one, out)
                  : nearest_pullback(geom, contact, {}, one, out))) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool closed_form_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                          Workspace& workspace, PairBar& out) {
  const mjData* d = workspace.data.get();
  const auto& geom = d->contact[first].geom;
  if (is_iterative(impl.mj(), geom[0], geom[1])) {
    return convex_pullback(impl, first, n, bar, workspace, {&out, 1});
  }
  return primitive_pullback(impl, d, first, n, bar, out);
}

// The same of the colliders that the model's derivatives are of.
static bool geometry_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                              bool sizes, Workspace& workspace, PairBar& out) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  const auto& geom = d->contact[first].geom;
  const Collider* collider = collider_asked_for();
  if (collider && has_smooth_contacts(*collider, m->geom_type[geom[0]], m->geom_type[geom[1]])) {
    return smooth_pullback(*collider, m, d, first, n, bar, sizes, out);
  }
  // in the other order, as MuJoCo saw them: left to differences
  if (m->geom_type[geom[0]] > m->geom_type[geom[1]]) return false;
  if (impl.options.collisions.mode != Collisions::kSmoothBackward) {
    return closed_form_pullback(impl, first, n, bar, workspace, out);
  }
  std::array<ContactBar, kMaxContacts> left;
  std::copy_n(bar, n, left.begin());
  return smooth_backward_pullback(impl.smooth_collider(), m, d, first, n, left.data(), sizes,
                                  out) == 0 ||
         closed_form_pullback(impl, first, n, left.data(), workspace, out);
}

// The same of several cotangents, of n contacts each, where that saves work: of contacts that
// MuJoCo's iterating colliders find.
static bool together_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                              Workspace& workspace, std::span<PairBar> out) {
  const mjModel* m = impl.mj();
  const auto& geom = workspace.data->contact[first].geom;
  const int type[2] = {m->geom_type[geom[0]], m->geom_type[geom[1]]};
  const Collider* collider = collider_asked_for();
  if (impl.options.collisions.mode == Collisions::kSmoothBackward || type[0] > type[1] ||
      (collider && has_smooth_contacts(*collider, type[0], type[1])) ||
      !is_iterative(m, geom[0], geom[1])) {
    return false;
  }
  return convex_pullback(impl, first, n, bar, workspace, out);
}

// Wrenches about the first contact's place.
static PairBar pair_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                             bool sizes, Workspace& workspace) {
  const Vector3 pivot(workspace.data->contact[first].pos);
  PairBar pair(pivot);
  if (!geometry_pullback(impl, first, n, bar, sizes, workspace, pair)) {
    pair = PairBar(pivot);
    differences_pullback(impl, first, n, bar, sizes, workspace, pair);
  }
  return pair;
}

void collision_jacobian(const StageModel& impl, int first, int n, int k, Workspace& workspace,
                        ContactJacobian& out) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  const mjContact& lead = d->contact[first];
  const Rotation frame(d->contact[first + k].frame);
  constexpr size_t kRows = kMaxCotangents;
  const auto stride = static_cast<size_t>(n);
  std::array<ContactBar, kRows * mjMAXCONPAIR> bar;
  for (size_t row = 0; row < kRows; row++) {
    for (size_t i = 0; i < stride; i++) bar[row * stride + i] = {};
    ContactBar& one = bar[row * stride + static_cast<size_t>(k)];
    if (row == 0) {
      one.dist = 1;
    } else if (row < 4) {
      one.pos[static_cast<int>(row) - 1] = 1;
    } else {
      // δframe_i = φ × frame_i, so that φ = ½ Σ frame_i × δframe_i
      const Vector3 unit = Vector3::Unit(static_cast<int>(row) - 4);
      for (int i = 0; i < 3; i++) {
        one.frame.row(i) = 0.5 * unit.cross(Vector3(frame.row(i))).transpose();
      }
    }
  }
  PairBars pair = pair_bars(Vector3(lead.pos));
  if (!together_pullback(impl, first, n, bar.data(), workspace, pair)) {
    for (size_t row = 0; row < kRows; row++) {
      pair[row] = pair_pullback(impl, first, n, &bar[row * stride], false, workspace);
    }
  }
  for (size_t row = 0; row < kRows; row++) {
    for (size_t side = 0; side < 2; side++) {
      const Vector6& wrench = pair[row].wrench[side];
      const Vector3 at = from_origin(m, d, m->geom_bodyid[lead.geom[side]], lead.pos);
      out.row(static_cast<int>(row)).segment<6>(6 * static_cast<Eigen::Index>(side)) =
          wrench_at(at, wrench.head<3>(), wrench.tail<3>()).transpose();
    }
  }
}

int contacts_of_pair(const mjData* d, int first) {
  const mjContact& lead = d->contact[first];
  int n = 1;
  while (first + n < d->ncon && n < mjMAXCONPAIR && d->contact[first + n].geom[0] == lead.geom[0] &&
         d->contact[first + n].geom[1] == lead.geom[1]) {
    n++;
  }
  return n;
}

void collision_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                        const ParameterBar& params, Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  const mjContact& lead = d->contact[first];
  const Vec size_bar = params[Parameter::kGeomSize];
  const PairBar pair = pair_pullback(impl, first, n, bar, !size_bar.empty(), workspace);
  for (size_t side = 0; side < 2; side++) {
    const int geom = lead.geom[side];
    const Vector6& wrench = pair.wrench[side];
    geom_pullback(m, d, geom,
                  wrench_at(from_origin(m, d, m->geom_bodyid[geom], lead.pos), wrench.head<3>(),
                            wrench.tail<3>()),
                  workspace.sweep, params);
    if (!size_bar.empty()) {
      Eigen::Map<Vector3>(&size_bar[3 * static_cast<size_t>(geom)]) += pair.size[side];
    }
  }
}

void keep_contacts(const mjData* d, std::vector<unsigned char>& bytes) {
  for (int i = 0; i < d->ncon; i++) {
    const auto* contact = reinterpret_cast<const unsigned char*>(d->contact + i);
    bytes.insert(bytes.end(), contact, contact + kBeforeCone);
    bytes.insert(bytes.end(), contact + kAfterCone, contact + sizeof(mjContact));
  }
}

void restore_contacts(const mjModel* m, std::span<const unsigned char> bytes, mjData* d) {
  // what mj_collision does before it looks for contacts; a copy of pointers is enough for it
  mjModel without = *m;
  without.opt.disableflags |= mjDSBL_CONTACT;
  mj_collision(&without, d);
  for (size_t at = 0; at < bytes.size(); at += kContactBytes) {
    mjContact contact = {};
    auto* to = reinterpret_cast<unsigned char*>(&contact);
    std::memcpy(to, &bytes[at], kBeforeCone);
    std::memcpy(to + kAfterCone, &bytes[at + kBeforeCone], kContactBytes - kBeforeCone);
    mj_addContact(m, d, &contact);
  }
}

}  // namespace diffmj
