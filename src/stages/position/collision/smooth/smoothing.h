// Functions that take the place of case distinctions. All are twice continuously differentiable and
// equal to what they replace at a distance of the width from the case's end, so that contacts which
// are not near such an end are MuJoCo's own (docs/derivations/smooth_collisions.md).
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_SMOOTHING_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_SMOOTHING_H_

namespace diffmj {

// 0 below 0, 1 above 1, between them x³ (10 - 15 x + 6 x²).                                   (1)
template <class T>
T smooth_step(const T& x) {
  if (x <= 0.0) return T(0.0);
  if (x >= 1.0) return T(1.0);
  return x * x * x * (10.0 + x * (6.0 * x - 15.0));
}

// S(x/w), without the division where S is constant
template <class T>
T smooth_ramp(const T& x, const T& w) {
  if (x <= 0.0) return T(0.0);
  if (x >= w) return T(1.0);
  return smooth_step(T(x / w));
}

// max(x, 0), for |x| < w the polynomial w (2 s³ - s⁴), s = ½ + x/2w.                          (2)
template <class T>
T smooth_positive(const T& x, const T& w) {
  if (x <= -w) return T(0.0);
  if (x >= w) return x;
  const T s = 0.5 + 0.5 * x / w;
  return w * s * s * s * (2.0 - s);
}
// and its derivative, s² (3 - 2 s)
template <class T>
T smooth_positive_slope(const T& x, const T& w) {
  if (x <= -w) return T(0.0);
  if (x >= w) return T(1.0);
  const T s = 0.5 + 0.5 * x / w;
  return s * s * (3.0 - 2.0 * s);
}

// x between -bound and bound.
template <class T>
T smooth_clamp(const T& x, const T& bound, const T& w) {
  return smooth_positive(T(x + bound), w) - smooth_positive(T(x - bound), w) - bound;
}

template <class T>
T smooth_abs(const T& x, const T& w) {
  return smooth_positive(x, w) + smooth_positive(T(-x), w);
}

// The sign of x over |x| < 1, x (15 - 10 x² + 3 x⁴)/8, and its derivative.
template <class T>
T smooth_sign(const T& x) {
  if (x >= 1.0) return T(1.0);
  if (x <= -1.0) return T(-1.0);
  const T x2 = x * x;
  return 0.125 * x * (15.0 + x2 * (3.0 * x2 - 10.0));
}
inline double smooth_sign_slope(double x) {
  const double below = 1 - x * x;
  return below <= 0 ? 0 : 1.875 * below * below;
}

// The width for a shape with these sizes: well below each of them, 1/w' = 1/w + Σ 2/size.     (3)
template <class T>
T shape_width(double w, const T& a) {
  return w * a / (a + 2.0 * w);
}
template <class T>
T shape_width(double w, const T& a, const T& b) {
  const T ab = a * b;
  return w * ab / (ab + 2.0 * w * (a + b));
}
template <class T>
T shape_width(double w, const T& a, const T& b, const T& c) {
  const T ab = a * b, abc = ab * c;
  return w * abc / (abc + 2.0 * w * (ab + c * (a + b)));
}

// How much farther away a contact of weight a is taken to be: one that a case ends for does not
// vanish but leaves.                                                                          (4)
template <class T>
T fading(const T& a, const T& w) {
  return a == 1.0 ? T(0.0) : w * (1.0 / a - 1.0);
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_SMOOTH_SMOOTHING_H_
