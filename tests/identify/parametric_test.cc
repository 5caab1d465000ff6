// Gradients in attributes of an MJCF against differences of recompiled rollouts.
// label: smoke
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>
#include <map>
#include <memory>

#include "diffmj/identify.h"
#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

constexpr int kSteps = 5;

// positions and velocities of a rollout as a function of attributes
Operation attribute_operation(const ParametricModel& family, const Scene& scene) {
  const auto run = [=](const Model& model) { return rollout(model, scene.input(), kSteps); };
  const auto moved = [=](const Vector& z) {
    Vector theta = family.start();
    // relative to their size
    for (size_t i = 0; i < theta.size(); i++) theta[i] += z[i] * std::max(0.1, std::abs(theta[i]));
    return theta;
  };
  return {
      .forward =
          [=](const Vector& z) {
            const Trajectory t = run(family.at(moved(z)).tightened());
            Vector y = t.qpos;
            y.insert(y.end(), t.qvel.begin(), t.qvel.end());
            return y;
          },
      .pullback =
          [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            const Vector theta = moved(z);
            const ParametricModel::Jacobian jacobian = family.jacobian(theta, 1);
            const Model model = family.at(theta).tightened();
            const Trajectory t = run(model);
            const std::span bars(y_bar);
            const Gradient g = rollout_pullback(model, t,
                                                {.qpos = bars.first(t.qpos.size()),
                                                 .qvel = bars.subspan(t.qpos.size()),
                                                 .params = jacobian.fields()});
            const Vector bar = jacobian.pullback(g);
            for (size_t i = 0; i < bar.size(); i++) {
              z_bar[i] += bar[i] * std::max(0.1, std::abs(family.start()[i]));
            }
          },
  };
}

// the gradient in every attribute, one at a time, so that none hides behind another
void check_each(const ParametricModel& family, const Scene& scene) {
  const Operation all = attribute_operation(family, scene);
  const auto n = static_cast<size_t>(family.size());
  for (size_t i = 0; i < n; i++) {
    const auto whole = [=](const Vector& z) {
      Vector out(n);
      out[i] = z[0];
      return out;
    };
    const Operation one{
        .forward = [=](const Vector& z) { return all.forward(whole(z)); },
        .pullback =
            [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
              Vector bar(n);
              all.pullback(whole(z), y_bar, bar);
              z_bar[0] += bar[i];
            },
    };
    EXPECT_TRUE(check_pullback(
        one, Vector(1), 1,
        {.tolerance = tolerances().trajectory, .smallest = 1e-5, .step = 1e-3, .directions = 1}))
        << family.names()[i];
  }
}

// dL/dθ of a loss whose gradient in every entry of every field is known
Vector pulled_back(const ParametricModel& family, const ParametricModel::Jacobian& jacobian) {
  const Model model = family.at(family.start());
  Gradient gradient;
  for (const std::string& field : jacobian.fields()) {
    const auto [rows, width] = parameter_shape(model, field);
    for (int i = 0; i < rows * width; i++) gradient.params[field].push_back(std::sin(1.0 + i));
  }
  return jacobian.pullback(gradient);
}

void expect_near(const Vector& a, const Vector& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); i++) {
    EXPECT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << i;
  }
}

// numbers that are affine in θ have the slopes that they have at the start: two models tell
TEST(Jacobian, IsPredictedWhereNumbersAreAffine) {
  const Model base = zoo("humanoid").model;
  int built = 0;
  bool affine = true;
  const BuildModel build = [&](std::span<const double> theta) {
    built++;
    mjModel* m = mj_copyModel(nullptr, base.mj());
    m->dof_armature[7] = theta[0];
    m->dof_damping[8] = affine ? theta[1] : std::exp(theta[1]);
    m->body_mass[1] = theta[2];
    m->body_inertia[9] = 1e-9 * theta[3];  // small beside those of other bodies
    const std::unique_ptr<mjData, void (*)(mjData*)> d(mj_makeData(m), mj_deleteData);
    mj_setConst(m, d.get());
    return m;
  };
  const Vector start = {0.02, 1.0, 3.0, 2.0}, theta = {0.03, 1.5, 2.0, 2.5};
  for (const bool is_affine : {true, false}) {
    affine = is_affine;
    const ParametricModel far(build, start), near(build, theta);
    const Vector expected = pulled_back(near, near.jacobian(theta, 1));
    (void)far.jacobian(start, 1);
    built = 0;
    const ParametricModel::Jacobian jacobian = far.jacobian(theta, 1);
    EXPECT_EQ(built, affine ? 2 : 2 + 4 * 4);
    // differences of inverse weights: rounding of 1e-13 over a step of 1e-6, of numbers up to 20
    expect_near(pulled_back(far, jacobian), expected, 1e-5);
    const Vector again = pulled_back(far, far.jacobian(theta, 2));
    EXPECT_EQ(again, pulled_back(far, jacobian));
  }
}

