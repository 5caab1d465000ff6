#include "stages/position/collision.h"

#include <Eigen/Geometry>
#include <array>
#include <limits>
#include <type_traits>

#include "mj/call.h"

namespace diffmj {
namespace {

constexpr int kMaxContacts = mjMAXCONPAIR;

// Colliders in closed form have no noise; those that iterate need a step that stands out of it, and
// so two of them. [m] and [rad]
constexpr double kStep = 1e-6;
constexpr double kIterativeStep = 2e-5;
constexpr double kCurvedStep = 2e-3;  // of the smaller geom's radius
// What two contacts, or one before and after a step, may differ in and still be the same: normals,
// places, distances. More is a jump of the collider, from one of its cases to another.
constexpr double kSameNormal = 0.05;
constexpr double kSamePlace = 5e-3;     // [m]
constexpr double kSameDistance = 1e-3;  // [m]

bool is_iterative(const mjModel* m, int g1, int g2) {
  const auto& table = mjCOLLISIONFUNC;
  const mjfCollision general = table[mjGEOM_ELLIPSOID][mjGEOM_ELLIPSOID];
  const int t1 = m->geom_type[g1], t2 = m->geom_type[g2];
  return table[t1][t2] == general || t1 == mjGEOM_HFIELD || t1 == mjGEOM_SDF || t2 == mjGEOM_SDF;
}

double detection_margin(const mjModel* m, const mjContact& contact) {
  // contacts in the gap are detected too; more than enough does no harm
  double gap = 0;
  for (int g : contact.geom) gap += m->geom_gap[g];
  for (int i = 0; i < static_cast<int>(m->npair); i++) gap = std::max(gap, m->pair_gap[i]);
  return contact.includemargin + gap;
}

// the contacts of a pair of geoms, as the collider gives them
struct Detected {
  int n = 0;
  std::array<mjPreContact, kMaxContacts> contact;

  // the one that is nearest, in place and distance first
  int nearest(const mjtNum* pos, double dist, const mjtNum* normal) const {
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < n; i++) {
      const mjPreContact& c = contact[static_cast<size_t>(i)];
      const double distance = mju_dist3(c.pos, pos) + std::abs(c.dist - dist) +
                              kSamePlace * mju_dist3(c.normal, normal);
      if (distance < least) {
        least = distance;
        best = i;
      }
    }
    return best;
  }
};

class PairPullback {
 public:
  PairPullback(const ModelImpl& impl, int first, int n, const ContactBar* bar, Workspace& workspace)
      : m_(impl.tight()),
        d_(workspace.data.get()),
        first_(first),
        n_(n),
        bar_(bar),
        sweep_(workspace.sweep),
        g1_(d_->contact[first].geom[0]),
        g2_(d_->contact[first].geom[1]) {}

  void run() {
    const Vector3 pivot(d_->contact[first_].pos);
    const int body1 = m_->geom_bodyid[g1_], body2 = m_->geom_bodyid[g2_];
    normal_bar_.fill(Vector3::Zero());
    tangent_bar_.fill(Vector3::Zero());
    detect(base_);
    reach_ = kSamePlace;
    for (int i = 0; i < base_.n; i++) {
      for (int j = 0; j < i; j++) {
        const double apart = mju_dist3(base_.contact[static_cast<size_t>(i)].pos,
                                       base_.contact[static_cast<size_t>(j)].pos);
        // contacts at one place (an edge that two prisms share) may be told apart by nothing
        if (apart > kSameDistance) reach_ = std::min(reach_, 0.5 * apart);
      }
    }
    // without native CCD the penetration is near the least, not the least
    moving_points_ = !is_iterative(m_, g1_, g2_) || base_.n > 1 ||
                     (m_->opt.disableflags & mjDSBL_NATIVECCD) != 0;
    const bool plane = has_fixed_points();
    Vector6 together = Vector6::Zero();  // about the pivot: both geoms as one
    Vector6 second = Vector6::Zero();    // the second alone
    bool differences = false;
    for (int i = 0; i < n_; i++) {
      const auto k = static_cast<size_t>(i);
      const mjContact& contact = d_->contact[first_ + i];
      const Vector3 n(contact.frame), arm = Vector3(contact.pos) - pivot;
      match_[k] = base_.nearest(contact.pos, contact.dist, contact.frame);
      if (match_[k] < 0 || !bar_[k].any()) {
        match_[k] = -1;
        continue;
      }
      const mjPreContact& found = base_.contact[static_cast<size_t>(match_[k])];
      contact_frame_pullback(n, Vector3(found.tangent), bar_[k].frame, normal_bar_[k],
                             tangent_bar_[k]);
      extremal_ += wrench_at(arm, Vector3::Zero(), bar_[k].dist * n);
      if (plane) second += on_plane(k, contact, Vector3(found.tangent), pivot);
      together +=
          wrench_at(arm, n.cross(normal_bar_[k]) + Vector3(found.tangent).cross(tangent_bar_[k]),
                    bar_[k].pos);
      differences = true;
    }
    if (!differences) return;
    if (!plane) {
      for (int k = 0; k < 6; k++) second[k] = slope(k, pivot);
    }

    const auto to_origin = [&](int body, const Vector6& wrench) {
      return wrench_at(from_origin(m_, d_, body, pivot.data()), wrench.head<3>(), wrench.tail<3>());
    };
    sweep_.W[static_cast<size_t>(body2)] += to_origin(body2, second);
    sweep_.W[static_cast<size_t>(body1)] += to_origin(body1, together - second);
  }

