#include "check/survey.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "mj/view.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

// "3 hinge, 1 free"
std::string tally(const int* types, int n, const std::map<int, const char*>& names) {
  std::map<int, int> count;
  for (int i = 0; i < n; i++) count[types[i]]++;
  std::string out;
  for (const auto& [type, number] : count) {
    const auto name = names.find(type);
    out += (out.empty() ? "" : ", ") + std::to_string(number) + " " +
           (name == names.end() ? "type " + std::to_string(type) : name->second);
  }
  return out;
}

const std::map<int, const char*> kJoints = {
    {mjJNT_FREE, "free"}, {mjJNT_BALL, "ball"}, {mjJNT_SLIDE, "slide"}, {mjJNT_HINGE, "hinge"}};
const std::map<int, const char*> kEqualities = {
    {mjEQ_CONNECT, "connect"}, {mjEQ_WELD, "weld"}, {mjEQ_JOINT, "joint"},
    {mjEQ_TENDON, "tendon"},   {mjEQ_FLEX, "flex"}, {mjEQ_FLEXSTRAIN, "flexstrain"}};
const std::map<int, const char*> kDynamics = {
    {mjDYN_NONE, "none"},     {mjDYN_INTEGRATOR, "integrator"},
    {mjDYN_FILTER, "filter"}, {mjDYN_FILTEREXACT, "filterexact"},
    {mjDYN_MUSCLE, "muscle"}, {mjDYN_DCMOTOR, "dcmotor"},
    {mjDYN_PID, "pid"},       {mjDYN_USER, "user"}};
const std::map<int, const char*> kTransmissions = {{mjTRN_JOINT, "joint"},
                                                   {mjTRN_JOINTINPARENT, "jointinparent"},
                                                   {mjTRN_SLIDERCRANK, "slidercrank"},
                                                   {mjTRN_TENDON, "tendon"},
                                                   {mjTRN_SITE, "site"},
                                                   {mjTRN_BODY, "body"},
                                                   {mjTRN_SO3, "orientation"}};
const std::map<int, const char*> kGeoms = {
    {mjGEOM_PLANE, "plane"},     {mjGEOM_HFIELD, "hfield"},       {mjGEOM_SPHERE, "sphere"},
    {mjGEOM_CAPSULE, "capsule"}, {mjGEOM_ELLIPSOID, "ellipsoid"}, {mjGEOM_CYLINDER, "cylinder"},
    {mjGEOM_BOX, "box"},         {mjGEOM_MESH, "mesh"},           {mjGEOM_SDF, "sdf"}};

const char* solver_name(int solver) {
  return solver == mjSOL_PGS ? "PGS" : solver == mjSOL_CG ? "CG" : "Newton";
}

bool collides(const mjModel* m, int geom) {
  return m->geom_contype[geom] || m->geom_conaffinity[geom];
}

std::string short_number(double x) { return text("%.3g", x); }

// "tsit5, adaptive with rtol 1e-06 and atol 1e-08; intervals of 0.01 s, control hold, adjoint
// discrete, events"
std::string adaptive_step(const Model& model) {
  const AdaptiveOptions& o = model.options().adaptive;
  const Adjoint adjoint = model.options().adjoint();
  const std::string method = integrator_name(model.integrator());
  const auto tolerances = [](double rtol, double atol) {
    return "rtol " + short_number(rtol) + " and atol " + short_number(atol);
  };
  std::string out = method;
  if (o.step) {
    out += ", constant steps of at most " + short_number(*o.step) + " s";
  } else {
    out += ", adaptive with " + tolerances(o.stepping.rtol, o.stepping.atol);
  }
  out += "; intervals of " + short_number(model.interval()) + " s, control " +
         control_name(o.control) + ", adjoint " + adjoint_name(adjoint);
  if (!o.step && adjoint != Adjoint::kDiscrete) {
    out += " with " + tolerances(o.adjoint_rtol.value_or(o.stepping.rtol),
                                 o.adjoint_atol.value_or(o.stepping.atol));
  }
  if (o.checkpoints && adjoint != Adjoint::kBacksolve) {
    out += ", " + std::to_string(*o.checkpoints) + " checkpoints";
  }
  return out + (o.events ? ", events" : ", no events");
}

}  // namespace