// where a number cannot be moved to both sides, one is taken
TEST(Jacobian, AtTheEdgeOfWhatCompiles) {
  const std::string xml = R"(<mujoco><worldbody><body><joint name="a" axis="0 1 0"/>
    <geom type="box" size="0.1 0.2 0.3" pos="0.2 0 0" mass="1"/>
    <geom name="ball" size="0.1" mass="0"/></body>
    </worldbody></mujoco>)";
  const std::vector<std::string> names = {"ball/mass"};
  const ParametricModel family = ParametricModel::from_attributes(xml, names);
  const Vector below = {-1e-9}, above = {0.1};
  ASSERT_THROW((void)family.at(below), MujocoError);
  const Vector at_edge = pulled_back(family, family.jacobian(family.start()));
  const Vector moved = {1e-6};
  expect_near(at_edge, pulled_back(family, family.jacobian(moved)), 1e-4);
  EXPECT_NO_THROW((void)family.jacobian(above));
}

struct Case {
  std::string scene;
  std::vector<std::string> attributes;
};

class Attributes : public ::testing::TestWithParam<Case> {};

TEST_P(Attributes, GradientMatchesDifferences) {
  check_each(ParametricModel::from_attributes(testdata("zoo/" + GetParam().scene + ".xml"),
                                              GetParam().attributes),
             zoo(GetParam().scene));
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, Attributes,
    ::testing::Values(
        Case{"sensors",
             {"elbow/damping", "elbow/stiffness", "elbow/springref", "joint:hip/armature",
              "upper/mass", "palm/size[0]", "default.geom/solref[0]"}},
        Case{"limits", {"a/damping", "default.geom/density"}},
        Case{"joints_order", {"default.geom/density"}},
        Case{"joints_ball", {"arm_ball/stiffness[0]", "arm_ball/armature", "body:arm/pos"}},
        Case{"act_basic", {"j1/damping", "p_kv/gainprm[0]", "p_kv/biasprm"}},
        Case{"act_muscle", {"m_up/gainprm[0]", "sh/damping", "s1/pos"}},
        Case{"tendon_fixed", {"above/stiffness[0]", "joint:a/damping"}},
        Case{"tendon_wrap", {"cyl/stiffness[0]", "w1/pos"}},
        Case{"eq_connect", {"option/gravity[2]", "j1/damping", "body:crank/pos"}},
        Case{"springs_poly", {"joint:a/stiffness[0]", "joint:a/damping[0]", "joint:a/armature"}},
        Case{"hand", {"index_mcp/damping", "actuator:index_flex/gainprm[2]"}},
        Case{"spin_free", {"option/gravity[0]"}}, Case{"contact_plane", {"option/gravity[1]"}}),
    [](const auto& info) { return info.param.scene; });

// a box on a floor: everything that contacts are made of, and what the compiler derives
constexpr const char* kBox = R"(<mujoco>
  <option timestep="0.004"/>
  <default><geom solref="0.03 1.1" solimp="0.8 0.93 0.05 0.4 2"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1" friction="0.2 0.005 0.0001"/>
    <body name="cube" pos="0 0 0.09">
      <freejoint/>
      <geom name="cube" type="box" size="0.1 0.09 0.11" friction="0.4 0.01 0.001" condim="4"/>
      <body name="arm" pos="0.1 0 0.1" quat="1 0.1 0 0.2">
        <joint name="hinge" axis="0 1 0.3" damping="0.1" stiffness="2" springref="20" armature="0.01" frictionloss="0.02"/>
        <geom name="arm" type="capsule" size="0.02 0.1" pos="0.1 0 0" euler="0 80 0" density="800"/>
        <site name="tip" pos="0.2 0 0"/>
      </body>
    </body>
  </worldbody>
  <tendon><spatial name="string" stiffness="30" damping="0.5"><site site="tip"/><site site="tip2"/></spatial></tendon>
  <actuator>
    <general name="motor" joint="hinge" gainprm="2" biastype="affine" biasprm="0 -1 -0.1" gear="1.5"/>
    <muscle name="muscle" joint="hinge" lengthrange="-1 1.2" force="5"/>
  </actuator>
