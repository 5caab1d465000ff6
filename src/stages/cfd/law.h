// Impedance and reference of a contact from distance, [Paulus26, section 4 and fig. 4].
//
//   r = dist - margin
//   d(r) = MuJoCo's                        r ≤ 0
//          d_c + y(1 - r/w) (d_0 - d_c)    0 < r < w,  y the spline of MuJoCo's solimp
//   aref = -B J v - K d(r) ρ(r),   ρ(r) = -s log(1 + exp(-r/s))
//
// Derivation in docs/derivations/cfd.md, eq. 1 to 3.
#ifndef DIFFMJ_STAGES_CFD_LAW_H_
#define DIFFMJ_STAGES_CFD_LAW_H_

#include <mujoco/mujoco.h>

#include "diffmj/cfd.h"

namespace diffmj {

// A number and its derivative in r.
struct CfdValue {
  double value = 0, slope = 0;
};

// MuJoCo's impedance at r = 0: d0, or the mean of the two where solimp has no width.
double impedance_at_zero(const mjtNum* solimp);

// d_0 of a contact with this solimp.
double impedance_where_it_begins(const CfdLaw& law, const mjtNum* solimp);

// d(r) for r > 0, of a contact with this solimp. Not below 1e-10, for R ∝ (1 - d)/d.
CfdValue cfd_impedance(const CfdLaw& law, const mjtNum* solimp, double r);
// Adds to solimp_bar (mjNIMP), where d_0 is the contact's own.
void cfd_impedance_pullback(const CfdLaw& law, const mjtNum* solimp, double r, double d_bar,
                            double* solimp_bar);

// ρ(r), of any r.
CfdValue cfd_violation(const CfdLaw& law, double r);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_CFD_LAW_H_