 private:
  // On a plane contacts are points of the other geom, exactly: corners, ends, centres.
  bool has_fixed_points() const {
    const int type = m_->geom_type[g2_];
    return m_->geom_type[g1_] == mjGEOM_PLANE && (type == mjGEOM_SPHERE || type == mjGEOM_CAPSULE ||
                                                  type == mjGEOM_BOX || type == mjGEOM_MESH);
  }
  // c = pos + n (dist/2 + radius):  δ(dist) = n · δc,  δ(pos) = δc - ½ n (n · δc),  δ(tangent) = ω
  // × tangent
  Vector6 on_plane(size_t k, const mjContact& contact, const Vector3& tangent,
                   const Vector3& pivot) const {
    const int type = m_->geom_type[g2_];
    const double radius =
        type == mjGEOM_SPHERE || type == mjGEOM_CAPSULE ? m_->geom_size[3 * g2_] : 0;
    const Vector3 n(contact.frame), pos_bar = bar_[k].pos;
    const Vector3 c = Vector3(contact.pos) + n * (contact.dist / 2 + radius);
    return wrench_at(c - pivot, tangent.cross(tangent_bar_[k]),
                     bar_[k].dist * n + pos_bar - 0.5 * n * n.dot(pos_bar));
  }

  // inside mj_call
  void detect(Detected& out) {
    const mjfCollision collide = mjCOLLISIONFUNC[m_->geom_type[g1_]][m_->geom_type[g2_]];
    const double margin = detection_margin(m_, d_->contact[first_]);
    out.n = collide(m_, d_, out.contact.data(), g1_, g2_, margin);
  }

  // how much the contacts change, weighted, when the second geom moves by s along direction k
  // (rotations about the pivot, then translations). False if one of them is not found again.
  bool change(int k, double s, const Vector3& pivot, double& sum) {
    Eigen::Map<Vector3> xpos(d_->geom_xpos + 3 * g2_);
    Eigen::Map<Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> xmat(d_->geom_xmat + 9 * g2_);
    const Vector3 xpos0 = xpos;
    const Eigen::Matrix3d xmat0 = xmat;
    if (k < 3) {
      const Eigen::Matrix3d R = Eigen::AngleAxisd(s, Vector3::Unit(k)).toRotationMatrix();
      xpos = pivot + R * (xpos0 - pivot);
      xmat = R * xmat0;
    } else {
      xpos[k - 3] += s;
    }
    detect(moved_);
    xpos = xpos0;
    xmat = xmat0;
    sum = 0;
    for (int i = 0; i < n_; i++) {
      const auto c = static_cast<size_t>(i);
      if (match_[c] < 0) continue;
      const mjPreContact& from = base_.contact[static_cast<size_t>(match_[c])];
      const int j = moved_.nearest(from.pos, from.dist, from.normal);
      if (j < 0) return false;
      const mjPreContact& to = moved_.contact[static_cast<size_t>(j)];
      if (mju_dist3(to.pos, from.pos) > reach_ || mju_dist3(to.normal, from.normal) > kSameNormal ||
          mju_dist3(to.tangent, from.tangent) > kSameNormal ||
          std::abs(to.dist - from.dist) > kSameDistance) {
        return false;
      }
      if (moving_points_) sum += bar_[c].dist * (to.dist - from.dist);
      sum += bar_[c].pos.dot(Vector3(to.pos) - Vector3(from.pos)) +
             normal_bar_[c].dot(Vector3(to.normal) - Vector3(from.normal)) +
             tangent_bar_[c].dot(Vector3(to.tangent) - Vector3(from.tangent));
    }
    return true;
  }

