// Cotangents of mjModel's fields: the analytic path against the oracle, and against differences of
// rollouts of models whose fields were moved.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>
#include <map>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "model/parameters.h"

namespace diffmj {
namespace {

constexpr int kSteps = 2;

Vector wave(size_t n, double offset) {
  Vector x(n);
  for (size_t i = 0; i < n; i++) x[i] = std::sin(offset + 1.7 * static_cast<double>(i));
  return x;
}

Gradient gradient(const Scene& scene) {
  const auto rows = static_cast<size_t>(kSteps + 1);
  const auto nv = static_cast<size_t>(scene.model.nv()), na = static_cast<size_t>(scene.model.na()),
             nbody = static_cast<size_t>(scene.model.nbody()),
             nsite = static_cast<size_t>(scene.model.nsite());
  const Trajectory t = rollout(scene.model, scene.input(), kSteps);
  const Vector qpos = wave(rows * nv, 0.1), qvel = wave(rows * nv, 0.7), act = wave(rows * na, 1.3),
               xpos = wave(rows * 3 * nbody, 0.2), xquat = wave(rows * 4 * nbody, 0.3),
               site = wave(rows * 3 * nsite, 0.4), com = wave(rows * 3 * nbody, 0.5);
  return rollout_pullback(scene.model, t,
                          {.qpos_tangent = qpos,
                           .qvel = qvel,
                           .act = act,
                           .xpos = xpos,
                           .xquat = xquat,
                           .site_xpos = site,
                           .subtree_com = com,
                           .params = parameter_names()});
}

void agree(const std::string& what, const Vector& value, const Vector& expected) {
  double size = 1;
  for (double x : expected) size = std::max(size, std::abs(x));
  ASSERT_EQ(value.size(), expected.size());
  for (size_t i = 0; i < value.size(); i++) {
    EXPECT_NEAR(value[i], expected[i], tolerances().stage * size) << what << "[" << i << "]";
  }
}

void agrees_with_oracle(const Scene& scene) {
  ASSERT_EQ(scene.model.gradient_path(), GradientPath::kAnalytic);
  const Gradient analytic = gradient(scene);
  const Gradient oracle = gradient(with_options(scene, {.gradient_path = GradientPath::kOracle}));
  for (const auto& [name, expected] : oracle.params) {
    agree(scene.name + ", " + name, analytic.params.at(name), expected);
  }
}

TEST(AnalyticParameters, TreesAgreeWithOracle) {
  for (unsigned seed = 1; seed <= 60; seed++) agrees_with_oracle(random_tree(seed));
}

TEST(AnalyticParameters, ZooAgreesWithOracle) {
  for (const char* name :
       {"joints_order", "joints_ball", "springs_poly", "act_basic", "act_general", "fluid_box",
        "fluid_ellipsoid", "spin_free", "humanoid"}) {
    const Scene scene = without_constraints(zoo(name));
    if (scene.model.gradient_path() == GradientPath::kAnalytic) agrees_with_oracle(scene);
  }
}

std::vector<ParameterField> fields_of(bool constraints) {
  std::vector<ParameterField> out;
  for (const ParameterField& field : parameter_fields()) {
    const bool of_constraints =
        (field.id >= Parameter::kGeomSize && field.id <= Parameter::kDofInvweight0) ||
        field.id == Parameter::kTendonRange;
    if (of_constraints == constraints) out.push_back(field);
  }
  return out;
}

size_t count(const Scene& scene, const std::vector<ParameterField>& fields) {
  size_t n = 0;
  for (const ParameterField& field : fields) n += static_cast<size_t>(field.size(scene.model.mj()));
  return n;
}

// the fields at once; the rollout of the moved model is what is differenced
Operation field_operation(const Scene& scene, const std::vector<ParameterField>& fields) {
  const Model model = scene.model.tightened();
  const auto moved = [=](const Vector& z) {
    const MjModelPtr copy = movable_copy(model.mj());
    size_t k = 0;
    for (const ParameterField& field : fields) {
      mjtNum* data = field.data(copy.get());
      const int n = field.size(copy.get());
      for (int i = 0; i < n; i++, k++) {
        // friction loss that is 0 is a row that is not there
        if (field.id == Parameter::kDofFrictionloss && data[i] == 0) continue;
        data[i] += z[k];
      }
      const bool unit = field.kind == ParameterKind::kUnit;
      for (int i = 0; i < n && unit; i += field.width) mju_normalize(data + i, field.width);
    }
    for (int j = 0; j < static_cast<int>(copy->njnt); j++) {
      if (copy->jnt_type[j] > mjJNT_BALL) continue;
      mju_normalize4(copy->qpos_spring + copy->jnt_qposadr[j] +
                     (copy->jnt_type[j] == mjJNT_FREE ? 3 : 0));
    }
    // masses of subtrees
    for (int b = 0; b < static_cast<int>(copy->nbody); b++) {
      copy->body_subtreemass[b] = copy->body_mass[b];
    }
    for (int b = static_cast<int>(copy->nbody) - 1; b > 0; b--) {
      copy->body_subtreemass[copy->body_parentid[b]] += copy->body_subtreemass[b];
    }
    return Model::from_mjmodel(copy.get());
  };
  const auto nv = static_cast<size_t>(model.nv());
  return {
      .forward =
          [=](const Vector& z) {
            const Trajectory t = rollout(moved(z), scene.input(), kSteps);
            return Vector(t.qvel.end() - static_cast<ptrdiff_t>(nv), t.qvel.end());
          },
      .pullback =
          [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            const Model at = moved(z);
            const Trajectory t = rollout(at, scene.input(), kSteps);
            Vector qvel((kSteps + 1) * nv);
            std::copy(y_bar.begin(), y_bar.end(), qvel.end() - static_cast<ptrdiff_t>(nv));
            std::vector<std::string> names;
            for (const ParameterField& field : fields) names.emplace_back(field.name);
            const Gradient g = rollout_pullback(at, t, {.qvel = qvel, .params = names});
            size_t k = 0;
            for (const ParameterField& field : fields) {
              for (double x : g.params.at(field.name)) z_bar[k++] += x;
            }
          },
  };
}

TEST(AnalyticParameters, TreesAgreeWithDifferences) {
  for (unsigned seed = 1; seed <= 60; seed++) {
    const Scene scene = random_tree(seed);
    const auto fields = fields_of(false);
    const size_t n = count(scene, fields);
    EXPECT_TRUE(check_pullback(
        field_operation(scene, fields), Vector(n), n,
        {.tolerance = tolerances().stage, .smallest = 1e-3, .step = 1e-4, .directions = 2}))
        << scene.name;
  }
}

// contacts (of geoms and of a pair), limits, friction loss and equalities, all of them active; no
// two geoms have the same friction, at which the larger one would switch; no body has a diagonal M,
// which would be a constant
TEST(AnalyticParameters, ConstraintsAgreeWithDifferences) {
  for (const std::string cone : {"pyramidal", "elliptic", "pyramidal' noslip_iterations='3",
                                 "elliptic' noslip_iterations='3"}) {
    const Model model = Model::from_xml("<mujoco><option timestep='.004' cone='" + cone + R"('/>
      <default><geom solref='.05 .9' solimp='.5 .9 .05 .4 2.5'/></default>
      <worldbody>
        <geom name='floor' type='plane' size='5 5 1' friction='.4 .003 .0003'/>
        <body pos='0 0 .095'><freejoint/>
          <geom type='box' size='.1 .12 .1' pos='.01 0 0' euler='0 2 1' friction='.7 .02 .001' solmix='2'/></body>
        <body pos='1 0 .04'><freejoint/>
          <geom type='sphere' size='.05' pos='.01 0 .005' friction='.8 .01 .002' condim='6'/></body>
        <body pos='2 0 .045'><freejoint/>
          <geom name='bar' type='capsule' size='.05 .2' euler='88 0 10' friction='.9 .01 .002'/></body>
        <body pos='3 0 1'>
          <joint name='a' axis='0 1 0' range='0 57' limited='true' solreflimit='.06 1' solimplimit='.5 .9 .1'
            frictionloss='.3' damping='.1'/>
          <geom type='capsule' size='.03 .2' pos='.2 0 0' contype='0' conaffinity='0'/>
          <body pos='.4 0 0'><joint name='b' axis='0 1 0' damping='.1'/>
            <geom size='.05' pos='.1 0 .03' contype='0' conaffinity='0'/></body></body>
      </worldbody>
      <contact><pair geom1='floor' geom2='bar' condim='4' friction='.5 .6 .01 .001 .001' solref='.04 1'
        solimp='.4 .8 .03'/></contact>
      <equality><joint joint1='b' joint2='a' polycoef='.05 .4 .1 0 0' solref='.08 1' solimp='.4 .9 .2'/></equality>
      </mujoco>)");
    Scene scene{.name = cone, .model = model, .x = default_state(model)};
    scene.x.qpos[21] = -0.03;
    for (size_t i = 0; i < scene.x.qvel.size(); i++) {
      scene.x.qvel[i] = 0.05 * std::sin(1 + static_cast<double>(i));
    }
    const Trajectory t = rollout(model, scene.input(), kSteps);
    ASSERT_GE(t.steps[0].nefc, 14);
    ASSERT_EQ(model.gradient_path(), GradientPath::kAnalytic);
    std::vector<ParameterField> fields = fields_of(true);
    if (model.mj()->opt.noslip_iterations > 0) {
      // inertia acts through J M⁻¹ Jᵀ, too
      for (const ParameterField& field : fields_of(false)) fields.push_back(field);
    }
    for (const ParameterField& field : fields) {
      const size_t n = count(scene, {field});
      EXPECT_TRUE(
          check_pullback(field_operation(scene, {field}), Vector(n), n,
                         {.tolerance = 1e-5, .smallest = 1e-3, .step = 1e-4, .directions = 2}))
          << cone << ", " << field.name;
    }
  }
}

// What mixing depends on: priority, solmix, formats of solref, the larger friction; a pair twice,
// one with its own solref of friction; solref that refsafe lifts. least: a coefficient of friction.
// No sphere is at the midpoint of its impedance, where the oracle's differences meet a corner of
// the slope; all are away from the origin of their body, which otherwise has a diagonal M, a
// constant that the oracle does not move within the exact diagonal.
std::string mixing_scene(const std::string& cone, int condim, const std::string& least) {
  const std::string dim = "condim='" + std::to_string(condim) + "'";
  return "<mujoco><option timestep='.004' impratio='3' cone='" + cone + R"('/>
    <default><geom solref='.05 .9' solimp='.5 .9 .05 .4 2.5' )" +
         dim + R"(/></default>
    <worldbody>
      <geom name='floor' type='plane' size='9 9 1' friction='.4 .013 .0123' solmix='.5' margin='.001'/>
      <body pos='0 0 .065'><freejoint/>
        <geom type='sphere' size='.1' pos='.02 .01 .03' friction='.7 .02 .01' solmix='2' solimp='.6 .95 .03 .6 1.5' margin='.002'/></body>
      <body pos='1 0 .0643'><freejoint/>
        <geom type='sphere' size='.1' pos='.02 .01 .03' friction='.3 .02 .01' solref='-400 -30' solimp='.4 .8 .02 .1 2'/></body>
      <body pos='2 0 .065'><freejoint/>
        <geom type='sphere' size='.1' pos='.02 .01 .03' friction='.3 .01 .02' priority='1' solref='-300 -20' solimp='.7 .7 .1'/></body>
      <body pos='3 0 .065'><freejoint/>
        <geom type='sphere' size='.1' pos='.02 .01 .03' friction='.5 )" +
         least + R"( .002' priority='1' solref='.003 1' solimp='.9 .95 .001'/></body>
      <body pos='4 0 .065'><freejoint/>
        <geom type='sphere' size='.1' pos='.02 .01 .03' friction='.9 .015 .0125' priority='-1' solmix='0'/></body>
      <body pos='5 0 .067'><freejoint/>
        <geom name='twice' type='sphere' size='.1' pos='.02 .01 .03'/></body>
      <body pos='6 0 .065'><freejoint/>
        <geom name='own' type='sphere' size='.1' pos='.02 .01 .03'/></body>
      <body pos='7 0 .045'><freejoint/>
        <geom name='bar' type='capsule' size='.05 .2' euler='88 0 10' friction='.9 .01 .002' solmix='0'/></body>
    </worldbody>
    <contact>
      <pair geom1='floor' geom2='twice' friction='.5 .6 .01 .02 .03' solref='.04 1' solimp='.4 .8 .03' )" +
         dim + R"(/>
      <pair geom1='floor' geom2='twice' friction='.5 .4 .02 .01 .04' solref='.04 1' solimp='.3 .9 .04' )" +
         dim + R"(/>
      <pair geom1='own' geom2='floor' friction='.4 .3 .02 .02 .02' solref='-500 -15' solreffriction='.1 1'
        solimp='.4 .8 .01' margin='.001' )" +
         dim + R"(/>
    </contact></mujoco>)";
}

