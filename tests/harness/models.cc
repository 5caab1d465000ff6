#include "harness/models.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <random>

namespace diffmj {
namespace {

using Path = std::filesystem::path;

}  // namespace

State after(const Scene& scene, int nstep) {
  const Trajectory t = rollout(scene.model, scene.input(), nstep);
  if (!t.ok()) throw Error(scene.name + ": " + t.message);
  return {.time = t.time.back(),
          .qpos = {t.qpos.end() - t.nq, t.qpos.end()},
          .qvel = {t.qvel.end() - t.nv, t.qvel.end()},
          .act = {t.act.end() - t.na, t.act.end()}};
}

RolloutInput Scene::input() const {
  return {.qpos = x.qpos,
          .qvel = x.qvel,
          .act = x.act,
          .ctrl = ctrl,
          .mocap_pos = mocap_pos,
          .mocap_quat = mocap_quat,
          .time = x.time};
}

std::string testdata(const std::string& name) {
  return (Path(DIFFMJ_TESTDATA_DIR) / name).string();
}

Scene humanoid_with_sensors(const ModelOptions& options) {
  const std::unique_ptr<mjSpec, void (*)(mjSpec*)> spec(
      mj_parseXML(testdata("zoo/humanoid.xml").c_str(), nullptr, nullptr, 0), mj_deleteSpec);
  const auto site = [&](const char* body, const char* name, double size) {
    mjsSite* made = mjs_addSite(mjs_findBody(spec.get(), body), nullptr);
    mjs_setName(made->element, name);
    std::fill(made->size, made->size + 3, size);
  };
  const auto sensor = [&](mjtSensor type, mjtObj objtype, const std::string& name,
                          const std::string& on) {
    mjsSensor* made = mjs_addSensor(spec.get());
    made->type = type;
    made->objtype = objtype;
    mjs_setName(made->element, name.c_str());
    mjs_setString(made->objname, on.c_str());
  };
  site("torso", "imu", 0.01);
  site("foot_l", "left_sole", 0.2);
  site("foot_r", "right_sole", 0.2);
  sensor(mjSENS_ACCELEROMETER, mjOBJ_SITE, "accelerometer", "imu");
  sensor(mjSENS_GYRO, mjOBJ_SITE, "gyro", "imu");
  sensor(mjSENS_TOUCH, mjOBJ_SITE, "left", "left_sole");
  sensor(mjSENS_TOUCH, mjOBJ_SITE, "right", "right_sole");
  for (mjsElement* at = mjs_firstElement(spec.get(), mjOBJ_JOINT); at;
       at = mjs_nextElement(spec.get(), at)) {
    const mjsJoint* joint = mjs_asJoint(at);
    if (joint->type != mjJNT_HINGE) continue;
    const std::string name = mjs_getString(mjs_getName(at));
    sensor(mjSENS_JOINTPOS, mjOBJ_JOINT, name + "_pos", name);
    sensor(mjSENS_JOINTVEL, mjOBJ_JOINT, name + "_vel", name);
  }
  const std::unique_ptr<mjModel, void (*)(mjModel*)> m(mj_compile(spec.get(), nullptr),
                                                       mj_deleteModel);
  if (!m) throw Error(mjs_getError(spec.get()));
  Scene scene{.name = "humanoid with sensors", .model = Model::from_mjmodel(m.get(), options)};
  const Keyframe key = load_keyframe(scene.model, scene.model.keyframe("stand"));
  scene.x = key.state;
  scene.ctrl = key.ctrl;
  return scene;
}

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(testdata("zoo"))) {
    const std::string stem = entry.path().stem().string();
    // models of features of 4.0 that are refused
    if (entry.path().extension() == ".xml" && stem.rfind("v4_", 0) != 0) names.push_back(stem);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Scene zoo(const std::string& name, const ModelOptions& options) {
  Model model = Model::from_file(testdata("zoo/" + name + ".xml"), options);
  const Keyframe key = load_keyframe(model, model.keyframe("test"));
  return {.name = name,
          .model = model,
          .x = key.state,
          .ctrl = key.ctrl,
          .mocap_pos = key.mocap_pos,
          .mocap_quat = key.mocap_quat};
}

Scene random_scene(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  const auto between = [&](double a, double b) { return a + (b - a) * unit(random); };
  const auto chance = [&](double p) { return unit(random) < p; };
  const auto pick = [&](size_t n) {
    return std::min(n - 1, static_cast<size_t>(static_cast<double>(n) * unit(random)));
  };
  const auto set3 = [&](double* x, double a, double b) {
    for (int i = 0; i < 3; i++) x[i] = between(a, b);
  };

  const std::unique_ptr<mjSpec, void (*)(mjSpec*)> spec(mj_makeSpec(), mj_deleteSpec);
  mjSpec* s = spec.get();
  s->option.timestep = 0.004;
  s->option.integrator = std::array{mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT,
                                    mjINT_IMPLICITFAST}[static_cast<size_t>(seed % 4)];
  s->option.cone = chance(0.5) ? mjCONE_ELLIPTIC : mjCONE_PYRAMIDAL;
  s->option.jacobian = chance(0.5) ? mjJAC_SPARSE : mjJAC_DENSE;
  if (chance(0.3)) s->option.density = 5;
  if (chance(0.3)) s->option.disableflags |= mjDSBL_ISLAND;

  mjsBody* world = mjs_findBody(s, "world");
  mjsGeom* floor = mjs_addGeom(world, nullptr);
  floor->type = mjGEOM_PLANE;
  floor->size[0] = floor->size[1] = floor->size[2] = 5;
  const auto soften = [&](mjsGeom* geom) {  // soft and wide: zones do not change within a few steps
    geom->solref[0] = 0.06;
    geom->solimp[0] = 0.5;
    geom->solimp[2] = 0.05;
    geom->condim = std::array{1, 3, 4, 6}[pick(4)];
  };
  soften(floor);

  int njoint = 0;
  std::vector<mjsBody*> bodies;
  const int nbody = 3 + static_cast<int>(seed % 3);
  for (int i = 0; i < nbody; i++) {
    const bool root = bodies.empty() || chance(0.25);
    mjsBody* parent = root ? world : bodies[pick(bodies.size())];
    mjsBody* body = mjs_addBody(parent, nullptr);
    set3(body->pos, -0.3, 0.3);
    if (root) body->pos[0] += 1.5 * i, body->pos[2] = 0.09;
    for (double& q : body->quat) q = between(-1, 1);
    mjsGeom* geom = mjs_addGeom(body, nullptr);
    geom->type = std::array{mjGEOM_SPHERE, mjGEOM_CAPSULE, mjGEOM_BOX}[pick(3)];
    set3(geom->size, 0.08, 0.14);
    set3(geom->pos, -0.02, 0.02);
    soften(geom);
    const bool free_root = root && chance(0.6);
    const int njnt = free_root ? 1 : 1 + static_cast<int>(chance(0.4));
    for (int j = 0; j < njnt; j++) {
      mjsJoint* joint = mjs_addJoint(body, nullptr);
      mjs_setName(joint->element, ("j" + std::to_string(njoint++)).c_str());
      joint->type = free_root ? mjJNT_FREE
                    : j == 0  ? std::array{mjJNT_HINGE, mjJNT_SLIDE, mjJNT_BALL}[pick(3)]
                              : mjJNT_SLIDE;
      if (free_root) continue;
      set3(joint->axis, -1, 1);
      set3(joint->pos, -0.1, 0.1);
      joint->damping[0] = between(0, 0.3);
      joint->stiffness[0] = between(0, 3);
      joint->armature = between(0.005, 0.02);
      if (chance(0.3)) joint->frictionloss = 0.05;
      if (joint->type != mjJNT_BALL && chance(0.4)) {
        joint->limited = mjLIMITED_TRUE;
        joint->range[0] = 0.1, joint->range[1] = 1;
        joint->solref_limit[0] = 0.05;
        joint->solimp_limit[2] = 0.1;
      }
      if (chance(0.6)) {
        mjsActuator* actuator = mjs_addActuator(s, nullptr);
        actuator->trntype = mjTRN_JOINT;
        mjs_setString(actuator->target, ("j" + std::to_string(njoint - 1)).c_str());
        set3(actuator->gear, 0.2, 1);
        actuator->gainprm[0] = between(0.5, 2);
        if (chance(0.5)) {
          actuator->biastype = mjBIAS_AFFINE;
          actuator->biasprm[1] = -actuator->gainprm[0];
          actuator->biasprm[2] = -0.1;
        }
        if (chance(0.5)) {
          actuator->dyntype = chance(0.5) ? mjDYN_FILTEREXACT : mjDYN_INTEGRATOR;
          actuator->dynprm[0] = 0.05;
        }
      }
    }
    bodies.push_back(body);
  }
  mjModel* compiled = mj_compile(s, nullptr);
  if (!compiled) throw Error("random model " + std::to_string(seed) + ": " + mjs_getError(s));
  const std::unique_ptr<mjModel, void (*)(mjModel*)> owner(compiled, mj_deleteModel);

  Scene scene{.name = "random " + std::to_string(seed), .model = Model::from_mjmodel(compiled)};
  scene.x = default_state(scene.model);
  for (double& v : scene.x.qvel) v = between(-0.4, 0.4);
  for (double& w : scene.x.act) w = between(-0.3, 0.3);
  for (int i = 0; i < scene.model.nu(); i++) scene.ctrl.push_back(between(0.4, 0.9));
  return scene;
}

Scene random_tree(unsigned seed, const ModelOptions& options) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  const auto between = [&](double a, double b) { return a + (b - a) * unit(random); };
  const auto chance = [&](double p) { return unit(random) < p; };
  const auto pick = [&](size_t n) {
    return std::min(n - 1, static_cast<size_t>(static_cast<double>(n) * unit(random)));
  };
  const auto fill = [&](double* x, int n, double a, double b) {
    for (int i = 0; i < n; i++) x[i] = between(a, b);
  };

  const std::unique_ptr<mjSpec, void (*)(mjSpec*)> spec(mj_makeSpec(), mj_deleteSpec);
  mjSpec* s = spec.get();
  s->option.timestep = 0.004;
  s->option.integrator = std::array{mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT,
                                    mjINT_IMPLICITFAST}[static_cast<size_t>(seed % 4)];
  s->option.disableflags |= mjDSBL_CONSTRAINT;
  if (chance(0.1)) s->option.disableflags |= mjDSBL_EULERDAMP;
  if (chance(0.1)) s->option.disableflags |= mjDSBL_SPRING;
  if (chance(0.1)) s->option.disableflags |= mjDSBL_GRAVITY;
  if (chance(0.3)) {
    s->option.density = between(1, 20);
    s->option.viscosity = between(0, 0.1);
    fill(s->option.wind, 3, -1, 1);
  }

  int njoint = 0, nsite = 0;
  std::vector<std::string> scalar, ball, free, sites;
  std::vector<mjsBody*> bodies = {mjs_findBody(s, "world")};
  const int nbody = 3 + static_cast<int>(seed % 6);
  for (int i = 0; i < nbody; i++) {
    const bool root = i == 0 || chance(0.2);
    mjsBody* body = mjs_addBody(root ? bodies[0] : bodies[pick(bodies.size())], nullptr);
    fill(body->pos, 3, -0.4, 0.4);
    fill(body->quat, 4, -1, 1);
    if (chance(0.4)) body->gravcomp = between(0.2, 1.2);
    mjsGeom* geom = mjs_addGeom(body, nullptr);
    geom->type = std::array{mjGEOM_SPHERE, mjGEOM_CAPSULE, mjGEOM_BOX, mjGEOM_ELLIPSOID}[pick(4)];
    fill(geom->size, 3, 0.06, 0.14);
    fill(geom->pos, 3, -0.1, 0.1);
    fill(geom->quat, 4, -1, 1);
    if (chance(0.4)) geom->fluid_ellipsoid = 1;
    if (chance(0.7)) {
      mjsSite* site = mjs_addSite(body, nullptr);
      sites.push_back("s" + std::to_string(nsite++));
      mjs_setName(site->element, sites.back().c_str());
      fill(site->pos, 3, -0.2, 0.2);
      fill(site->quat, 4, -1, 1);
    }
    const bool free_root = root && chance(0.5);
    // now and then a body is welded to its parent
    const int njnt = free_root ? 1 : static_cast<int>(pick(i == 0 ? 2 : 4)) + (i == 0 ? 1 : 0);
    bool rotated = false;
    for (int j = 0; j < njnt; j++) {
      mjsJoint* joint = mjs_addJoint(body, nullptr);
      const std::string name = "j" + std::to_string(njoint++);
      mjs_setName(joint->element, name.c_str());
      joint->type = free_root ? mjJNT_FREE
                    : rotated ? std::array{mjJNT_HINGE, mjJNT_SLIDE}[pick(2)]
                              : std::array{mjJNT_HINGE, mjJNT_SLIDE, mjJNT_BALL}[pick(3)];
      // MuJoCo allows no other rotation beside a ball joint
      if (joint->type == mjJNT_BALL && j > 0) joint->type = mjJNT_SLIDE;
      if (rotated && joint->type == mjJNT_HINGE) joint->type = mjJNT_SLIDE;
      rotated = rotated || joint->type == mjJNT_BALL;
      (joint->type == mjJNT_FREE   ? free
       : joint->type == mjJNT_BALL ? ball
                                   : scalar)
          .push_back(name);
      fill(joint->axis, 3, -1, 1);
      if (!free_root) fill(joint->pos, 3, -0.1, 0.1);
      joint->ref = free_root || joint->type == mjJNT_BALL ? 0 : between(-0.3, 0.3);
      if (chance(0.7)) fill(joint->stiffness, 3, 0, 2);
      if (chance(0.7)) fill(joint->damping, 3, 0, 0.3);
      joint->springref = joint->type == mjJNT_HINGE || joint->type == mjJNT_SLIDE ? 0.2 : 0;
      joint->armature = between(0.005, 0.02);
      if (chance(0.2) && body->gravcomp > 0) joint->actgravcomp = 1;
      if (chance(0.3) && (joint->type == mjJNT_HINGE || joint->type == mjJNT_SLIDE)) {
        joint->actfrclimited = mjLIMITED_TRUE;
        joint->actfrcrange[1] = between(0.2, 5);
        joint->actfrcrange[0] = -joint->actfrcrange[1];
      }
    }
    bodies.push_back(body);
  }

  const int nactuator = 2 + static_cast<int>(pick(5));
  for (int i = 0; i < nactuator; i++) {
    mjsActuator* actuator = mjs_addActuator(s, nullptr);
    const auto to = [&](mjtTrn type, const std::string& target) {
      actuator->trntype = type;
      mjs_setString(actuator->target, target.c_str());
    };
    const auto joint = [&](const std::vector<std::string>& names) {
      to(chance(0.5) ? mjTRN_JOINT : mjTRN_JOINTINPARENT, names[pick(names.size())]);
    };
    const size_t kind = pick(6);
    if (kind == 0 && !ball.empty()) {
      joint(ball);
    } else if (kind == 1 && !free.empty()) {
      joint(free);
    } else if (kind == 2 && !sites.empty()) {
      to(mjTRN_SITE, sites[pick(sites.size())]);
    } else if (kind == 3 && sites.size() > 1) {
      to(mjTRN_SITE, sites[0]);
      mjs_setString(actuator->refsite, sites[1 + pick(sites.size() - 1)].c_str());
    } else if (kind == 4 && sites.size() > 1) {
      to(mjTRN_SLIDERCRANK, sites[0]);
      mjs_setString(actuator->slidersite, sites[1 + pick(sites.size() - 1)].c_str());
      actuator->cranklength = chance(0.8) ? 3 : 0.01;
    } else if (!scalar.empty()) {
      joint(scalar);
    } else {
      joint(ball.empty() ? free : ball);
    }
    fill(actuator->gear, 6, -1, 1);
    if (chance(0.2)) fill(actuator->gear, 3, 0, 0);
    actuator->gainprm[0] = between(0.5, 2);
    if (chance(0.4)) {
      actuator->gaintype = mjGAIN_AFFINE;
      fill(actuator->gainprm, 3, -0.5, 0.5);
    }
    if (chance(0.5)) {
      actuator->biastype = mjBIAS_AFFINE;
      fill(actuator->biasprm, 3, -0.5, 0.5);
    }
    if (chance(0.5)) {
      actuator->dyntype = std::array{mjDYN_FILTEREXACT, mjDYN_FILTER, mjDYN_INTEGRATOR}[pick(3)];
      actuator->dynprm[0] = 0.05;
      actuator->actearly = chance(0.5);
      if (chance(0.3)) {
        actuator->actlimited = mjLIMITED_TRUE;
        actuator->actrange[0] = 0, actuator->actrange[1] = 0.6;
      }
    }
    if (chance(0.3)) {
      actuator->forcelimited = mjLIMITED_TRUE;
      actuator->forcerange[0] = -0.3, actuator->forcerange[1] = 0.3;
    }
    if (chance(0.3)) {
      actuator->ctrllimited = mjLIMITED_TRUE;
      actuator->ctrlrange[0] = 0, actuator->ctrlrange[1] = 0.6;
    }
    if (chance(0.2) && actuator->trntype == mjTRN_JOINT) {
      actuator->damping[0] = 0.1;
      actuator->armature = 0.01;
    }
  }
  mjModel* compiled = mj_compile(s, nullptr);
  if (!compiled) throw Error("random tree " + std::to_string(seed) + ": " + mjs_getError(s));
  const std::unique_ptr<mjModel, void (*)(mjModel*)> owner(compiled, mj_deleteModel);

  Scene scene{.name = "tree " + std::to_string(seed),
              .model = Model::from_mjmodel(compiled, options)};
  Vector shift(static_cast<size_t>(scene.model.ntangent()));
  for (double& x : shift) x = between(-0.8, 0.8);
  scene.x = plus(scene.model, default_state(scene.model), shift);
  for (double& w : scene.x.act) w = between(0.1, 0.5);
  for (int i = 0; i < scene.model.nu(); i++) scene.ctrl.push_back(between(0.1, 0.9));
  return scene;
}

