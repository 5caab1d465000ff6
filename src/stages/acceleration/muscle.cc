#include "stages/acceleration/muscle.h"

#include <array>
#include <cmath>
#include <numbers>

#include "base/dual.h"

namespace diffmj {
namespace {

// a width; narrower, the rounding of the values that pieces meet with would count as a jump
bool smooths(double w) { return w >= 1e-8; }

// c0 + c1 (x - at) + c2 (x - at)²; P is the type of parameters
template <class P>
struct Quadratic {
  P at = 0.0, c0 = 0.0, c1 = 0.0, c2 = 0.0;

  template <class X>
  X operator()(const X& x) const {
    return (x - at) * (c1 + (x - at) * c2) + c0;
  }
  template <class X>
  X slope(const X& x) const {
    return (x - at) * (2.0 * c2) + c1;
  }
};

// ∫ piece(x + w u) φ(u) du of the pieces there are: that of the active one, whose second moment is
// w², and beyond every knot what the next piece has more, by the moments of φ's tail
template <class X, class P, size_t N, class Piece>
X smoothed(const X& x, const std::array<P, N>& knot, size_t active, double w, const Piece& piece) {
  using std::erfc, std::exp;
  constexpr double kFar = 38;  // where erfc and exp underflow
  const Quadratic<P> here = piece(active);
  X sum = here(x) + here.c2 * (w * w);
  for (size_t k = 0; k < N; k++) {
    const double side = k >= active ? 1 : -1;
    const X u = (knot[k] - x) * (side / w);
    if (u > kFar) continue;
    const X density = exp(u * u * -0.5) * (std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2);
    const X m0 = erfc(u * (std::numbers::sqrt2 / 2)) * 0.5, m1 = density * side,
            m2 = m0 + u * density;
    const Quadratic<P> above = piece(k + 1), below = piece(k);
    sum += ((above(x) - below(x)) * m0 + (above.slope(x) - below.slope(x)) * m1 * w +
            m2 * (above.c2 - below.c2) * (w * w)) *
           side;
  }
  return sum;
}

// piece(i) where knot i-1 < x ≤ knot i, as MuJoCo compares
template <class X, class P, size_t N, class Piece>
X piecewise(const X& x, const std::array<P, N>& knot, double w, const Piece& piece) {
  size_t active = 0;
  while (active < N && x > knot[active]) active++;
  bool sorted = smooths(w);
  for (size_t i = 1; i < N && sorted; i++) sorted = knot[i - 1] <= knot[i];
  return sorted ? smoothed(x, knot, active, w, piece) : piece(active)(x);
}

template <class T>
T at_least_minval(const T& x) {
  return x > mjMINVAL ? x : T(mjMINVAL);
}

template <class T>
T square(const T& x) {
  return x * x;
}

// at its very bound the slope inside
template <class T>
T clip(const T& x) {
  return x < 0.0 ? T(0.0) : x > 1.0 ? T(1.0) : x;
}

// ½ ((L - lmin)/(a - lmin))², 1 - ½ ((1 - L)/(1 - a))² up to L = 1, likewise with b down to lmax;
// a, b half way
template <class X, class T>
X force_length(const X& L, const T& lmin, const T& lmax, double w) {
  const bool in_order = lmin <= 1.0 && lmax >= 1.0;
  if (!(smooths(w) && in_order) && !(L >= lmin && L <= lmax)) return X(0.0);
  const T a = 0.5 * (lmin + 1.0), b = 0.5 * (lmax + 1.0);
  const auto piece = [&](size_t i) -> Quadratic<T> {
    switch (i) {
      case 1:
        return {.at = lmin, .c2 = 0.5 / square(at_least_minval(a - lmin))};
      case 2:
        return {.at = 1.0, .c0 = 1.0, .c2 = -0.5 / square(at_least_minval(1.0 - a))};
      case 3:
        return {.at = 1.0, .c0 = 1.0, .c2 = -0.5 / square(at_least_minval(b - 1.0))};
      case 4:
        return {.at = lmax, .c2 = 0.5 / square(at_least_minval(lmax - b))};
      default:
        return {};
    }
  };
  return piecewise(L, std::array<T, 5>{lmin, a, T(1.0), b, lmax}, w, piece);
}

// (V + 1)² up to V = 0, fvmax - (y - V)²/y up to y = fvmax - 1
template <class X, class T>
X force_velocity(const X& V, const T& fvmax, double w) {
  const T y = fvmax - 1.0;
  const auto piece = [&](size_t i) -> Quadratic<T> {
    switch (i) {
      case 1:
        return {.at = -1.0, .c2 = 1.0};
      case 2:
        return {.at = y, .c0 = fvmax, .c2 = -1.0 / at_least_minval(y)};
      case 3:
        return {.c0 = fvmax};
      default:
        return {};
    }
  };
  return piecewise(V, std::array<T, 3>{T(-1.0), T(0.0), y}, w, piece);
}

// fpmax ½ ((L - 1)/(b - 1))² from L = 1 to b = (1 + lmax)/2, then a line
template <class X, class T>
X force_passive(const X& L, const T& lmax, const T& fpmax, double w) {
  const T b = 0.5 * (lmax + 1.0);
  const auto piece = [&](size_t i) -> Quadratic<T> {
    const T rise = fpmax / at_least_minval(b - 1.0);
    switch (i) {
      case 1:
        return {.at = 1.0, .c2 = 0.5 * rise / at_least_minval(b - 1.0)};
      case 2:
        return {.at = b, .c0 = 0.5 * fpmax, .c1 = rise};
      default:
        return {};
    }
  };
  return piecewise(L, std::array<T, 2>{T(1.0), b}, w, piece);
}

template <class T>
struct Muscle {
  T length, velocity, lengthrange[2], acc0, prm[kMusclePrm];
  double w;

