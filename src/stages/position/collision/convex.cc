#include "stages/position/collision/convex.h"

#include <type_traits>

#include "mj/call.h"
#include "stages/position/collision/clipped.h"
#include "stages/position/collision/detect.h"
#include "stages/position/collision/frame.h"
#include "stages/position/collision/nearest.h"

namespace diffmj {
namespace {

// polytopes that approximate curved shapes are this far from them
constexpr FeatureTolerance kIterative{.place = 1e-5, .normal = 1e-5};

class ConvexPair {
 public:
  ConvexPair(const mjModel* m, mjData* d, int first, int n, const ContactBar* bar, PairBar& out)
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
      if (!bar_[i].any()) continue;
      const mjContact& contact = contacts_[i];
      const int at = found_.nearest(contact.pos, contact.dist, contact.frame);
      if (at < 0) return false;
      const mjPreContact& found = found_.contact[static_cast<size_t>(at)];
      if (mju_dist3(found.pos, contact.pos) > kSamePlace ||
          mju_dist3(found.normal, contact.frame) > kSameNormal) {
        return false;
      }
      const PairContact one(found);
      const PairContactBar one_bar = contact_bar(one, bar_[i]);
      if (!nearest_pullback(geom_, one, kIterative, one_bar, out_) &&
          !clipped_pullback(geom_, one, one_bar, out_)) {
        return false;
      }
    }
    return true;
  }

 private:
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
  PairBar& out_;
  std::array<GeomPose, 2> geom_;
  Detected found_;
};

}  // namespace

bool convex_pullback(const ModelImpl& impl, int first, int n, const ContactBar* bar,
                     Workspace& workspace, PairBar& out) {
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