Scene with_options(const Scene& scene, const ModelOptions& options) {
  Scene out = scene;
  out.model = Model::from_mjmodel(scene.model.mj(), options);
  return out;
}

Scene with_noslip(const Scene& scene, int iterations) {
  mjModel* copy = mj_copyModel(nullptr, scene.model.mj());
  const std::unique_ptr<mjModel, void (*)(mjModel*)> owner(copy, mj_deleteModel);
  copy->opt.noslip_iterations = iterations;
  Scene out = scene;
  out.name += "_noslip";
  out.model = Model::from_mjmodel(copy, scene.model.options());
  return out;
}

Scene without_constraints(const Scene& scene, const ModelOptions& options) {
  mjModel* copy = mj_copyModel(nullptr, scene.model.mj());
  const std::unique_ptr<mjModel, void (*)(mjModel*)> owner(copy, mj_deleteModel);
  copy->opt.disableflags |= mjDSBL_CONSTRAINT;
  Scene out = scene;
  out.model = Model::from_mjmodel(copy, options);
  return out;
}

Scene bench_arm(const ModelOptions& options) {
  // shoulder, elbow and wrist like those of an industrial arm: axes z y z y z y z
  constexpr int kLinks = 7;
  std::string bodies, ends, servos;
  for (int i = 0; i < kLinks; i++) {
    const std::string name = "j" + std::to_string(i);
    bodies += "<body pos='0 0 " + std::string(i == 0 ? "0" : ".2") + "'><joint name='" + name +
              "' axis='" + (i % 2 == 0 ? "0 0 1" : "0 1 0") + "'/><geom fromto='0 0 0 .02 0 .18'/>";
    ends += "</body>";
    servos += "<position joint='" + name + "' kp='" + std::to_string(100 - 12 * i) + "' kv='2'/>";
  }
  const Model model = Model::from_xml(
      "<mujoco><option timestep='.002' integrator='implicitfast'/><default>"
      "<geom type='capsule' size='.05' contype='0' conaffinity='0'/><joint damping='.5' "
      "armature='.1'/>"
      "</default><worldbody>" +
          bodies + "<site name='tool' pos='0 0 .2'/>" + ends + "</worldbody><actuator>" + servos +
          "</actuator></mujoco>",
      options);
  Scene scene{.name = "arm", .model = model, .x = default_state(model)};
  for (size_t i = 0; i < kLinks; i++) {
    const double sign = i % 2 == 0 ? 1 : -1;
    scene.x.qpos[i] = 0.4 * sign + 0.05 * static_cast<double>(i);
    scene.x.qvel[i] = 0.3 * sign;
    scene.ctrl.push_back(0.5 * sign);
  }
  return scene;
}

