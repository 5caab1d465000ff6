// Friction of one elliptic contact that a sweep of the no-slip pass chooses; MuJoCo: mju_QCQP.
//
//   minimise ½ xᵀ A x + bᵀ x   subject to  Σ (x_i/μ_i)² ≤ r²,   r the normal force
//
// With v_i = x_i/μ_i, A and b scaled alike:  v(s) = -(A + s)⁻¹ b.  s = 0 if that is inside,
// otherwise Newton's steps on |v|² - r² = 0,
//
//   s += (|v|² - r²) / (2 v·w),   w = (A + s)⁻¹ v,
//
// until they stop, and v is scaled to |v| = r. The steps are differentiated as they are made
// (docs/derivations/noslip.md, eq. 7 to 9): they stop before rounding does.
#ifndef DIFFMJ_STAGES_ACCELERATION_NOSLIP_ELLIPSE_H_
#define DIFFMJ_STAGES_ACCELERATION_NOSLIP_ELLIPSE_H_

#include <array>

namespace diffmj {

inline constexpr int kMaxEllipse = 5;

struct Ellipse {
  int n = 0;                                    // 2, 3 or 5
  std::array<double, 25> A = {};                // n x n, symmetric
  std::array<double, 5> b = {}, friction = {};  // n
  double normal = 0;                            // r > 0
};
enum class EllipseCase { kInside, kCone, kSingular };  // kSingular: x = 0

EllipseCase ellipse_minimum(const Ellipse& in, double* x);

// Adds to bar what x_bar (n) gives, A_bar as of a matrix whose entries are all free.
void ellipse_pullback(const Ellipse& in, const double* x_bar, Ellipse& bar);

// |v(0)|: inside up to the normal force. Not finite where A is singular.
double ellipse_radius(const Ellipse& in);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_NOSLIP_ELLIPSE_H_
