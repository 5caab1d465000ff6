// constraint_forces(): what the constraints of a recorded step did.
#include "diffmj/error.h"
#include "diffmj/rollout.h"
#include "mj/call.h"
#include "record/input.h"
#include "record/tape.h"
#include "record/trajectory.h"
#include "setup/differentiation.h"
#include "setup/model_impl.h"
#include "setup/workspace_lease.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/noslip.h"
#include "stages/evaluate_stages.h"
#include "stages/surrogate_field.h"
#include "stages/vector_field.h"

namespace diffmj {

ConstraintForces constraint_forces(const Model& model, const Trajectory& t, int step) {
  if (!is_made_with(model, t)) {
    throw InputError("constraint_forces: the trajectory was made with another model");
  }
  if (step < 0 || step >= t.nstep) {
    throw InputError("constraint_forces: step is " + std::to_string(step) + ", expected 0 to " +
                     std::to_string(t.nstep - 1));
  }
  // the same that backward refuses
  const bool rk4 = model.integrator() == Integrator::kRk4;
  if (rk4 || !model.impl().differentiation.of_field) {
    throw UnsupportedError("constraint_forces: unavailable with " +
                           (rk4 ? "integrator RK4, whose step has four sets of forces; use Euler, "
                                  "implicit or implicitfast"
                                : differenced_steps(model.impl())));
  }
  if (cfd_forward(model.impl())) {
    throw UnsupportedError(
        "constraint_forces: unavailable in rollouts with forces from distance (Cfd::forward)");
  }
  const mjModel* m = model.mj();
  WorkspaceLease workspace(model.impl());
  mjData* d = workspace->data.get();
  reset_data(model, t.mocap_pos, t.mocap_quat, *workspace);
  evaluate_stages(model.impl(), step_input(t, step), *workspace);
  solution_factorize(model.impl(), row(t.qacc, step, t.nv), *workspace);

  ConstraintForces out;
  const auto nefc = static_cast<size_t>(d->nefc);
  out.force.resize(nefc);
  out.type.assign(d->efc_type, d->efc_type + nefc);
  out.id.assign(d->efc_id, d->efc_id + nefc);
  if (has_noslip(m)) out.force = workspace->noslip.force;
  for (int i = 0; i < d->nefc && !has_noslip(m); i += constraint_rows_at(d, i)) {
    constraint_force(d, workspace->newton.zone[static_cast<size_t>(i)], workspace->newton.y, i,
                     out.force);
  }
  std::copy(out.force.begin(), out.force.end(), d->efc_force);
  for (int i = 0; i < d->ncon; i++) {
    const mjContact& contact = d->contact[i];
    ContactRecord record{.geom = {contact.geom[0], contact.geom[1]},
                         .pos = {},
                         .frame = {},
                         .row = contact.efc_address,
                         .dim = contact.dim,
                         .force = {}};
    std::copy_n(contact.pos, 3, record.pos);
    std::copy_n(contact.frame, 9, record.frame);
    mj_call("mj_contactForce", [&] { mj_contactForce(m, d, i, record.force); });
    out.contacts.push_back(record);
  }
  return out;
}

}  // namespace diffmj
