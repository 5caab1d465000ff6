// label: smoke
// The analytic path against the oracle and against differences of mj_step, on models whose
// constraints are off: every stage of the smooth dynamics with every integrator.
#include "stages/analytic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

constexpr int kSteps = 2;

Vector wave(size_t n, double offset) {
  Vector x(n);
  for (size_t i = 0; i < n; i++) x[i] = std::sin(offset + 1.7 * static_cast<double>(i));
  return x;
}

// all numbers of a gradient, with forces on bodies
Vector gradient(const Scene& scene) {
  const auto nv = static_cast<size_t>(scene.model.nv()), na = static_cast<size_t>(scene.model.na());
  const Vector xfrc = wave(6 * static_cast<size_t>(scene.model.nbody()), 0.4);
  RolloutInput input = scene.input();
  input.xfrc_applied = xfrc;
  const Trajectory t = rollout(scene.model, input, kSteps);
  EXPECT_TRUE(t.ok()) << t.message;
  const Vector qpos_bar = wave((kSteps + 1) * nv, 0.1), qvel_bar = wave((kSteps + 1) * nv, 0.7),
               act_bar = wave((kSteps + 1) * na, 1.3);
  const Gradient g = rollout_pullback(scene.model, t,
                                      {.qpos_tangent = qpos_bar, .qvel = qvel_bar, .act = act_bar});
  Vector all;
  for (const Vector* part :
       {&g.qpos_tangent, &g.qvel, &g.act, &g.ctrl, &g.qfrc_applied, &g.xfrc_applied}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

// largest difference relative to the size of the gradient
double difference(const Vector& a, const Vector& b) {
  double largest = 0, size = 1;
  for (size_t i = 0; i < a.size(); i++) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
    size = std::max(size, std::abs(b[i]));
  }
  return largest / size;
}

void agrees_with_oracle(const Scene& scene) {
  ASSERT_EQ(scene.model.gradient_path(), GradientPath::kAnalytic)
      << scene.model.gradient_path_reason();
  const Scene oracle = with_options(scene, {.gradient_path = GradientPath::kOracle});
  EXPECT_LE(difference(gradient(scene), gradient(oracle)), tolerances().stage) << scene.name;
}

class AnalyticZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(AnalyticZoo, AgreesWithOracle) {
  for (const Integrator integrator :
       {Integrator::kEuler, Integrator::kImplicit, Integrator::kImplicitFast, Integrator::kRk4}) {
    SCOPED_TRACE(integrator_name(integrator));
    // a clamped orientation servo with damping makes implicit steps jump by rounding
    // (docs/gradients.md)
    const bool implicit =
        integrator == Integrator::kImplicit || integrator == Integrator::kImplicitFast;
    if (implicit && GetParam() == "act_servo_clamp") continue;
    const Scene scene = without_constraints(zoo(GetParam()), {.integrator = integrator});
    if (scene.model.gradient_path() != GradientPath::kAnalytic) continue;
    agrees_with_oracle(scene);
  }
}

// with its constraints
TEST_P(AnalyticZoo, ConstrainedAgreesWithOracle) {
  for (const Integrator integrator :
       {Integrator::kEuler, Integrator::kImplicit, Integrator::kImplicitFast, Integrator::kRk4}) {
    SCOPED_TRACE(integrator_name(integrator));
    const bool implicit =
        integrator == Integrator::kImplicit || integrator == Integrator::kImplicitFast;
    if (implicit && GetParam() == "act_servo_clamp") continue;
    const Scene scene = zoo(GetParam(), {.integrator = integrator});
    if (scene.model.gradient_path() != GradientPath::kAnalytic) continue;
    Scene tight = scene;
    tight.model = scene.model.tightened();
    agrees_with_oracle(tight);
  }
}

TEST_P(AnalyticZoo, AgreesWithDifferences) {
  const Scene scene = without_constraints(zoo(GetParam()));
  if (scene.model.gradient_path() != GradientPath::kAnalytic) {
    GTEST_SKIP() << scene.model.gradient_path_reason();
  }
  EXPECT_TRUE(check_pullback(
      rollout_operation(scene, kSteps), Vector(rollout_ntangent(scene, kSteps)),
      rollout_ntangent(scene, kSteps), {.tolerance = tolerances().smooth, .smallest = 1e-3}));
}

INSTANTIATE_TEST_SUITE_P(Zoo, AnalyticZoo, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

TEST(AnalyticTrees, AgreeWithOracle) {
  for (unsigned seed = 1; seed <= 200; seed++) {
    SCOPED_TRACE(seed);
    agrees_with_oracle(random_tree(seed));
  }
}

TEST(AnalyticTrees, AgreeWithDifferences) {
  for (unsigned seed = 1; seed <= 200; seed++) {
    const Scene scene = random_tree(seed);
    const size_t n = rollout_ntangent(scene, 1);
    EXPECT_TRUE(
        check_pullback(rollout_operation(scene, 1), Vector(n), n,
                       {.tolerance = tolerances().smooth, .smallest = 1e-3, .directions = 2}))
        << scene.name;
  }
}

}  // namespace
}  // namespace diffmj
