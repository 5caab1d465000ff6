// The vector field with contacts from distance: its pullback in every integrator, and what of it a
// rollout sees.
#include <gtest/gtest.h>

#include "harness/models.h"
#include "harness/stage_fixture.h"
#include "harness/tolerances.h"
#include "integrate/step.h"
#include "mj/call.h"
#include "record/input.h"
#include "record/trajectory.h"
#include "setup/workspace_lease.h"
#include "stages/evaluate_stages.h"
#include "stages/surrogate_field.h"

namespace diffmj {
namespace {

// wide enough that most pairs of the zoo take part
const Cfd kCfd{.law = CfdLaw{.width = 0.3, .softplus = 0.02}, .max_contacts = 1000};

Cfd forward(Cfd cfd) {
  cfd.forward = true;
  return cfd;
}

// contacts of every cone, limits, tendons, equalities, friction loss, muscles
const std::vector<std::string> kModels = {"contact_plane",
                                          "contact_plane_ell",
                                          "contact_pairs",
                                          "contact_mesh",
                                          "contact_box_cyl",
                                          "hand",
                                          "humanoid",
                                          "limits",
                                          "eq_connect",
                                          "tendon_wrap",
                                          "act_muscle",
                                          "solver_pgs",
                                          "contact_override_pair"};
const std::vector<Integrator> kIntegrators = {Integrator::kEuler, Integrator::kImplicitFast,
                                              Integrator::kImplicit, Integrator::kRk4};

TEST(CfdField, StepPullbackMatchesDifferences) {
  for (const Integrator integrator : kIntegrators) {
    for (const std::string& name : kModels) {
      SCOPED_TRACE(name + ", " + integrator_name(integrator));
      const Scene scene = zoo(name, {.integrator = integrator, .cfd = forward(kCfd)});
      const size_t n = rollout_ntangent(scene, 1);
      // from distance the colliders of meshes iterate on inflated geoms; measured: 2e-5
      const double tolerance = (name == "contact_mesh" ? 100 : 1) * tolerances().step;
      EXPECT_TRUE(check_pullback(rollout_operation(scene, 1), Vector(n, 0.0), n,
                                 {.tolerance = tolerance, .directions = 3}));
    }
  }
}

TEST(CfdField, AdaptiveStepPullbackMatchesDifferences) {
  for (const std::string name : {"contact_plane", "contact_plane_ell", "contact_pairs"}) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name, {.integrator = Integrator::kTsit5, .cfd = forward(kCfd)});
    const size_t n = rollout_ntangent(scene, 1);
    EXPECT_TRUE(check_pullback(rollout_operation(scene, 1), Vector(n, 0.0), n,
                               {.tolerance = tolerances().step, .directions = 3}));
  }
}

// x' with a = a₀ + ã(x) - ã₀: what straight-through means for a step
TEST(CfdField, StraightThroughMatchesDifferences) {
  for (const Integrator integrator :
       {Integrator::kEuler, Integrator::kImplicitFast, Integrator::kImplicit}) {
    for (const std::string name : {"contact_plane", "contact_plane_ell", "contact_pairs", "hand"}) {
      SCOPED_TRACE(name + ", " + integrator_name(integrator));
      const Scene scene = zoo(name, {.integrator = integrator, .cfd = kCfd});
      const Model model = scene.model.tightened();
      const ModelImpl& impl = model.impl();
      const mjModel* m = model.mj();
      const auto nv = static_cast<size_t>(model.nv());
      const Trajectory t = rollout(model, scene.input(), 1);
      const StepInput in = step_input(t, 0);
      WorkspaceLease workspace(impl);
      mjData* d = workspace->data.get();
      reset_data(model, scene.mocap_pos, scene.mocap_quat, *workspace);
      surrogate_field(impl, in, {}, *workspace);
      const Vector field = workspace->field_qacc;
      const double h = model.timestep();

      const auto step = [&](const Vector& z) {
        Vector qpos(in.qpos.begin(), in.qpos.end()), qvel(in.qvel.begin(), in.qvel.end());
        mj_integratePos(m, qpos.data(), z.data(), 1);
        for (size_t k = 0; k < nv; k++) qvel[k] += z[nv + k];
        StepInput at = in;
        at.qpos = qpos;
        at.qvel = qvel;
        at.tendon_numbers = {};
        surrogate_field(impl, at, {}, *workspace);
        Vector a(nv), F(nv);
        for (size_t k = 0; k < nv; k++) a[k] = t.qacc[k] + workspace->field_qacc[k] - field[k];
        mj_mulM(m, d, F.data(), a.data());
        Eigen::VectorXd b(model.nv()), act_next(model.na());
        advance_with_force(impl, m, F, b, act_next, *workspace);
        Vector next(nv);
        for (size_t k = 0; k < nv; k++) next[k] = qvel[k] + h * b[static_cast<Eigen::Index>(k)];
        mj_integratePos(m, qpos.data(), next.data(), h);
        Vector y(nv);
        mj_differentiatePos(m, y.data(), 1, row(t.qpos, 1, t.nq).data(), qpos.data());
        y.insert(y.end(), next.begin(), next.end());
        return y;
      };
      const auto pullback = [&](const Vector&, const Vector& y_bar, Vector& z_bar) {
        StepBar bar;
        bar.resize(impl, 1, false);
        for (size_t k = 0; k < 2 * nv; k++) bar.next(0, static_cast<Eigen::Index>(k)) = y_bar[k];
        step_pullback(impl, in, row(t.qacc, 0, t.nv), bar, *workspace);
        for (size_t k = 0; k < 2 * nv; k++) z_bar[k] += bar.x(0, static_cast<Eigen::Index>(k));
      };
      EXPECT_TRUE(check_pullback({.forward = step, .pullback = pullback}, Vector(2 * nv, 0.0),
                                 2 * nv, {.tolerance = tolerances().step, .directions = 3}));
    }
  }
}

