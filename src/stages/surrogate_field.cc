#include "stages/surrogate_field.h"

#include <algorithm>
#include <string>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "stages/acceleration/constraint_diagonal.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/analytic.h"
#include "stages/cfd/law.h"
#include "stages/cfd/pairs.h"

namespace diffmj {
namespace {

// Newton's method, to the model's tolerance, all islands at once
void use_newton(mjOption& opt) {
  opt.solver = mjSOL_NEWTON;
  opt.iterations = std::max(opt.iterations, 100);
  opt.ls_iterations = std::max(opt.ls_iterations, 50);
  opt.disableflags |= mjDSBL_ISLAND;
}

int rows_of(const mjData* d, const mjContact& contact) {
  return d->efc_type[contact.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL ? 2 * (contact.dim - 1)
                                                                       : contact.dim;
}

// impedance, R and D of the rows of contacts; all of R is proportional to (1 - d)/d
void set_impedance(const CfdModel& cfd, mjData* d, Workspace& workspace) {
  workspace.constraint.violation.assign(static_cast<size_t>(d->nefc), {});
  for (int i = 0; i < d->nefc; i++) {
    workspace.constraint.violation[static_cast<size_t>(i)] = {d->efc_pos[i] - d->efc_margin[i], 1};
  }
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    const CfdLaw& law = cfd.law(workspace.cfd.law[static_cast<size_t>(c)]);
    if (contact.efc_address < 0 || law.width == 0) continue;
    const double r = contact.dist - contact.includemargin;
    const CfdValue rho = cfd_violation(law, r);
    const CfdValue own = r > 0 ? cfd_impedance(law, contact.solimp, r) : CfdValue();
    for (int i = contact.efc_address; i < contact.efc_address + rows_of(d, contact); i++) {
      workspace.constraint.violation[static_cast<size_t>(i)] = {rho.value, rho.slope};
      if (r <= 0) continue;
      mjtNum* KBIP = d->efc_KBIP + 4 * static_cast<ptrdiff_t>(i);
      d->efc_R[i] *= (1 - own.value) / own.value * KBIP[2] / (1 - KBIP[2]);
      d->efc_D[i] = 1 / d->efc_R[i];
      KBIP[2] = own.value;
      KBIP[3] = own.slope;
    }
  }
}

// aref = -B J v - K d ρ
void set_reference(mjData* d, const Workspace& workspace) {
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    if (contact.efc_address < 0) continue;
    for (int i = contact.efc_address; i < contact.efc_address + rows_of(d, contact); i++) {
      const mjtNum* KBIP = d->efc_KBIP + 4 * static_cast<ptrdiff_t>(i);
      d->efc_aref[i] =
          -KBIP[1] * d->efc_vel[i] -
          KBIP[0] * KBIP[2] * workspace.constraint.violation[static_cast<size_t>(i)].value;
    }
  }
}

}  // namespace

void surrogate_field(const StageModel& impl, const StepInput& in, CVec warmstart,
                     Workspace& workspace) {
  const mjModel* m = impl.mj();
  const CfdModel* cfd = impl.cfd.get();
  mjData* d = workspace.data.get();
  mjModel solver = *m;  // its arrays are m's
  use_newton(solver.opt);
  const ColliderScope scope(impl.backward_collider());
  bool fits = true;
  workspace.constraint.violation.clear();
  try {
    mj_call("the stages of a surrogate field", [&] {
      evaluate_poses(m, in, d);
      copy_or_zero(warmstart, d->qacc_warmstart, impl.nv);
      mj_factorM(m, d);
      const int full = d->warning[mjWARN_CNSTRFULL].number + d->warning[mjWARN_CONTACTFULL].number;
      if (cfd) {
        fits = cfd_contacts(*cfd, m, d, workspace.cfd);
        if (!fits) return;
      } else {
        mj_collision(CollidingModel(m), d);
      }
      mj_makeConstraint(m, d);
      fits = d->warning[mjWARN_CNSTRFULL].number + d->warning[mjWARN_CONTACTFULL].number == full;
      if (!fits) return;
      if (diagonal_is_exact(m)) mj_projectConstraint(m, d);
      if (cfd) set_impedance(*cfd, d, workspace);
      if (m->nactuator > 0) mj_transmission(m, d);
      mj_fwdVelocity(m, d);
      if (cfd) set_reference(d, workspace);
      if (in.suppression) in.suppression->suppress(d, !cfd);
      mj_fwdActuation(m, d);
      mj_fwdAcceleration(m, d);
      mj_fwdConstraint(&solver, d);
    });
  } catch (const MujocoError&) {
    reset_keeping_mocap(impl, workspace);
    throw;
  }
  if (!fits) {
    reset_keeping_mocap(impl, workspace);
    throw Error(std::string(cfd ? "contacts from distance" : "the contacts of smooth colliders") +
                " do not fit in MuJoCo's memory of this model; give it more (<size "
                "memory=\"...\"/>)" +
                (cfd ? ", or use a smaller max_contacts or width" : ""));
  }
  workspace.field_qacc.assign(d->qacc, d->qacc + impl.nv);
}

bool surrogate_evaluate(const StageModel& impl, const StepInput& in, CVec warmstart,
                        Workspace& workspace) {
  // neighbouring states have similar solutions, nearer than F's
  const bool known = workspace.field_qacc.size() == static_cast<size_t>(impl.nv);
  surrogate_field(impl, in, known && !cfd_forward(impl) ? CVec(workspace.field_qacc) : warmstart,
                  workspace);
  const mjData* d = workspace.data.get();
  if (d->nefc == 0) return false;
  newton_factorize(impl.mj(), d, workspace.field_qacc, workspace);
  return true;
}

}  // namespace diffmj