// Limits of hinges, balls and a tendon, friction loss that holds and slips, every equality of
// joints and bodies.
const char* kJointScene = R"(<mujoco><option timestep='.004'/>
  <default><geom contype='0' conaffinity='0'/></default>
  <worldbody>
    <site name='world' pos='0 .4 .9'/>
    <body pos='0 0 1'>
      <joint name='a' axis='0 1 0' range='2 57' limited='true' solreflimit='.06 1' solimplimit='.5 .9 .1'
        frictionloss='.3' damping='.1'/>
      <geom type='capsule' size='.03 .2' pos='.2 0 0'/>
      <body pos='.4 0 0'><joint name='b' axis='0 1 .2' damping='.1' frictionloss='30' range='-40 -3'
          limited='true' solreflimit='-200 -9' solimplimit='.3 .8 .2 .2 3'/>
        <geom size='.05' pos='.1 0 .03'/>
        <site name='hand' pos='.1 .02 0'/></body></body>
    <body name='ball' pos='1 0 1'><joint name='c' type='ball' range='0 20' limited='true'/>
      <geom type='capsule' size='.03 .2' pos='.2 0 0'/></body>
    <body name='free' pos='2 0 1'><freejoint/><geom type='box' size='.1 .12 .1' pos='.01 0 0'/></body>
    <body name='other' pos='2.5 0 1'><freejoint/><geom type='box' size='.08 .12 .1' pos='.01 0 0'/></body>
    <body name='third' pos='3 0 1'><freejoint/><geom type='box' size='.08 .12 .1' pos='.01 0 0'/><site name='s' euler='10 20 30'/></body>
    <body name='fourth' pos='3.5 0 1'><freejoint/><geom type='box' size='.08 .12 .1' pos='.01 0 0'/><site name='t' pos='.1 0 0'/></body>
    <body pos='0 1 1'><joint name='d' type='slide' axis='1 0 1'/><geom size='.05'/></body>
  </worldbody>
  <tendon>
    <fixed limited='true' range='.3 2' solreflimit='.07 1' solimplimit='.4 .9 .6'>
      <joint joint='a' coef='1.5'/><joint joint='d' coef='.7'/></fixed>
  </tendon>
  <equality>
    <joint joint1='b' joint2='a' polycoef='.05 .4 .1 .2 .3' solref='.08 1' solimp='.4 .9 .2'/>
    <joint joint1='d' polycoef='.05 0 0 0 0' solref='-80 -9' solimp='.4 .9 .2'/>
    <connect body1='free' body2='ball' anchor='-.3 .1 .1' solref='.1 .8' solimp='.4 .9 .3 .3 1.5'/>
    <connect site1='hand' site2='world' solref='.1 .8' solimp='.4 .9 .9 .3 1.5'/>
    <weld body1='free' body2='other' relpose='.5 .1 .02 1 .1 .2 .3' anchor='.1 0 .05' torquescale='1.7'
      solref='.2 .8' solimp='.4 .9 .6 .3 2.5'/>
    <weld site1='s' site2='t' torquescale='.6' solref='.2 .8' solimp='.4 .9 .9 .3 2.5'/>
  </equality></mujoco>)";