TEST(CfdField, RolloutsAreTheSameBitForBit) {
  for (const Integrator integrator :
       {Integrator::kEuler, Integrator::kImplicitFast, Integrator::kRk4, Integrator::kTsit5}) {
    for (const std::string name : {"contact_plane", "contact_pairs", "hand"}) {
      const Scene plain = zoo(name, {.integrator = integrator}),
                  cfd = zoo(name, {.integrator = integrator, .cfd = kCfd});
      const Trajectory a = rollout(plain.model, plain.input(), 20),
                       b = rollout(cfd.model, cfd.input(), 20);
      EXPECT_EQ(a.qpos, b.qpos) << name << ", " << integrator_name(integrator);
      EXPECT_EQ(a.qvel, b.qvel);
      EXPECT_EQ(a.integrator.time, b.integrator.time);
      // and not the same where forces from distance are asked for
      const Scene hovers = zoo(name, {.integrator = integrator, .cfd = forward(kCfd)});
      EXPECT_NE(rollout(hovers.model, hovers.input(), 20).qpos, a.qpos);
    }
  }
}

// width 0 is MuJoCo's contact: the ordinary gradient
TEST(CfdField, WidthZeroIsTheOrdinaryGradient) {
  for (const Integrator integrator : kIntegrators) {
    for (const std::string name : {"contact_plane", "contact_plane_ell", "contact_pairs", "hand"}) {
      SCOPED_TRACE(name + ", " + integrator_name(integrator));
      const Scene plain = zoo(name, {.integrator = integrator}),
                  none =
                      zoo(name, {.integrator = integrator, .cfd = Cfd{.law = CfdLaw{.width = 0}}}),
                  small = zoo(name,
                              {.integrator = integrator, .cfd = Cfd{.law = CfdLaw{.width = 1e-9}}});
      const auto gradient = [](const Scene& scene) {
        const Model model = scene.model.tightened();
        const Trajectory t = rollout(model, scene.input(), 5);
        const Vector bar(t.qvel.size(), 1.0);
        return rollout_pullback(model, t, {.qvel = bar}).qvel;
      };
      const Vector expected = gradient(plain);
      for (const Scene* scene : {&none, &small}) {
        const Vector got = gradient(*scene);
        double size = 0, difference = 0;
        for (size_t k = 0; k < got.size(); k++) {
          size = std::max(size, std::abs(expected[k]));
          difference = std::max(difference, std::abs(got[k] - expected[k]));
        }
        // 1e-9 m of softplus bends a contact's force within 1e-3 m
        EXPECT_LE(difference, (scene == &none ? 1e-8 : 1e-4) * size);
      }
    }
  }
}

constexpr const char* kTwoBalls = R"(
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <default><geom solimp="0.1 0.95 0.01 0.5 2" friction="0.3" mass="0.2"/></default>
  <worldbody>
    <body><freejoint/><geom name="a" size=".05"/></body>
    <body pos=".15 0 0"><freejoint/><geom name="b" size=".05"/></body>
  </worldbody>
</mujoco>)";

// one ball moves at the other, 5 cm apart: nothing, and with forces from distance a push away
TEST(CfdField, GradientPointsTowardsContact) {
  const Vector qvel = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const auto gradient = [&](const ModelOptions& options) {
    const Model model = Model::from_xml(kTwoBalls, options);
    const Trajectory t = rollout(model, {.qvel = qvel}, 10);
    Vector bar(t.qvel.size(), 0.0);
    bar[bar.size() - 6] = 1;  // x velocity of the second
    return rollout_pullback(model, t, {.qvel = bar});
  };
  EXPECT_EQ(gradient({}).qvel[0], 0);
  const Gradient g = gradient({.cfd = Cfd{}});
  EXPECT_GT(g.qvel[0], 1e-4);          // faster: a harder push
  EXPECT_GT(g.qpos_tangent[0], 1e-4);  // nearer: too
  EXPECT_EQ(g.cfd.evaluations, 10);
  EXPECT_EQ(g.cfd.capped, 0);
}

TEST(CfdField, PullbackAllocatesNothing) {
  for (const Integrator integrator : {Integrator::kEuler, Integrator::kImplicitFast}) {
    const Scene scene = zoo("contact_pairs", {.integrator = integrator, .cfd = kCfd});
    const ModelImpl& impl = scene.model.impl();
    const Trajectory t = rollout(scene.model, scene.input(), 1);
    WorkspaceLease workspace(impl);
    reset_data(scene.model, scene.mocap_pos, scene.mocap_quat, *workspace);
    const StepInput in = step_input(t, 0);
    StepBar bar;
    bar.resize(impl, 1, false);
    bar.next.setOnes();
    step_pullback(impl, in, t.qacc, bar, *workspace);  // sizes the scratch
    const size_t before = allocations();
    step_pullback(impl, in, t.qacc, bar, *workspace);
    EXPECT_EQ(allocations() - before, 0U);
  }
}

TEST(CfdField, RefusesWhatItCannotDo) {
  const auto message = [](auto&& run) -> std::string {
    try {
      run();
    } catch (const UnsupportedError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message([] { (void)zoo("noslip", {.cfd = kCfd}); }).find("noslip"), std::string::npos);
  const Scene scene = zoo("contact_pairs", {.cfd = kCfd});
  const Trajectory t = rollout(scene.model, scene.input(), 2);
  const std::vector<std::vector<double>> force(2);
  EXPECT_NE(message([&] {
              (void)rollout_pullback(scene.model, t, {.efc_force = force});
            }).find("efc_force"),
            std::string::npos);
}

}  // namespace
}  // namespace diffmj