</mujoco>)";

std::string box() {
  std::string xml = kBox;
  const std::string at = "<geom name=\"floor\"";
  xml.insert(xml.find(at), "<site name=\"tip2\" pos=\"0.5 0.2 0.4\"/>");
  return xml;
}

Scene box_scene() {
  Scene scene{.name = "box", .model = Model::from_xml(box())};
  scene.x = default_state(scene.model);
  scene.x.qpos[2] = 0.095;
  scene.x.qpos[3] = 0.99;
  scene.x.qpos[4] = 0.08;
  scene.x.qpos[5] = -0.05;
  scene.x.qvel = {0.3, 0.2, -0.3, 0.4, -0.2, 0.1, 0.5};
  scene.x.act = {0.4};
  scene.ctrl = {0.2, 0.6};
  return scene;
}

TEST(Attributes, OfABoxOnAFloor) {
  const Scene scene = box_scene();
  const std::vector<std::string> attributes = {"geom:cube/size[0]",
                                               "geom:cube/size[1]",
                                               "geom:cube/size[2]",
                                               "geom:cube/friction[0]",
                                               "geom:cube/friction[1]",
                                               "default.geom/solref[0]",
                                               "default.geom/solref[1]",
                                               "default.geom/solimp[0]",
                                               "default.geom/solimp[1]",
                                               "default.geom/solimp[2]",
                                               "hinge/damping[0]",
                                               "hinge/stiffness[0]",
                                               "hinge/springref",
                                               "hinge/armature",
                                               "hinge/axis[2]",
                                               "body:arm/pos[0]",
                                               "body:arm/pos[2]",
                                               "body:arm/quat[1]",
                                               "geom:arm/density",
                                               "geom:arm/size[0]",
                                               "geom:arm/pos[0]",
                                               "tip/pos[0]",
                                               "tip2/pos[1]",
                                               "string/stiffness[0]",
                                               "string/damping[0]",
                                               "motor/gainprm[0]",
                                               "motor/biasprm[1]",
                                               "motor/gear[0]",
                                               "muscle/gainprm[2]",
                                               "option/gravity[2]"};
  const ParametricModel family = ParametricModel::from_attributes(box(), attributes);
  ASSERT_EQ(family.size(), 30);
  check_each(family, scene);
}

// variants have the bits of models that are made anew
TEST(Variants, HaveTheBitsOfNewModels) {
  for (const std::string name : {"humanoid", "sensors", "hand", "contact_mesh", "noslip"}) {
    const Scene scene = zoo(name);
    const std::unique_ptr<mjModel, void (*)(mjModel*)> other(
        mj_copyModel(nullptr, scene.model.mj()), mj_deleteModel);
    other->opt.gravity[0] = 0.7;
    for (int i = 0; i < 3 * static_cast<int>(other->ngeom); i++) other->geom_friction[i] *= 1.3;
    const Model variant = scene.model.with_numbers(other.get()),
                made = Model::from_mjmodel(other.get());
    const Trajectory a = rollout(variant, scene.input(), kSteps),
                     b = rollout(made, scene.input(), kSteps);
    EXPECT_EQ(a.qpos, b.qpos) << name;
    const Vector bar(a.qvel.size(), 1.0);
    const std::vector<std::string> params = {"geom_friction", "body_mass"};
    const Gradient g = rollout_pullback(variant, a, {.qvel = bar, .params = params}),
                   h = rollout_pullback(made, b, {.qvel = bar, .params = params});
    EXPECT_EQ(g.qpos, h.qpos) << name;
    EXPECT_EQ(g.params, h.params) << name;
    // the base is as it was, its workspaces too
    const Trajectory again = rollout(scene.model, scene.input(), kSteps);
    EXPECT_EQ(again.qpos, rollout(zoo(name).model, scene.input(), kSteps).qpos) << name;
    EXPECT_THROW((void)rollout_pullback(scene.model, a, {.qvel = bar}), InputError);
  }
}