  T force() const { return prm[2] < 0.0 ? prm[3] / at_least_minval(acc0) : prm[2]; }
  T optimal_length() const {
    return (lengthrange[1] - lengthrange[0]) / at_least_minval(prm[1] - prm[0]);
  }
  T relative_length() const {
    return prm[0] + (length - lengthrange[0]) / at_least_minval(optimal_length());
  }

  T gain() const {
    const T L = relative_length(), V = velocity / at_least_minval(optimal_length() * prm[6]);
    return -force() * force_length(L, prm[4], prm[5], w) * force_velocity(V, prm[8], w);
  }
  T bias() const { return -force() * force_passive(relative_length(), prm[5], prm[7], w); }
};

// entry k of (length, velocity, lengthrange, acc0, prm); T is made of it and its number
template <class T, class Make>
Muscle<T> muscle(const MuscleIn& in, const Make& make) {
  Muscle<T> out{};
  out.length = make(in.length, 0);
  out.velocity = make(in.velocity, 1);
  for (size_t k = 0; k < 2; k++) out.lengthrange[k] = make(in.lengthrange[k], 2 + k);
  out.acc0 = make(in.acc0, 4);
  for (size_t k = 0; k < kMusclePrm; k++) out.prm[k] = make(in.prm[k], 5 + k);
  out.w = in.smoothing;
  return out;
}

// the first N entries are variables
template <int N>
Dual<N> variable(double x, size_t k) {
  return k < N ? Dual<N>::variable(x, k) : Dual<N>(x);
}

// the same, with the derivative along velocity carried besides
template <int N>
Dual<1, Dual<N>> variable_and_slope(double x, size_t k) {
  Dual<1, Dual<N>> out(variable<N>(x, k));
  if (k == 1) out.d[0] = Dual<N>(1.0);
  return out;
}

constexpr int kAll = 5 + kMusclePrm;

void add(const std::array<double, kAll>& derivative, double out_bar, const MuscleBar& bar) {
  const auto to = [&](double* x, size_t k) {
    if (x) *x += out_bar * derivative[k];
  };
  to(bar.length, 0);
  to(bar.velocity, 1);
  for (size_t k = 0; k < 2; k++) to(bar.lengthrange ? bar.lengthrange + k : nullptr, 2 + k);
  to(bar.acc0, 4);
  for (size_t k = 0; k < kMusclePrm; k++) to(bar.prm ? bar.prm + k : nullptr, 5 + k);
}

bool wants_parameters(const MuscleBar& bar) { return bar.prm || bar.lengthrange || bar.acc0; }

// F, L and V as numbers, dL = ∂L/∂length, dV = ∂V/∂velocity
struct Place {
  explicit Place(const MuscleIn& in) {
    const Muscle<double> at = muscle<double>(in, [](double x, size_t) { return x; });
    const double L0 = at.optimal_length();
    F = at.force();
    dL = 1 / at_least_minval(L0);
    dV = 1 / at_least_minval(L0 * in.prm[6]);
    L = in.prm[0] + (in.length - in.lengthrange[0]) * dL;
    V = in.velocity * dV;
  }
  double F, L, V, dL, dV;
};

// 6 s⁵ - 15 s⁴ + 10 s³ between 0 and 1; mju_sigmoid
template <class T>
T sigmoid(const T& s) {
  if (s <= 0.0) return T(0.0);
  if (s >= 1.0) return T(1.0);
  return s * s * s * (3.0 * s * (2.0 * s - 5.0) + 10.0);
}

template <class T>
T dynamics(const T& ctrl, const T& act, const T* prm, double w) {
  const T level = 0.5 + 1.5 * clip(act);
  const T tau_act = prm[0] * level, tau_deact = prm[1] / level;
  const T dctrl = clip(ctrl) - act;
  if (prm[2] >= mjMINVAL) {
    const T tau = tau_deact + (tau_act - tau_deact) * sigmoid(dctrl / prm[2] + 0.5);
    return dctrl / at_least_minval(tau);
  }
  const auto piece = [&](size_t i) -> Quadratic<T> {
    return {.c1 = 1.0 / at_least_minval(i == 0 ? tau_deact : tau_act)};
  };
  return piecewise(dctrl, std::array<T, 1>{T(0.0)}, w, piece);
}

}  // namespace

MuscleGain muscle_gain(const MuscleIn& in) {
  const Place at(in);
  const double FL = force_length(at.L, in.prm[4], in.prm[5], in.smoothing);
  const auto FV = force_velocity(Dual<1>::variable(at.V, 0), in.prm[8], in.smoothing);
  return {.gain = -at.F * FL * FV.v, .slope = -at.F * FL * FV.d[0] * at.dV};
}

void muscle_gain_pullback(const MuscleIn& in, const MuscleGain& gain_bar, const MuscleBar& bar) {
  if (wants_parameters(bar)) {
    const auto gain = muscle<Dual<1, Dual<kAll>>>(in, variable_and_slope<kAll>).gain();
    add(gain.v.d, gain_bar.gain, bar);
    add(gain.d[0].d, gain_bar.slope, bar);
    return;
  }
  // FL, FL'; FV, FV', FV''
  const Place at(in);
  const auto FL = force_length(Dual<1>::variable(at.L, 0), in.prm[4], in.prm[5], in.smoothing);
  Dual<1, Dual<1>> V(Dual<1>::variable(at.V, 0));
  V.d[0] = Dual<1>(1.0);
  const auto FV = force_velocity(V, in.prm[8], in.smoothing);

  // gain = -F FL FV,  slope = -F FL FV' dV
  const double slope = FV.v.d[0], curvature = FV.d[0].d[0];
  *bar.length -= at.F * FL.d[0] * at.dL * (gain_bar.gain * FV.v.v + gain_bar.slope * slope * at.dV);
  *bar.velocity -=
      at.F * FL.v * at.dV * (gain_bar.gain * slope + gain_bar.slope * curvature * at.dV);
}

double muscle_bias(const MuscleIn& in) {
  const Place at(in);
  return -at.F * force_passive(at.L, in.prm[5], in.prm[7], in.smoothing);
}

void muscle_bias_pullback(const MuscleIn& in, double bias_bar, const MuscleBar& bar) {
  if (wants_parameters(bar)) {
    add(muscle<Dual<kAll>>(in, variable<kAll>).bias().d, bias_bar, bar);
    return;
  }
  const Place at(in);
  const auto FP = force_passive(Dual<1>::variable(at.L, 0), in.prm[5], in.prm[7], in.smoothing);
  *bar.length -= bias_bar * at.F * FP.d[0] * at.dL;
}

double muscle_dynamics(const MuscleDynamicsIn& in) {
  return dynamics(in.ctrl, in.act, in.prm, in.smoothing);
}

void muscle_dynamics_pullback(const MuscleDynamicsIn& in, double act_dot_bar,
                              const MuscleDynamicsBar& bar) {
  const double *prm = in.prm, level = 0.5 + 1.5 * clip(in.act);
  if (clip(in.ctrl) == in.act && prm[2] < mjMINVAL && !smooths(in.smoothing)) {
    // gradient: where tau switches, the side MuJoCo's comparison takes, deactivation; but at a
    // bound the side inside: a control at 0 can only rise, an activation at 1 only fall
    const double rise = act_dot_bar / at_least_minval(prm[0] * level),
                 fall = act_dot_bar / at_least_minval(prm[1] / level);
    const bool inside = in.ctrl >= 0 && in.ctrl <= 1;
    if (inside) *bar.ctrl += in.ctrl == 0 ? rise : fall;
    *bar.act -= in.act == 1 ? rise : fall;
    return;  // act_dot is 0 whatever the time constants
  }
  constexpr int kVariables = 2 + kMuscleDynPrm;
  const auto pull = [&]<int N>(const Dual<N>& act_dot) {
    *bar.ctrl += act_dot_bar * act_dot.d[0];
    *bar.act += act_dot_bar * act_dot.d[1];
    if constexpr (N == kVariables) {
      for (size_t k = 0; k < kMuscleDynPrm; k++) bar.prm[k] += act_dot_bar * act_dot.d[2 + k];
    }
  };
  const auto run = [&]<int N>(Dual<N>) {
    using T = Dual<N>;
    const T parameters[] = {variable<N>(prm[0], 2), variable<N>(prm[1], 3), variable<N>(prm[2], 4)};
    pull(dynamics(T::variable(in.ctrl, 0), T::variable(in.act, 1), parameters, in.smoothing));
  };
  if (bar.prm) {
    run(Dual<kVariables>());
  } else {
    run(Dual<2>());
  }
}

}  // namespace diffmj
