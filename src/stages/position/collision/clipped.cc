#include "stages/position/collision/clipped.h"

#include <algorithm>
#include <cmath>

#include "stages/position/collision/clip.h"
#include "stages/position/collision/detect.h"
#include "stages/position/collision/face.h"
#include "stages/position/collision/nearest.h"
#include "stages/position/collision/plane.h"

namespace diffmj {
namespace {

constexpr double kPlace = 1e-9;        // of the sizes: points of polygons
constexpr double kCurvedPlace = 1e-5;  // of the sizes: the collider finds the side by iterating
constexpr double kNormal = 1e-9;       // [rad] the contact's normal is the face's
constexpr double kNearlyFlat = 1e-3;   // of the sizes: MuJoCo joins triangles to polygons
constexpr double kBent = 1e-6;         // [rad] more than rounding bends a face
constexpr double kAligned = 0.1;       // [rad] more than faces that MuJoCo clips differ in
constexpr double kParallel = 1e-6;     // lines that meet at a smaller angle meet nowhere

using Contacts = std::span<const mjPreContact>;
using Bars = std::span<const PairContactBar* const>;

bool is_on_segment(const Vector3& point, const Vector3& a, const Vector3& b, double tolerance) {
  const Vector3 way = b - a;
  const double length = way.norm();
  if (length <= tolerance) return false;
  const double x = way.dot(point - a) / length;
  return x >= -tolerance && x <= length + tolerance &&
         (point - a - x / length * way).norm() <= tolerance;
}

// how far a face's corners are from its plane, as an angle
double face_bend(const Face& face) {
  const Vector3 first = face.corner(0);
  double most = 0;
  for (int i = 1; i < face.n; i++) {
    const Vector3 way = face.corner(i) - first;
    most = std::max(most, std::abs(face.normal.dot(way)) / way.norm());
  }
  return most;
}

double place_tolerance(const std::array<GeomPose, 2>& geom) {
  return kPlace * (geom[0].size.lpNorm<1>() + geom[1].size.lpNorm<1>());
}

// whether the face of this side has the contacts' normal
bool has_normal(const Face& face, int side, Contacts contacts) {
  return std::all_of(contacts.begin(), contacts.end(), [&](const mjPreContact& contact) {
    return (face.normal - PairContact(contact).outward(side)).norm() <= kNormal;
  });
}

// and their points of this side in its plane
bool is_plane(const Face& face, int side, Contacts contacts, double near) {
  const Vector3 corner = face.corner(0);
  return std::all_of(contacts.begin(), contacts.end(), [&](const mjPreContact& contact) {
    return std::abs(face.normal.dot(PairContact(contact).surface(side) - corner)) <= near;
  });
}

// How the side of a cylinder or a capsule has got its line: where it falls to the face, where it
// touches the feature that is farthest out, or a side of the face.
struct Line {
  enum How { kFalls, kTouches, kTouchesSide } how;
  int side = 0;
};

// one contact of a face of this side with a line of the other geom, a capsule or a cylinder
class ClippedLine {
 public:
  ClippedLine(const std::array<GeomPose, 2>& geom, const PairContact& contact,
              const PairContactBar& bar, const Face& face, int side)
      : contact_(contact),
        bar_(bar),
        face_(face),
        side_(side),
        own_(geom[static_cast<size_t>(side)]),
        other_(geom[static_cast<size_t>(1 - side)]),
        e_(face.normal),
        c_(contact.surface(1 - side)),
        near_(place_tolerance(geom)),
        bend_(face_bend(face)) {}

  // whether the line is along the face, exactly or so nearly that u does not tell which end is down
  bool is_flat() const { return std::abs(other_.axis(2).dot(e_)) <= kPlace + 4 * bend_; }
  bool is_nearly_flat() const { return std::abs(other_.axis(2).dot(e_)) <= direction_tolerance(); }
  // whether c is an end of it
  bool is_end() const { return std::abs(std::abs(place()) - other_.size[1]) <= near_; }
  // the side of the face that c is on, -1 if there is none
  int cut_side() const {
    for (int i = 0; i < face_.n; i++) {
      const Vector3 a = face_.corner(i), edge = face_.corner(i + 1) - a;
      if (std::abs(side_normal(face_, i).dot(c_ - a)) > near_) continue;
      // not beyond the ends of the edge
      const double x = edge.dot(c_ - a) / edge.norm();
      if (x >= -near_ && x <= edge.norm() + near_) return i;
    }
    return -1;
  }