TEST(Variants, OutliveTheirBase) {
  const Scene scene = zoo("humanoid");
  const Trajectory expected = rollout(scene.model, scene.input(), kSteps);
  const Model variant = zoo("humanoid").model.with_parameters({});
  EXPECT_EQ(rollout(variant, scene.input(), kSteps).qpos, expected.qpos);
}

// body_mass alone: M follows, also where MuJoCo keeps it as a constant
TEST(Variants, MoveFieldsAsTheirGradientSays) {
  for (const std::string name : {"spin_free", "simple_dofs", "humanoid", "contact_plane"}) {
    const Scene scene = zoo(name);
    const Model tight = scene.model.tightened();
    const mjModel* m = tight.mj();
    const std::map<std::string, const mjtNum*> fields = {{"body_mass", m->body_mass},
                                                         {"body_inertia", m->body_inertia},
                                                         {"dof_armature", m->dof_armature}};
    for (const auto& [field, from] : fields) {
      const auto [rows, width] = parameter_shape(tight, field);
      const Vector values(from, from + rows * width);
      Vector direction = values;  // that of the world stays 0
      for (size_t i = 0; i < direction.size(); i++) {
        if (field == "dof_armature") direction[i] = 0.01;
        direction[i] *= 1 + 0.1 * static_cast<double>(i % 7);
      }
      const auto moved = [=, field = field](double z) {
        Vector x = values;
        for (size_t i = 0; i < x.size(); i++) x[i] += z * direction[i];
        return tight.with_parameters({{field, x}});
      };
      const Operation op{
          .forward = [=](const Vector& z) { return rollout(moved(z[0]), scene.input(), 3).qvel; },
          .pullback =
              [=, field = field](const Vector& z, const Vector& y_bar, Vector& z_bar) {
                const Model model = moved(z[0]);
                const Trajectory t = rollout(model, scene.input(), 3);
                const Gradient g = rollout_pullback(model, t, {.qvel = y_bar, .params = {field}});
                const Vector& bar = g.params.at(field);
                for (size_t i = 0; i < bar.size(); i++) z_bar[0] += bar[i] * direction[i];
              },
      };
      EXPECT_TRUE(check_pullback(
          op, {0.001}, 1, {.tolerance = tolerances().large_model, .step = 1e-3, .directions = 1}))
          << name << ", " << field;
    }
  }
}

// where MuJoCo takes a body's mass matrix for diagonal, its inertial frame cannot be moved
TEST(VariantErrors, NameABodyThatIsSimple) {
  const Scene scene = zoo("contact_plane");
  Vector ipos(scene.model.mj()->body_ipos, scene.model.mj()->body_ipos + 3 * scene.model.nbody());
  EXPECT_NO_THROW((void)scene.model.with_parameters({{"body_ipos", ipos}}));
  ipos[3] += 0.01;
  try {
    (void)scene.model.with_parameters({{"body_ipos", ipos}});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("body_ipos of body"), std::string::npos)
        << error.what();
  }
}

TEST(Variants, InABatch) {
  const Scene scene = zoo("humanoid");
  std::vector<Model> models;
  for (const double scale : {0.5, 1.0, 2.0}) {
    Vector friction(scene.model.mj()->geom_friction,
                    scene.model.mj()->geom_friction + 3 * scene.model.ngeom());
    for (double& x : friction) x *= scale;
    models.push_back(scene.model.with_parameters({{"geom_friction", friction}}));
  }
  const std::vector<RolloutInput> inputs(3, scene.input());
  for (const int nthread : {1, 2, 5}) {
    const std::vector<Trajectory> batch =
        rollout_batch(models, inputs, kSteps, {.nthread = nthread});
    const Vector bar(batch[0].qvel.size(), 1.0);
    const std::vector<Cotangents> cotangents(3, {.qvel = bar, .params = {"geom_friction"}});
    const std::vector<Gradient> gradients =
        rollout_pullback_batch(models, batch, cotangents, {.nthread = nthread});
    for (size_t i = 0; i < 3; i++) {
      const Trajectory one = rollout(models[i], scene.input(), kSteps);
      EXPECT_EQ(batch[i].qpos, one.qpos);
      const Gradient g = rollout_pullback(models[i], one, cotangents[i]);
      EXPECT_EQ(gradients[i].qpos, g.qpos);
      EXPECT_EQ(gradients[i].params, g.params);
    }
    EXPECT_EQ(batch[1].qpos, rollout(scene.model, scene.input(), kSteps).qpos);
  }
  EXPECT_THROW((void)rollout_batch(models, std::span(inputs).first(2), 1), InputError);
}

