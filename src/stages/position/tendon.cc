#include "stages/position/tendon.h"

#include <algorithm>

#include "base/rotation.h"
#include "stages/position/wrap.h"

namespace diffmj {
namespace {

bool is_fixed(const mjModel* m, int tendon) {
  return m->wrap_type[m->tendon_adr[tendon]] == mjWRAP_JOINT;
}

// A point of the path: its body, its place, and the cotangent of that.
struct Point {
  Point(const mjModel* m, const mjData* d, int of_body, const mjtNum* xpos)
      : body(of_body), world(xpos), local(from_origin(m, d, of_body, xpos)) {}
  int body;
  Vector3 world, local;  // local: relative to the origin of the body's tree
  Vector3 bar = Vector3::Zero();
};

// One stretch of the path from site to site, perhaps around a geom.
struct Stretch {
  int site0, site1;
  int geom = -1;                                    // it is wrapped around
  const mjtNum *wrap0 = nullptr, *wrap1 = nullptr;  // where it meets and leaves the geom
  double scale;                                     // 1 / divisor of the pulley before it
};

// Calls fn(stretch) along a spatial tendon, as mj_tendon left it in d.
template <class Fn>
void for_each_stretch(const mjModel* m, const mjData* d, int tendon, Fn&& fn) {
  const int adr = m->tendon_adr[tendon], n = m->tendon_num[tendon];
  const auto is_geom = [&](int i) {
    return m->wrap_type[i] == mjWRAP_SPHERE || m->wrap_type[i] == mjWRAP_CYLINDER;
  };
  int at = d->ten_wrapadr[tendon];
  double divisor = 1;
  for (int i = adr; i < adr + n - 1;) {
    if (m->wrap_type[i] == mjWRAP_PULLEY) {
      divisor = m->wrap_prm[i];
      at++;
      i++;
      continue;
    }
    if (m->wrap_type[i + 1] == mjWRAP_PULLEY) {
      i++;
      continue;
    }
    const bool around = is_geom(i + 1);
    const int last = i + (around ? 2 : 1);
    Stretch stretch{.site0 = m->wrap_objid[i], .site1 = m->wrap_objid[last], .scale = 1 / divisor};
    at++;
    if (around && d->wrap_obj[at] == m->wrap_objid[i + 1]) {
      stretch.geom = m->wrap_objid[i + 1];
      stretch.wrap0 = d->wrap_xpos + 3 * static_cast<ptrdiff_t>(at);
      stretch.wrap1 = stretch.wrap0 + 3;
      at += 2;
    }
    fn(stretch);
    i = last;
    // the site that ends a branch is listed too
    if (i == adr + n - 1 || m->wrap_type[i + 1] == mjWRAP_PULLEY) at++;
  }
}

// X(y) as a combination of the sweep's motions.
class Combined {
 public:
  Combined(const TendonBar& bar, const TendonMotions& motions) {
    for (size_t k = 0; k < TendonBar::kRates; k++) {
      if (bar.rate[k] == 0) continue;
      weight_[static_cast<size_t>(n_)] = bar.rate[k];
      motion_[static_cast<size_t>(n_++)] = motions[k];
    }
  }
  bool any() const { return n_ > 0; }
  Vector6 motion(int body) const {
    Vector6 X = Vector6::Zero();
    for (int k = 0; k < n_; k++) {
      X += weight_[static_cast<size_t>(k)] *
           motion_[static_cast<size_t>(k)]->X[static_cast<size_t>(body)];
    }
    return X;
  }
  void add(int body, const Vector6& X_bar) {
    for (int k = 0; k < n_; k++) {
      motion_[static_cast<size_t>(k)]->X_bar[static_cast<size_t>(body)] +=
          weight_[static_cast<size_t>(k)] * X_bar;
    }
  }

