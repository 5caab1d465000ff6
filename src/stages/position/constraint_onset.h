// The onset of contacts and limits: their impedance I sets in over a width ε of their violation r
// instead of at once,
//
//   I(r) s(-r/ε),   s(x) = 3 x² - 2 x³ up to x = 1,   R ∝ (1 - I s)/(I s)
//
// so that their force is continuous where they begin and end (docs/derivations/stiff.md, eq. 8).
// MuJoCo: mj_makeConstraint, whose R, D and impedance are replaced. Pullbacks read impedance and
// slope from mjData, and so need no other form.
#ifndef DIFFMJ_STAGES_POSITION_CONSTRAINT_ONSET_H_
#define DIFFMJ_STAGES_POSITION_CONSTRAINT_ONSET_H_

#include <mujoco/mujoco.h>

namespace diffmj {

// s at the violation of row i of a contact or limit, 1 of other rows and for width 0.
double constraint_onset(const mjData* d, int i, double width);

// Replaces impedance, its slope, R and D of all such rows, and R in A + R where a no-slip pass
// reads that; after the position stage and before anything that reads them. Width 0: nothing.
void apply_constraint_onset(const mjModel* m, mjData* d, double width);

// mj_forward with that, but for sensors.
void forward_with_onset(const mjModel* m, mjData* d, double width);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_CONSTRAINT_ONSET_H_