Scene humanoid_in_air(const ModelOptions& options) {
  Scene scene = zoo("humanoid", options);
  scene.name = "humanoid_in_air";
  scene.x = load_keyframe(scene.model, scene.model.keyframe("stand")).state;
  scene.x.qpos[2] += 2;
  for (size_t i = 0; i < scene.x.qvel.size(); i++) scene.x.qvel[i] = i % 2 == 0 ? 0.1 : -0.1;
  for (size_t i = 0; i < scene.ctrl.size(); i++) scene.ctrl[i] = i % 2 == 0 ? 0.05 : -0.05;
  return scene;
}

Scene tree_50(const ModelOptions& options) {
  constexpr int kBodies = 50;
  const std::unique_ptr<mjSpec, void (*)(mjSpec*)> spec(mj_makeSpec(), mj_deleteSpec);
  mjSpec* s = spec.get();
  s->option.timestep = 0.002;
  std::vector<mjsBody*> bodies;
  for (int i = 0; i < kBodies; i++) {
    // bodies of even number carry two others
    mjsBody* body = mjs_addBody(
        i == 0 ? mjs_findBody(s, "world") : bodies[static_cast<size_t>(2 * i / 3)], nullptr);
    body->pos[0] = i % 2 == 0 ? 0.1 : -0.1;
    body->pos[2] = 0.2;
    mjsGeom* geom = mjs_addGeom(body, nullptr);
    geom->type = mjGEOM_CAPSULE;
    geom->size[0] = 0.03, geom->size[1] = 0.08;
    geom->contype = geom->conaffinity = 0;
    mjsJoint* joint = mjs_addJoint(body, nullptr);
    const std::string name = "j" + std::to_string(i);
    mjs_setName(joint->element, name.c_str());
    joint->axis[i % 3] = 1, joint->axis[2] = i % 3 == 2 ? 1 : 0;
    joint->stiffness[0] = 5;
    joint->damping[0] = 0.5;
    joint->armature = 0.01;
    mjsActuator* motor = mjs_addActuator(s, nullptr);
    motor->trntype = mjTRN_JOINT;
    mjs_setString(motor->target, name.c_str());
    bodies.push_back(body);
  }
  mjModel* compiled = mj_compile(s, nullptr);
  if (!compiled) throw Error(std::string("tree_50: ") + mjs_getError(s));
  const std::unique_ptr<mjModel, void (*)(mjModel*)> owner(compiled, mj_deleteModel);
  Scene scene{.name = "tree_50", .model = Model::from_mjmodel(compiled, options)};
  scene.x = default_state(scene.model);
  for (size_t i = 0; i < kBodies; i++) {
    scene.x.qpos[i] = i % 2 == 0 ? 0.2 : -0.1;
    scene.x.qvel[i] = i % 3 == 0 ? 0.3 : -0.2;
    scene.ctrl.push_back(i % 2 == 0 ? 0.2 : -0.2);
  }
  return scene;
}

