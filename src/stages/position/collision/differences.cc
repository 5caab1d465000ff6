#include "stages/position/collision/differences.h"

#include <Eigen/Geometry>
#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "mj/call.h"
#include "stages/position/collision/detect.h"
#include "stages/position/collision/frame.h"

namespace diffmj {
namespace {

// a step is linear if its two sides differ by less than this, relative
constexpr double kNonlinearity = 1e-3, kCurvedNonlinearity = 0.1;
constexpr double kOther = 1;  // a step to other contacts is less linear than any to the same

// The steps to try, in units of the smaller geom's radius and in rad.
struct Steps {
  std::array<double, 5> h;
  double nonlinearity = kNonlinearity;
};
// smaller ones where a case of the collider ends nearby, larger ones above its noise
constexpr Steps kExact{.h = {1e-6, 1e-7, 1e-8, 1e-5, 1e-4}};
constexpr Steps kIterative{.h = {2e-4, 1e-3, 5e-5, 2e-5, 5e-6},
                           .nonlinearity = kCurvedNonlinearity};
// polytopes approximate curved shapes, with normals that are off by 1e-6; but of faces that clip
// each other, only the direction of a line is theirs
constexpr Steps kCurved{.h = {2e-3, 5e-4, 2e-4, 1e-4, 5e-5}, .nonlinearity = kCurvedNonlinearity};
constexpr Steps kClipped{.h = {1e-4, 3e-5, 1e-5, 3e-6, 1e-6}, .nonlinearity = kCurvedNonlinearity};

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
    size_ = std::numeric_limits<double>::infinity();
    for (int g : {g1_, g2_}) {
      if (m_->geom_rbound[g] > 0) size_ = std::min(size_, m_->geom_rbound[g]);
    }
    if (size_ == std::numeric_limits<double>::infinity()) size_ = 1;  // two planes, without bounds
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
    choose_directions();
    Vector6 second = Vector6::Zero();  // the second alone
    for (int k = 0; k < 6; k++) {
      Vector6 direction = Vector6::Zero();  // rotations about the pivot, then translations
      direction.segment<3>(k < 3 ? 0 : 3) = directions_.col(k % 3);
      double value = 0;
      const auto move = [&](double s, Detected& found) { move_pose(k, s, found); };
      if (!slope(move, k < 3 ? 1 : size_, value)) value = direction.dot(extremal_);
      second += value * direction;
    }
    out_.wrench[0] += together - second;
    out_.wrench[1] += second;
    if (movable_) sizes();
  }

 private:
  void detect(Detected& out) { detect_contacts(m_, d_, d_->contact[first_], out); }

  // The normal, the axis of a geom as far as it is across it, and what is across both: where one of
  // a collider's cases ends in one direction (an axis along a face is tilted), the others are not
  // mixed with it.
  void choose_directions() {
    const Vector3 n(base_.contact[0].normal);
    Vector3 axis = n.cross(Vector3::Unit(std::abs(n[0]) < 0.6 ? 0 : 1));
    for (const int g : {g1_, g2_}) {
      const int type = m_->geom_type[g];
      if (type != mjGEOM_CYLINDER && type != mjGEOM_CAPSULE) continue;
      const Vector3 own = Rotation(d_->geom_xmat + 9 * g).col(2), across = own - n * n.dot(own);
      if (across.norm() > 0.1) axis = across;
    }
    axis.normalize();
    directions_ << n, axis, n.cross(axis);
  }

