// Which geoms may meet, and how their contacts from distance are made; MuJoCo: mj_collision.
//
// The pairs are those that MuJoCo's filters leave (bit masks, bodies welded together, parents,
// excluded bodies, predefined pairs), found once per model, with the numbers that a contact of each
// has. At a state, bounding spheres, then capsules, say how near a pair can be at least; pairs are
// looked at in that order, by MuJoCo's own colliders, until the nearest contacts are found.
#ifndef DIFFMJ_STAGES_CFD_PAIRS_H_
#define DIFFMJ_STAGES_CFD_PAIRS_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "diffmj/cfd.h"
#include "stages/cfd/scratch.h"

namespace diffmj {

// A capsule around a geom: a segment inside it, and how far it reaches from that.
struct CfdHull {
  int axis = 2;
  double half = 0, radius = 0;  // [m]
  double inner = 0;             // [m] what it reaches at least, all around the segment
};

struct CfdPair {
  int geom[2];
  double margin;    // [m] of the contact
  double reach;     // [m] distance at which contacts are detected, margin and width
  double touching;  // [m] distance at which MuJoCo detects them, margin and gap
  double radius;    // [m] of the two bounding spheres together; of a plane the other one's
  int law;
};

// What contacts from distance need to know of a model; constant, shared by all threads.
class CfdModel {
 public:
  // Throws InputError for a law out of range, or an unknown geom.
  CfdModel(const mjModel* m, const Cfd& options);

  const Cfd& options() const { return options_; }
  const std::vector<CfdPair>& pairs() const { return pairs_; }
  const CfdHull& hull(int geom) const { return hulls_[static_cast<size_t>(geom)]; }
  const CfdLaw& law(int i) const { return laws_[static_cast<size_t>(i)]; }
  // A contact of a pair but for distance, place and frame.
  const mjContact& contact_of(int pair) const { return contacts_[static_cast<size_t>(pair)]; }
  // The model without contacts. Shares its arrays.
  const mjModel* empty_model() const { return &empty_model_; }

 private:
  struct Laws;
  void find_pairs(const mjModel* m, const Laws& laws);
  void add(const mjModel* m, int geom1, int geom2, int predefined, int law);

  Cfd options_;
  std::vector<CfdLaw> laws_;
  std::vector<CfdHull> hulls_;  // ngeom
  std::vector<CfdPair> pairs_;
  std::vector<mjContact> contacts_;
  mjModel empty_model_;
};

// Replaces the contacts in d by those that touch and the nearest from distance. mj_kinematics and
// mj_comPos must have been run. False if MuJoCo's memory for contacts is full. Inside mj_call.
bool cfd_contacts(const CfdModel& cfd, const mjModel* m, mjData* d, CfdScratch& scratch);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_CFD_PAIRS_H_
