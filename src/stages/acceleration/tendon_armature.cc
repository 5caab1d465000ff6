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

void tendon_mass_matrix_pullback(const mjModel* m, const mjData* d, CVec M_bar, Vec qpos_bar, Vec y,
                                 Sweep& s, const ParameterBar& params) {
  const auto nv = static_cast<size_t>(m->nv);
  const Pattern pattern = mass_pattern(m);
  for (int tendon = 0; tendon < static_cast<int>(m->ntendon); tendon++) {
    const double armature = tendon_armature(m, tendon);
    if (armature == 0) continue;
    // ψ = armature Σ M_bar_ij J_i J_j within the pattern, y = dψ/dJ
    double psi = 0;
    std::fill(y.begin(), y.end(), 0.0);
    const int begin = m->ten_J_rowadr[tendon], end = begin + m->ten_J_rownnz[tendon];
    for (int p = begin; p < end; p++) {
      const int i = m->ten_J_colind[p];
      for (int q = begin; q < end; q++) {
        const int j = m->ten_J_colind[q];
        if (!pattern.has(i, j)) continue;
        const double bar = M_bar[static_cast<size_t>(i) * nv + static_cast<size_t>(j)];
        psi += bar * d->ten_J[p] * d->ten_J[q];
        y[static_cast<size_t>(i)] += 2 * armature * bar * d->ten_J[q];
      }
    }
    tendon_direction_pullback(m, d, tendon, 0, y, qpos_bar, s, params);
    if (const Vec gear_bar = params[Parameter::kActuatorGear]; !gear_bar.empty()) {
      tendon_armature_gear_pullback(m, tendon, psi, gear_bar);
    }
  }
}

}  // namespace diffmj