Scene humanoid_on_floor(const ModelOptions& options) {
  Scene scene = zoo("humanoid", options);
  scene.name = "humanoid_on_floor";
  scene.x = load_keyframe(scene.model, scene.model.keyframe("fallen")).state;
  for (size_t i = 0; i < scene.ctrl.size(); i++) scene.ctrl[i] = i % 2 == 0 ? 0.2 : -0.2;
  // torques have begun to move the limbs, trunk and legs still lie
  scene.x = after(scene, 20);
  return scene;
}

Scene box_stack(const ModelOptions& options) {
  constexpr int kBoxes = 6;
  std::string bodies;
  for (int i = 0; i < kBoxes; i++) {
    bodies += "<body pos='" + std::string(i % 2 == 0 ? ".01" : "-.01") + " 0 " +
              std::to_string(0.1 + 0.2 * i) + "' euler='0 0 " + std::to_string(7 * i) +
              "'><freejoint/><geom type='box' size='.1 .1 .1' mass='1'/></body>";
  }
  const Model model = Model::from_xml(
      "<mujoco><option timestep='.002'/><default><geom solref='.02 1'/></default><worldbody>"
      "<geom type='plane' size='3 3 1'/>" +
          bodies + "</worldbody></mujoco>",
      options);
  Scene scene{.name = "box_stack", .model = model, .x = default_state(model)};
  scene.x = after(scene, 100);
  return scene;
}