 private:
  int n_ = 0;
  std::array<double, TendonBar::kRates> weight_ = {};
  std::array<Motion*, TendonBar::kRates> motion_ = {};
};

// X(y) of any y, body by body.
class Direction {
 public:
  Direction(const mjModel* m, const mjData* d, CVec y, Sweep& s) : m_(m), d_(d), y_(y), s_(s) {}
  bool any() const { return true; }
  Vector6 motion(int body) const { return motion_of(m_, d_, body, y_); }
  void add(int body, const Vector6& X_bar) { add_motion_bar(m_, body, y_, X_bar, s_); }

 private:
  const mjModel* m_;
  const mjData* d_;
  CVec y_;
  Sweep& s_;
};

// X(y) of y = 1 for one dof with axis S: S for the bodies it carries.
template <class Carries>
class OneDof {
 public:
  OneDof(const Vector6& S, const std::vector<int>& bodies, Carries carries)
      : S_(S), bodies_(bodies), carries_(carries) {}
  bool any() const { return true; }
  Vector6 motion(int body) const { return has(body) ? S_ : Vector6(Vector6::Zero()); }
  void add(int body, const Vector6& X_bar) {
    if (has(body)) S_bar_ += X_bar;
  }
  const Vector6& S_bar() const { return S_bar_; }

