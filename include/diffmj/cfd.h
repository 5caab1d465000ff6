// Contacts from distance (CFD): contact forces between geoms that do not touch yet, in the backward
// pass only, so that a gradient tells how they would have to move to meet [Paulus26, section 4].
//
// A rollout is what it is without. At each of its states the pullback takes the derivative of other
// forces (docs/derivations/cfd.md): with r the distance of a contact beyond its margin, its
// impedance goes on for r > 0 from d_0 at r = 0 down to d_c at r = width, and its reference
// acceleration has softplus(-r) in place of -r. The result is a surrogate, not the derivative of
// the loss.
#ifndef DIFFMJ_CFD_H_
#define DIFFMJ_CFD_H_

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace diffmj {

// Of one contact. As width goes to 0 the ordinary gradient comes back.
struct CfdLaw {
  double width = 0.1;  // [m] up to which contacts are made, w_c; 0: none, the contact is MuJoCo's
  double d_c = 0;      // impedance at width; from 0 to 0.9999
  // Impedance at r = 0; -1: that of the contact's solimp there, which makes forces continuous, but
  // 0.01 at most.
  double d_0 = -1;
  double midpoint = 1;   // of the spline, from the far end; above 0, at most 1
  double power = 2;      // of the spline; 1 or more
  double softplus = -1;  // [m] scale s of s log(1 + exp(-r/s)); 0: max(0, -r); -1: width / 100
};

struct Cfd {
  // Of contacts that have none of their own. None: that of the model's custom numeric "cfd", or
  // the default.
  std::optional<CfdLaw> law = {};
  // Of contacts of a geom and of a pair of geoms, by name, before those of custom numerics
  // "cfd_geom:NAME" and "cfd_pair:NAME,NAME". A pair's goes first, then a geom's; of two geoms'
  // the wider.
  std::map<std::string, CfdLaw> geoms = {};
  std::map<std::pair<std::string, std::string>, CfdLaw> pairs = {};
  // Contacts from distance at one state at most: the nearest. Those that touch do not count.
  int max_contacts = 16;
  // Of adaptive steps: their error is also that of the forces from distance, so that the discrete
  // adjoint follows these. The rollout takes other, smaller steps then.
  bool controls_steps = false;
  // Not physical, to look at or to check against: the rollout has forces from distance, too.
  bool forward = false;
};

}  // namespace diffmj

#endif  // DIFFMJ_CFD_H_
