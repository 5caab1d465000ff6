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

// Columns of ∂q/∂u at u = 0 for unit q (w first): ½ q (0, e_k).
Eigen::Matrix<double, 4, 3> quaternion_tangent(const Eigen::Vector4d& q);
// The cotangent of a quaternion as four numbers, of a function that normalises it, from that of u:
// adds to q_bar (4). q need not be of unit length.
void quaternion_cotangent_to_ambient(const double* q, const Vector3& u_bar, double* q_bar);

}  // namespace diffmj

#endif  // DIFFMJ_BASE_ROTATION_H_