  // c = centre + x axis + radius u,  u ⟂ axis
  bool run(const Line& line, PairBar& out) const {
    const Vector3 axis = other_.axis(2);
    const double radius = other_.size[0], half = other_.size[1], x = place();
    const Vector3 u = (c_ - other_.pos - x * axis) / radius;
    const Vector3 c_bar = face_point_pullback(side_, e_, face_.size, contact_, bar_, out);
    Vector3 line_bar = c_bar;
    if (bend_ > kBent) return false;
    if (is_end()) {
      size_of(out, false)[1] += x < 0 ? -axis.dot(c_bar) : axis.dot(c_bar);
    } else if (std::abs(x) > half || !cut(axis, line_bar, out)) {
      return false;
    }
    // δc = δ(of a point fixed in the geom) + radius (δu - ω × u)
    out.force(1 - side_, c_, line_bar);
    out.torque(1 - side_, -radius * u.cross(line_bar));
    size_of(out, false)[0] += u.dot(line_bar);
    if (line.how == Line::kFalls) return falls(u, axis, radius * line_bar, out);
    return touches(line, u, axis, radius * line_bar, out);
  }

 private:
  Vector3& size_of(PairBar& out, bool own) const {
    return out.size[static_cast<size_t>(own ? side_ : 1 - side_)];
  }

  // c moves along the line so as to stay on a side of the face: what is left of its cotangent for
  // the line's own motion
  bool cut(const Vector3& axis, Vector3& c_bar, PairBar& out) const {
    const int i = cut_side();
    if (i < 0) return false;
    const Vector3 pn = side_normal(face_, i);
    const double along = pn.dot(axis);
    if (std::abs(along) < kParallel) return false;
    const Vector3 force = axis.dot(c_bar) / along * pn;
    out.force(side_, c_, force);
    corner_size_pullback(own_, face_.corner(i), force, size_of(out, true));
    c_bar -= force;
    return true;
  }

  // u = w/|w| of a cylinder, w of a capsule,  w = axis (axis·e) - e: where it falls to the face
  bool falls(const Vector3& u, const Vector3& axis, const Vector3& u_bar, PairBar& out) const {
    const Vector3 w = axis * axis.dot(e_) - e_;
    const bool round = other_.type == mjGEOM_CYLINDER;
    const double length = round ? w.norm() : 1;
    if (length < kParallel) return false;
    if ((u - w / length).norm() > direction_tolerance()) return false;
    const Vector3 w_bar = round ? Vector3((u_bar - u * u.dot(u_bar)) / length) : u_bar;
    const Vector3 axis_bar = axis.dot(e_) * w_bar + axis.dot(w_bar) * e_,
                  e_bar = axis.dot(w_bar) * axis - w_bar;
    out.torque(1 - side_, axis.cross(axis_bar));
    out.torque(side_, e_.cross(e_bar));
    return true;
  }

  // u is the normal at which the side touches an edge or a corner: of the least penetration, from
  // which the collider has gone on to the face
  bool touches(const Line& how, const Vector3& u, const Vector3& axis, const Vector3& u_bar,
               PairBar& out) const {
    const double tolerance = direction_tolerance();
    std::array<Feature, 2> feature;
    Feature &line = feature[static_cast<size_t>(1 - side_)],
            &edge = feature[static_cast<size_t>(side_)];
    if (std::abs(u.norm() - 1) > tolerance) return false;
    const Vector3 n = u.normalized();
    if (how.how == Line::kTouchesSide) {
      edge.dim = 1;
      edge.p = face_.corner(how.side);
      edge.t[0] = (face_.corner(how.side + 1) - edge.p).normalized();
      if (std::abs(n.dot(edge.t[0])) > tolerance) return false;
    } else if (!support_feature(own_, -n, {.place = tolerance, .normal = tolerance}, edge) ||
               edge.dim > 1) {
      return false;
    }
    line.dim = 1;
    line.t[0] = axis;
    line.radius = other_.size[0];
    line.radius_size = 0;
    // edge + s t = centre + x axis + L n
    const Vector3 between = edge.p - other_.pos;
    double s = 0;
    if (edge.dim == 1 && edge.K(0, 0) == 0) {
      const double across = n.cross(axis).dot(edge.t[0]);
      if (std::abs(across) < kParallel) return false;
      s = -n.cross(axis).dot(between) / across;
    }
    edge.p += s * edge.t[0];
    const double x = axis.dot(edge.p - other_.pos);
    line.p = other_.pos + x * axis;
    if (std::abs(x) > other_.size[1]) return false;
    if (std::abs(n.cross(axis).dot(edge.p - line.p)) > tolerance / kPlace * near_) return false;

    // n of the contact is from the first geom to the second, u from the line to the edge
    PairContact contact = contact_;
    contact.n = side_ == 1 ? n : Vector3(-n);
    contact.dist = n.dot(edge.p - line.p) - line.radius;
    nearest_pullback(feature, contact, {.n = side_ == 1 ? u_bar : Vector3(-u_bar)}, 0, out);
    return true;
  }

