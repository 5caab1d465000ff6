// Features that few models use: served, and served right, by whatever path.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>

#include "harness/models.h"

namespace diffmj {
namespace {

// steps that are differenced as a whole are good to about 1e-6
constexpr double kTolerance = 1e-5;

void expect_right(const Scene& scene, GradientPath path) {
  SCOPED_TRACE(scene.name);
  EXPECT_EQ(scene.model.gradient_path(), path) << scene.model.gradient_path_reason();
  const size_t n = rollout_ntangent(scene, 1);
  EXPECT_TRUE(check_pullback(rollout_operation(scene, 1), Vector(n, 0.0), n,
                             {.tolerance = kTolerance, .directions = 3}));
}

TEST(RareFeatures, IntegratorDiscrete) {
  for (const char* name : {"joints_order", "springs_poly", "contact_plane", "act_servo",
                           "tendon_fixed", "eq_weld", "limits", "spin_free"}) {
    expect_right(zoo(name, {.integrator = Integrator::kDiscrete}), GradientPath::kDifferences);
  }
}

TEST(RareFeatures, Flexes) {
  const auto flex = [](const std::string& option, const std::string& inside, GradientPath path) {
    const Model model = Model::from_xml(
        "<mujoco><option timestep='.002' " + option +
        "/><worldbody><geom type='plane' size='5 5 1'/><flexcomp name='cloth' type='grid' "
        "count='3 3 1' spacing='.1 .1 .1' pos='0 0 .018' mass='1' radius='.02' dim='2'>" +
        inside +
        "<contact selfcollide='none' solref='.02 1' solimp='.5 .95 .01'/></flexcomp></worldbody>"
        "</mujoco>");
    Scene scene{.name = option + inside, .model = model, .x = default_state(model)};
    for (size_t i = 0; i < scene.x.qvel.size(); i++) {
      scene.x.qvel[i] = 0.1 * std::sin(1.0 + static_cast<double>(i));
    }
    expect_right(scene, path);
  };
  const std::string elastic =
      "<edge equality='false'/><elasticity young='1e3' poisson='.1' thickness='.01' "
      "damping='.01'/>";
  flex("", "<edge equality='true'/>", GradientPath::kOracle);
  flex("", elastic, GradientPath::kOracle);
  flex("integrator='implicitfast' solver='CG'", elastic, GradientPath::kDifferences);
  flex("integrator='discrete'", elastic, GradientPath::kDifferences);
}

#if mjVERSION_HEADER >= 4000000
TEST(RareFeatures, SpeculativeContacts) {
  const Model model = Model::from_xml(
      "<mujoco><option timestep='.01'><flag speculative='enable'/></option><worldbody>"
      "<geom type='box' size='1 1 .01'/><body pos='0 0 .3'><freejoint/><geom size='.03'/></body>"
      "</worldbody></mujoco>");
  Scene scene{.name = "ball", .model = model, .x = default_state(model)};
  scene.x.qvel = {0.1, 0.2, -30, 1, 0, 0};
  ASSERT_GT(rollout(model, scene.input(), 1).steps[0].nefc, 0);
  expect_right(scene, GradientPath::kDifferences);
}
#endif

}  // namespace
}  // namespace diffmj
