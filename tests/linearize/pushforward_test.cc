// rollout_pushforward() is the transpose of rollout_pullback(), and linearize() its matrices.
// label: smoke
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <random>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "record/tape.h"

namespace diffmj {
namespace {

constexpr int kSteps = 5, kTangents = 3;

Vector random_vector(std::mt19937& rng, size_t n) {
  std::normal_distribution<double> normal;
  Vector out(n);
  for (double& x : out) x = normal(rng);
  return out;
}

size_t at(int n) { return static_cast<size_t>(n); }

double dot(const double* a, const double* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// ⟨w, pushforward(x)⟩ = ⟨pullback(w), x⟩ for every tangent x, relative to the sizes of the terms
void dot_product_test(const Model& model, const RolloutInput& input,
                      const std::vector<std::string>& params, double tolerance) {
  std::mt19937 rng(1);
  const Trajectory t = rollout(model, input, kSteps);
  ASSERT_TRUE(t.ok()) << t.message;
  const auto nv = at(t.nv), na = at(t.na), nu = at(t.nu), rows = at(kSteps + 1), n = at(kTangents);
  const Vector qpos = random_vector(rng, n * nv), qvel = random_vector(rng, n * nv),
               act = random_vector(rng, n * na), ctrl = random_vector(rng, n * at(kSteps) * nu),
               qfrc = random_vector(rng, n * at(kSteps) * nv);
  Tangents tangents{.count = kTangents,
                    .qpos_tangent = qpos,
                    .qvel = qvel,
                    .act = act,
                    .ctrl = ctrl,
                    .qfrc_applied = qfrc};
  const Vector qpos_bar = random_vector(rng, rows * nv), qvel_bar = random_vector(rng, rows * nv),
               act_bar = random_vector(rng, rows * na);
  const Gradient g = rollout_pullback(
      model, t, {.qpos_tangent = qpos_bar, .qvel = qvel_bar, .act = act_bar, .params = params});
  std::map<std::string, Vector> fields;
  for (const std::string& name : params) {
    fields[name] = random_vector(rng, n * g.params.at(name).size());
    tangents.params[name] = fields[name];
  }
  const TrajectoryTangents out = rollout_pushforward(model, t, tangents);
  for (size_t k = 0; k < n; k++) {
    const double forward = dot(&out.qpos_tangent[k * rows * nv], qpos_bar.data(), rows * nv) +
                           dot(&out.qvel[k * rows * nv], qvel_bar.data(), rows * nv) +
                           (na > 0 ? dot(&out.act[k * rows * na], act_bar.data(), rows * na) : 0);
    double backward = 0, size = 1;
    const auto add = [&](const Vector& bar, const Vector& x) {
      if (bar.empty()) return;
      const double term = dot(bar.data(), &x[k * bar.size()], bar.size());
      backward += term;
      for (size_t i = 0; i < bar.size(); i++) {
        size = std::max(size, std::abs(bar[i] * x[k * bar.size() + i]));
      }
    };
    add(g.qpos_tangent, qpos);
    add(g.qvel, qvel);
    add(g.act, act);
    add(g.ctrl, ctrl);
    add(g.qfrc_applied, qfrc);
    for (const std::string& name : params) add(g.params.at(name), fields[name]);
    EXPECT_NEAR(forward, backward, tolerance * size);
  }
}

TEST(Pushforward, IsTheTransposeOfThePullback) {
  for (const std::string& name : zoo_names()) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    // controllers are differentiated by differences, of another size in every direction: 1e-9 seen
    const bool differences = name == "act_servo" || name == "act_servo_clamp";
    dot_product_test(scene.model, scene.input(), {}, differences ? 1e-8 : 1e-12);
  }
}

TEST(Pushforward, IsTheTransposeOfThePullbackInParameters) {
  const std::vector<std::string> params = {"body_mass",       "body_ipos",  "dof_damping",
                                           "geom_friction",   "geom_size",  "actuator_gainprm",
                                           "actuator_dynprm", "opt.gravity"};
  for (const char* name : {"act_basic", "act_muscle", "contact_plane", "contact_plane_ell",
                           "joints_ball", "humanoid"}) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    dot_product_test(scene.model, scene.input(), params, 1e-12);
  }
}

// these have columns of the field's matrices
TEST(Pushforward, IsTheTransposeOfThePullbackInParametersOfActuators) {
  const std::vector<std::string> params = {"actuator_gainprm", "actuator_biasprm",
                                           "actuator_dynprm", "actuator_lengthrange",
                                           "actuator_acc0"};
  for (const char* name : {"act_basic", "act_general", "act_muscle", "act_muscle_joint", "hand"}) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    dot_product_test(scene.model, scene.input(), params, 1e-12);
  }
}