Scene moving(const std::string& name, const std::string& xml, const ModelOptions& options = {}) {
  const Model model = Model::from_xml(xml, options);
  Scene scene{.name = name, .model = model, .x = default_state(model)};
  for (size_t i = 0; i < scene.x.qvel.size(); i++) {
    scene.x.qvel[i] = 0.3 * std::sin(1 + static_cast<double>(i));
  }
  return scene;
}

Scene moving_joints(const ModelOptions& options = {}) {
  Scene scene = moving("joints", kJointScene, options);
  Vector shift(static_cast<size_t>(scene.model.ntangent()));
  for (size_t i = 0; i < static_cast<size_t>(scene.model.nv()); i++) {
    shift[i] = 0.05 * std::cos(1.3 * static_cast<double>(i));
  }
  shift[2] += 0.4;
  scene.x = plus(scene.model, scene.x, shift);
  return scene;
}

// R made of J M⁻¹ Jᵀ
Scene with_exact_diagonal(Scene scene) {
  const MjModelPtr copy = movable_copy(scene.model.mj());
  copy->opt.enableflags |= mjENBL_DIAGEXACT;
  scene.name += ", diagexact";
  scene.model = Model::from_mjmodel(copy.get());
  return scene;
}

std::vector<Scene> constraint_scenes(const std::string& least) {
  std::vector<Scene> scenes = {moving_joints(), moving_joints({.integrator = Integrator::kRk4}),
                               moving_joints({.integrator = Integrator::kImplicitFast})};
  for (const std::string cone : {"pyramidal", "elliptic"}) {
    for (const int condim : {1, 3, 4, 6}) {
      scenes.push_back(moving(cone + std::to_string(condim), mixing_scene(cone, condim, least)));
    }
  }
  for (size_t i = scenes.size(); i-- > 0;) scenes.push_back(with_exact_diagonal(scenes[i]));
  return scenes;
}

