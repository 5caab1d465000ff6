#include "stages/evaluate_stages.h"

#include <algorithm>

#include "mj/call.h"
#include "mj/collider.h"
#include "stages/position/constraint_onset.h"

namespace diffmj {

void run_stages(const mjModel* m, double onset, mjData* d, FirstStage from) {
  if (from <= FirstStage::kPosition) {
    mj_fwdPosition(CollidingModel(m), d);
    apply_constraint_onset(m, d, onset);
  }
  if (from <= FirstStage::kVelocity) mj_fwdVelocity(m, d);
  mj_fwdActuation(m, d);
  mj_fwdAcceleration(m, d);
}

void evaluate_stages(const StageModel& impl, const StepInput& in, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  workspace.constraint.onset = impl.options.adaptive.onset;
  mj_call("mj_fwdPosition", [&] {
    write_input(m, d, in);
    run_stages(m, impl.options.adaptive.onset, d, FirstStage::kPosition);
    if (in.suppression) in.suppression->suppress(d, true);
  });
}

void advance_with_force(const StageModel& impl, const mjModel* m, CVec F, Eigen::VectorXd& b,
                        Eigen::VectorXd& act_next, Workspace& workspace) {
  mjData* d = workspace.data.get();
  const double time = d->time;
  mju_copy(workspace.probes.saved_qpos.data(), d->qpos, impl.nq);
  mju_copy(workspace.probes.saved_qvel.data(), d->qvel, impl.nv);
  mju_copy(workspace.probes.saved_act.data(), d->act, impl.na);

  // b is linear in F: a force so large that v' - v = h b keeps all its digits
  constexpr double kLargeForce = 1e8;
  const double size = F.empty() ? 0 : eigen(F).lpNorm<Eigen::Infinity>();
  const double scale = size > 0 ? kLargeForce / size : 1;
  mj_call("mj_Euler", [&] {
    mju_zero(d->qacc, impl.nv);
    mju_zero(d->qfrc_constraint, impl.nv);
    copy_or_zero(F, d->qfrc_smooth, impl.nv);
    mju_scl(d->qfrc_smooth, d->qfrc_smooth, scale, impl.nv);
    if (impl.advance == Advance::kExplicit && !F.empty()) {
      // without damping mj_Euler reads the acceleration
      mj_solveM(m, d, d->qacc, d->qfrc_smooth, 1);
    }
    if (impl.advance == Advance::kImplicit) {
      mj_implicit(m, d);
    } else {
      mj_Euler(m, d);
    }
  });
  for (int i = 0; i < impl.nv; i++) {
    b[i] = (d->qvel[i] - workspace.probes.saved_qvel[static_cast<size_t>(i)]) /
           (m->opt.timestep * scale);
  }
  std::copy(d->act, d->act + impl.na, act_next.data());
  d->time = time;
  mju_copy(d->qpos, workspace.probes.saved_qpos.data(), impl.nq);
  mju_copy(d->qvel, workspace.probes.saved_qvel.data(), impl.nv);
  mju_copy(d->act, workspace.probes.saved_act.data(), impl.na);
}

}  // namespace diffmj