TEST(VariantErrors, NameWhatDiffers) {
  const Scene humanoid = zoo("humanoid"), other = zoo("sensors");
  EXPECT_THROW((void)humanoid.model.with_numbers(other.model.mj()), InputError);
  try {
    (void)humanoid.model.with_parameters({{"geom_friction", {1, 2}}});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("geom_friction has 2 numbers"), std::string::npos);
  }
  EXPECT_THROW((void)humanoid.model.with_parameters({{"geom_color", {1}}}), InputError);
  Vector mass(humanoid.model.mj()->body_mass,
              humanoid.model.mj()->body_mass + humanoid.model.nbody());
  mass[1] = std::nan("");
  EXPECT_THROW((void)humanoid.model.with_parameters({{"body_mass", mass}}), InputError);
}

void expect_error(const std::vector<std::string>& attributes, const std::string& text) {
  try {
    const ParametricModel family = ParametricModel::from_attributes(box(), attributes);
    (void)family.jacobian(family.start());
    ADD_FAILURE() << attributes[0] << " is accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(AttributeErrors, NameTheAttribute) {
  expect_error({"hinge"}, "expected an element and an attribute");
  expect_error({"knee/damping"}, "the model has no element 'knee'; it has cube");
  expect_error({"hinge/dampign"}, "'hinge' has no numbers dampign; it has pos, axis");
  expect_error({"cube/pos[0]"}, "choose one of body:cube, geom:cube");
  expect_error({"hinge/axis[3]"}, "axis has 3 numbers");
  expect_error({"hinge/axis[x]"}, "expected a number in brackets");
  expect_error({"default.gem/size"}, "expected default.joint, default.geom");
  expect_error({"default(toe).geom/size"}, "default class 'toe' does not exist");
  // they act on the motion and have no gradient
  expect_error({"geom:cube/gap"}, "changes geom_gap of geom 'cube', which acts on the motion");
  expect_error({"option/timestep"}, "changes opt.timestep");
}

// a friction loss of 0 has no row, and one of a little more has one: a kink
TEST(AttributeErrors, NameAFrictionLossOfZero) {
  std::string xml = box();
  const std::string at = " frictionloss=\"0.02\"";
  xml.erase(xml.find(at), at.size());
  const std::vector<std::string> names = {"hinge/damping", "hinge/armature", "hinge/frictionloss"};
  const ParametricModel family = ParametricModel::from_attributes(xml, names);
  Vector theta = family.start();
  for (int i = 0; i < 2; i++) {  // at the start by differences, elsewhere from the slopes there
    try {
      (void)family.jacobian(theta);
      ADD_FAILURE();
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("'hinge/frictionloss': dof_frictionloss[6] is 0"),
                std::string::npos)
          << error.what();
    }
    theta[0] *= 1.1;
  }
  theta[2] = 0.02;
  EXPECT_NO_THROW((void)family.jacobian(theta));
}

// the axes of a body with two equal moments of inertia: another mass, others
TEST(AttributeErrors, NameAxesThatJump) {
  const std::string xml = R"(<mujoco><worldbody><body name="cross"><joint axis="0 1 0"/>
    <geom name="a" type="box" size="0.3 0.02 0.02" mass="1"/>
    <geom name="b" type="box" size="0.02 0.02 0.3" mass="1"/></body></worldbody></mujoco>)";
  const std::vector<std::string> names = {"a/mass"};
  const ParametricModel family = ParametricModel::from_attributes(xml, names);
  try {
    (void)family.jacobian(family.start());
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("body_iquat of body 'cross' jumps"), std::string::npos)
        << error.what();
  }
  const Vector other = {1.1};
  EXPECT_NO_THROW((void)family.jacobian(other));
}

TEST(AttributeErrors, NameTheParameterOfAFunction) {
  const Vector start = {1.0};
  EXPECT_THROW(ParametricModel([](std::span<const double>) -> mjModel* { return nullptr; }, start),
               MujocoError);
  const ParametricModel family =
      ParametricModel::from_attributes(box(), std::vector<std::string>{"hinge/damping"});
  const Vector wrong = {1, 2}, bad = {std::nan("")};
  EXPECT_THROW((void)family.at(wrong), InputError);
  EXPECT_THROW((void)family.at(bad), InputError);
}

}  // namespace
}  // namespace diffmj