// friction of 0 is below the least that MuJoCo uses
TEST(AnalyticParameters, ConstraintsAgreeWithOracle) {
  std::map<std::string, int> entries;
  for (const Scene& scene : constraint_scenes("0")) {
    agrees_with_oracle(scene);
    for (const auto& [name, bar] : gradient(scene).params) {
      for (const double x : bar) entries[name] += x != 0;
    }
  }
  for (const ParameterField& field : fields_of(true)) {
    EXPECT_GE(entries[field.name], 3) << field.name;
  }
}

// a loss on forces: rows of J λ and of f differ in what they hand on
TEST(AnalyticParameters, ConstraintForcesAgreeWithOracle) {
  for (Scene scene : constraint_scenes(".004")) {
    if (scene.model.mj()->opt.integrator == mjINT_RK4) continue;
    const auto run = [&](GradientPath path) {
      const Model model = with_options(scene, {.gradient_path = path}).model;
      const Trajectory t = rollout(model, scene.input(), kSteps);
      std::vector<Vector> bar;
      for (const StepRecord& step : t.steps) bar.push_back(wave(static_cast<size_t>(step.nefc), 1));
      return rollout_pullback(model, t, {.efc_force = bar, .params = parameter_names()});
    };
    const Gradient analytic = run(GradientPath::kAnalytic), oracle = run(GradientPath::kOracle);
    for (const ParameterField& field : fields_of(true)) {
      agree(scene.name + ", " + field.name, analytic.params.at(field.name),
            oracle.params.at(field.name));
    }
  }
}

