// The contacts of a state: what touches, as MuJoCo has it, and the nearest from distance.
//
// Pairs wait in a heap by a distance that they have at least, first by bounding spheres, then by
// capsules; colliders are asked only for those that can be among the nearest.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "stages/cfd/pairs.h"
#include "stages/position/collision/detect.h"

namespace diffmj {
namespace {

constexpr double kFar = 1e10;  // [m]
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// [m] more than this and colliders that iterate are asked again, with a margin that fits
constexpr double kInflated = 0.03;

// x of the contact frame is the normal; y near the tangent if there is one
void make_frame(const mjPreContact& from, mjtNum* frame) {
  mju_copy3(frame, from.normal);
  mju_normalize3(frame);
  mju_copy3(frame + 3, from.tangent);
  if (mju_dot3(frame + 3, frame + 3) < 0.25) {
    mju_zero3(frame + 3);
    frame[std::abs(frame[1]) < 0.5 ? 4 : 5] = 1;
  }
  mju_addToScl3(frame + 3, frame, -mju_dot3(frame, frame + 3));
  mju_normalize3(frame + 3);
  mju_cross(frame + 6, frame, frame + 3);
}

// convex colliders that iterate see geoms inflated by the margin, and lose digits with it
bool inflates(const mjModel* m, int g1, int g2) {
  return is_iterative(m, g1, g2) && m->geom_type[g1] != mjGEOM_HFIELD &&
         m->geom_type[g1] != mjGEOM_SDF && m->geom_type[g2] != mjGEOM_SDF;
}

// the segment of a hull: its middle and its axis
struct Segment {
  Segment(const mjData* d, const CfdHull& hull, int geom)
      : middle(d->geom_xpos + 3 * static_cast<ptrdiff_t>(geom)), half(hull.half) {
    const mjtNum* mat = d->geom_xmat + 9 * static_cast<ptrdiff_t>(geom);
    for (int k = 0; k < 3; k++) axis[k] = mat[3 * k + hull.axis];
  }
  const mjtNum* middle;
  mjtNum axis[3];
  double half;
};

double segment_distance(const Segment& s1, const Segment& s2) {
  mjtNum between[3];
  mju_sub3(between, s1.middle, s2.middle);
  const double b = mju_dot3(s1.axis, s2.axis), c = mju_dot3(s1.axis, between),
               f = mju_dot3(s2.axis, between), parallel = 1 - b * b;
  const auto on1 = [&](double x) { return std::clamp(x, -s1.half, s1.half); };
  double x = parallel > 1e-12 ? on1((b * f - c) / parallel) : 0;
  double y = b * x + f;
  if (std::abs(y) > s2.half) {
    y = std::clamp(y, -s2.half, s2.half);
    x = on1(b * y - c);
  } else if (parallel <= 1e-12) {
    x = on1(b * y - c);
  }
  mju_addToScl3(between, s1.axis, x);
  mju_addToScl3(between, s2.axis, -y);
  return mju_norm3(between);
}

double height_above_plane(const mjData* d, const CfdPair& pair) {
  const mjtNum* mat = d->geom_xmat + 9 * static_cast<ptrdiff_t>(pair.geom[0]);
  const mjtNum *plane = d->geom_xpos + 3 * static_cast<ptrdiff_t>(pair.geom[0]),
               *geom = d->geom_xpos + 3 * static_cast<ptrdiff_t>(pair.geom[1]);
  return (geom[0] - plane[0]) * mat[2] + (geom[1] - plane[1]) * mat[5] +
         (geom[2] - plane[2]) * mat[8];
}

// how near two geoms can be at least, by spheres; far, above any bound, if that is not below bound
double least_distance(const mjModel* m, const mjData* d, const CfdPair& pair, double bound) {
  if (m->geom_type[pair.geom[0]] == mjGEOM_PLANE) return height_above_plane(d, pair) - pair.radius;
  const mjtNum *p1 = d->geom_xpos + 3 * static_cast<ptrdiff_t>(pair.geom[0]),
               *p2 = d->geom_xpos + 3 * static_cast<ptrdiff_t>(pair.geom[1]);
  const double x = p1[0] - p2[0], y = p1[1] - p2[1], z = p1[2] - p2[2];
  const double square = x * x + y * y + z * z, most = bound + pair.radius;
  if (square >= most * most) return kFar;
  return std::sqrt(square) - pair.radius;
}

// at least and, of convex geoms, at most: by capsules
std::pair<double, double> capsule_distance(const CfdModel& cfd, const mjModel* m, const mjData* d,
                                           const CfdPair& pair) {
  const CfdHull &hull1 = cfd.hull(pair.geom[0]), &hull2 = cfd.hull(pair.geom[1]);
  const Segment second(d, hull2, pair.geom[1]);
  if (m->geom_type[pair.geom[0]] == mjGEOM_PLANE) {
    const mjtNum* mat = d->geom_xmat + 9 * static_cast<ptrdiff_t>(pair.geom[0]);
    const double along =
        second.axis[0] * mat[2] + second.axis[1] * mat[5] + second.axis[2] * mat[8];
    const double end = height_above_plane(d, pair) - std::abs(along) * second.half;
    return {end - hull2.radius, end};
  }
  const double distance = segment_distance(Segment(d, hull1, pair.geom[0]), second);
  return {distance - hull1.radius - hull2.radius, distance - hull1.inner - hull2.inner};
}

// one search; it owns nothing, for errors of MuJoCo leave it by a jump
class Search {
 public:
  Search(const CfdModel& cfd, const mjModel* m, mjData* d, CfdScratch& s)
      : cfd_(cfd), m_(m), d_(d), s_(s), most_(static_cast<size_t>(cfd.options().max_contacts)) {}