  // the second geom by s along direction k: rotations about the pivot, then translations
  void move_pose(int k, double s, Detected& found) {
    Eigen::Map<Vector3> xpos(d_->geom_xpos + 3 * g2_);
    Eigen::Map<Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> xmat(d_->geom_xmat + 9 * g2_);
    const Vector3 xpos0 = xpos;
    const Eigen::Matrix3d xmat0 = xmat;
    if (k < 3) {
      const Eigen::Matrix3d R = Eigen::AngleAxisd(s, directions_.col(k)).toRotationMatrix();
      xpos = out_.pivot + R * (xpos0 - out_.pivot);
      xmat = R * xmat0;
    } else {
      xpos += s * directions_.col(k - 3);
    }
    detect(found);
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
        const auto move = [&](double s, Detected& found) {
          size = size0 + s;
          detect(found);
          size = size0;
        };
        // gradient: a contact that is lost on both sides has no derivative in the size
        double value = 0;
        if (slope(move, size_, value)) out_.size[side][k] += value;
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

  using Numbers = Eigen::Vector<double, 10>;

  // what a contact has become after a step
  struct Moved {
    Detected found;
    std::array<int, kMaxContacts> match = {};
    bool all = false, same = false;  // found again, in the same order
  };

  // whether two contacts may be one before and after a step
  bool may_be(const mjPreContact& from, const mjPreContact& to) const {
    return mju_dist3(to.pos, from.pos) <= reach_ &&
           mju_dist3(to.normal, from.normal) <= kSameNormal &&
           mju_dist3(to.tangent, from.tangent) <= kSameNormal &&
           std::abs(to.dist - from.dist) <= kSameDistance;
  }

  // Each contact found again: in the same order, if there are as many, or the nearest. Corners that
  // are about to become one are told apart by their order alone.
  void follow(Moved& moved) const {
    moved.same = moved.found.n == base_.n;
    for (int i = 0; i < base_.n && moved.same; i++) {
      const auto k = static_cast<size_t>(i);
      moved.same = may_be(base_.contact[k], moved.found.contact[k]);
    }
    moved.all = true;
    for (int i = 0; i < n_ && moved.all; i++) {
      const auto c = static_cast<size_t>(i);
      if (match_[c] < 0) continue;
      const mjPreContact& from = base_.contact[static_cast<size_t>(match_[c])];
      const int j = moved.same ? match_[c] : moved.found.nearest(from.pos, from.dist, from.normal);
      moved.match[c] = j;
      moved.all = j >= 0 && may_be(from, moved.found.contact[static_cast<size_t>(j)]);
    }
  }

  // how much the contacts have changed, weighted
  double change(const Moved& moved) const {
    double sum = 0;
    for (int i = 0; i < n_; i++) {
      const auto c = static_cast<size_t>(i);
      if (match_[c] < 0) continue;
      const mjPreContact &from = base_.contact[static_cast<size_t>(match_[c])],
                         &to = moved.found.contact[static_cast<size_t>(moved.match[c])];
      sum += bar_[c].dist * (to.dist - from.dist) +
             bar_[c].pos.dot(Vector3(to.pos) - Vector3(from.pos)) +
             normal_bar_[c].dot(Vector3(to.normal) - Vector3(from.normal)) +
             tangent_bar_[c].dot(Vector3(to.tangent) - Vector3(from.tangent));
    }
    return sum;
  }

  // how much the two sides of a step differ, relative to what has changed: what one has changed,
  // the other should take back. A case of the collider that ends within the step, or noise.
  double nonlinearity_of(const Moved& plus, const Moved& minus, double h) const {
    double most = 0;
    for (int i = 0; i < n_; i++) {
      const auto c = static_cast<size_t>(i);
      if (match_[c] < 0) continue;
      const auto at = numbers(base_, match_[c]), up = numbers(plus.found, plus.match[c]),
                 down = numbers(minus.found, minus.match[c]);
      const double first = (up - down).lpNorm<Eigen::Infinity>(),
                   second = (up + down - 2 * at).lpNorm<Eigen::Infinity>();
      most = std::max(most, second / std::max(first, h));
    }
    return most;
  }
  // whether the steps of 2 h are straight and change twice what those of h do: they may have left
  // the case of the collider that these are in
  bool twice_as_far(double h, double nonlinearity) const {
    if (!plus2_.all || !minus2_.all) return false;
    if (plus2_.same != plus_.same || minus2_.same != minus_.same) return false;
    if (nonlinearity_of(plus2_, minus2_, 2 * h) > nonlinearity) return false;
    for (int i = 0; i < n_; i++) {
      const auto c = static_cast<size_t>(i);
      if (match_[c] < 0) continue;
      const Numbers near = numbers(plus_.found, plus_.match[c]) -
                           numbers(minus_.found, minus_.match[c]),
                    far = numbers(plus2_.found, plus2_.match[c]) -
                          numbers(minus2_.found, minus2_.match[c]);
      const double scale = std::max((2 * near).lpNorm<Eigen::Infinity>(), 2 * h);
      if ((far - 2 * near).lpNorm<Eigen::Infinity>() > nonlinearity * scale) return false;
    }
    return true;
  }
  // of a contact, in units of the smaller geom
  Numbers numbers(const Detected& found, int i) const {
    const mjPreContact& contact = found.contact[static_cast<size_t>(i)];
    Numbers out;
    out << contact.dist / size_, Vector3(contact.pos) / size_, Vector3(contact.normal),
        Vector3(contact.tangent);
    return out;
  }

  // The slope along a direction: move(s, found) makes a step. Of the steps to try the first is
  // taken that is straight.
  // gradient: if none is, the largest of which contacts are found again on one side only, that side
  // alone; or the most linear one; where a contact is lost on both sides of all, what holds for
  // extremal distances
  template <class Move>
  bool slope(const Move& move, double unit, double& out) {
    const Steps steps = choose_steps();
    const auto at = [&](double h, Moved& moved) {
      move(h * unit, moved.found);
      follow(moved);
      return moved.all ? change(moved) / unit : 0;
    };
    double least = std::numeric_limits<double>::infinity(), largest = 0, one_sided = 0;
    for (const double h : steps.h) {
      const double plus = at(h, plus_), minus = at(-h, minus_);
      if (plus_.all && minus_.all) {
        const double nonlinearity =
            nonlinearity_of(plus_, minus_, h) + (plus_.same && minus_.same ? 0 : kOther);
        if (nonlinearity >= least) continue;
        least = nonlinearity;
        out = (plus - minus) / (2 * h);
        if (steps.nonlinearity > kNonlinearity) {
          const double plus2 = at(2 * h, plus2_), minus2 = at(-2 * h, minus2_);
          if (twice_as_far(h, steps.nonlinearity))
            out = (8 * (plus - minus) - plus2 + minus2) / (12 * h);
        }
        if (nonlinearity <= steps.nonlinearity) return true;
      } else if ((plus_.all || minus_.all) && h > largest) {
        largest = h;
        one_sided = plus_.all ? plus / h : -minus / h;
      }
    }
    if (largest > 0) out = one_sided;
    return largest > 0 || least < std::numeric_limits<double>::infinity();
  }

  Steps choose_steps() const {
    if (!is_iterative(m_, g1_, g2_)) return kExact;
    const auto has = [&](int type) {
      return m_->geom_type[g1_] == type || m_->geom_type[g2_] == type;
    };
    // prisms of a height field have a contact each
    const bool clipped = base_.n > 1 && !has(mjGEOM_HFIELD);
    if (clipped && (has(mjGEOM_CAPSULE) || has(mjGEOM_CYLINDER))) return kClipped;
    if (has(mjGEOM_ELLIPSOID) || has(mjGEOM_CYLINDER)) return kCurved;
    const bool native = (m_->opt.disableflags & mjDSBL_NATIVECCD) == 0;
    return native && !has(mjGEOM_SDF) ? kExact : kIterative;
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
  double size_ = 1;                     // of the smaller geom
  Eigen::Matrix3d directions_;          // columns
  Detected base_;
  Moved plus_, minus_, plus2_, minus2_;  // after a step, and after one of twice the size
  std::array<int, kMaxContacts> match_ = {};
  std::array<Vector3, kMaxContacts> normal_bar_, tangent_bar_;
};

}  // namespace

void differences_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                          bool want_size, Workspace& workspace, PairBar& out) {
  MjModelPtr& movable = workspace.probes.collision_model;
  if (want_size && !movable) movable = movable_copy(impl.tight());
  // one guard for all calls of the collider: nothing in the pullback needs a destructor
  PairDifferences pair(want_size ? movable.get() : impl.tight(),
                       want_size ? movable.get() : nullptr, workspace.data.get(), first, n, bar,
                       out);
  static_assert(std::is_trivially_destructible_v<PairDifferences>);
  mj_call("the collision function", [&] { pair.run(); });
}

}  // namespace diffmj
