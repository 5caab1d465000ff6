// Length and moment arms of tendons; MuJoCo: mj_tendon, mj_tendonDot.
//
//   fixed:    length = Σ coef q,                      J = coef
//   spatial:  length = Σ (|p₁ - p₀| + arc) / divisor, J y = Σ u · (v₁(y) - v₀(y)) / divisor     (1)
//
// over the straight pieces p₀ to p₁ of the path, with u their directions: sites move with their
// bodies, points on a sphere or cylinder have the velocity of its body (stages/position/wrap.h has
// how they move on it). docs/derivations/tendon.md. What acts through tendons needs the cotangents
// of the length and of a few rates J y only; all of them together cost one walk along the path.
#ifndef DIFFMJ_STAGES_POSITION_TENDON_H_
#define DIFFMJ_STAGES_POSITION_TENDON_H_

#include <array>
#include <span>
#include <vector>

#include "stages/position/kinematics.h"

namespace diffmj {

// Cotangents of one tendon: of its length, of its rates J y by the motions of λ, v, a, μ, b and
// a - b, and of its acceleration J a + J̇ v, which knows no wrapping.
struct TendonBar {
  enum Rate : size_t { kLambda, kV, kA, kMu, kB, kDifference, kRates };
  double length = 0;
  std::array<double, kRates> rate = {};
  double acceleration = 0;
};
// The motions the rates are of; nullptr: none has a cotangent.
using TendonMotions = std::array<Motion*, TendonBar::kRates>;

// J y of one tendon.
double tendon_rate(const mjModel* m, const mjData* d, int tendon, CVec y);

// J a + J̇ v of a tendon of sites alone, by the sweep's V and A.
double tendon_acceleration(const mjModel* m, const mjData* d, int tendon, const Sweep& sweep);

// All tendons: adds to qpos_bar and qvel_bar (nv), to the sweep, and to the parameters of sites and
// wrapping geoms. d must hold mj_tendon. bars has a row per tendon.
void tendon_pullback(const mjModel* m, const mjData* d, std::span<const TendonBar> bars,
                     const TendonMotions& motions, Vec qpos_bar, Vec qvel_bar, Sweep& sweep,
                     const ParameterBar& params);

// One tendon: of length_bar length + J y, y any generalised vector held fixed.
void tendon_direction_pullback(const mjModel* m, const mjData* d, int tendon, double length_bar,
                               CVec y, Vec qpos_bar, Sweep& sweep, const ParameterBar& params);

// ∂J/∂q of one tendon, over the non-zeros of its J both ways, in the first rows and columns of
// hessian: row i is the derivative of J_i. The sweep's W must be 0, and is so again afterwards.
class TendonHessian {
 public:
  void compute(const mjModel* m, const mjData* d, int tendon, Sweep& sweep, Matrix& hessian);

 private:
  std::vector<int> bodies_;    // the tendon's, each once
  std::vector<char> carries_;  // bodies x non-zeros: does the dof carry the body?
  std::vector<int> row_of_;    // nv: of a dof, among the non-zeros; -1: none
};

// J of it is constant.
bool tendon_is_fixed(const mjModel* m, int tendon);

// What mj_tendon found, kept so that it need not run again: numbers and wrapping objects of all
// tendons at one state.
struct TendonRecordSize {
  explicit TendonRecordSize(const mjModel* m);
  size_t numbers, objects;
};
void keep_tendons(const mjModel* m, const mjData* d, Vec numbers, std::span<int> objects);
void restore_tendons(const mjModel* m, CVec numbers, std::span<const int> objects, mjData* d);

// A pattern of non-zeros, symmetric: that of M or of D. Entries of JᵀJ outside are left out.
struct Pattern {
  bool has(int i, int j) const;
  const int *rownnz, *rowadr, *colind;
  const mjModel* m = nullptr;  // of D: implicitfast leaves out what M does not have
};
inline Pattern mass_pattern(const mjModel* m) { return {m->M_rownnz, m->M_rowadr, m->M_colind}; }
inline Pattern derivative_pattern(const mjModel* m) {
  return {m->D_rownnz, m->D_rowadr, m->D_colind, m};
}

// Of which tendons all of JᵀJ lies in the pattern of M, of D: xᵀ JᵀJ z = (J x)(J z).
struct TendonFits {
  explicit TendonFits(const mjModel* m);
  std::vector<bool> M, D;  // ntendon
};

// xᵀ JᵀJ z within the pattern; adds weight times its derivative in J to y (nv).
double tendon_form(const mjModel* m, const mjData* d, int tendon, const Pattern& pattern, CVec x,
                   CVec z, double weight, Vec y);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_TENDON_H_
