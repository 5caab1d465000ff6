// Mhat against what mj_Euler and mj_implicit answer to unit forces.
#include "integrate/metric.h"

#include <gtest/gtest.h>

#include <Eigen/LU>

#include "harness/stage_fixture.h"
#include "harness/tolerances.h"
#include "setup/model_impl.h"
#include "stages/analytic.h"
#include "stages/evaluate_stages.h"

namespace diffmj {
namespace {

const std::vector<Integrator> kIntegrators = {Integrator::kEuler, Integrator::kImplicit,
                                              Integrator::kImplicitFast};

// Mhat of a step without constraints: M if it is explicit, else from the answers of the integrator,
// Mhat⁻¹
Eigen::MatrixXd dense_metric(const Scene& scene, Stage& stage) {
  const ModelImpl& impl = scene.model.impl();
  evaluate_stages(impl, stage.input(), stage.workspace);
  Matrix response(impl.nv, impl.nv);
  if (impl.advance == Advance::kExplicit) {
    read_mass_matrix(impl.mj(), stage.d, response);
    return response;
  }
  Eigen::VectorXd b(impl.nv), act_next(impl.na);
  for (int i = 0; i < impl.nv; i++) {
    Vector force(static_cast<size_t>(impl.nv));
    force[static_cast<size_t>(i)] = 1;
    advance_with_force(impl, impl.mj(), force, b, act_next, stage.workspace);
    response.col(i) = b;
  }
  return response.inverse();
}

// Mhatᵀ mu = b_bar by factors and densely
void agrees_with_integrator(const Scene& scene) {
  SCOPED_TRACE(scene.name + ", " + integrator_name(scene.model.integrator()));
  Stage stage(scene);
  stage.set(Vector(stage.size()));
  const ModelImpl& impl = scene.model.impl();
  const auto nv = static_cast<size_t>(impl.nv);
  const Vector b_bar = wave(nv, 0.4);
  const Eigen::VectorXd expected =
      dense_metric(scene, stage).transpose().partialPivLu().solve(eigen(CVec(b_bar)));

  evaluate_analytic(impl, stage.input(), false, stage.workspace);
  Vector mu(nv);
  const size_t before = allocations();
  metric_factorize(impl, stage.workspace);
  metric_solve_transposed(impl, b_bar, mu, stage.workspace);
  EXPECT_EQ(allocations() - before, 0U);
  // unit forces are answered with v' - v, that loses a few digits
  EXPECT_LE((eigen(CVec(mu)) - expected).norm(), 1e-9 * expected.norm());
}

class MetricZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(MetricZoo, AgreesWithIntegrator) {
  for (const Integrator integrator : kIntegrators) {
    const Scene scene = without_constraints(zoo(GetParam()), {.integrator = integrator});
    if (scene.model.gradient_path() == GradientPath::kAnalytic) agrees_with_integrator(scene);
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, MetricZoo, ::testing::ValuesIn(analytic_zoo_names()),
                         [](const auto& info) { return info.param; });

TEST(Metric, AgreesWithIntegratorOnTrees) {
  for (unsigned seed = 1; seed <= 40; seed++) {
    for (const Integrator integrator : kIntegrators) {
      agrees_with_integrator(random_tree(seed, {.integrator = integrator}));
    }
  }
}

// implicitfast has the gyroscopic forces of bodies that fly alone, with what is welded to them
TEST(Metric, FreeBodyWithABodyWeldedToIt) {
  for (const char* welded :
       {"", "<body pos='.3 .1 0' euler='20 30 0'><geom type='box' size='.1 .2 .05'/></body>"}) {
    for (const Integrator integrator : kIntegrators) {
      agrees_with_integrator(scene_from_xml(
          std::string("<mujoco><option density='20' viscosity='.1'/><worldbody><body>"
                      "<joint type='free' damping='.3'/><geom type='box' size='.1 .2 .3' pos='.1 0 "
                      ".05'/>") +
              welded + "</body></worldbody></mujoco>",
          {.integrator = integrator}));
    }
  }
}

// a slide with damping c: Mhat = m + h c
TEST(Metric, ClosedForm) {
  for (const Integrator integrator : kIntegrators) {
    const Scene scene = scene_from_xml(
        "<mujoco><option timestep='.1'/><worldbody><body><joint type='slide' damping='3'/>"
        "<geom size='.1' mass='2'/></body></worldbody></mujoco>",
        {.integrator = integrator});
    Stage stage(scene);
    stage.set(Vector(stage.size()));
    const ModelImpl& impl = scene.model.impl();
    evaluate_analytic(impl, stage.input(), false, stage.workspace);
    const Vector b_bar = {0.7};
    Vector mu(1);
    metric_factorize(impl, stage.workspace);
    metric_solve_transposed(impl, b_bar, mu, stage.workspace);
    EXPECT_NEAR(mu[0], 0.7 / (2 + 0.1 * 3), 1e-14);
  }
}

}  // namespace
}  // namespace diffmj