Scene hand_with_object(const ModelOptions& options) {
  // fingers point up from a palm, the thumb from its other side; each spreads and bends three times
  constexpr int kFingers = 5;
  std::string fingers, servos;
  for (int i = 0; i < kFingers; i++) {
    const bool thumb = i == 0;
    const std::string name = "f" + std::to_string(i);
    const double y = thumb ? 0 : 0.022 * (i - 2.5);
    fingers += "<body pos='" + std::string(thumb ? "-.05 " : ".05 ") + std::to_string(y) +
               " .021' euler='0 0 " + (thumb ? "180" : "0") + "'>";
    const double lengths[] = {0.045, 0.03, 0.025};
    for (int k = 0; k < 3; k++) {
      const std::string joint = name + std::to_string(k), length = std::to_string(lengths[k]);
      if (k > 0) fingers += "<body pos='0 0 " + std::to_string(lengths[k - 1]) + "'>";
      if (k == 0) {
        fingers += "<joint name='" + name + "s' axis='1 0 0' range='-20 20'/>";
        servos += "<position joint='" + name + "s' kp='1'/>";
      }
      fingers += "<joint name='" + joint + "' axis='0 -1 0' range='-20 100'/><geom fromto='0 0 0 " +
                 "0 0 " + length + "'/>";
      servos += "<position joint='" + joint + "' kp='1'/>";
    }
    fingers += "</body></body></body>";
  }
  const Model model = Model::from_xml(
      "<mujoco><option timestep='.002' cone='elliptic' integrator='implicitfast'/><default>"
      "<geom friction='1 .01 .001' solref='.01 1'/><joint damping='.02' armature='.0005' "
      "limited='true'/><default class='finger'><geom type='capsule' size='.009' "
      "density='1000'/></default></default><worldbody><geom name='palm' type='box' "
      "size='.06 .05 .01'/><body childclass='finger' gravcomp='1'>" +
          fingers +
          "</body><body pos='0 0 .045'><freejoint/><geom name='object' type='box' "
          "size='.032 .035 .034' mass='.1'/></body></worldbody><actuator>" +
          servos + "</actuator></mujoco>",
      options);
  Scene scene{.name = "hand_with_object", .model = model, .x = default_state(model)};
  // close until it holds the box
  for (int i = 0; i < model.nu(); i++) scene.ctrl.push_back(i % 4 == 0 ? 0.0 : 0.5);
  scene.x = after(scene, 400);
  return scene;
}