 private:
  bool has(int body) const {
    for (size_t b = 0; b < bodies_.size(); b++) {
      if (bodies_[b] == body) return carries_(b);
    }
    return false;
  }
  const Vector6 S_;
  const std::vector<int>& bodies_;
  Carries carries_;
  Vector6 S_bar_ = Vector6::Zero();
};

struct Difference {
  Difference(const Point& p0, const Point& p1) {
    const Vector3 apart = p1.world - p0.world;
    length = apart.norm();
    // as mju_normalize3 has it
    u = length < mjMINVAL ? Vector3(Vector3::UnitX()) : Vector3(apart / length);
  }
  double length;
  Vector3 u;
};

// length_bar |p₁ - p₀| + u · (v₁(y) - v₀(y)), all times scale
template <class Rates>
void piece_pullback(Point& p0, Point& p1, double scale, double length_bar, Rates& rates) {
  const Difference piece(p0, p1);
  const Vector3& u = piece.u;
  Vector3 bar = scale * length_bar * u;
  if (rates.any() && p0.body != p1.body) {
    const Vector6 X0 = rates.motion(p0.body), X1 = rates.motion(p1.body);
    const Vector3 v = velocity_at(X1, p1.local) - velocity_at(X0, p0.local);
    // gradient: a piece without length has no direction that could turn
    if (piece.length >= mjMINVAL) bar += scale / piece.length * (v - u * u.dot(v));
    const Vector3 F = scale * u;
    rates.add(p0.body, wrench_at(p0.local, Vector3::Zero(), -F));
    rates.add(p1.body, wrench_at(p1.local, Vector3::Zero(), F));
    // the points move: F · (ω × δp)
    p0.bar -= F.cross(Vector3(X0.head<3>()));
    p1.bar += F.cross(Vector3(X1.head<3>()));
  }
  p0.bar -= bar;
  p1.bar += bar;
}

void site_pullback(const mjData* d, int site, const Point& point, Sweep& s,
                   const ParameterBar& params) {
  s.W[static_cast<size_t>(point.body)] += wrench_at(point.local, Vector3::Zero(), point.bar);
  if (const Vec to = params[Parameter::kSitePos]; !to.empty()) {
    Eigen::Map<Vector3>(&to[3 * static_cast<size_t>(site)]) +=
        Rotation(d->xmat + 9 * point.body).transpose() * point.bar;
  }
}

template <class Rates>
void stretch_pullback(const mjModel* m, const mjData* d, const Stretch& stretch, double length_bar,
                      Rates& rates, Sweep& s, const ParameterBar& params) {
  const auto site = [&](int i) {
    return Point(m, d, m->site_bodyid[i], d->site_xpos + 3 * static_cast<ptrdiff_t>(i));
  };
  Point site0 = site(stretch.site0), site1 = site(stretch.site1);
  if (stretch.geom < 0) {
    // nothing moves, unless the sites do in their body
    if (site0.body == site1.body && !params.wants(Parameter::kSitePos)) return;
    piece_pullback(site0, site1, stretch.scale, length_bar, rates);
  } else {
    const int geom = stretch.geom, body = m->geom_bodyid[geom];
    Point wrap0(m, d, body, stretch.wrap0), wrap1(m, d, body, stretch.wrap1);
    piece_pullback(site0, wrap0, stretch.scale, length_bar, rates);
    piece_pullback(wrap1, site1, stretch.scale, length_bar, rates);

    const Vector3 center(d->geom_xpos + 3 * static_cast<ptrdiff_t>(geom));
    const Wrap wrap{.cylinder = m->geom_type[geom] == mjGEOM_CYLINDER,
                    .axis = Rotation(d->geom_xmat + 9 * static_cast<ptrdiff_t>(geom)).col(2),
                    .radius = m->geom_size[3 * geom],
                    .end = {site0.world - center, site1.world - center},
                    .point = {wrap0.world - center, wrap1.world - center}};
    const WrapBar bar = wrap_pullback(wrap, wrap0.bar, wrap1.bar, stretch.scale * length_bar);
    site0.bar += bar.end[0];
    site1.bar += bar.end[1];
    // the points move with the geom and, as far as they depend on the sites, with these
    const auto on_geom = [&](const Vector3& world, const Vector3& force) {
      return wrench_at(from_origin(m, d, body, world.data()), Vector3::Zero(), force);
    };
    const Vector6 wrench = on_geom(wrap0.world, wrap0.bar) + on_geom(wrap1.world, wrap1.bar) -
                           on_geom(site0.world, bar.end[0]) - on_geom(site1.world, bar.end[1]);
    geom_pullback(m, d, geom, wrench, s, params);
    if (const Vec to = params[Parameter::kGeomSize]; !to.empty()) {
      to[3 * static_cast<size_t>(geom)] += bar.radius;
    }
  }
  site_pullback(d, stretch.site0, site0, s, params);
  site_pullback(d, stretch.site1, site1, s, params);
}

// Acceleration of a point that a body carries, (α, a) of its motion and ω × v.
struct PointAcceleration {
  PointAcceleration(const Point& p, const Sweep& s)
      : w(s.V.X[static_cast<size_t>(p.body)].head<3>()),
        v(velocity_at(s.V.X[static_cast<size_t>(p.body)], p.local)),
        alpha(s.A[static_cast<size_t>(p.body)].head<3>()),
        a(velocity_at(s.A[static_cast<size_t>(p.body)], p.local) + w.cross(v)) {}
  Vector3 w, v, alpha, a;
};

// u · (a₁ - a₀) + |v⊥|²/length,  v⊥ = (v₁ - v₀) across u
double piece_acceleration(const Point& p0, const Point& p1, const Sweep& s) {
  const Difference piece(p0, p1);
  const PointAcceleration c0(p0, s), c1(p1, s);
  const Vector3 v = c1.v - c0.v, across = v - piece.u * piece.u.dot(v);
  double out = piece.u.dot(c1.a - c0.a);
  if (piece.length >= mjMINVAL) out += across.squaredNorm() / piece.length;
  return out;
}

void piece_acceleration_pullback(Point& p0, Point& p1, double bar, Sweep& s) {
  const Difference piece(p0, p1);
  const Vector3& u = piece.u;
  const PointAcceleration c0(p0, s), c1(p1, s);
  const Vector3 v = c1.v - c0.v, across = v - u * u.dot(v), a = c1.a - c0.a;
  Vector3 v_bar = Vector3::Zero(), apart_bar = Vector3::Zero();
  if (piece.length >= mjMINVAL) {
    const double L = piece.length, vu = u.dot(v);
    v_bar = 2 * bar / L * across;
    // of u:  a - (2 v·u/L) v;  of the length: -|v⊥|²/L²
    const Vector3 u_bar = bar * (a - 2 * vu / L * v);
    apart_bar = (u_bar - u * u.dot(u_bar)) / L - bar * across.squaredNorm() / (L * L) * u;
  }
  const auto end = [&](Point& p, const PointAcceleration& c, double sign) {
    const auto b = static_cast<size_t>(p.body);
    const Vector3 F = sign * bar * u, Fv = sign * v_bar;
    s.A_bar[b] += wrench_at(p.local, Vector3::Zero(), F);
    // F · (ω × v):  ω_bar = v × F,  v_bar = F × ω
    s.V.X_bar[b] += wrench_at(p.local, c.v.cross(F), F.cross(c.w) + Fv);
    // the point moves: a by α × δp + ω × (ω × δp), v by ω × δp
    p.bar += sign * apart_bar + F.cross(c.alpha) + F.cross(c.w).cross(c.w) + Fv.cross(c.w);
  };
  end(p0, c0, -1);
  end(p1, c1, 1);
}

void fixed_pullback(const mjModel* m, int tendon, double length_bar, double velocity_bar,
                    Vec qpos_bar, Vec qvel_bar) {
  const int adr = m->tendon_adr[tendon];
  for (int i = adr; i < adr + m->tendon_num[tendon]; i++) {
    const auto dof = static_cast<size_t>(m->jnt_dofadr[m->wrap_objid[i]]);
    qpos_bar[dof] += length_bar * m->wrap_prm[i];
    if (!qvel_bar.empty()) qvel_bar[dof] += velocity_bar * m->wrap_prm[i];
  }
}

template <class Fn>
void for_each_site_piece(const mjModel* m, const mjData* d, int tendon, Fn&& fn) {
  for_each_stretch(m, d, tendon, [&](const Stretch& stretch) {
    const int body0 = m->site_bodyid[stretch.site0], body1 = m->site_bodyid[stretch.site1];
    if (body0 == body1) return;
    Point p0(m, d, body0, d->site_xpos + 3 * static_cast<ptrdiff_t>(stretch.site0)),
        p1(m, d, body1, d->site_xpos + 3 * static_cast<ptrdiff_t>(stretch.site1));
    fn(stretch, p0, p1);
  });
}

}  // namespace

double tendon_rate(const mjModel* m, const mjData* d, int tendon, CVec y) {
  double sum = 0;
  const int begin = m->ten_J_rowadr[tendon];
  for (int k = begin; k < begin + m->ten_J_rownnz[tendon]; k++) {
    sum += d->ten_J[k] * y[static_cast<size_t>(m->ten_J_colind[k])];
  }
  return sum;
}

double tendon_acceleration(const mjModel* m, const mjData* d, int tendon, const Sweep& s) {
  if (is_fixed(m, tendon)) return tendon_rate(m, d, tendon, s.qacc);
  double sum = 0;
  for_each_site_piece(m, d, tendon, [&](const Stretch& stretch, const Point& p0, const Point& p1) {
    sum += stretch.scale * piece_acceleration(p0, p1, s);
  });
  return sum;
}

void tendon_pullback(const mjModel* m, const mjData* d, std::span<const TendonBar> bars,
                     const TendonMotions& motions, Vec qpos_bar, Vec qvel_bar, Sweep& s,
                     const ParameterBar& params) {
  for (int tendon = 0; tendon < static_cast<int>(m->ntendon); tendon++) {
    const TendonBar& bar = bars[static_cast<size_t>(tendon)];
    if (is_fixed(m, tendon)) {
      fixed_pullback(m, tendon, bar.length, bar.rate[TendonBar::kV], qpos_bar, qvel_bar);
    } else {
      Combined rates(bar, motions);
      if (bar.length != 0 || rates.any()) {
        for_each_stretch(m, d, tendon, [&](const Stretch& stretch) {
          stretch_pullback(m, d, stretch, bar.length, rates, s, params);
        });
      }
      if (bar.acceleration != 0) {
        for_each_site_piece(m, d, tendon, [&](const Stretch& stretch, Point& p0, Point& p1) {
          piece_acceleration_pullback(p0, p1, stretch.scale * bar.acceleration, s);
          site_pullback(d, stretch.site0, p0, s, params);
          site_pullback(d, stretch.site1, p1, s, params);
        });
      }
    }
  }
}

void tendon_direction_pullback(const mjModel* m, const mjData* d, int tendon, double length_bar,
                               CVec y, Vec qpos_bar, Sweep& s, const ParameterBar& params) {
  if (is_fixed(m, tendon)) {
    fixed_pullback(m, tendon, length_bar, 0, qpos_bar, {});
    return;
  }
  Direction rates(m, d, y, s);
  for_each_stretch(m, d, tendon, [&](const Stretch& stretch) {
    stretch_pullback(m, d, stretch, length_bar, rates, s, params);
  });
}

bool tendon_is_fixed(const mjModel* m, int tendon) { return is_fixed(m, tendon); }

void TendonHessian::compute(const mjModel* m, const mjData* d, int tendon, Sweep& s,
                            Matrix& hessian) {
  const int n = m->ten_J_rownnz[tendon], begin = m->tendon_adr[tendon];
  const int* dof = m->ten_J_colind + m->ten_J_rowadr[tendon];
  if (hessian.rows() < n) hessian.resize(n, n);
  hessian.topLeftCorner(n, n).setZero();
  if (is_fixed(m, tendon)) return;
  bodies_.clear();
  for (int i = begin; i < begin + m->tendon_num[tendon]; i++) {
    const int type = m->wrap_type[i], id = m->wrap_objid[i];
    const bool site = type == mjWRAP_SITE;
    if (!site && type != mjWRAP_SPHERE && type != mjWRAP_CYLINDER) continue;
    const int body = site ? m->site_bodyid[id] : m->geom_bodyid[id];
    if (std::find(bodies_.begin(), bodies_.end(), body) == bodies_.end()) bodies_.push_back(body);
  }
  row_of_.assign(static_cast<size_t>(m->nv), -1);
  for (int k = 0; k < n; k++) row_of_[static_cast<size_t>(dof[k])] = k;
  carries_.assign(bodies_.size() * static_cast<size_t>(n), 0);
  for (size_t b = 0; b < bodies_.size(); b++) {
    for (int j = last_dof(m, bodies_[b]); j >= 0; j = m->dof_parentid[j]) {
      const int k = row_of_[static_cast<size_t>(j)];
      if (k >= 0) carries_[b * static_cast<size_t>(n) + static_cast<size_t>(k)] = 1;
    }
  }
  const auto carries = [&](size_t b, int k) {
    return carries_[b * static_cast<size_t>(n) + static_cast<size_t>(k)] != 0;
  };

  for (int row = 0; row < n; row++) {
    const Vector6 S = axis(d, dof[row]);
    OneDof rates(S, bodies_, [&](size_t b) { return carries(b, row); });
    for_each_stretch(m, d, tendon, [&](const Stretch& stretch) {
      stretch_pullback(m, d, stretch, 0, rates, s, {});
    });
    // what kinematics_pullback makes of wrenches
    for (size_t b = 0; b < bodies_.size(); b++) {
      Vector6& W = s.W[static_cast<size_t>(bodies_[b])];
      for (int column = 0; column < n; column++) {
        if (carries(b, column)) hessian(row, column) += axis(d, dof[column]).dot(W);
      }
      W.setZero();
    }
    // the axis turns with the dofs before it, and with those of its own joint
    const int joint = m->dof_jntid[dof[row]];
    if (!carried(m, joint, dof[row])) continue;
    const Vector6 turned = cross_force(S, rates.S_bar());
    const int last = m->jnt_dofadr[joint] + dof_count(m->jnt_type[joint]) - 1;
    for (int j = last; j >= 0; j = m->dof_parentid[j]) {
      const int column = row_of_[static_cast<size_t>(j)];
      if (column >= 0) hessian(row, column) += axis(d, j).dot(turned);
    }
  }
}

namespace {

// Points of all paths, one tendon after the other; there is room for two per wrapping object.
int path_points(const mjModel* m, const mjData* d) {
  const auto last = static_cast<int>(m->ntendon) - 1;
  return last < 0 ? 0 : d->ten_wrapadr[last] + d->ten_wrapnum[last];
}

}  // namespace

TendonRecordSize::TendonRecordSize(const mjModel* m)
    : numbers(static_cast<size_t>(m->ntendon + m->nJten + 6 * m->nwrap)),
      objects(static_cast<size_t>(2 * m->ntendon + 2 * m->nwrap)) {}

void keep_tendons(const mjModel* m, const mjData* d, Vec numbers, std::span<int> objects) {
  const int points = path_points(m, d);
  double* to = std::copy_n(d->ten_length, m->ntendon, numbers.data());
  to = std::copy_n(d->ten_J, m->nJten, to);
  std::copy_n(d->wrap_xpos, 3 * points, to);
  int* at = std::copy_n(d->ten_wrapadr, m->ntendon, objects.data());
  at = std::copy_n(d->ten_wrapnum, m->ntendon, at);
  std::copy_n(d->wrap_obj, points, at);
}

void restore_tendons(const mjModel* m, CVec numbers, std::span<const int> objects, mjData* d) {
  const double* from = numbers.data();
  std::copy_n(from, m->ntendon, d->ten_length);
  std::copy_n(from += m->ntendon, m->nJten, d->ten_J);
  const int* at = objects.data();
  std::copy_n(at, m->ntendon, d->ten_wrapadr);
  std::copy_n(at += m->ntendon, m->ntendon, d->ten_wrapnum);
  const int points = path_points(m, d);
  std::copy_n(at += m->ntendon, points, d->wrap_obj);
  std::copy_n(from += m->nJten, 3 * points, d->wrap_xpos);
}

bool Pattern::has(int i, int j) const {
  if (m && i != j && (metric_is_diagonal(m, i) || metric_is_diagonal(m, j))) return false;
  // M keeps its lower triangle
  const int row = std::max(i, j), column = std::min(i, j);
  const int* begin = colind + rowadr[row];
  return std::binary_search(begin, begin + rownnz[row], column);
}

TendonFits::TendonFits(const mjModel* m) {
  const auto fits = [&](int tendon, const Pattern& pattern) {
    const int begin = m->ten_J_rowadr[tendon], end = begin + m->ten_J_rownnz[tendon];
    for (int p = begin; p < end; p++) {
      for (int q = begin; q < p; q++) {
        if (!pattern.has(m->ten_J_colind[p], m->ten_J_colind[q])) return false;
      }
    }
    return true;
  };
  for (int tendon = 0; tendon < static_cast<int>(m->ntendon); tendon++) {
    M.push_back(fits(tendon, mass_pattern(m)));
    D.push_back(fits(tendon, derivative_pattern(m)));
  }
}

double tendon_form(const mjModel* m, const mjData* d, int tendon, const Pattern& pattern, CVec x,
                   CVec z, double weight, Vec y) {
  const int begin = m->ten_J_rowadr[tendon], end = begin + m->ten_J_rownnz[tendon];
  double form = 0;
  for (int p = begin; p < end; p++) {
    const auto r = static_cast<size_t>(m->ten_J_colind[p]);
    double Jz = 0, Jx = 0;
    for (int q = begin; q < end; q++) {
      const int column = m->ten_J_colind[q];
      const auto c = static_cast<size_t>(column);
      if (!pattern.has(m->ten_J_colind[p], column)) continue;
      Jz += d->ten_J[q] * z[c];
      Jx += d->ten_J[q] * x[c];
    }
    form += x[r] * d->ten_J[p] * Jz;
    y[r] += weight * (x[r] * Jz + z[r] * Jx);
  }
  return form;
}

}  // namespace diffmj
