// Cotangents of mjModel's fields: the analytic path against the oracle, and against differences of
// rollouts of models whose fields were moved.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>

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

void agrees_with_oracle(const Scene& scene) {
  ASSERT_EQ(scene.model.gradient_path(), GradientPath::kAnalytic);
  const Gradient analytic = gradient(scene);
  const Gradient oracle = gradient(with_options(scene, {.path = GradientPath::kOracle}));
  for (const auto& [name, expected] : oracle.params) {
    const Vector& value = analytic.params.at(name);
    double size = 1;
    for (double x : expected) size = std::max(size, std::abs(x));
    ASSERT_EQ(value.size(), expected.size());
    for (size_t i = 0; i < value.size(); i++) {
      EXPECT_NEAR(value[i], expected[i], tolerances().stage * size)
          << scene.name << ", " << name << "[" << i << "]";
    }
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
    const bool of_constraints = field.id >= kFirstOfConstraints && field.id <= kLastOfConstraints;
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
// two geoms have the same friction, at which the larger one would switch
TEST(AnalyticParameters, ConstraintsAgreeWithDifferences) {
  for (const std::string cone : {"pyramidal", "elliptic"}) {
    const Model model = Model::from_xml("<mujoco><option timestep='.004' cone='" + cone + R"('/>
      <default><geom solref='.05 .9' solimp='.5 .9 .05 .4 2.5'/></default>
      <worldbody>
        <geom name='floor' type='plane' size='5 5 1' friction='.4 .003 .0003'/>
        <body pos='0 0 .095'><freejoint/>
          <geom type='box' size='.1 .12 .1' pos='.01 0 0' euler='0 2 1' friction='.7 .02 .001' solmix='2'/></body>
        <body pos='1 0 .045'><freejoint/>
          <geom type='sphere' size='.05' friction='.8 .01 .002' condim='6'/></body>
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
    for (const ParameterField& field : fields_of(true)) {
      const size_t n = count(scene, {field});
      EXPECT_TRUE(
          check_pullback(field_operation(scene, {field}), Vector(n), n,
                         {.tolerance = 1e-5, .smallest = 1e-3, .step = 1e-4, .directions = 2}))
          << cone << ", " << field.name;
    }
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
