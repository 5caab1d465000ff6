// Contacts from distance (CFD): contact forces between geoms that do not touch yet, in the backward
// pass only, so that a gradient tells how they would have to move to meet [Paulus26, section 4].
//
// Rollouts do not change. At each state the pullback differentiates other forces
// (docs/derivations/cfd.md). Let r be the distance of a contact beyond its margin. For r > 0 its
// impedance continues from d_0 at r = 0 down to d_c at r = width, and softplus(-r) replaces -r in
// its reference acceleration. The result is a surrogate, not the derivative of the loss.
#ifndef DIFFMJ_CFD_H_
#define DIFFMJ_CFD_H_

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace diffmj {

// The law of one contact. As width goes to 0, the gradient converges to the ordinary one.
struct CfdLaw {
  double width = 0.1;  // [m] up to which contacts are made, w_c; 0: none, the contact is MuJoCo's
  double d_c = 0;      // impedance at width; from 0 to 0.9999
  // Impedance at r = 0. None: that of the contact's solimp there, which makes forces continuous,
  // but at most 0.01.
  std::optional<double> d_0 = {};
  double midpoint = 1;  // of the spline, from the far end; above 0, at most 1
  double power = 2;     // of the spline; 1 or more
  // [m] Scale s of s log(1 + exp(-r/s)); 0: max(0, -r). None: width / 100.
  std::optional<double> softplus = {};
};
// A law as text has it: "width d_c d_0 midpoint power softplus", or the first of them. -1 leaves
// d_0 or softplus to its default. Throws InputError, in which who tells whose law it is.
CfdLaw cfd_law_from_numbers(const std::string& who, std::span<const double> numbers);

struct Cfd {
  // The law of contacts without a law of their own. None: that of the model's custom numeric "cfd",
  // or the default.
  std::optional<CfdLaw> law = {};
  // Laws for a geom and for a pair of geoms, by name. They override the custom numerics
  // "cfd_geom:NAME" and "cfd_pair:NAME,NAME". A pair's law overrides a geom's; of the laws of two
  // geoms the wider one counts.
  std::map<std::string, CfdLaw> geoms = {};
  std::map<std::pair<std::string, std::string>, CfdLaw> pairs = {};
  // Largest number of contacts from distance at one state; the nearest are kept. Touching contacts
  // are not counted.
  int max_contacts = 16;
  // Include forces from distance in the error of adaptive steps, so that the discrete adjoint
  // resolves them. The rollout then takes smaller steps.
  bool controls_steps = false;
  // Apply forces from distance in the rollout, too. Not physical; for inspection and checks.
  bool forward = false;
};

// States at which a backward pass looked for contacts from distance, and those among them with more
// than Cfd::max_contacts, where only the nearest were kept.
struct CfdCounts {
  long evaluations = 0, capped = 0;
  CfdCounts& operator+=(const CfdCounts& x) {
    evaluations += x.evaluations;
    capped += x.capped;
    return *this;
  }
  std::string warning() const;  // what to tell the user; empty: nothing
};

}  // namespace diffmj

#endif  // DIFFMJ_CFD_H_