std::vector<std::string> model_features(const Model& model) {
  const mjModel* m = model.mj();
  const auto sum = [](const mjtNum* x, mjtSize n) {
    return std::count_if(x, x + n, [](double value) { return value > 0; });
  };
  std::vector<std::string> out;
  const auto add = [&](const std::string& what, const std::string& value) {
    if (!value.empty()) out.push_back(what + ": " + value);
  };
  add("size", "nq " + std::to_string(model.nq()) + ", nv " + std::to_string(model.nv()) + ", na " +
                  std::to_string(model.na()) + ", nu " + std::to_string(model.nu()));
  const std::string step = model.is_adaptive() ? adaptive_step(model)
                                               : std::string(integrator_name(model.integrator())) +
                                                     ", " + short_number(model.timestep()) + " s";
  add("step", step + "; solver " + solver_name(m->opt.solver) + ", " +
                  (m->opt.cone == mjCONE_PYRAMIDAL ? "pyramidal" : "elliptic") + " cone");
  if (m->opt.noslip_iterations > 0) {
    add("no-slip pass", "at most " + std::to_string(m->opt.noslip_iterations) +
                            " sweeps, tolerance " + short_number(m->opt.noslip_tolerance));
  }
  add("joints", tally(m->jnt_type, static_cast<int>(m->njnt), kJoints));
  std::vector<int> colliding, condim;
  for (int i = 0; i < static_cast<int>(m->ngeom); i++) {
    if (!collides(m, i)) continue;
    colliding.push_back(m->geom_type[i]);
    condim.push_back(m->geom_condim[i]);
  }
  add("colliding geoms", tally(colliding.data(), static_cast<int>(colliding.size()), kGeoms));
  add("condim", tally(condim.data(), static_cast<int>(condim.size()),
                      {{1, "of 1"}, {3, "of 3"}, {4, "of 4"}, {6, "of 6"}}));
  if (m->npair > 0) add("contact pairs", std::to_string(m->npair));
  add("equalities", tally(m->eq_type, static_cast<int>(m->neq), kEqualities));
  const auto limits = std::count(m->jnt_limited, m->jnt_limited + m->njnt, 1);
  if (limits > 0) add("joint limits", std::to_string(limits));
  const auto friction = sum(m->dof_frictionloss, m->nv) + sum(m->tendon_frictionloss, m->ntendon);
  if (friction > 0) add("friction loss", std::to_string(friction));
  if (m->ntendon > 0) {
    add("tendons",
        std::to_string(m->ntendon) + " with " + std::to_string(m->nwrap) + " path elements");
  }
  add("actuator dynamics", tally(m->actuator_dyntype, static_cast<int>(m->nactuator), kDynamics));
  add("transmissions", tally(m->actuator_trntype, static_cast<int>(m->nactuator), kTransmissions));
  if (m->opt.density > 0 || m->opt.viscosity > 0) add("fluid", "density or viscosity is set");
  if (m->nflex > 0) add("flexes", std::to_string(m->nflex));
  return out;
}

std::vector<std::string> model_advice(const Model& model) {
  const mjModel* m = model.mj();
  std::vector<std::string> out;
  const bool contacts = !(m->opt.disableflags & (mjDSBL_CONTACT | mjDSBL_CONSTRAINT));

  // solimp's d0 is the share of the full constraint that is there at first touch
  double d0 = 0;
  std::string where;
  const auto look = [&](double value, const std::string& name) {
    if (value > d0) {
      d0 = value;
      where = name;
    }
  };
  for (int i = 0; contacts && i < static_cast<int>(m->ngeom); i++) {
    if (collides(m, i)) look(m->geom_solimp[mjNIMP * i], model.element_name(mjOBJ_GEOM, i));
  }
  for (int i = 0; i < static_cast<int>(m->njnt); i++) {
    if (m->jnt_limited[i]) look(m->jnt_solimp[mjNIMP * i], model.element_name(mjOBJ_JOINT, i));
  }
  constexpr double kLargeOnset = 0.01;  // onset errors of 4 % and more, docs/gradients.md
  const bool has_events = model.is_adaptive() && model.options().adaptive.events;
  if (d0 > kLargeOnset && has_events) {
    out.push_back("solimp d0 = " + short_number(d0) + " (" + where +
                  "): contact onset is a jump of the force; steps end at it, and the gradient has "
                  "the term of its moment");
  } else if (d0 > kLargeOnset && model.is_adaptive()) {
    out.push_back("solimp d0 = " + short_number(d0) + " (" + where +
                  "): contact onset is a jump of the force, whose term in the derivative of the "
                  "motion is missing without events; events=True adds it");
  } else if (d0 > kLargeOnset) {
    out.push_back("solimp d0 = " + short_number(d0) + " (" + where +
                  "): contact onset is a jump of the force; the derivative of the steps is exact, "
                  "but it is not that of the motion as the step goes to zero; d0 = 0 makes the "
                  "onset (almost) continuous");
  }
  if (!model.impl().differentiation.of_field) {
    out.push_back("gradients are differences of mj_step because of " +
                  model.gradient_path_reason());
  }
  constexpr double kLooseTolerance = 1e-8;
  if (m->opt.solver != mjSOL_NEWTON) {
    out.push_back(std::string("solver ") + solver_name(m->opt.solver) +
                  " stops far from the optimum at which the derivative is taken; solver Newton "
                  "makes the two agree");
  } else if (m->opt.tolerance > kLooseTolerance || m->opt.iterations < 10) {
    out.push_back("the solver stops early (tolerance " + short_number(m->opt.tolerance) +
                  ", iterations " + std::to_string(m->opt.iterations) +
                  "): the derivative is that of its optimum; use tolerance 1e-8 and more "
                  "iterations");
  }
  const bool refsafe = !(m->opt.disableflags & mjDSBL_REFSAFE);
  for (int i = 0; refsafe && contacts && i < static_cast<int>(m->ngeom); i++) {
    const double timeconst = m->geom_solref[mjNREF * i];
    if (collides(m, i) && timeconst > 0 && timeconst < 2 * m->opt.timestep) {
      out.push_back("solref time constant " + short_number(timeconst) + " (" +
                    model.element_name(mjOBJ_GEOM, i) + ") is raised to two time steps, " +
                    short_number(2 * m->opt.timestep) + ", by refsafe: contacts depend on the " +
                    (model.is_adaptive() ? "model's timestep, which is not the step here; a "
                                           "smaller timestep or disabling refsafe ends that"
                                         : "time step"));
      break;
    }
  }
  for (int i = 0; model.is_adaptive() && i < static_cast<int>(m->nactuator); i++) {
    if (!m->actuator_actearly[i] || m->actuator_actadr[i] < 0) continue;
    out.push_back("actearly (" + model.element_name(mjOBJ_ACTUATOR, i) +
                  "): forces read the activation one timestep of the model ahead, " +
                  short_number(m->opt.timestep) + " s, whatever the step");
    break;
  }
  return out;
}

}  // namespace diffmj
