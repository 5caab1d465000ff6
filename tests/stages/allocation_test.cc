// A step's pullback on the analytic path makes no allocation once its scratch has its size.
#include <gtest/gtest.h>

#include "harness/models.h"
#include "integrate/step.h"
#include "record/input.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

using MakeScene = Scene (*)(const ModelOptions&);

const std::vector<Integrator> kIntegrators = {Integrator::kEuler, Integrator::kRk4,
                                              Integrator::kImplicit, Integrator::kImplicitFast};

size_t second_pullback_allocations(const Scene& scene) {
  const ModelImpl& impl = scene.model.impl();
  const Trajectory t = rollout(scene.model, scene.input(), 1);
  EXPECT_TRUE(t.ok()) << t.message;
  WorkspaceLease workspace(impl);
  reset_data(scene.model, scene.mocap_pos, scene.mocap_quat, *workspace);
  const StepInput in = step_input(t, 0);
  EXPECT_EQ(in.nefc, 0);
  StepBar bar;
  bar.resize(impl, 1, true);
  bar.next.setOnes();
  step_pullback(impl, in, t.qacc, bar, *workspace);  // sizes the scratch
  const size_t before = allocations();
  step_pullback(impl, in, t.qacc, bar, *workspace);
  return allocations() - before;
}

TEST(Allocation, BenchmarkedModels) {
  for (const MakeScene make : {bench_arm, humanoid_in_air, tree_50}) {
    for (const Integrator integrator : kIntegrators) {
      const Scene scene = make({.integrator = integrator});
      ASSERT_EQ(scene.model.gradient_path(), GradientPath::kAnalytic);
      EXPECT_EQ(second_pullback_allocations(scene), 0U)
          << scene.name << ", " << integrator_name(integrator);
    }
  }
}

TEST(Allocation, ActuatorsOfTheZoo) {
  int tested = 0;
  for (const std::string& name : zoo_names()) {
    if (name.rfind("act_", 0) != 0) continue;
    for (const Integrator integrator : kIntegrators) {
      const Scene scene = without_constraints(zoo(name), {.integrator = integrator});
      if (scene.model.gradient_path() != GradientPath::kAnalytic) continue;
      tested++;
      EXPECT_EQ(second_pullback_allocations(scene), 0U)
          << name << ", " << integrator_name(integrator);
    }
  }
  EXPECT_GE(tested, 8);
}

TEST(Allocation, Trees) {
  for (unsigned seed = 1; seed <= 40; seed++) {
    const Scene scene = random_tree(seed);
    EXPECT_EQ(second_pullback_allocations(scene), 0U) << scene.name;
  }
}

// constraints, and the numbers they are made of
TEST(Allocation, ConstraintsAndTheirParameters) {
  constexpr Parameter kFields[] = {
      Parameter::kGeomFriction,   Parameter::kGeomSolref,    Parameter::kGeomSolimp,
      Parameter::kGeomMargin,     Parameter::kPairFriction,  Parameter::kPairSolref,
      Parameter::kPairSolimp,     Parameter::kPairMargin,    Parameter::kJntRange,
      Parameter::kJntSolref,      Parameter::kJntSolimp,     Parameter::kDofFrictionloss,
      Parameter::kEqData,         Parameter::kEqSolref,      Parameter::kEqSolimp,
      Parameter::kBodyInvweight0, Parameter::kDofInvweight0,
  };
  std::vector<Scene> scenes;
  for (const char* name : {"contact_plane", "contact_plane_ell", "limits", "eq_connect", "eq_weld",
                           "eq_couple", "humanoid", "flags", "tendon_fixed"}) {
    scenes.push_back(zoo(name));
    scenes.push_back(with_noslip(zoo(name), 3));
  }
  for (const Scene& scene : scenes) {
    const std::string& name = scene.name;
    const ModelImpl& impl = scene.model.impl();
    if (scene.model.gradient_path() != GradientPath::kAnalytic) continue;
    const Trajectory t = rollout(scene.model, scene.input(), 1);
    WorkspaceLease workspace(impl);
    reset_data(scene.model, scene.mocap_pos, scene.mocap_quat, *workspace);
    const StepInput in = step_input(t, 0);
    EXPECT_GT(in.nefc, 0) << name;
    StepBar bar;
    bar.resize(impl, 1, true);
    bar.next.setOnes();
    std::vector<Vector> fields(kParameterCount);
    for (const Parameter p : kFields) {
      const auto i = static_cast<size_t>(p);
      fields[i].resize(static_cast<size_t>(parameter_fields()[i].size(impl.mj())));
      bar.params.field[i] = fields[i];
    }
    step_pullback(impl, in, t.qacc, bar, *workspace);  // sizes the scratch
    const size_t before = allocations();
    step_pullback(impl, in, t.qacc, bar, *workspace);
    EXPECT_EQ(allocations() - before, 0U) << name;
  }
}

// what the benchmarks and this test rely on
TEST(BenchmarkedModels, HaveNoConstraints) {
  const std::pair<MakeScene, int> expected[] = {
      {bench_arm, 7}, {humanoid_in_air, 27}, {tree_50, 50}};
  for (const auto& [make, nv] : expected) {
    const Scene scene = make({});
    EXPECT_EQ(scene.model.nv(), nv) << scene.name;
    const Trajectory t = rollout(scene.model, scene.input(), 20);
    ASSERT_TRUE(t.ok()) << t.message;
    for (int i = 0; i < 20; i++)
      EXPECT_EQ(step_input(t, i).nefc, 0) << scene.name << ", step " << i;
  }
}

}  // namespace
}  // namespace diffmj
