#include "model/compiled_model.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/collider.h"
#include "mj/names.h"
#include "mj/view.h"

namespace diffmj {
namespace {

std::atomic<int> next_model_id{1};

// The solver at machine precision.
void tighten(mjOption& opt, bool steps_vary) {
  // the three solvers minimise the same function; Newton alone reaches machine precision
  opt.solver = opt.integrator == mjINT_DISCRETE ? opt.solver : +mjSOL_NEWTON;
  // the tolerance is on the decrease of the cost, which is quadratic in the error of qacc
  opt.tolerance = 1e-22;
  opt.iterations = 100;
  opt.ls_tolerance = 1e-10;
  opt.ls_iterations = 200;
  if (steps_vary) {
    // With very many contacts 1e-22 is below rounding, and evaluations would make all their
    // iterations. 1e-21 shows in the order of convergence of sliding contacts.
    opt.tolerance = 3e-22;
    // MuJoCo's line search ends at a slope of tolerance * ls_tolerance, in the scale of the
    // tolerance. 1e-16 can be reached, and costs no iteration; what cannot be is searched for in
    // vain, ls_iterations times and at the solution, by every evaluation.
    opt.ls_tolerance = 3e5;
    opt.ls_iterations = 50;
    // the sweeps of the no-slip pass are part of a step, so many as they are; how many must not
    // vary within an adaptive one
    opt.noslip_tolerance = 0;
  }
  opt.ccd_tolerance = std::min(opt.ccd_tolerance, 1e-12);
  opt.ccd_iterations = std::max(opt.ccd_iterations, 200);
}

}  // namespace

CompiledModel::CompiledModel(std::shared_ptr<mjModel> compiled, bool steps_vary)
    : id(next_model_id++), mj_(std::move(compiled)) {
  mjModel* m = mj_.get();
  nq = static_cast<int>(m->nq);
  nv = static_cast<int>(m->nv);
  na = static_cast<int>(m->na);
  nu = static_cast<int>(m->nu);
  nbody = static_cast<int>(m->nbody);
  nmocap = static_cast<int>(m->nmocap);
  ctrl_actuator.resize(static_cast<size_t>(nu));
  act_actuator.resize(static_cast<size_t>(na));
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    std::fill_n(ctrl_actuator.begin() + m->actuator_ctrladr[i], m->actuator_ctrlnum[i], i);
    if (m->actuator_actadr[i] < 0) continue;
    std::fill_n(act_actuator.begin() + m->actuator_actadr[i], m->actuator_actnum[i], i);
  }
  refuse_unsupported();

  // a bad state must be an error with its step and dof, not a silent reset to qpos0
  m->opt.disableflags |= mjDSBL_AUTORESET;
  // sensors do not act back on the motion
  m->opt.disableflags |= mjDSBL_SENSOR;

  if (steps_vary) tighten(m->opt, steps_vary);
  auto tight = std::make_unique<mjModel>(*m);
  tighten(tight->opt, steps_vary);
  tight->opt.disableflags |= mjDSBL_WARMSTART;
  tight_ = std::move(tight);

  auto main_solver = std::make_unique<mjModel>(*m);
  main_solver->opt.noslip_iterations = 0;
  main_solver_ = std::move(main_solver);

  if (m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST) {
    advance = Advance::kImplicit;
  }
  euler_damps = m->opt.integrator == mjINT_EULER &&
                !(m->opt.disableflags & (mjDSBL_EULERDAMP | mjDSBL_DAMPER));
}

void CompiledModel::refuse_unsupported() const {
  const mjModel* m = mj_.get();
  if (nv == 0) {
    throw InputError(
        "the model has no degrees of freedom (nv = 0): there is nothing to "
        "differentiate; add a joint to a body");
  }
  const auto refuse = [](const std::string& what, const std::string& remedy) {
    throw UnsupportedError(what + " is not supported: " + remedy);
  };
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    if (m->actuator_plugin[i] >= 0) {
      refuse("the plugin of " + element_name(m, mjOBJ_ACTUATOR, i),
             "its derivative is not known; use a built-in actuator");
    }
    if (m->actuator_dyntype[i] == mjDYN_USER || m->actuator_gaintype[i] == mjGAIN_USER ||
        m->actuator_biastype[i] == mjBIAS_USER) {
      refuse("a user-defined type of " + element_name(m, mjOBJ_ACTUATOR, i),
             "its derivative is not known; use a built-in dyntype, gaintype and biastype");
    }
  }
  for (int i = 0; i < static_cast<int>(m->nplugin); i++) {
    const mjpPlugin* plugin = mjp_getPluginAtSlot(m->plugin[i]);
    const int acts = mjPLUGIN_ACTUATOR | mjPLUGIN_PASSIVE;
    if (!plugin || (plugin->capabilityflags & acts) || m->npluginstate > 0) {
      refuse("plugin '" + std::string(plugin ? plugin->name : "?") + "'",
             "its derivative is not known; remove it from the model");
    }
  }
  const std::string hidden = hidden_state(m);
  if (!hidden.empty()) {
    refuse(hidden, "it is state beyond qpos, qvel and act; remove it from the model");
  }
  if (m->opt.enableflags & mjENBL_SLEEP) {
    refuse("option flag sleep", "falling asleep sets velocities to zero; disable the flag");
  }
  if (m->opt.integrator < mjINT_EULER || m->opt.integrator > mjINT_DISCRETE) {
    refuse("integrator number " + std::to_string(m->opt.integrator),
           "use Euler, RK4, implicit, implicitfast or discrete");
  }
}

// Asks MuJoCo instead of repeating its rule (damping, its polynomials, damping of actuators,
// flags): without implicit damping mj_Euler takes qacc, otherwise it solves for the force.
void CompiledModel::find_euler_advance(mjData* d) {
  const mjModel* m = mj_.get();
  mj_call("mj_Euler", [&] {
    mj_resetData(m, d);
    mj_forward(CollidingModel(m), d);
    mju_zero(d->qacc, nv);
    mju_zero(d->qfrc_constraint, nv);
    mju_fill(d->qfrc_smooth, 1, nv);
    mj_Euler(m, d);
  });
  for (int i = 0; i < nv; i++) {
    if (d->qvel[i] != 0) advance = Advance::kImplicitSymmetric;
  }
}

MjDataPtr make_data(const CompiledModel& model) {
  mjData* made = nullptr;
  mj_call("mj_makeData", [&] { made = mj_makeData(model.mj()); });
  if (!made) throw MemoryError("mj_makeData: MuJoCo could not allocate the data of this model");
  return MjDataPtr(made);
}

MjModelPtr copy_model(const mjModel* source) {
  mjModel* copy = nullptr;
  mj_call("mj_copyModel", [&] { copy = mj_copyModel(nullptr, source); });
  if (!copy) throw MemoryError("mj_copyModel: MuJoCo could not allocate a copy of the model");
  return MjModelPtr(copy);
}

}  // namespace diffmj
