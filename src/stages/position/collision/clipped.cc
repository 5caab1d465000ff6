#include "stages/position/collision/clipped.h"

#include <cmath>

#include "stages/position/collision/face.h"
#include "stages/position/collision/nearest.h"
#include "stages/position/collision/plane.h"

namespace diffmj {
namespace {

constexpr double kPlace = 1e-7;        // of the sizes: points of polygons
constexpr double kCurvedPlace = 1e-5;  // of the sizes: the collider finds the side by iterating
constexpr double kNormal = 1e-7;       // [rad] the contact's normal is the face's
constexpr double kAligned = 0.05;      // [rad] more than faces that MuJoCo clips differ in
constexpr double kParallel = 1e-6;     // lines that meet at a smaller angle meet nowhere

// a cut: the plane through the edge from a, with this normal
struct Cut {
  bool own = false;  // of the face that c is on
  Vector3 a, edge, pn;
};

class Clipped {
 public:
  Clipped(const std::array<GeomPose, 2>& geom, const PairContact& contact,
          const PairContactBar& bar, const Face& face, int side)
      : contact_(contact),
        bar_(bar),
        face_(face),
        side_(side),
        own_(geom[static_cast<size_t>(side)]),
        other_(geom[static_cast<size_t>(1 - side)]),
        e_(face.normal),
        c_(contact.surface(1 - side)),
        near_(kPlace * (own_.size.lpNorm<1>() + other_.size.lpNorm<1>())) {}

  bool run(PairBar& out) {
    PairBar added(out.pivot);
    const Vector3 c_bar = face_point_pullback(side_, e_, face_.size, contact_, bar_, added);
    PairBar with = added;
    const bool known = corner(c_bar, with) || capsule(c_bar, with = added) ||
                       side(c_bar, with = added) || faces(c_bar, with = added) ||
                       edge(c_bar, with = added);
    if (!known) return false;
    for (size_t i = 0; i < 2; i++) {
      out.wrench[i] += with.wrench[i];
      out.size[i] += with.size[i];
    }
    return true;
  }

 private:
  Vector3& size_of(PairBar& out, bool own) const {
    return out.size[static_cast<size_t>(own ? side_ : 1 - side_)];
  }

  bool corner(const Vector3& c_bar, PairBar& out) const {
    if (!is_corner(other_, c_, near_)) return false;
    out.force(1 - side_, c_, c_bar);
    corner_size_pullback(other_, c_, c_bar, size_of(out, false));
    return true;
  }

  // the side of the face that a point is on
  bool cut_of_face(const Vector3& point, double near, Cut& cut) const {
    for (int i = 0; i < face_.n; i++) {
      cut.a = face_.corner(i);
      cut.edge = face_.corner(i + 1) - cut.a;
      cut.pn = cut.edge.cross(e_).normalized();
      if (std::abs(cut.pn.dot(point - cut.a)) <= near) return true;
    }
    return false;
  }

  // a point moves along a line of the other geom, so as to stay on a side of the face: what is left
  // of its cotangent for the line's own motion
  bool cut_line(const Vector3& point, const Vector3& direction, double near, Vector3& point_bar,
                PairBar& out) const {
    Cut cut;
    if (!cut_of_face(point, near, cut)) return false;
    const double along = cut.pn.dot(direction);
    if (std::abs(along) < kParallel) return false;
    const Vector3 force = direction.dot(point_bar) / along * cut.pn;
    out.force(side_, point, force);
    corner_size_pullback(own_, cut.a, force, size_of(out, true));
    point_bar -= force;
    return true;
  }

  // c = centre - radius e, the centre on the segment
  bool capsule(const Vector3& c_bar, PairBar& out) const {
    if (other_.type != mjGEOM_CAPSULE) return false;
    const Vector3 axis = other_.axis(2);
    const double radius = other_.size[0], half = other_.size[1];
    const Vector3 centre = c_ + radius * e_;
    const double x = axis.dot(centre - other_.pos);
    if ((centre - other_.pos - x * axis).norm() > near_) return false;
    Vector3 centre_bar = c_bar;
    if (std::abs(std::abs(x) - half) <= near_) {
      size_of(out, false)[1] += x < 0 ? -axis.dot(c_bar) : axis.dot(c_bar);
    } else if (std::abs(x) > half || !cut_line(centre, axis, near_, centre_bar, out)) {
      return false;
    }
    out.force(1 - side_, centre, centre_bar);
    out.torque(side_, -radius * e_.cross(c_bar));
    size_of(out, false)[0] -= e_.dot(c_bar);
    return true;
  }

  // c = centre + x axis + radius u,  u ⟂ axis
  bool side(const Vector3& c_bar, PairBar& out) const {
    if (other_.type != mjGEOM_CYLINDER && other_.type != mjGEOM_CAPSULE) return false;
    const Vector3 axis = other_.axis(2), from = c_ - other_.pos;
    const double radius = other_.size[0], half = other_.size[1], x = axis.dot(from);
    const double near = kCurvedPlace / kPlace * near_;
    const Vector3 u = (from - x * axis) / radius;
    if (std::abs(radius * (u.norm() - 1)) > near) return false;
    Vector3 line_bar = c_bar;
    if (std::abs(std::abs(x) - half) <= near) {
      size_of(out, false)[1] += x < 0 ? -axis.dot(c_bar) : axis.dot(c_bar);
    } else if (std::abs(x) > half || !cut_line(c_, axis, near_, line_bar, out)) {
      return false;
    }
    // δc = δ(of a point fixed in the geom) + radius (δu - ω × u)
    out.force(1 - side_, c_, line_bar);
    out.torque(1 - side_, -radius * u.cross(line_bar));
    size_of(out, false)[0] += u.dot(line_bar);
    return falls(u, axis, radius * line_bar, out) || touches(u, axis, radius * line_bar, out);
  }

