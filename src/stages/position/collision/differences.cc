#include "stages/position/collision/differences.h"

#include <Eigen/Geometry>
#include <array>
#include <limits>
#include <type_traits>

#include "mj/call.h"
#include "stages/position/collision/detect.h"
#include "stages/position/collision/frame.h"

namespace diffmj {
namespace {

// Colliders in closed form have no noise; those that iterate need a step that stands out of it, and
// so two of them. [m] and [rad]
constexpr double kStep = 1e-6;
constexpr double kIterativeStep = 2e-5;
constexpr double kCurvedStep = 2e-3;  // of the smaller geom's radius
class PairDifferences {
 public:
  PairDifferences(const mjModel* m, mjModel* movable, mjData* d, int first, int n,
                  const ContactBar* bar, PairBar& out)
      : m_(m),
        movable_(movable),
        d_(d),
        first_(first),
        n_(n),
        bar_(bar),
        out_(out),
        g1_(d_->contact[first].geom[0]),
        g2_(d_->contact[first].geom[1]) {}

  // inside mj_call
  void run() {
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
    Vector6 together = Vector6::Zero();  // about the pivot: both geoms as one
    bool any = false;
    for (int i = 0; i < n_; i++) {
      const auto k = static_cast<size_t>(i);
      const mjContact& contact = d_->contact[first_ + i];
      const Vector3 n(contact.frame), arm = Vector3(contact.pos) - out_.pivot;
      match_[k] = base_.nearest(contact.pos, contact.dist, contact.frame);
      if (match_[k] < 0 || !bar_[k].any()) {
        match_[k] = -1;
        continue;
      }
      const mjPreContact& found = base_.contact[static_cast<size_t>(match_[k])];
      const Vector3 tangent(found.tangent);
      contact_frame_pullback(n, tangent, bar_[k].frame, normal_bar_[k], tangent_bar_[k]);
      extremal_ += wrench_at(arm, Vector3::Zero(), bar_[k].dist * n);
      together +=
          wrench_at(arm, n.cross(normal_bar_[k]) + tangent.cross(tangent_bar_[k]), bar_[k].pos);
      any = true;
    }
    if (!any) return;
    Vector6 second;  // the second alone
    for (int k = 0; k < 6; k++) {
      if (!slope([&](double s) { move_pose(k, s); }, second[k])) second[k] = extremal_[k];
    }
    out_.wrench[0] += together - second;
    out_.wrench[1] += second;
    if (movable_) sizes();
  }

 private:
  void detect(Detected& out) { detect_contacts(m_, d_, d_->contact[first_], out); }

  // the second geom by s along direction k: rotations about the pivot, then translations
  void move_pose(int k, double s) {
    Eigen::Map<Vector3> xpos(d_->geom_xpos + 3 * g2_);
    Eigen::Map<Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> xmat(d_->geom_xmat + 9 * g2_);
    const Vector3 xpos0 = xpos;
    const Eigen::Matrix3d xmat0 = xmat;
    if (k < 3) {
      const Eigen::Matrix3d R = Eigen::AngleAxisd(s, Vector3::Unit(k)).toRotationMatrix();
      xpos = out_.pivot + R * (xpos0 - out_.pivot);
      xmat = R * xmat0;
    } else {
      xpos[k - 3] += s;
    }
    detect(moved_);
    xpos = xpos0;
    xmat = xmat0;
  }

  // sizes that the collider reads; meshes, height fields and distance functions have their own data
  void sizes() {
    for (size_t side = 0; side < 2; side++) {
      const int g = side == 0 ? g1_ : g2_;
      const int count = size_count(m_->geom_type[g]);
      for (int k = 0; k < count; k++) {
        mjtNum& size = movable_->geom_size[3 * g + k];
        const double size0 = size;
        const auto move = [&](double s) {
          size = size0 + s;
          detect(moved_);
          size = size0;
        };
        // gradient: a contact that is lost on both sides has no derivative in the size
        double value = 0;
        if (slope(move, value)) out_.size[side][k] += value;
      }
    }
  }
  static int size_count(int type) {
    switch (type) {
      case mjGEOM_SPHERE:
        return 1;
      case mjGEOM_CAPSULE:
      case mjGEOM_CYLINDER:
        return 2;
      case mjGEOM_ELLIPSOID:
      case mjGEOM_BOX:
        return 3;
      default:
        return 0;
    }
  }