  double place() const { return other_.axis(2).dot(c_ - other_.pos); }
  // a cylinder's side is found by iterating; the least penetration is over some triangle of the
  // face
  double direction_tolerance() const {
    const bool round = other_.type == mjGEOM_CYLINDER || own_.type == mjGEOM_CYLINDER;
    return round ? kCurvedPlace : kPlace + 4 * bend_;
  }

  const PairContact& contact_;
  const PairContactBar& bar_;
  const Face& face_;
  int side_;  // of the face
  const GeomPose &own_, &other_;
  Vector3 e_, c_;
  double near_, bend_;
};

// the readings of contacts with a face of this side
class ClippedPair {
 public:
  ClippedPair(const std::array<GeomPose, 2>& geom, Contacts contacts, Bars bars, int side)
      : geom_(geom),
        contacts_(contacts),
        bars_(bars),
        side_(side),
        own_(geom[static_cast<size_t>(side)]),
        other_(geom[static_cast<size_t>(1 - side)]),
        near_(place_tolerance(geom)) {}

  // the first geom's face clips one of the second, which has the normal: side is 0
  void faces(Readings& readings) const {
    visit_faces(other_, [&](const Face& polygon) {
      if (!has_normal(polygon, 1 - side_, contacts_)) return;
      visit_faces(own_, [&](const Face& face) {
        if ((polygon.normal + face.normal).norm() > kAligned) return;
        if (!is_plane(face, side_, contacts_, near_)) return;
        readings.add([&](std::span<PairBar> out) {
          Clip clip;
          for (int i = 0; i < polygon.n; i++) {
            if (!clip.add_corner(polygon.corner(i))) return false;
          }
          return pull_faces(face, polygon, clip, out);
        });
      });
    });
  }

  // the face, which has the normal, clips an edge
  void edges(Readings& readings) const {
    const Vector3 c = PairContact(contacts_[0]).surface(1 - side_);
    visit_references([&](const Face& face) {
      visit_faces(other_, [&](const Face& at) {
        // its corners are nearly in one plane
        if (std::abs(at.normal.dot(c - at.corner(0))) > kNearlyFlat / kPlace * near_) return;
        for (int i = 0; i < at.n; i++) {
          const Vector3 a = at.corner(i), b = at.corner(i + 1);
          if (!is_on_segment(c, a, b, near_)) continue;
          readings.add([&](std::span<PairBar> out) {
            Clip clip;
            return clip.add_corner(a) && clip.add_corner(b) && pull_edge(face, clip, out);
          });
        }
      });
    });
  }

  void lines(Readings& readings) const {
    if (other_.type != mjGEOM_CYLINDER && other_.type != mjGEOM_CAPSULE) return;
    visit_references([&](const Face& face) {
      const auto add = [&](const Line& line) {
        readings.add([&](std::span<PairBar> out) {
          for (size_t i = 0; i < contacts_.size(); i++) {
            const PairContact contact(contacts_[i]);
            for (size_t k = 0; k < out.size(); k++) {
              const ClippedLine one(geom_, contact, bars_[k][i], face, side_);
              if (!one.run(line, out[k])) return false;
            }
          }
          return true;
        });
      };
      add({.how = Line::kTouches});
      // a line along the face, once tilted, falls with an end that is on it, or touches the side
      // of the face that cuts it, whichever is the lower
      bool falls = false;
      for (size_t i = 0; i < contacts_.size(); i++) {
        const PairContact contact(contacts_[i]);
        const ClippedLine line(geom_, contact, bars_[0][i], face, side_);
        if (line.is_nearly_flat() && !line.is_flat() && contact.dist > deepest()) continue;
        falls = falls || !line.is_nearly_flat() || line.is_end();
        const int side = line.is_nearly_flat() && !line.is_end() ? line.cut_side() : -1;
        if (side >= 0) add({.how = Line::kTouchesSide, .side = side});
      }
      if (falls) add({.how = Line::kFalls});
    });
  }

