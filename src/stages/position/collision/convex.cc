#include "stages/position/collision/convex.h"

#include <algorithm>
#include <span>
#include <type_traits>

#include "mj/call.h"
#include "stages/position/collision/clipped.h"
#include "stages/position/collision/detect.h"
#include "stages/position/collision/frame.h"
#include "stages/position/collision/nearest.h"
#include "stages/position/collision/readings.h"

namespace diffmj {
namespace {

// polytopes that approximate curved shapes are this far from them
constexpr FeatureTolerance kCurved{.place = 1e-5, .normal = 1e-5};
// vertices of meshes are rounded to single precision, and so faces are not quite flat
constexpr FeatureTolerance kFlat{.place = 1e-7, .normal = 1e-7};

class ConvexPair {
 public:
  ConvexPair(const mjModel* m, mjData* d, int first, int n, const ContactBar* bar,
             std::span<PairBar> out)
      : m_(m),
        d_(d),
        contacts_(d->contact + first),
        n_(n),
        bar_(bar),
        out_(out),
        geom_{GeomPose(m, d, contacts_->geom[0]), GeomPose(m, d, contacts_->geom[1])} {}

  // inside mj_call
  bool run() {
    detect_contacts(m_, d_, *contacts_, found_);
    for (int i = 0; i < n_; i++) {
      if (!has_bar(i)) continue;
      const mjContact& contact = contacts_[i];
      const int at = found_.nearest(contact.pos, contact.dist, contact.frame);
      if (at < 0) return false;
      const mjPreContact& found = found_.contact[static_cast<size_t>(at)];
      if (mju_dist3(found.pos, contact.pos) > kSamePlace ||
          mju_dist3(found.normal, contact.frame) > kSameNormal) {
        return false;
      }
      for (size_t k = 0; k < out_.size(); k++) {
        found_bar_[k][static_cast<size_t>(at)] += contact_bar(
            PairContact(found), bar_[k * static_cast<size_t>(n_) + static_cast<size_t>(i)]);
      }
    }
    const auto nfound = static_cast<size_t>(found_.n);
    const std::span<const mjPreContact> contacts(found_.contact.data(), nfound);
    // prisms of a height field have a contact each
    if (geom_[0].type != mjGEOM_HFIELD) return pull(contacts, 0);
    for (size_t i = 0; i < nfound; i++) {
      bool any = false;
      for (size_t k = 0; k < out_.size(); k++) any = any || found_bar_[k][i].any();
      if (any && !pull(contacts.subspan(i, 1), i)) return false;
    }
    return true;
  }

 private:
  bool has_bar(int i) const {
    for (size_t k = 0; k < out_.size(); k++) {
      if (bar_[k * static_cast<size_t>(n_) + static_cast<size_t>(i)].any()) return true;
    }
    return false;
  }

  // of one clip, or one of nearest points: of those that were found, from number first on
  bool pull(std::span<const mjPreContact> contacts, size_t first) {
    Readings readings(out_[0].pivot, out_.size(),
                      is_curved() ? Readings::kIterative : Readings::kExact);
    // prisms of a height field clip nothing
    const bool clips =
        (m_->opt.disableflags & mjDSBL_MULTICCD) == 0 && geom_[0].type != mjGEOM_HFIELD;
    if (contacts.size() == 1) {
      readings.add([&](std::span<PairBar> out) {
        for (size_t k = 0; k < out.size(); k++) {
          if (!nearest_pullback(geom_, PairContact(contacts[0]), is_curved() ? kCurved : kFlat,
                                found_bar_[k][first], out[k], Undetermined::kUnknown)) {
            return false;
          }
        }
        return true;
      });
    }
    std::array<const PairContactBar*, kMaxCotangents> bars;
    for (size_t k = 0; k < out_.size(); k++) bars[k] = &found_bar_[k][first];
    if (clips) clipped_readings(geom_, contacts, std::span(bars).first(out_.size()), readings);
    return readings.commit(out_);
  }

  bool is_curved() const {
    return std::any_of(geom_.begin(), geom_.end(), [](const GeomPose& geom) {
      return geom.type == mjGEOM_ELLIPSOID || geom.type == mjGEOM_CYLINDER;
    });
  }

  static PairContactBar contact_bar(const PairContact& contact, const ContactBar& bar) {
    PairContactBar out{.dist = bar.dist, .pos = bar.pos};
    contact_frame_pullback(contact.n, Vector3::Zero(), bar.frame, out.n, out.tangent);
    return out;
  }

  const mjModel* m_;
  mjData* d_;
  const mjContact* contacts_;
  int n_;
  const ContactBar* bar_;
  std::span<PairBar> out_;
  std::array<GeomPose, 2> geom_;
  Detected found_;
  std::array<std::array<PairContactBar, kMaxContacts>, kMaxCotangents> found_bar_ = {};
};

}  // namespace

bool convex_pullback(const StageModel& impl, int first, int n, const ContactBar* bar,
                     Workspace& workspace, std::span<PairBar> out) {
  const mjModel* m = impl.tight();
  mjData* d = workspace.data.get();
  // without native CCD the penetration is near the least, not the least
  if ((m->opt.disableflags & mjDSBL_NATIVECCD) != 0) return false;
  bool known = false;
  ConvexPair pair(m, d, first, n, bar, out);
  static_assert(std::is_trivially_destructible_v<ConvexPair>);
  mj_call("the collision function", [&] { known = pair.run(); });
  return known;
}

}  // namespace diffmj