  // how much the contacts have changed, weighted; false if one of them is not found again
  bool change(double& sum) const {
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
      sum += bar_[c].dist * (to.dist - from.dist) +
             bar_[c].pos.dot(Vector3(to.pos) - Vector3(from.pos)) +
             normal_bar_[c].dot(Vector3(to.normal) - Vector3(from.normal)) +
             tangent_bar_[c].dot(Vector3(to.tangent) - Vector3(from.tangent));
    }
    return true;
  }

  // gradient: where a contact is lost on one side (a case of the collider ends), the other side
  // alone is taken; where it is lost on both, what holds for extremal distances
  template <class Move>
  bool slope(const Move& move, double& out) {
    const bool two = is_iterative(m_, g1_, g2_);
    const double h = two ? iterative_step() : kStep;
    double plus = 0, minus = 0, plus2 = 0, minus2 = 0;
    const auto at = [&](double s, double& sum) {
      move(s);
      return change(sum);
    };
    const bool up = at(h, plus) && (!two || at(2 * h, plus2));
    const bool down = at(-h, minus) && (!two || at(-2 * h, minus2));
    if (!up && !down) return false;
    if (up && down) {
      out = two ? (8 * (plus - minus) - plus2 + minus2) / (12 * h) : (plus - minus) / (2 * h);
    } else {
      out = up ? plus / h : -minus / h;
    }
    return true;
  }

  // polytopes approximate curved shapes, with normals that are off by 1e-6; but of faces that clip
  // each other, which give several contacts, only the choice is theirs. Prisms of a height field
  // have a contact each.
  double iterative_step() const {
    double size = std::numeric_limits<double>::infinity();
    bool curved = false;
    for (int g : {g1_, g2_}) {
      curved =
          curved || m_->geom_type[g] == mjGEOM_ELLIPSOID || m_->geom_type[g] == mjGEOM_CYLINDER;
      if (m_->geom_rbound[g] > 0) size = std::min(size, m_->geom_rbound[g]);
    }
    const bool clipped = base_.n > 1 && m_->geom_type[g1_] != mjGEOM_HFIELD;
    return curved && !clipped ? kCurvedStep * size : kIterativeStep;
  }

  const mjModel* m_;
  mjModel* movable_;  // the same, if sizes are wanted
  mjData* d_;
  int first_, n_;
  const ContactBar* bar_;
  PairBar& out_;
  int g1_, g2_;
  Vector6 extremal_ = Vector6::Zero();  // about the pivot: δ(dist) = n · velocity
  double reach_ = 0;                    // a contact that is farther away is another one
  Detected base_, moved_;
  std::array<int, kMaxContacts> match_ = {};
  std::array<Vector3, kMaxContacts> normal_bar_, tangent_bar_;
};

}  // namespace

void differences_pullback(const ModelImpl& impl, int first, int n, const ContactBar* bar,
                          bool want_size, Workspace& workspace, PairBar& out) {
  MjModelPtr& movable = workspace.collision_model;
  if (want_size && !movable) movable = movable_copy(impl.tight());
  // one guard for all calls of the collider: nothing in the pullback needs a destructor
  PairDifferences pair(want_size ? movable.get() : impl.tight(),
                       want_size ? movable.get() : nullptr, workspace.data.get(), first, n, bar,
                       out);
  static_assert(std::is_trivially_destructible_v<PairDifferences>);
  mj_call("the collision function", [&] { pair.run(); });
}

}  // namespace diffmj