TEST(Pushforward, OfAdaptiveSteps) {
  ModelOptions options;
  options.integrator = Integrator::kTsit5;
  options.adaptive.interval = 0.01;
  for (const char* name : {"contact_plane", "act_muscle", "joints_ball"}) {
    for (const Control control : {Control::kHold, Control::kLinear}) {
      SCOPED_TRACE(name);
      options.adaptive.control = control;
      const Scene scene = zoo(name, options);
      RolloutInput input = scene.input();
      Vector ctrl;
      for (int i = 0; i < kSteps; i++) {
        for (double u : scene.ctrl) ctrl.push_back(u * (1 - 0.1 * i));
      }
      input.ctrl = ctrl;
      // where contacts end within a step, every cotangent is solved for to a tolerance of its own:
      // 7e-6 seen
      const bool bent = std::string(name) == "contact_plane";
      dot_product_test(scene.model, input, {}, bent ? 2e-5 : 1e-12);
    }
  }
}

TEST(Linearize, OfATrajectoryIsThatOfItsSteps) {
  for (const char* name : {"humanoid", "act_muscle", "contact_plane_ell", "spin_free"}) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    const Trajectory t = rollout(scene.model, scene.input(), kSteps);
    const TrajectoryLinearization all = linearize(scene.model, t);
    EXPECT_EQ(all.A, linearize(scene.model, t, {.nthread = 2}).A);
    for (int i = 0; i < kSteps; i++) {
      const auto row = [&](const Vector& x, int width) {
        return std::span(x).subspan(at(i) * at(width), at(width));
      };
      RolloutInput input = scene.input();
      input.qpos = row(t.qpos, t.nq);
      input.qvel = row(t.qvel, t.nv);
      input.act = row(t.act, t.na);
      input.qacc_warmstart = row(t.tape->qacc_warmstart, t.nv);
      const Linearization one = linearize(scene.model, input);
      for (size_t k = 0; k < one.A.size(); k++) {
        ASSERT_NEAR(all.A[at(i) * one.A.size() + k], one.A[k], 1e-12 * (1 + std::abs(one.A[k])));
      }
      for (size_t k = 0; k < one.B.size(); k++) {
        ASSERT_NEAR(all.B[at(i) * one.B.size() + k], one.B[k], 1e-12 * (1 + std::abs(one.B[k])));
      }
    }
  }
}

TEST(Linearize, ABatchIsItsInputs) {
  const Scene scene = zoo("humanoid");
  const State other = after(scene, 3);
  RolloutInput second = scene.input();
  second.qpos = other.qpos;
  second.qvel = other.qvel;
  const std::vector<RolloutInput> inputs = {scene.input(), second};
  const std::vector<Linearization> both =
      linearize_batch(scene.model, inputs, false, {.nthread = 2});
  for (size_t i = 0; i < 2; i++) {
    const Linearization one = linearize(scene.model, inputs[i]);
    EXPECT_EQ(both[i].A, one.A);
    EXPECT_EQ(both[i].B, one.B);
  }
}

TEST(Pushforward, RefusesWhatIsWrong) {
  const Scene scene = zoo("act_basic");
  const Trajectory t = rollout(scene.model, scene.input(), 2);
  const Vector wrong(3, 1.0);
  EXPECT_THROW((void)rollout_pushforward(scene.model, t, {.count = 2, .qvel = wrong}), InputError);
  Vector nan(at(t.nv), 0.0);
  nan[0] = std::nan("");
  EXPECT_THROW((void)rollout_pushforward(scene.model, t, {.count = 1, .qvel = nan}), InputError);
  const Scene other = zoo("joints_ball");
  EXPECT_THROW((void)rollout_pushforward(other.model, t, {}), InputError);
  EXPECT_THROW((void)linearize(other.model, t), InputError);
  const Vector mass(at(static_cast<int>(scene.model.mj()->nbody)), 1.0);
  ModelOptions adaptive;
  adaptive.integrator = Integrator::kTsit5;
  const Scene tsit = zoo("act_basic", adaptive);
  const Trajectory steps = rollout(tsit.model, tsit.input(), 2);
  EXPECT_THROW(
      (void)rollout_pushforward(tsit.model, steps, {.count = 1, .params = {{"body_mass", mass}}}),
      UnsupportedError);
}

}  // namespace
}  // namespace diffmj