  bool run() {
    begin();
    find();
    if (capped_) s_.counts.capped++;
    return add_contacts();
  }

 private:
  using Candidate = CfdScratch::Candidate;
  using Found = CfdScratch::Found;
  static bool farther(const Candidate& a, const Candidate& b) { return a.distance > b.distance; }
  static bool nearer(const Found& a, const Found& b) { return a.r < b.r; }

  bool is_full() const { return s_.near.size() == most_; }
  const CfdPair& pair_of(const Candidate& candidate) const {
    return cfd_.pairs()[static_cast<size_t>(candidate.pair)];
  }

  void begin() {
    // the nearest are not much farther than they were last time; if they are, all pairs are looked
    // at
    if (s_.model == &cfd_ && is_full()) limit_ = 1.2 * s_.near.front().r + 1e-3;
    s_.model = &cfd_;
    s_.candidates.clear();
    s_.touching.clear();
    s_.near.clear();
    s_.law.clear();
    s_.counts.evaluations++;
    nleft_ = gather(-kInfinity, limit_);
    // what mj_collision does before it looks for contacts
    mj_collision(cfd_.empty_model(), d_);
  }

  // The pairs that may be nearer than low, and not than high. Returns how many may be beyond.
  int gather(double low, double high) {
    int nbeyond = 0;
    const auto npair = static_cast<int>(cfd_.pairs().size());
    for (int i = 0; i < npair; i++) {
      const CfdPair& pair = cfd_.pairs()[static_cast<size_t>(i)];
      const double reach = std::max(pair.reach, pair.touching);
      const double r = least_distance(m_, d_, pair, reach) - pair.margin;
      if (r >= reach - pair.margin || r <= low) continue;
      if (r <= high) {
        s_.candidates.push_back({r, i, false});
      } else {
        nbeyond++;
      }
    }
    std::make_heap(s_.candidates.begin(), s_.candidates.end(), farther);
    return nbeyond;
  }

  void find() {
    for (;;) {
      if (s_.candidates.empty()) {
        if (nleft_ == 0) return;
        if (is_full() && s_.near.front().r <= limit_) {
          capped_ = true;
          return;
        }
        // not enough within the limit
        gather(limit_, kInfinity);
        nleft_ = 0;
      }
      std::pop_heap(s_.candidates.begin(), s_.candidates.end(), farther);
      const Candidate next = s_.candidates.back();
      s_.candidates.pop_back();
      // none of those that are left can be among the nearest
      if (is_full() && next.distance >= s_.near.front().r && next.distance > 0) {
        capped_ = true;
        return;
      }
      if (next.capsules) {
        collide(next);
      } else {
        bound_by_capsules(next);
      }
    }
  }