  // u = w/|w|,  w = axis (axis·e) - e: where a cylinder's rim is nearest to the face
  bool falls(const Vector3& u, const Vector3& axis, const Vector3& u_bar, PairBar& out) const {
    const Vector3 w = axis * axis.dot(e_) - e_;
    const double length = w.norm();
    if (other_.type != mjGEOM_CYLINDER || length < kParallel) return false;
    if ((u - w / length).norm() > kCurvedPlace) return false;
    const Vector3 w_bar = (u_bar - u * u.dot(u_bar)) / length;
    const Vector3 axis_bar = axis.dot(e_) * w_bar + axis.dot(w_bar) * e_,
                  e_bar = axis.dot(w_bar) * axis - w_bar;
    out.torque(1 - side_, axis.cross(axis_bar));
    out.torque(side_, e_.cross(e_bar));
    return true;
  }

  // u is the normal at which the side touches an edge or a corner: of the least penetration, from
  // which the collider has gone on to the face
  bool touches(const Vector3& u, const Vector3& axis, const Vector3& u_bar, PairBar& out) const {
    constexpr FeatureTolerance kTouching{.place = kCurvedPlace, .normal = kCurvedPlace};
    std::array<Feature, 2> feature;
    Feature &line = feature[static_cast<size_t>(1 - side_)],
            &edge = feature[static_cast<size_t>(side_)];
    const Vector3 n = u.normalized();
    if (!support_feature(own_, -n, kTouching, edge) || edge.dim > 1) return false;
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
    if (std::abs(n.cross(axis).dot(edge.p - line.p)) > kCurvedPlace / kPlace * near_) return false;

    // n of the contact is from the first geom to the second, u from the line to the edge
    PairContact contact = contact_;
    contact.n = side_ == 1 ? n : Vector3(-n);
    contact.dist = n.dot(edge.p - line.p) - line.radius;
    nearest_pullback(feature, contact, {.n = side_ == 1 ? u_bar : Vector3(-u_bar)}, 0, out);
    return true;
  }

  // c where the other geom's face and two cuts meet: Σ m_i λ_i = c_bar. Cuts along edges of this
  // face are planes through points b of it, b + β N = c:  pn · δc = pn · (δb + β ω × N)
  bool faces(const Vector3& c_bar, PairBar& out) const {
    Face other;
    if (!find_face(other_, c_, -e_, kAligned, near_, other)) return false;
    const Vector3& N = other.normal;
    std::array<Cut, 2> cut;
    size_t n = 0;
    const auto add = [&](const Face& face, bool own) {
      for (int i = 0; i < face.n && n < 2; i++) {
        Cut& one = cut[n];
        one.own = own;
        one.a = face.corner(i);
        one.edge = face.corner(i + 1) - one.a;
        one.pn = one.edge.cross(N).normalized();
        if (std::abs(one.pn.dot(c_ - one.a)) > near_) continue;
        if (n == 1 && std::abs(N.dot(cut[0].pn.cross(one.pn))) < kParallel) continue;
        n++;
      }
    };
    add(other, true);
    add(face_, false);
    if (n < 2) return false;
    const Vector3 &p = cut[0].pn, &q = cut[1].pn;
    const double det = N.dot(p.cross(q));
    const Vector3 on_face = p.cross(q).dot(c_bar) / det * N;
    out.force(1 - side_, c_, on_face);
    corner_size_pullback(other_, other.corner(0), on_face, size_of(out, false));
    const std::array<Vector3, 2> force = {q.cross(N).dot(c_bar) / det * p,
                                          N.cross(p).dot(c_bar) / det * q};
    for (size_t i = 0; i < 2; i++) {
      const Cut& one = cut[i];
      if (one.own) {
        out.force(1 - side_, c_, force[i]);
        corner_size_pullback(other_, one.a, force[i], size_of(out, false));
        continue;
      }
      // c - a = α edge + β N
      const Vector3 across = one.edge - N * N.dot(one.edge);
      const double alpha = across.dot(c_ - one.a) / across.squaredNorm();
      const Vector3 b = one.a + alpha * one.edge;
      out.force(side_, b, force[i]);
      out.torque(1 - side_, N.dot(c_ - b) * N.cross(force[i]));
      corner_size_pullback(own_, one.a, force[i], size_of(out, true));
    }
    return true;
  }

  bool edge(const Vector3& c_bar, PairBar& out) const {
    Vector3 a, b;
    if (!find_edge(other_, c_, near_, a, b)) return false;
    Vector3 line_bar = c_bar;
    if (!cut_line(c_, (b - a).normalized(), near_, line_bar, out)) return false;
    out.force(1 - side_, c_, line_bar);
    corner_size_pullback(other_, a, line_bar, size_of(out, false));
    return true;
  }

  const PairContact& contact_;
  const PairContactBar& bar_;
  const Face& face_;
  int side_;  // of the face
  const GeomPose &own_, &other_;
  Vector3 e_, c_;
  double near_;
};

}  // namespace

bool clipped_pullback(const std::array<GeomPose, 2>& geom, const PairContact& contact,
                      const PairContactBar& bar, PairBar& out) {
  for (const int side : {1, 0}) {
    const GeomPose& own = geom[static_cast<size_t>(side)];
    Face face;
    if (!find_face(own, contact.surface(side), contact.outward(side), kNormal,
                   1e-5 * own.size.lpNorm<1>(), face)) {
      continue;
    }
    if (Clipped(geom, contact, bar, face, side).run(out)) return true;
  }
  return false;
}

}  // namespace diffmj
