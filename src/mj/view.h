// mjData in our words. The only place, beside call.cc, that knows MuJoCo's versions and layouts.
#ifndef DIFFMJ_MJ_VIEW_H_
#define DIFFMJ_MJ_VIEW_H_

#include <mujoco/mujoco.h>

#include <Eigen/Core>
#include <span>
#include <string>

namespace diffmj {

using Vec = std::span<double>;
using CVec = std::span<const double>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using VectorMap = Eigen::Map<Eigen::VectorXd>;
using ConstVectorMap = Eigen::Map<const Eigen::VectorXd>;

inline ConstVectorMap eigen(CVec x) { return {x.data(), static_cast<Eigen::Index>(x.size())}; }
inline VectorMap eigen(Vec x) { return {x.data(), static_cast<Eigen::Index>(x.size())}; }

// Part of row i of a matrix.
inline Vec row_part(Matrix& matrix, Eigen::Index i, int begin, int size) {
  return {matrix.row(i).data() + begin, static_cast<size_t>(size)};
}
inline CVec row_part(const Matrix& matrix, Eigen::Index i, int begin, int size) {
  return {matrix.row(i).data() + begin, static_cast<size_t>(size)};
}

// M, both triangles. M is nv x nv.
void read_mass_matrix(const mjModel* m, const mjData* d, Matrix& M);

// Angular velocities of RK4's stages carry the Runge-Kutta-Munthe-Kaas correction since 4.0.
inline constexpr bool kRk4CorrectsRotations = mjVERSION_HEADER >= 4000000;

// The stage of RK4 whose actuator velocities the next activations read (the bristle of a dcmotor).
inline constexpr size_t kRk4ActivationStage = mjVERSION_HEADER >= 4000000 ? 0 : 3;

// Actuators whose joint is at its actuatorfrcrange do not count in the derivatives of implicit
// integrators.
inline constexpr bool kSaturatedIsNotImplicit = mjVERSION_HEADER >= 4000000;

// An enable flag, 0 where this version does not have it.
#if mjVERSION_HEADER >= 4000000
inline constexpr int kEnableSpeculative = mjENBL_SPECULATIVE;
#else
inline constexpr int kEnableSpeculative = 0;
#endif

// State beyond (qpos, qvel, act), by name; empty if there is none.
std::string hidden_state(const mjModel* m);

// "4.0.0" of 4000000
std::string version_text(int version);

}  // namespace diffmj

#endif  // DIFFMJ_MJ_VIEW_H_
