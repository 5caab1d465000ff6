// Loading, refusing and naming.
#include "diffmj/model.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <fstream>
#include <string>

#include "harness/models.h"
#include "mj/view.h"

namespace diffmj {
namespace {

// the message of the exception of this type that fn throws, which must contain every word
template <class Exception, class Fn>
void expect_throw(Fn&& fn, std::initializer_list<const char*> words) {
  try {
    fn();
    ADD_FAILURE() << "no exception";
  } catch (const Exception& error) {
    for (const char* word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "'" << word << "' is not in: " << error.what();
    }
  }
}

std::string hinge(const std::string& more) {
  return "<mujoco>" + more +
         "<worldbody><body><joint name='h' axis='0 1 0'/><geom name='g' size='.1'/></body>"
         "</worldbody></mujoco>";
}

TEST(Model, MissingFile) {
  expect_throw<InputError>([] { (void)Model::from_file("no/such/file.xml"); },
                           {"no/such/file.xml", "does not exist"});
  expect_throw<InputError>([] { (void)Model::from_file(testdata("zoo")); }, {"zoo"});
}

TEST(Model, MalformedMjcf) {
  expect_throw<MujocoError>([] { (void)Model::from_xml("<mujoco><worldbody>"); }, {"parse"});
  expect_throw<MujocoError>(
      [] { (void)Model::from_xml("<mujoco><worldbody><geom size='-1'/></worldbody></mujoco>"); },
      {"compile"});
  const std::string path = ::testing::TempDir() + "broken.xml";
  std::ofstream(path) << "<mujoco><wrong/></mujoco>";
  expect_throw<MujocoError>([&] { (void)Model::from_file(path); }, {"broken.xml", "wrong"});
}

TEST(Model, NoDegreesOfFreedom) {
  expect_throw<InputError>([] { (void)Model::from_xml("<mujoco/>"); }, {"nv = 0", "joint"});
}

TEST(Model, ChecksItsOptions) {
  ModelOptions options;
  options.adaptive.stepping.rtol = 1e-3;
  expect_throw<InputError>([&] { (void)Model::from_xml(hinge(""), options); },
                           {"rtol", "diffmj's Runge-Kutta methods", "'model'"});
  options.integrator = Integrator::kTsit5;
  EXPECT_TRUE(Model::from_xml(hinge(""), options).is_adaptive());
  options.adaptive.interval = -1;
  expect_throw<InputError>([&] { (void)Model::from_xml(hinge(""), options); },
                           {"interval is -1", "a time > 0"});
}

TEST(Model, NullModel) {
  expect_throw<InputError>([] { (void)Model::from_mjmodel(nullptr); }, {"null"});
}

TEST(Model, RefusesByName) {
  const auto actuator = [](const std::string& text) {
    return hinge("<actuator>" + text + "</actuator>");
  };
  expect_throw<UnsupportedError>(
      [&] { (void)Model::from_xml(actuator("<general name='a' joint='h' gaintype='user'/>")); },
      {"'a'", "user"});
  expect_throw<UnsupportedError>(
      [&] { (void)Model::from_xml(actuator("<general name='a' joint='h' dyntype='user'/>")); },
      {"'a'", "user"});
  expect_throw<UnsupportedError>(
      [&] {
        (void)Model::from_xml(actuator("<motor name='a' joint='h' delay='.01' nsample='3'/>"));
      },
      {"delay", "'a'"});
  expect_throw<UnsupportedError>(
      [&] { (void)Model::from_xml(hinge("<option><flag sleep='enable'/></option>")); }, {"sleep"});
#if mjVERSION_HEADER >= 4000000
  expect_throw<UnsupportedError>(
      [&] { (void)Model::from_file(testdata("zoo/v4_springyield.xml")); }, {"plastic"});
#endif
}

TEST(Model, RefusesCallbacks) {
  const Model model = Model::from_xml(hinge(""));
  mjcb_control = [](const mjModel*, mjData*) {};
  expect_throw<UnsupportedError>([&] { (void)rollout(model, {}, 1); }, {"mjcb_control"});
  expect_throw<UnsupportedError>([&] { (void)check_gradient(model, {}); }, {"mjcb_control"});
  mjcb_control = nullptr;
  EXPECT_TRUE(rollout(model, {}, 1).ok());
}

TEST(Model, IsACopy) {
  char error[500];
  mjSpec* spec = mj_parseXMLString(hinge("").c_str(), nullptr, error, sizeof(error));
  mjModel* m = mj_compile(spec, nullptr);
  const Model model = Model::from_mjmodel(m);
  const Trajectory before = rollout(model, {}, 20);
  m->opt.gravity[2] = 5;
  m->opt.timestep = 0.1;
  EXPECT_EQ(rollout(model, {}, 20).qpos, before.qpos);
  // and the caller's model keeps its own options
  EXPECT_FALSE(m->opt.disableflags & mjDSBL_AUTORESET);
  EXPECT_TRUE(model.mj()->opt.disableflags & mjDSBL_AUTORESET);
  mj_deleteModel(m);
  mj_deleteSpec(spec);
}

TEST(Model, GradientPathNamesItsReason) {
  EXPECT_EQ(zoo("contact_plane").model.gradient_path(), GradientPath::kAnalytic);
  EXPECT_EQ(zoo("contact_plane").model.gradient_path_reason(), "");
  EXPECT_EQ(zoo("noslip").model.gradient_path(), GradientPath::kAnalytic);
  const Model discrete = Model::from_xml(hinge(""), {.integrator = Integrator::kDiscrete});
  EXPECT_EQ(discrete.gradient_path(), GradientPath::kDifferences);
  EXPECT_NE(discrete.gradient_path_reason().find("discrete"), std::string::npos);
  const Model flex = Model::from_xml(
      "<mujoco><option noslip_iterations='3'/><worldbody><flexcomp name='cloth' type='grid' "
      "count='2 2 1' spacing='.1 .1 .1' pos='0 0 .2' radius='.01' mass='1'/></worldbody></mujoco>");
  EXPECT_EQ(flex.gradient_path(), GradientPath::kDifferences);
  EXPECT_NE(flex.gradient_path_reason().find("flex 'cloth' with option noslip_iterations = 3"),
            std::string::npos)
      << flex.gradient_path_reason();
}

TEST(Model, IntegratorNames) {
  for (const char* name : {"model", "Euler", "RK4", "implicit", "implicitfast", "discrete"}) {
    EXPECT_STREQ(integrator_name(integrator_from_name(name)), name);
  }
  expect_throw<InputError>([] { (void)integrator_from_name("euler"); },
                           {"'euler'", "implicitfast"});
  const Model model = Model::from_xml(hinge(""), {.integrator = Integrator::kRk4});
  EXPECT_EQ(model.integrator(), Integrator::kRk4);
  EXPECT_EQ(Model::from_xml(hinge("")).integrator(), Integrator::kEuler);
}

TEST(Model, Names) {
  const Model model = Model::from_xml(hinge(""));
  EXPECT_EQ(model.element_name(mjOBJ_GEOM, 0), "geom 'g'");
  EXPECT_EQ(model.dof_name(0), "joint 'h' (dof 0)");
  expect_throw<InputError>([&] { (void)model.keyframe("home"); }, {"'home'", "none"});
}

TEST(MassMatrix, MatchesMujoco) {
  for (const std::string& name : zoo_names()) {
    const Scene scene = zoo(name);
    const mjModel* m = scene.model.mj();
    mjData* d = mj_makeData(m);
    mju_copy(d->qpos, scene.x.qpos.data(), scene.model.nq());
    mj_forward(m, d);
    Matrix M(scene.model.nv(), scene.model.nv());
    read_mass_matrix(m, d, M);
    const Eigen::VectorXd x = Eigen::VectorXd::LinSpaced(scene.model.nv(), -1, 2);
    Eigen::VectorXd expected(scene.model.nv());
    mj_mulM(m, d, expected.data(), x.data());
    EXPECT_LE((M * x - expected).norm(), 1e-12 * (1 + expected.norm())) << name;
    mj_deleteData(d);
  }
}

}  // namespace
}  // namespace diffmj
