// Inertia along tendons; MuJoCo: mj_tendonArmature, mj_tendonBias.
//
//   M += armature JᵀJ within the pattern of M,   c += armature Jᵀ (J̇ v)
//
// so that  λᵀ (M a + c)  has  armature (J λ)(J a + J̇ v), where the pattern leaves nothing out.
#ifndef DIFFMJ_STAGES_ACCELERATION_TENDON_ARMATURE_H_
#define DIFFMJ_STAGES_ACCELERATION_TENDON_ARMATURE_H_

#include <span>

#include "stages/position/tendon.h"

namespace diffmj {

// phi_bar λᵀ (M a + c) of the armatures: adds to the tendons' cotangents and to actuator_gear;
// where JᵀJ does not fit the pattern also to the sweep, whose V, A and L must be set, and to
// qpos_bar. y (nv) is scratch.
void tendon_armature_pullback(const mjModel* m, const mjData* d, double phi_bar,
                              const TendonFits& fits, std::span<TendonBar> tendons, Vec qpos_bar,
                              Vec y, Sweep& sweep, const ParameterBar& params);

// psi_bar μᵀ M x of the armatures, x = a - b.
void tendon_mass_form_pullback(const mjModel* m, const mjData* d, double psi_bar, CVec mu, CVec x,
                               const TendonFits& fits, std::span<TendonBar> tendons, Vec qpos_bar,
                               Vec y, Sweep& sweep, const ParameterBar& params);

// Σ M_bar_ij M_ij of the armatures, M_bar symmetric (nv x nv).
void tendon_mass_matrix_pullback(const mjModel* m, const mjData* d, CVec M_bar, Vec qpos_bar, Vec y,
                                 Sweep& sweep, const ParameterBar& params);

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_TENDON_ARMATURE_H_
