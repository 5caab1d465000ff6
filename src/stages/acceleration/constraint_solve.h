// The constraint solver, differentiated implicitly; MuJoCo: mj_fwdConstraint.
//
// a = qacc is the root of   g(a) = M a + c - τ - Jᵀ f(y),   y = J a - aref,   f = -ds/dy,
// whatever solver found it. With a cotangent a_bar, one solve with the Newton matrix
//
//   H λ = a_bar,   H = M + Jᵀ S J,   S = d²s/dy²
//
// gives every cotangent as  z_bar -= λᵀ ∂g/∂z  (docs/derivations/constraint_solve.md).
#ifndef DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_SOLVE_H_
#define DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_SOLVE_H_

#include <mujoco/mujoco.h>

#include "mj/view.h"
#include "stages/workspace.h"

namespace diffmj {

// The piece of its cost s(y) a row is on; the cone's three zones hold for all rows of a contact.
enum class Zone : int {
  kSatisfied,  // s = 0
  kQuadratic,  // s = ½ y²/R
  kLinear,     // friction loss, sliding: |f| = frictionloss
  kCone,       // elliptic cone, sliding: s = ½ Dm (N - μT)²
};

// Zone of row i, decided from y with the comparisons of MuJoCo's constraint update. efc_state is
// not used: after mj_forward it is stale for some rows. For an elliptic contact i is its first row.
Zone constraint_zone(const mjData* d, CVec y, int i);

// Number of rows that share a zone: the dimension of an elliptic contact, otherwise 1.
int constraint_rows_at(const mjData* d, int i);

// S of an elliptic contact in its sliding zone: the Hessian of ½ Dm (N - μT)² with N = μ y₀,
// T = |(frictionⱼ yⱼ)|, Dm = D₀/(μ²(1 + μ²)). dim x dim, row-major.
void cone_hessian(const mjContact& contact, double D0, const double* y, double* S);

// f of the rows from i on that share a zone (constraint_rows_at), for the piece of the cost the
// zone names, whether y is still on it or not.
void constraint_force(const mjData* d, Zone zone, CVec y, int i, Vec f);

// Computes y at qacc (nv), the zones, assembles H and factorises it, all in the workspace. d must
// hold the position and velocity stages (M, J, R, aref). Throws Error if H is not positive
// definite.
void newton_factorize(const mjModel* m, const mjData* d, CVec qacc, Workspace& workspace);

// H λ = a_bar, with the factor in the workspace.
void newton_solve(const Workspace& workspace, CVec a_bar, Vec lambda);

// M + diag(added) in the place of H; added: nv numbers, or none.
void mass_factorize(const mjModel* m, const mjData* d, CVec added, Workspace& workspace);

// H X = X of many right-hand sides, the columns of X (nv rows), in place.
void newton_solve_columns(const Workspace& workspace, Matrix& X);

// |H λ - a_bar| / |a_bar|, with H applied from M and J anew: checks factor and assembly. Uses y of
// the last newton_factorize.
double newton_residual(const mjModel* m, const mjData* d, CVec lambda, CVec a_bar,
                       Workspace& workspace);

// Cotangents of ψ = (J λ)ᵀ f(y), y = J a - aref, with respect to what a row is made of:
// workspace.constraint.rows. J itself is not differentiated here:
// stages/position/constraint_rows.h.
//
//   p = S J λ:   (J λ)_bar = f,   (J a)_bar = -p,   aref_bar = p
//   f ∝ 1/R in the quadratic and conic zones,   R ∝ (1 - I)/I,   I = I(pos)
//   aref = -B J v - K I (pos - margin)            (docs/derivations/constraint_solve.md, eq. 7 to
//   10)
//
// force_bar, a cotangent of f itself, adds to J λ everywhere but in (J λ)_bar; y_bar is one of y;
// empty: 0. The zones must have been decided (newton_factorize).
void constraint_force_pullback(const mjModel* m, const mjData* d, CVec lambda, CVec force_bar,
                               CVec y_bar, Workspace& workspace);

// What aref of row i has for a violation: pos - margin, of contacts from distance its softplus.
inline Violation row_violation(const mjData* d, int i, const Workspace& workspace) {
  if (!workspace.constraint.violation.empty())
    return workspace.constraint.violation[static_cast<size_t>(i)];
  return {d->efc_pos[i] - d->efc_margin[i], 1};
}

// Is f of row i proportional to 1/R? Not where friction slides, nor where R is as small as MuJoCo
// lets it be. first is the first row of i's contact, or i.
bool force_scales(const mjData* d, int first, int i, const Workspace& workspace);

// What a receives of a cotangent of f: adds -Jᵀ S force_bar to a_bar.
void constraint_force_to_acceleration(const mjModel* m, const mjData* d, CVec force_bar, Vec a_bar,
                                      Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_CONSTRAINT_SOLVE_H_
