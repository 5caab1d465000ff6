#include "mj/view.h"

#include "diffmj/error.h"
#include "diffmj/version.h"
#include "mj/names.h"

namespace diffmj {

void read_mass_matrix(const mjModel* m, const mjData* d, Matrix& M) {
  M.setZero();
  const auto nv = static_cast<int>(m->nv);
  for (int i = 0; i < nv; i++) {
    for (int k = m->M_rowadr[i]; k < m->M_rowadr[i] + m->M_rownnz[i]; k++) {
      const int j = m->M_colind[k];
      M(i, j) = M(j, i) = d->M[k];
    }
  }
}

std::string hidden_state(const mjModel* m) {
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    if (m->actuator_delay[i] > 0) return "the delay of " + element_name(m, mjOBJ_ACTUATOR, i);
  }
#if mjVERSION_HEADER >= 4000000
  if (m->nplastic > 0) return "plastic deformation (springyield or flex yield)";
#endif
  return "";
}

std::string version_text(int version) {
  return std::to_string(version / 1000000) + "." + std::to_string(version / 1000 % 1000) + "." +
         std::to_string(version % 1000);
}

std::string mujoco_version_compiled() { return version_text(mjVERSION_HEADER); }
std::string mujoco_version_loaded() { return version_text(mj_version()); }

void require_mujoco_version() {
  if (mj_version() != mjVERSION_HEADER) {
    throw Error("diffmj was compiled for MuJoCo " + mujoco_version_compiled() + " but MuJoCo " +
                mujoco_version_loaded() +
                " is loaded: install that version, or build diffmj against this one");
  }
}

}  // namespace diffmj
