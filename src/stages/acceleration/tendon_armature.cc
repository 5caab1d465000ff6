#include "stages/acceleration/tendon_armature.h"

#include <algorithm>

#include "stages/velocity/passive.h"

namespace diffmj {
namespace {

// Calls fn(tendon, armature, whole) for every tendon with armature; whole: JᵀJ fits the pattern.
template <class Fn>
void for_each_armature(const mjModel* m, const TendonFits& fits, Fn&& fn) {
  for (int tendon = 0; tendon < static_cast<int>(m->ntendon); tendon++) {
    const double armature = tendon_armature(m, tendon);
    if (armature != 0) fn(tendon, armature, bool{fits.M[static_cast<size_t>(tendon)]});
  }
}

}  // namespace

void tendon_armature_pullback(const mjModel* m, const mjData* d, double phi_bar,
                              const TendonFits& fits, std::span<TendonBar> tendons, Vec qpos_bar,
                              Vec y, Sweep& s, const ParameterBar& params) {
  const CVec lambda = s.L.y, a = s.qacc;
  for_each_armature(m, fits, [&](int tendon, double armature, bool whole) {
    TendonBar& bar = tendons[static_cast<size_t>(tendon)];
    const double J_lambda = tendon_rate(m, d, tendon, lambda), weight = phi_bar * armature;
    // (J λ)(J a + J̇ v)
    double acceleration = tendon_acceleration(m, d, tendon, s);
    double phi = J_lambda * acceleration;
    bar.acceleration += weight * J_lambda;
    if (!whole) {
      // J a full is replaced by what the pattern has of it
      const double J_a = tendon_rate(m, d, tendon, a);
      acceleration -= J_a;
      eigen(y) = -weight * J_lambda * eigen(a);
      phi += tendon_form(m, d, tendon, mass_pattern(m), lambda, a, weight, y) - J_lambda * J_a;
      tendon_direction_pullback(m, d, tendon, 0, y, qpos_bar, s, params);
    }
    bar.rate[TendonBar::kLambda] += weight * acceleration;
    if (const Vec gear_bar = params[Parameter::kActuatorGear]; !gear_bar.empty()) {
      tendon_armature_gear_pullback(m, tendon, phi_bar * phi, gear_bar);
    }
  });
}

void tendon_mass_form_pullback(const mjModel* m, const mjData* d, double psi_bar, CVec mu, CVec x,
                               const TendonFits& fits, std::span<TendonBar> tendons, Vec qpos_bar,
                               Vec y, Sweep& s, const ParameterBar& params) {
  for_each_armature(m, fits, [&](int tendon, double armature, bool whole) {
    double psi;
    if (whole) {
      TendonBar& bar = tendons[static_cast<size_t>(tendon)];
      const double J_mu = tendon_rate(m, d, tendon, mu), J_x = tendon_rate(m, d, tendon, x);
      bar.rate[TendonBar::kMu] += psi_bar * armature * J_x;
      bar.rate[TendonBar::kDifference] += psi_bar * armature * J_mu;
      psi = J_mu * J_x;
    } else {
      std::fill(y.begin(), y.end(), 0.0);
      psi = tendon_form(m, d, tendon, mass_pattern(m), mu, x, psi_bar * armature, y);
      tendon_direction_pullback(m, d, tendon, 0, y, qpos_bar, s, params);
    }
    if (const Vec gear_bar = params[Parameter::kActuatorGear]; !gear_bar.empty()) {
      tendon_armature_gear_pullback(m, tendon, psi_bar * psi, gear_bar);
    }
  });
}

}  // namespace diffmj
