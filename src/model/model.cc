// MJCF -> Model: load, set the options a rollout needs, refuse what has no derivative.
#include "diffmj/model.h"

#include <mujoco/mujoco.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "diffmj/error.h"
#include "diffmj/version.h"
#include "integrate/step_controller.h"
#include "integrate/tableau.h"
#include "mj/call.h"
#include "mj/view.h"
#include "model/model_impl.h"
#include "model/parameters.h"
#include "model/variant.h"
#include "model/workspace.h"
#include "record/checkpoints.h"
#include "stages/analytic.h"
#include "stages/cfd/pairs.h"
#include "stages/position/collision/smooth.h"

namespace diffmj {
namespace {

constexpr int kErrorSize = 2048;

constexpr std::array<std::pair<Integrator, const char*>, 14> kIntegratorNames = {{
    {Integrator::kModel, "model"},
    {Integrator::kEuler, "Euler"},
    {Integrator::kRk4, "RK4"},
    {Integrator::kImplicit, "implicit"},
    {Integrator::kImplicitFast, "implicitfast"},
    {Integrator::kDiscrete, "discrete"},
    {Integrator::kExplicitEuler, "explicit_euler"},
    {Integrator::kHeun, "heun"},
    {Integrator::kMidpoint, "midpoint"},
    {Integrator::kRalston, "ralston"},
    {Integrator::kBosh3, "bosh3"},
    {Integrator::kTsit5, "tsit5"},
    {Integrator::kDopri5, "dopri5"},
    {Integrator::kDopri8, "dopri8"},
}};

std::atomic<int> next_model_id{1};

int to_mujoco(Integrator integrator) { return static_cast<int>(integrator) - 1; }

std::string name_of(const mjModel* m, int type, int id) {
  const char* name = mj_id2name(m, type, id);
  const std::string kind = mju_type2Str(type) ? mju_type2Str(type) : "element";
  return name && *name ? kind + " '" + name + "'" : kind + " " + std::to_string(id);
}

MjModelPtr copy_model(const mjModel* source) {
  mjModel* copy = nullptr;
  mj_call("mj_copyModel", [&] { copy = mj_copyModel(nullptr, source); });
  if (!copy) throw MemoryError("mj_copyModel: MuJoCo could not allocate a copy of the model");
  return MjModelPtr(copy);
}

std::shared_ptr<mjModel> shared(MjModelPtr model) { return {std::move(model)}; }

}  // namespace

const char* integrator_name(Integrator integrator) {
  for (const auto& [value, name] : kIntegratorNames) {
    if (value == integrator) return name;
  }
  return "?";
}

const char* gradient_path_name(GradientPath path) {
  switch (path) {
    case GradientPath::kAnalytic:
      return "analytic";
    case GradientPath::kOracle:
      return "oracle";
    case GradientPath::kDifferences:
      return "differences";
  }
  return "?";
}

Integrator integrator_from_name(const std::string& name) {
  std::string known;
  for (const auto& [value, word] : kIntegratorNames) {
    if (name == word) return value;
    known += std::string(known.empty() ? "" : ", ") + word;
  }
  throw InputError("integrator '" + name + "' is not known; use one of " + known);
}

ModelImpl::ModelImpl(std::shared_ptr<mjModel> compiled, const ModelOptions& options,
                     const ModelImpl* base)
    : id(next_model_id++),
      options(options),
      muscle_smoothing(options.muscle_smoothing),
      mj_(std::move(compiled)),
      pool_(base ? base->pool_ : std::make_shared<WorkspacePool>()) {
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
  choose_integrator();
  refuse_unsupported();

  // a bad state must be an error with its step and dof, not a silent reset to qpos0
  m->opt.disableflags |= mjDSBL_AUTORESET;
  // sensors do not act back on the motion
  m->opt.disableflags |= mjDSBL_SENSOR;

  // step control would see the solver's tolerance as noise of the vector field
  if (tableau) tighten(m->opt);
  auto tight = std::make_unique<mjModel>(*m);
  tighten(tight->opt);
  tight->opt.disableflags |= mjDSBL_WARMSTART;
  tight_ = std::move(tight);

  auto main_solver = std::make_unique<mjModel>(*m);
  main_solver->opt.noslip_iterations = 0;
  main_solver_ = std::move(main_solver);

  choose_path();
  choose_collider(base);
  choose_cfd();
  choose_advance();
}

ModelImpl::~ModelImpl() = default;

const Collider& ModelImpl::smooth_collider() const { return collider_->get(); }

void ModelImpl::choose_integrator() {
  mjModel* m = mj_.get();
  const Integrator asked = options.integrator;
  tableau = find_tableau(integrator_name(asked));
  interval = m->opt.timestep;
  if (!tableau) {
    if (asked != Integrator::kModel) m->opt.integrator = to_mujoco(asked);
    return;
  }
  // RK4 has no matrix of its own, so that the stages and their pullbacks are those of the field
  m->opt.integrator = mjINT_RK4;
  const AdaptiveOptions& o = options.adaptive;
  const auto require = [](const char* name, double value, const char* expected) {
    if (value >= 0 && std::isfinite(value)) return;
    char text[32];
    std::snprintf(text, sizeof(text), "%g", value);
    throw InputError(std::string(name) + " is " + text + ", expected " + expected);
  };
  require("interval", o.interval, "a time ≥ 0");
  require("step", o.step, "a time ≥ 0");
  if (o.interval > 0) interval = o.interval;
  if (o.step == 0 && tableau->embedded_order == 0) {
    throw InputError(std::string("integrator ") + tableau->name +
                     " has no estimate of its error: give it a constant step, or use tsit5");
  }
  if (o.step == 0) (void)StepController(o.stepping, tableau->embedded_order);  // checks
  if (o.checkpoints) (void)Checkpoints(*o.checkpoints);                        // checks
  const double rtol = o.adjoint_rtol.value_or(o.stepping.rtol),
               atol = o.adjoint_atol.value_or(o.stepping.atol);
  if (o.adjoint_rtol) require("adjoint_rtol", rtol, "a number ≥ 0");
  if (o.adjoint_atol) require("adjoint_atol", atol, "a number ≥ 0");
  if (o.step == 0 && o.adjoint != Adjoint::kDiscrete && rtol + atol == 0) {
    throw InputError("adjoint_rtol and adjoint_atol are 0, expected one of them > 0");
  }
}

// The solver at machine precision.
void ModelImpl::tighten(mjOption& opt) const {
  // the three solvers minimise the same function; Newton alone reaches machine precision
  opt.solver = opt.integrator == mjINT_DISCRETE ? opt.solver : +mjSOL_NEWTON;
  // the tolerance is on the decrease of the cost, which is quadratic in the error of qacc
  opt.tolerance = 1e-22;
  opt.iterations = 100;
  opt.ls_tolerance = 1e-10;
  opt.ls_iterations = 200;
  // the sweeps of the no-slip pass are part of a step, so many as they are; how many must not vary
  // within an adaptive one
  if (tableau) opt.noslip_tolerance = 0;
  opt.ccd_tolerance = std::min(opt.ccd_tolerance, 1e-12);
  opt.ccd_iterations = std::max(opt.ccd_iterations, 200);
}

void ModelImpl::refuse_unsupported() const {
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
      refuse("the plugin of " + name_of(m, mjOBJ_ACTUATOR, i),
             "its derivative is not known; use a built-in actuator");
    }
    if (m->actuator_dyntype[i] == mjDYN_USER || m->actuator_gaintype[i] == mjGAIN_USER ||
        m->actuator_biastype[i] == mjBIAS_USER) {
      refuse("a user-defined type of " + name_of(m, mjOBJ_ACTUATOR, i),
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

void ModelImpl::choose_path() {
  const mjModel* m = mj_.get();
  const bool implicit =
      m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST;
  if (m->opt.integrator == mjINT_DISCRETE) {
    path_reason = "integrator discrete: the constraint solve carries the integrator's own metric";
  } else if (m->opt.enableflags & kEnableSpeculative) {
    path_reason = "option flag speculative: contacts depend on velocities";
  } else if (m->nflex > 0 && m->opt.noslip_iterations > 0) {
    path_reason = name_of(m, mjOBJ_FLEX, 0) +
                  " with option noslip_iterations = " + std::to_string(m->opt.noslip_iterations) +
                  ": how the no-slip pass treats rows of flexes is not known";
  } else if (m->nflex > 0 && implicit && m->opt.solver == mjSOL_CG) {
    path_reason = name_of(m, mjOBJ_FLEX, 0) +
                  " with an implicit integrator and CG: its stiffness enters the solver's metric";
  }
  if (!(options.muscle_smoothing >= 0) || std::isinf(options.muscle_smoothing)) {
    throw InputError("muscle_smoothing is " + std::to_string(options.muscle_smoothing) +
                     ", expected a width of at least 0");
  }
  path = options.path;
  if (!path_reason.empty()) {
    path = GradientPath::kDifferences;
  } else if (path == GradientPath::kAnalytic) {
    path_reason = analytic_obstacle(m);
    if (!path_reason.empty()) {
      path_reason += " has no analytic pullback yet";
      path = GradientPath::kOracle;
    }
  }
  if (options.muscle_smoothing > 0 && path != GradientPath::kAnalytic) {
    throw UnsupportedError("muscle_smoothing needs the gradient path 'analytic', and this model " +
                           (path_reason.empty() ? std::string("was asked to take another")
                                                : "cannot take it: " + path_reason) +
                           "; leave muscle_smoothing at 0");
  }
  if (path == options.path) path_reason.clear();
  if (tableau && path == GradientPath::kDifferences) {
    throw UnsupportedError(
        std::string("integrator ") + tableau->name +
        " needs the derivative of the vector field, and the path differences has none" +
        (path_reason.empty() ? "" : ": " + path_reason) + "; use one of MuJoCo's integrators");
  }
  if (!options.fallback && path > options.path) {
    throw UnsupportedError(path_reason +
                           ", and fallback is off: allow it (fallback = true), or "
                           "take the feature out of the model");
  }
}

void ModelImpl::choose_cfd() {
  if (!options.cfd) return;
  if (mj()->opt.noslip_iterations > 0) {
    throw UnsupportedError(
        "cfd has no no-slip pass, and this model has one (option noslip_iterations = " +
        std::to_string(mj()->opt.noslip_iterations) + "); set it to 0, or leave cfd out");
  }
  if (path != GradientPath::kAnalytic) {
    throw UnsupportedError("cfd needs the gradient path 'analytic', and this model " +
                           (path_reason.empty() ? std::string("was asked to take another")
                                                : "cannot take it: " + path_reason) +
                           "; leave cfd out");
  }
  if (options.collisions.mode == Collisions::kSmoothField) {
    throw UnsupportedError(
        "cfd and collisions smooth-field both replace the dynamics of the backward pass; leave one "
        "of them out");
  }
  cfd = std::make_unique<const CfdModel>(mj(), *options.cfd);
}

void ModelImpl::choose_collider(const ModelImpl* base) {
  const CollisionOptions& o = options.collisions;
  if (o.mode == Collisions::kMujoco) return;
  if (!(o.smoothness > 0) || std::isinf(o.smoothness)) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", o.smoothness);
    throw InputError(std::string("smoothness is ") + text + ", expected a width > 0 in metres");
  }
  if (o.mode != Collisions::kSmooth && path != GradientPath::kAnalytic) {
    throw UnsupportedError(std::string("collisions ") + collisions_name(o.mode) +
                           " needs the gradient path 'analytic', and this model " +
                           (path_reason.empty() ? std::string("was asked to take another")
                                                : "cannot take it: " + path_reason) +
                           "; use collisions smooth or mujoco");
  }
  if (o.mode == Collisions::kSmoothField && mj()->opt.noslip_iterations > 0) {
    throw UnsupportedError(
        "collisions smooth-field has no no-slip pass, and this model has one (option "
        "noslip_iterations = " +
        std::to_string(mj()->opt.noslip_iterations) + "); set it to 0, or use smooth-backward");
  }
  collisions_notice = pairs_without_smooth_collider(mj_.get());
  if (!collisions_notice.empty() && !options.fallback) {
    throw UnsupportedError(
        "there is no smooth collider for " + collisions_notice +
        ", and fallback is off: allow MuJoCo's collider there (fallback = true)");
  }
  // of numbers it has those of meshes alone
  if (base && base->mj()->mesh_vert == mj_->mesh_vert) {
    collider_ = base->collider_;
  } else {
    collider_ = std::make_shared<const SmoothCollider>(mj_.get(), o.smoothness);
  }
}

// Asks MuJoCo instead of repeating its rule (damping, its polynomials, damping of actuators,
// flags): without implicit damping mj_Euler takes qacc, otherwise it solves for the force.
void ModelImpl::choose_advance() {
  const mjModel* m = mj_.get();
  if (m->opt.integrator == mjINT_IMPLICIT || m->opt.integrator == mjINT_IMPLICITFAST) {
    advance = Advance::kImplicit;
  }
  if (m->opt.integrator != mjINT_EULER) return;
  euler_damps = !(m->opt.disableflags & (mjDSBL_EULERDAMP | mjDSBL_DAMPER));
  WorkspaceLease lease(*this);
  mjData* d = lease->data.get();
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

void require_no_callbacks(const char* who) {
  const std::array<std::pair<bool, const char*>, 6> callbacks = {{
      {mjcb_passive != nullptr, "mjcb_passive"},
      {mjcb_control != nullptr, "mjcb_control"},
      {mjcb_contactfilter != nullptr, "mjcb_contactfilter"},
      {mjcb_act_dyn != nullptr, "mjcb_act_dyn"},
      {mjcb_act_gain != nullptr, "mjcb_act_gain"},
      {mjcb_act_bias != nullptr, "mjcb_act_bias"},
  }};
  for (const auto& [set, name] : callbacks) {
    if (set) {
      throw UnsupportedError(std::string(who) + ": the callback " + name +
                             " is set, whose derivative is not known: set it to null (None), and "
                             "give controls and forces to the rollout instead");
    }
  }
}

Model Model::from_file(const std::string& path, const ModelOptions& options) {
  require_mujoco_version();
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status)) {
    throw InputError("model file '" + path + "' does not exist or is not a file");
  }
  char error[kErrorSize] = "";
  mjModel* compiled = nullptr;
  const bool binary = std::filesystem::path(path).extension() == ".mjb";
  mj_call("mj_loadXML", [&] {
    compiled = binary ? mj_loadModel(path.c_str(), nullptr)
                      : mj_loadXML(path.c_str(), nullptr, error, kErrorSize);
  });
  if (!compiled) throw MujocoError("model file '" + path + "' does not compile: " + error);
  return Model(std::make_shared<const ModelImpl>(shared(MjModelPtr(compiled)), options));
}

Model Model::from_xml(const std::string& mjcf, const ModelOptions& options) {
  require_mujoco_version();
  char error[kErrorSize] = "";
  mjSpec* parsed = nullptr;
  mj_call("mj_parseXMLString",
          [&] { parsed = mj_parseXMLString(mjcf.c_str(), nullptr, error, kErrorSize); });
  if (!parsed) throw MujocoError(std::string("the MJCF string does not parse: ") + error);
  const MjSpecPtr spec(parsed);
  mjModel* compiled = nullptr;
  mj_call("mj_compile", [&] { compiled = mj_compile(spec.get(), nullptr); });
  if (!compiled) {
    throw MujocoError(std::string("the MJCF string does not compile: ") + mjs_getError(spec.get()));
  }
  return Model(std::make_shared<const ModelImpl>(shared(MjModelPtr(compiled)), options));
}

Model Model::from_mjmodel(const mjModel* model, const ModelOptions& options) {
  require_mujoco_version();
  if (!model) throw InputError("Model::from_mjmodel: the mjModel is null");
  return Model(std::make_shared<const ModelImpl>(shared(copy_model(model)), options));
}

const mjModel* Model::mj() const { return impl_->mj(); }
int Model::nq() const { return impl_->nq; }
int Model::nv() const { return impl_->nv; }
int Model::na() const { return impl_->na; }
int Model::nu() const { return impl_->nu; }
int Model::nbody() const { return impl_->nbody; }
int Model::nmocap() const { return impl_->nmocap; }
int Model::nsite() const { return static_cast<int>(mj()->nsite); }
int Model::nsensordata() const { return static_cast<int>(mj()->nsensordata); }
int Model::ngeom() const { return static_cast<int>(mj()->ngeom); }
double Model::timestep() const { return impl_->mj()->opt.timestep; }
Integrator Model::integrator() const {
  if (impl_->tableau) return impl_->options.integrator;
  return static_cast<Integrator>(impl_->mj()->opt.integrator + 1);
}
const ModelOptions& Model::options() const { return impl_->options; }
bool Model::is_adaptive() const { return impl_->tableau != nullptr; }
double Model::interval() const { return impl_->interval; }

const char* control_name(Control control) { return control == Control::kHold ? "hold" : "linear"; }

const char* adjoint_name(Adjoint adjoint) {
  return adjoint == Adjoint::kDiscrete       ? "discrete"
         : adjoint == Adjoint::kInterpolated ? "interpolated"
                                             : "backsolve";
}

Control control_from_name(const std::string& name) {
  for (const Control x : {Control::kHold, Control::kLinear}) {
    if (name == control_name(x)) return x;
  }
  throw InputError("control '" + name + "' is not known; use hold or linear");
}

Adjoint adjoint_from_name(const std::string& name) {
  for (const Adjoint x : {Adjoint::kDiscrete, Adjoint::kInterpolated, Adjoint::kBacksolve}) {
    if (name == adjoint_name(x)) return x;
  }
  throw InputError("adjoint '" + name + "' is not known; use discrete, interpolated or backsolve");
}

const char* collisions_name(Collisions mode) {
  switch (mode) {
    case Collisions::kMujoco:
      return "mujoco";
    case Collisions::kSmooth:
      return "smooth";
    case Collisions::kSmoothBackward:
      return "smooth-backward";
    case Collisions::kSmoothField:
      return "smooth-field";
  }
  return "";
}

Collisions collisions_from_name(const std::string& name) {
  for (const Collisions x : {Collisions::kMujoco, Collisions::kSmooth, Collisions::kSmoothBackward,
                             Collisions::kSmoothField}) {
    if (name == collisions_name(x)) return x;
  }
  throw InputError("collisions '" + name +
                   "' is not known; use mujoco, smooth, smooth-backward or smooth-field");
}

GradientPath Model::gradient_path() const { return impl_->path; }
const std::string& Model::gradient_path_reason() const { return impl_->path_reason; }
double Model::muscle_smoothing() const { return impl_->muscle_smoothing; }
const std::string& Model::collisions_notice() const { return impl_->collisions_notice; }

std::vector<std::string> parameter_names() {
  std::vector<std::string> names;
  for (const ParameterField& field : parameter_fields()) names.emplace_back(field.name);
  return names;
}

std::pair<int, int> parameter_shape(const Model& model, const std::string& name) {
  const ParameterField& field = parameter_field(name);
  return {field.nrow(model.mj()), field.width};
}

std::string Model::element_name(int type, int id) const { return name_of(mj(), type, id); }

std::string Model::dof_name(int dof) const {
  return name_of(mj(), mjOBJ_JOINT, mj()->dof_jntid[dof]) + " (dof " + std::to_string(dof) + ")";
}

int Model::keyframe(const std::string& name) const {
  std::string known;
  for (int i = 0; i < static_cast<int>(mj()->nkey); i++) {
    const char* key = mj_id2name(mj(), mjOBJ_KEY, i);
    if (key && name == key) return i;
    known += (known.empty() ? "" : ", ") + std::string(key && *key ? key : std::to_string(i));
  }
  throw InputError("keyframe '" + name + "' is not in the model; it has " +
                   (known.empty() ? "none" : known));
}

Model Model::with_numbers(const mjModel* numbers) const {
  if (!numbers) throw InputError("Model::with_numbers: the mjModel is null");
  return Model(std::make_shared<const ModelImpl>(with_numbers_of(impl_->shared_mj(), numbers),
                                                 options(), impl_.get()));
}

Model Model::with_parameters(const std::map<std::string, std::vector<double>>& fields) const {
  return Model(std::make_shared<const ModelImpl>(with_fields(impl_->shared_mj(), fields), options(),
                                                 impl_.get()));
}

Model Model::tightened() const {
  return Model(std::make_shared<const ModelImpl>(shared(copy_model(impl_->tight())), options()));
}

}  // namespace diffmj