size_t rollout_ntangent(const Scene& scene, int nstep) {
  const Model& model = scene.model;
  return static_cast<size_t>(model.ntangent() + nstep * (model.nu() + model.nv()));
}

Operation rollout_operation(const Scene& scene, int nstep) {
  const Model model = scene.model.tightened();
  const auto nv = static_cast<size_t>(model.nv()), na = static_cast<size_t>(model.na()),
             nq = static_cast<size_t>(model.nq()), n = static_cast<size_t>(model.ntangent());
  const auto rows = static_cast<size_t>(nstep) + 1;
  // differences are taken with the steps of the unperturbed rollout: their sizes are not
  // differentiated
  std::shared_ptr<const Trajectory> base;
  if (model.is_adaptive()) {
    base = std::make_shared<const Trajectory>(rollout(model, scene.input(), nstep));
    if (!base->ok()) throw Error(scene.name + ": " + base->message);
  }
  // x of the harness is z itself; the perturbation of a rotation is applied once, from scene.x
  const auto run = [=](const Vector& z) {
    const State x = plus(model, scene.x, std::span(z).first(n));
    const size_t nctrl = scene.ctrl.size() * (rows - 1);
    Vector ctrl(z.begin() + static_cast<ptrdiff_t>(n),
                z.begin() + static_cast<ptrdiff_t>(n + nctrl));
    for (size_t i = 0; i < nctrl; i++) ctrl[i] += scene.ctrl[i % scene.ctrl.size()];
    const Vector force(z.begin() + static_cast<ptrdiff_t>(n + nctrl), z.end());
    RolloutInput input = scene.input();
    input.qpos = x.qpos;
    input.qvel = x.qvel;
    input.act = x.act;
    input.ctrl = ctrl;
    input.qfrc_applied = force;
    Trajectory t = rollout(model, input, nstep, {.steps_of = base.get()});
    if (!t.ok()) throw Error(scene.name + ": " + t.message);
    return t;
  };
  const auto state = [=](const Vector& y, size_t i) {
    const auto at = y.begin() + static_cast<ptrdiff_t>(i * (nq + nv + na));
    const auto part = [&](size_t from, size_t size) {
      return Vector(at + static_cast<ptrdiff_t>(from), at + static_cast<ptrdiff_t>(from + size));
    };
    return State{.time = 0, .qpos = part(0, nq), .qvel = part(nq, nv), .act = part(nq + nv, na)};
  };
  return {
      .forward =
          [=](const Vector& z) {
            const Trajectory t = run(z);
            Vector y;
            for (size_t i = 0; i < rows; i++) {
              const auto add = [&](const Vector& from, size_t width) {
                const auto begin = from.begin() + static_cast<ptrdiff_t>(i * width);
                y.insert(y.end(), begin, begin + static_cast<ptrdiff_t>(width));
              };
              add(t.qpos, nq);
              add(t.qvel, nv);
              add(t.act, na);
            }
            return y;
          },
      .pullback =
          [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            Vector qpos, qvel, act;
            for (size_t i = 0; i < rows; i++) {
              const auto at = y_bar.begin() + static_cast<ptrdiff_t>(i * n);
              const auto add = [&](Vector& to, size_t from, size_t width) {
                to.insert(to.end(), at + static_cast<ptrdiff_t>(from),
                          at + static_cast<ptrdiff_t>(from + width));
              };
              add(qpos, 0, nv);
              add(qvel, nv, nv);
              add(act, 2 * nv, na);
            }
            const Gradient g =
                rollout_pullback(model, run(z), {.qpos_tangent = qpos, .qvel = qvel, .act = act});
            size_t i = 0;
            for (const Vector* part :
                 {&g.qpos_tangent, &g.qvel, &g.act, &g.ctrl, &g.qfrc_applied}) {
              for (double value : *part) z_bar[i++] += value;
            }
          },
      .plus = {},
      .minus =
          [=](const Vector& y, const Vector& y0) {
            Vector d(rows * n);
            for (size_t i = 0; i < rows; i++) {
              minus(model, state(y, i), state(y0, i), std::span(d).subspan(i * n, n));
            }
            return d;
          },
  };
}

}  // namespace diffmj