 private:
  // the point of a clip that is nearest; -1 if it is not near enough
  template <class F>
  int nearest_point(const Clip& clip, const Vector3& to, const F& image) const {
    int best = -1;
    double least = near_;
    for (int i = 0; i < clip.size(); i++) {
      const double apart = (image(clip[i]) - to).norm();
      if (apart > least) continue;
      least = apart;
      best = i;
    }
    return best;
  }

  // x = v + β N in the face's plane,  dist = e · (x - v),  pos = x - e dist/2
  bool pull_faces(const Face& face, const Face& polygon, Clip& clip, std::span<PairBar> out) const {
    if (!clip.run(face)) return false;
    const Vector3 &N = face.normal, &e = polygon.normal, corner = face.corner(0);
    const auto height = [&](const Vector3& v) { return N.dot(corner - v); };
    std::array<int, kMaxContacts> at;
    for (size_t i = 0; i < contacts_.size(); i++) {
      const PairContact contact(contacts_[i]);
      const Vector3 x = contact.surface(side_);
      at[i] = nearest_point(clip, x, [&](const Vector3& v) { return Vector3(v + height(v) * N); });
      if (at[i] < 0 || std::abs(e.dot(x - clip[at[i]]) - contact.dist) > near_) return false;
    }
    for (size_t k = 0; k < out.size(); k++) {
      clip.clear_bars();
      for (size_t i = 0; i < contacts_.size(); i++) {
        const PairContactBar& bar = bars_[k][i];
        if (!bar.any()) continue;
        const PairContact contact(contacts_[i]);
        const Vector3 x = contact.surface(side_), v = clip[at[i]];
        // e = -n
        const double dist_bar = bar.dist - 0.5 * e.dot(bar.pos);
        const Vector3 e_bar = dist_bar * (x - v) - bar.n - 0.5 * contact.dist * bar.pos;
        const Vector3 x_bar = bar.pos + dist_bar * e, in_plane = x_bar - N * N.dot(x_bar);
        out[k].torque(1 - side_, e.cross(e_bar));
        // N · δx of the plane's own motion; the rest is δv + β ω × N
        out[k].force(side_, x, x_bar - in_plane);
        out[k].torque(side_, height(v) * N.cross(in_plane));
        corner_size_pullback(own_, corner, x_bar - in_plane,
                             out[k].size[static_cast<size_t>(side_)]);
        clip.add_bar(at[i], in_plane - dist_bar * e);
      }
      clip.pullback(geom_, side_, face, out[k]);
    }
    return true;
  }

  // dist = N · (v - face),  pos = v - N dist/2
  bool pull_edge(const Face& face, Clip& clip, std::span<PairBar> out) const {
    if (!clip.run(face)) return false;
    std::array<int, kMaxContacts> at;
    for (size_t i = 0; i < contacts_.size(); i++) {
      const PairContact contact(contacts_[i]);
      at[i] = nearest_point(clip, contact.surface(1 - side_), [](const Vector3& v) { return v; });
      if (at[i] < 0) return false;
    }
    for (size_t k = 0; k < out.size(); k++) {
      clip.clear_bars();
      for (size_t i = 0; i < contacts_.size(); i++) {
        const PairContact contact(contacts_[i]);
        clip.add_bar(at[i], face_point_pullback(side_, face.normal, face.size, contact, bars_[k][i],
                                                out[k]));
      }
      clip.pullback(geom_, side_, face, out[k]);
    }
    return true;
  }

  double deepest() const {
    return std::min_element(
               contacts_.begin(), contacts_.end(),
               [](const mjPreContact& a, const mjPreContact& b) { return a.dist < b.dist; })
        ->dist;
  }

  template <class F>
  void visit_references(const F& fn) const {
    visit_faces(own_, [&](const Face& face) {
      if (has_normal(face, side_, contacts_) && is_plane(face, side_, contacts_, near_)) fn(face);
    });
  }

  const std::array<GeomPose, 2>& geom_;
  Contacts contacts_;
  Bars bars_;
  int side_;  // of the face
  const GeomPose &own_, &other_;
  double near_;
};

}  // namespace

void clipped_readings(const std::array<GeomPose, 2>& geom, Contacts contact,
                      std::span<const PairContactBar* const> bars, Readings& readings) {
  const int before = readings.count();
  ClippedPair(geom, contact, bars, 0).faces(readings);
  if (readings.count() > before) return;
  for (const int side : {1, 0}) {
    const ClippedPair pair(geom, contact, bars, side);
    pair.edges(readings);
    pair.lines(readings);
  }
}

}  // namespace diffmj
