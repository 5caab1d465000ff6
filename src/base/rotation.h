// Rotations as three numbers u (axis times angle [rad]) in the body's frame: q ⊕ u = q exp(u).
//
//   exp(u + du) = exp(u) exp(Jr(u) du)            Jr: right Jacobian
//   d/dt of u when q exp(u) turns with body velocity w:  du/dt = dexpinv(u) w = Jr(u)⁻¹ w
//
//   Jr(u)    = I - b u^ + c u^²     b = (1 - cos θ)/θ²,  c = (θ - sin θ)/θ³,   θ = |u|
//   Jr(u)⁻¹  = I + ½ u^ + k u^²     k = (1 - (θ/2) cot(θ/2))/θ²
#ifndef DIFFMJ_BASE_ROTATION_H_
#define DIFFMJ_BASE_ROTATION_H_

#include <Eigen/Core>
#include <Eigen/Geometry>

namespace diffmj {

using Vector3 = Eigen::Vector3d;

// exp(u) w
Vector3 rotate(const Vector3& u, const Vector3& w);
// Jr(u)ᵀ w
Vector3 right_jacobian_transposed(const Vector3& u, const Vector3& w);
// Jr(u)⁻¹ w = w + ½ u×w + k u×(u×w)
Vector3 dexpinv(const Vector3& u, const Vector3& w);
// Adds to u_bar and w_bar.
void dexpinv_pullback(const Vector3& u, const Vector3& w, const Vector3& y_bar, Vector3& u_bar,
                      Vector3& w_bar);

}  // namespace diffmj

#endif  // DIFFMJ_BASE_ROTATION_H_