TEST(AnalyticParameters, ConstraintsOfTheZooAgreeWithOracle) {
  int tested = 0;
  for (const std::string& name : zoo_names()) {
    const Scene scene = zoo(name);
    if (scene.model.gradient_path() != GradientPath::kAnalytic) continue;
    tested++;
    const Gradient analytic = gradient(scene),
                   oracle = gradient(with_options(scene, {.gradient_path = GradientPath::kOracle}));
    for (const ParameterField& field : fields_of(true)) {
      // MuJoCo finds more contacts of a mesh with a box as soon as one has a margin: a kink at 0
      if (name == "contact_mesh" && field.id == Parameter::kGeomMargin) continue;
      agree(name + ", " + field.name, analytic.params.at(field.name), oracle.params.at(field.name));
    }
  }
  EXPECT_GE(tested, 15);
}

TEST(AnalyticParameters, MixingAgreesWithDifferences) {
  for (const Scene& scene : constraint_scenes(".004")) {
    for (const ParameterField& field : fields_of(true)) {
      const size_t n = count(scene, {field});
      if (n == 0) continue;
      EXPECT_TRUE(
          check_pullback(field_operation(scene, {field}), Vector(n), n,
                         {.tolerance = 1e-5, .smallest = 1e-3, .step = 1e-5, .directions = 2}))
          << scene.name << ", " << field.name;
    }
  }
}