  // gradient: where a contact is lost on one side (a case of the collider ends), the other side
  // alone is taken; where it is lost on both, what holds for extremal distances
  double slope(int k, const Vector3& pivot) {
    const bool two = is_iterative(m_, g1_, g2_);
    const double h = two ? iterative_step() : kStep;
    double plus = 0, minus = 0, plus2 = 0, minus2 = 0;
    const bool up = change(k, h, pivot, plus) && (!two || change(k, 2 * h, pivot, plus2));
    const bool down = change(k, -h, pivot, minus) && (!two || change(k, -2 * h, pivot, minus2));
    if (!up && !down) return extremal_[k];
    double out = moving_points_ ? 0 : extremal_[k];
    if (up && down) {
      out += two ? (8 * (plus - minus) - plus2 + minus2) / (12 * h) : (plus - minus) / (2 * h);
    } else {
      out += up ? plus / h : -minus / h;
    }
    return out;
  }

  // polytopes approximate curved shapes, with normals that are off by 1e-6
  double iterative_step() const {
    double size = std::numeric_limits<double>::infinity();
    bool curved = false;
    for (int g : {g1_, g2_}) {
      curved =
          curved || m_->geom_type[g] == mjGEOM_ELLIPSOID || m_->geom_type[g] == mjGEOM_CYLINDER;
      if (m_->geom_rbound[g] > 0) size = std::min(size, m_->geom_rbound[g]);
    }
    return curved ? kCurvedStep * size : kIterativeStep;
  }

  const mjModel* m_;
  mjData* d_;
  int first_, n_;
  const ContactBar* bar_;
  Sweep& sweep_;
  int g1_, g2_;
  Vector6 extremal_ = Vector6::Zero();  // about the pivot: δ(dist) = n · velocity
  double reach_ = 0;                    // a contact that is farther away is another one
  bool moving_points_ = false;          // contacts need not be where the distance is extremal
  Detected base_, moved_;
  std::array<int, kMaxContacts> match_ = {};
  std::array<Vector3, kMaxContacts> normal_bar_, tangent_bar_;
};

}  // namespace

void contact_frame_pullback(const Vector3& normal, const Vector3& tangent,
                            const Eigen::Matrix3d& frame_bar, Vector3& normal_bar,
                            Vector3& tangent_bar) {
  const bool given = tangent.squaredNorm() >= 0.25;  // as mju_makeFrame decides
  const Vector3 x = normal.normalized();
  Vector3 t = tangent;
  if (!given) t = std::abs(x[1]) < 0.5 ? Vector3::UnitY() : Vector3::UnitZ();
  const Vector3 w = t - x * x.dot(t);
  const double length = w.norm();
  // gradient: a tangent along the normal has no direction of its own; its part is left out
  if (length < mjMINVAL) {
    normal_bar += frame_bar.row(0).transpose();
    return;
  }
  const Vector3 y = w / length;
  Vector3 x_bar = frame_bar.row(0), y_bar = frame_bar.row(1);
  const Vector3 z_bar = frame_bar.row(2);
  // z = x × y
  x_bar += y.cross(z_bar);
  y_bar += z_bar.cross(x);
  // y = w/|w|,  w = t - x (x·t)
  const Vector3 w_bar = (y_bar - y * y.dot(y_bar)) / length;
  x_bar -= x.dot(t) * w_bar + t * x.dot(w_bar);
  if (given) tangent_bar += w_bar - x * x.dot(w_bar);
  // x = n/|n|
  normal_bar += (x_bar - x * x.dot(x_bar)) / normal.norm();
}

void collision_pullback(const ModelImpl& impl, int first, int n, const ContactBar* bar,
                        Workspace& workspace) {
  // one guard for all calls of the collider: nothing in the pullback needs a destructor
  PairPullback pair(impl, first, n, bar, workspace);
  static_assert(std::is_trivially_destructible_v<PairPullback>);
  mj_call("the collision function", [&] { pair.run(); });
}

}  // namespace diffmj
