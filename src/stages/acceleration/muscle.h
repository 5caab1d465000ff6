// Muscles; MuJoCo: mju_muscleGain, mju_muscleBias, mju_muscleDynamics.
//
//   gain = -F FL(L) FV(V),   bias = -F FP(L),   F = force, or scale/acc0 where force < 0
//   L = range0 + (l - lengthrange0)/L0,   V = l'/(L0 vmax)
//   L0 = (lengthrange1 - lengthrange0)/(range1 - range0)
//   act_dot = (ctrl - act)/tau,   tau = tau_act (½ + 3/2 act) or tau_deact/(½ + 3/2 act)
//
// FL, FV and FP are made of parabolas and lines; tau switches with the sign of ctrl - act, or
// blends over tausmooth. Derivatives are those of the piece that MuJoCo's own comparison takes.
//
// gradient: with smoothing w > 0 every curve f stands for its mean under a normal distribution of
// width w (in L, in V, in ctrl - act), so that its flat pieces have a slope near their ends:
//
//   f_w(x) = ∫ f(x + w u) φ(u) du        f_w -> f and f_w' -> f' as w -> 0
#ifndef DIFFMJ_STAGES_ACCELERATION_MUSCLE_H_
#define DIFFMJ_STAGES_ACCELERATION_MUSCLE_H_

#include "mj/view.h"

namespace diffmj {

inline constexpr int kMusclePrm = 9;     // range[2], force, scale, lmin, lmax, vmax, fpmax, fvmax
inline constexpr int kMuscleDynPrm = 3;  // tau_act, tau_deact, tausmooth

struct MuscleIn {
  double length, velocity;    // [m], [m/s], or of an angle
  const double* lengthrange;  // 2
  double acc0;
  const double* prm;     // kMusclePrm
  double smoothing = 0;  // w; 0: exact
};
struct MuscleBar {  // added to; of parameters, a null pointer is not wanted
  double *length, *velocity;
  double *prm = nullptr, *lengthrange = nullptr, *acc0 = nullptr;
};

// gain, and ∂gain/∂velocity as implicit integrators take it.
struct MuscleGain {
  double gain = 0, slope = 0;
};
MuscleGain muscle_gain(const MuscleIn& in);
void muscle_gain_pullback(const MuscleIn& in, const MuscleGain& gain_bar, const MuscleBar& bar);

// It does not depend on velocity.
double muscle_bias(const MuscleIn& in);
void muscle_bias_pullback(const MuscleIn& in, double bias_bar, const MuscleBar& bar);

// act_dot. ctrl and act are clamped to [0, 1] where MuJoCo does so.
struct MuscleDynamicsIn {
  double ctrl, act;
  const double* prm;  // kMuscleDynPrm
  double smoothing = 0;
};
struct MuscleDynamicsBar {  // added to; prm: null is not wanted
  double *ctrl, *act, *prm = nullptr;
};
double muscle_dynamics(const MuscleDynamicsIn& in);
void muscle_dynamics_pullback(const MuscleDynamicsIn& in, double act_dot_bar,
                              const MuscleDynamicsBar& bar);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_MUSCLE_H_