// sizes and frames of geoms in contact with each other; one of them also turns a tendon
TEST(AnalyticParameters, GeomsInContactAgreeWithDifferences) {
  const Model model = Model::from_xml(R"(<mujoco><option timestep='.004'/>
      <default><geom solref='.05 .9' solimp='.5 .9 .05 .4 2.5'/></default>
      <worldbody>
        <geom type='plane' size='5 5 1' euler='1 2 0'/>
        <body pos='0 0 .098'><freejoint/>
          <geom type='box' size='.1 .12 .1' pos='.01 0 0' euler='1 2 3'/></body>
        <body pos='.02 .01 .277'><freejoint/>
          <geom type='box' size='.11 .1 .08' pos='0 .01 0' euler='2 1 30'/></body>
        <body pos='0 0 .408' euler='88 0 20'><freejoint/>
          <geom type='capsule' size='.05 .08' pos='.01 0 0' euler='0 3 1'/></body>
        <body pos='1 0 .07' euler='87 0 10'><freejoint/><geom type='cylinder' size='.07 .1'/></body>
        <body pos='2 0 .093'><freejoint/><geom type='ellipsoid' size='.1 .12 .09' euler='10 20 30'/></body>
        <body pos='2.02 .01 .23'><freejoint/><geom size='.05' pos='0 .001 0'/></body>
        <site name='left' pos='2.9 -.4 .2'/><site name='right' pos='2.9 .4 .2'/>
        <body pos='3 0 .18' euler='90 0 0'><freejoint/>
          <geom name='drum' type='cylinder' size='.17 .2' pos='.01 0 0'/><site name='side' pos='.3 0 0'/></body>
      </worldbody>
      <tendon><spatial stiffness='30'><site site='left'/><geom geom='drum' sidesite='side'/>
        <site site='right'/></spatial></tendon></mujoco>)");
  Scene scene{.name = "geoms in contact", .model = model, .x = default_state(model)};
  for (size_t i = 0; i < scene.x.qvel.size(); i++) {
    scene.x.qvel[i] = 0.05 * std::sin(1 + static_cast<double>(i));
  }
  const Trajectory t = rollout(model, scene.input(), kSteps);
  ASSERT_GE(t.steps[0].ncon, 11);
  ASSERT_EQ(model.gradient_path(), GradientPath::kAnalytic) << model.gradient_path_reason();
  for (const char* name : {"geom_size", "geom_pos", "geom_quat"}) {
    const ParameterField& field = parameter_field(name);
    const size_t n = count(scene, {field});
    EXPECT_TRUE(
        check_pullback(field_operation(scene, {field}), Vector(n), n,
                       {.tolerance = 1e-5, .smallest = 1e-3, .step = 1e-4, .directions = 4}))
        << name;
  }
}

// a falling body: z' = z + h (v + h g), so that dz'/dg = h²
TEST(AnalyticParameters, Gravity) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><body><freejoint/><geom size='0.1'/></body></worldbody></mujoco>");
  const Trajectory t = rollout(model, {}, 1);
  Vector bar(2 * 6);
  bar[6 + 2] = 1;
  const Gradient g =
      rollout_pullback(model, t, {.qpos_tangent = bar, .params = {"opt.gravity", "body_mass"}});
  const double h = model.timestep();
  EXPECT_NEAR(g.params.at("opt.gravity")[2], h * h, 1e-15);
  EXPECT_NEAR(g.params.at("opt.gravity")[0], 0, 1e-15);
  EXPECT_NEAR(g.params.at("body_mass")[1], 0, 1e-15);
}

TEST(AnalyticParameters, RefusesUnknownNames) {
  const Model model = zoo("joints_order").model;
  const Trajectory t = rollout(model, {}, 1);
  const Vector bar(2 * static_cast<size_t>(model.nv()));
  EXPECT_THROW((void)rollout_pullback(model, t, {.qvel = bar, .params = {"body_weight"}}),
               InputError);
}

}  // namespace
}  // namespace diffmj