  // looked at when it is its turn
  void bound_by_capsules(const Candidate& next) {
    const CfdPair& pair = pair_of(next);
    const double least = capsule_distance(cfd_, m_, d_, pair).first;
    if (least >= std::max(pair.reach, pair.touching)) return;
    s_.candidates.push_back({std::max(next.distance, least - pair.margin), next.pair, true});
    std::push_heap(s_.candidates.begin(), s_.candidates.end(), farther);
  }

  void collide(const Candidate& next) {
    const CfdPair& pair = pair_of(next);
    // what touches is as MuJoCo has it: with a margin colliders find other contacts
    if (next.distance < 0) {
      look(next, pair.touching, [&](const Found& found) {
        if (found.r < 0) s_.touching.push_back(found);
      });
    }
    const double width = pair.reach - pair.margin;
    if (width <= 0) return;
    look(next, fitting_reach(next), [&](const Found& found) {
      if (found.r >= 0 && found.r < width) keep(found);
    });
  }

  // The contacts of a pair within that distance, one by one.
  template <class Keep>
  void look(const Candidate& next, double reach, Keep&& keep) {
    const CfdPair& pair = pair_of(next);
    const mjfCollision collider =
        mjCOLLISIONFUNC[m_->geom_type[pair.geom[0]]][m_->geom_type[pair.geom[1]]];
    std::array<mjPreContact, mjMAXCONPAIR> contacts;
    const int n = collider(m_, d_, contacts.data(), pair.geom[0], pair.geom[1], reach);
    for (int k = 0; k < n; k++) {
      const mjPreContact& contact = contacts[static_cast<size_t>(k)];
      keep(Found{contact.dist - pair.margin, next.pair, k, contact});
    }
  }

  // Not more than colliders that inflate geoms need to see.
  double fitting_reach(const Candidate& next) {
    const CfdPair& pair = pair_of(next);
    double reach = pair.reach;
    if (!inflates(m_, pair.geom[0], pair.geom[1])) return reach;
    const auto [least, most_apart] = capsule_distance(cfd_, m_, d_, pair);
    reach = std::min(reach, std::max(most_apart, pair.touching) + kSameDistance);
    if (reach - least > kInflated) {
      double nearest = reach;
      look(next, reach,
           [&](const Found& found) { nearest = std::min(nearest, found.contact.dist); });
      reach = std::min(reach, std::max(nearest, pair.touching) + kSameDistance);
    }
    return reach;
  }

  // among the nearest, if it is one of them
  void keep(const Found& found) {
    if (is_full()) {
      capped_ = true;
      if (found.r >= s_.near.front().r) return;
      std::pop_heap(s_.near.begin(), s_.near.end(), nearer);
      s_.near.pop_back();
    }
    s_.near.push_back(found);
    std::push_heap(s_.near.begin(), s_.near.end(), nearer);
  }

  bool add_contacts() {
    // those of a pair are neighbours
    s_.touching.insert(s_.touching.end(), s_.near.begin(), s_.near.end());
    std::sort(s_.touching.begin(), s_.touching.end(), [](const Found& a, const Found& b) {
      return std::tuple(a.pair, a.r >= 0, a.order) < std::tuple(b.pair, b.r >= 0, b.order);
    });
    for (const Found& found : s_.touching) {
      mjContact contact = cfd_.contact_of(found.pair);
      contact.dist = found.contact.dist;
      mju_copy3(contact.pos, found.contact.pos);
      make_frame(found.contact, contact.frame);
      if (mj_addContact(m_, d_, &contact) != 0) return false;
      s_.law.push_back(cfd_.pairs()[static_cast<size_t>(found.pair)].law);
    }
    return true;
  }

  const CfdModel& cfd_;
  const mjModel* m_;
  mjData* d_;
  CfdScratch& s_;
  const size_t most_;         // contacts from distance
  double limit_ = kInfinity;  // [m] within which pairs are looked at first
  int nleft_ = 0;             // pairs beyond it
  bool capped_ = false;       // there are more
};
static_assert(std::is_trivially_destructible_v<Search>);

}  // namespace

bool cfd_contacts(const CfdModel& cfd, const mjModel* m, mjData* d, CfdScratch& scratch) {
  return Search(cfd, m, d, scratch).run();
}

}  // namespace diffmj
