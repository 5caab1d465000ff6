// Rollouts: bit for bit MuJoCo's, whatever the number of threads; failures are outcomes.
// label: smoke
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "harness/models.h"
#include "mj/call.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// the message of the exception of this type that fn throws
template <class Exception, class Fn>
std::string message_of(Fn&& fn) {
  try {
    fn();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no exception";
}

// a loop of mj_step on a model of its own, as a user would write it; forces change with time
std::vector<Vector> reference(const std::string& path, const Scene& scene, int nstep,
                              const Vector& ctrl, const Vector& qfrc, const Vector& xfrc) {
  char error[500] = "";
  mjModel* m = mj_loadXML(path.c_str(), nullptr, error, sizeof(error));
  mjData* d = mj_makeData(m);
  std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
  std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
  std::copy(scene.x.act.begin(), scene.x.act.end(), d->act);
  std::copy(scene.mocap_pos.begin(), scene.mocap_pos.end(), d->mocap_pos);
  std::copy(scene.mocap_quat.begin(), scene.mocap_quat.end(), d->mocap_quat);
  d->time = scene.x.time;
  std::vector<Vector> states;
  for (int i = 0;; i++) {
    Vector state = {d->time};
    state.insert(state.end(), d->qpos, d->qpos + m->nq);
    state.insert(state.end(), d->qvel, d->qvel + m->nv);
    state.insert(state.end(), d->act, d->act + m->na);
    states.push_back(state);
    if (i == nstep) break;
    std::copy_n(ctrl.begin() + i * m->nu, m->nu, d->ctrl);
    std::copy_n(qfrc.begin() + i * m->nv, m->nv, d->qfrc_applied);
    std::copy_n(xfrc.begin() + i * 6 * m->nbody, 6 * m->nbody, d->xfrc_applied);
    mj_step(m, d);
  }
  mj_deleteData(d);
  mj_deleteModel(m);
  return states;
}

Vector wave(size_t n, double scale, double offset) {
  Vector x(n);
  for (size_t i = 0; i < n; i++) x[i] = scale * std::sin(0.37 * static_cast<double>(i) + offset);
  return x;
}

bool same_bits(const Vector& a, const Vector& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

TEST(Rollout, IsBitwiseALoopOfMjStep) {
  constexpr int kSteps = 1000;
  for (const std::string& name : zoo_names()) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    const Model& model = scene.model;
    const auto n = static_cast<size_t>(kSteps);
    Vector ctrl = wave(n * static_cast<size_t>(model.nu()), 0.05, 0);
    for (size_t i = 0; i < ctrl.size(); i++) ctrl[i] += scene.ctrl[i % scene.ctrl.size()];
    const Vector qfrc = wave(n * static_cast<size_t>(model.nv()), 0.01, 1);
    const Vector xfrc = wave(n * 6 * static_cast<size_t>(model.nbody()), 0.01, 2);
    RolloutInput input = scene.input();
    input.ctrl = ctrl;
    input.qfrc_applied = qfrc;
    input.xfrc_applied = xfrc;
    const Trajectory t = rollout(model, input, kSteps);
    ASSERT_TRUE(t.ok()) << t.message;
    const auto states =
        reference(testdata("zoo/" + name + ".xml"), scene, kSteps, ctrl, qfrc, xfrc);
    for (int i = 0; i <= kSteps; i++) {
      Vector state = {t.time[static_cast<size_t>(i)]};
      const auto add = [&](const Vector& x, int width) {
        state.insert(state.end(), x.begin() + i * width, x.begin() + (i + 1) * width);
      };
      add(t.qpos, t.nq);
      add(t.qvel, t.nv);
      add(t.act, t.na);
      ASSERT_TRUE(same_bits(state, states[static_cast<size_t>(i)])) << "step " << i;
    }
  }
}

TEST(Rollout, BatchDoesNotDependOnThreads) {
  const Scene scene = zoo("contact_plane_ell");
  std::vector<Vector> qvel;
  std::vector<RolloutInput> inputs;
  for (int i = 0; i < 9; i++) {
    qvel.push_back(scene.x.qvel);
    for (double& v : qvel.back()) v += 0.01 * i;
  }
  for (const Vector& v : qvel) {
    inputs.push_back(scene.input());
    inputs.back().qvel = v;
  }
  constexpr int kSteps = 20;
  const Vector qpos_bar((kSteps + 1) * static_cast<size_t>(scene.model.nv()), 1.0);
  std::vector<Trajectory> first;
  std::vector<Gradient> first_gradients;
  for (int nthread : {1, 2, 3, 8}) {
    const auto batch = rollout_batch(scene.model, inputs, kSteps, {.nthread = nthread});
    const std::vector<Cotangents> cotangents(batch.size(), {.qpos_tangent = qpos_bar});
    const auto gradients =
        rollout_pullback_batch(scene.model, batch, cotangents, {.nthread = nthread});
    if (first.empty()) {
      first = batch;
      first_gradients = gradients;
    }
    for (size_t i = 0; i < batch.size(); i++) {
      EXPECT_TRUE(same_bits(batch[i].qpos, first[i].qpos));
      EXPECT_TRUE(same_bits(batch[i].qvel, rollout(scene.model, inputs[i], kSteps).qvel));
      EXPECT_TRUE(same_bits(gradients[i].qvel, first_gradients[i].qvel));
      EXPECT_TRUE(same_bits(gradients[i].qpos, first_gradients[i].qpos));
    }
  }
}

// a spring that is unstable at this time step
const char* const kExploding =
    "<mujoco><option timestep='.01' gravity='0 0 0'><flag "
    "eulerdamp='disable'/></option><worldbody><body><joint "
    "name='spring' type='slide' stiffness='1e6'/><geom size='.1' mass='1'/></body></worldbody>"
    "</mujoco>";

TEST(Rollout, DivergenceIsAnOutcome) {
  const Model model = Model::from_xml(kExploding);
  const Vector qpos = {0.1};
  const Trajectory t = rollout(model, {.qpos = qpos}, 1000);
  EXPECT_EQ(t.outcome, Outcome::kNotFinite);
  EXPECT_EQ(t.failed_dof, 0);
  for (const char* word : {"'spring'", "step", "time", "smaller timestep"}) {
    EXPECT_NE(t.message.find(word), std::string::npos) << t.message;
  }
  EXPECT_GT(t.nstep, 0);
  EXPECT_LT(t.nstep, 1000);
  EXPECT_EQ(t.qpos.size(), static_cast<size_t>(t.nstep) + 1);
  for (double x : t.qpos) EXPECT_TRUE(std::isfinite(x));  // and no silent reset to qpos0
  EXPECT_GT(std::abs(t.qpos.back()), 1e3);
  const std::string text = message_of<InputError>([&] { (void)rollout_pullback(model, t, {}); });
  EXPECT_NE(text.find("did not reach"), std::string::npos) << text;
}

TEST(Rollout, FailureDoesNotSpoilTheBatch) {
  const Model model = Model::from_xml(kExploding);
  const Vector rest = {0}, away = {0.1};
  const std::vector<RolloutInput> inputs = {{.qpos = rest}, {.qpos = away}, {.qpos = rest}};
  const auto batch = rollout_batch(model, inputs, 20, {.nthread = 2});
  EXPECT_TRUE(batch[0].ok());
  EXPECT_FALSE(batch[1].ok());
  EXPECT_TRUE(same_bits(batch[2].qpos, rollout(model, inputs[2], 20).qpos));
  const Vector bar(21, 1.0);
  const std::vector<Cotangents> cotangents(3, {.qpos = bar});
  const auto gradients = rollout_pullback_batch(model, batch, cotangents);
  EXPECT_TRUE(std::isfinite(gradients[0].qpos[0]));
  EXPECT_TRUE(std::isnan(gradients[1].qpos[0]));
  EXPECT_TRUE(same_bits(gradients[2].qpos, gradients[0].qpos));
}

// an error inside MuJoCo leaves its stack in use; the next rollout on the same scratch is as ever
TEST(Rollout, ScratchRecoversFromAnErrorOfMujoco) {
  const Scene scene = zoo("contact_plane");
  const Trajectory before = rollout(scene.model, scene.input(), 20);
  {
    WorkspaceLease workspace(scene.model.impl());
    mjData* d = workspace->data.get();
    EXPECT_THROW(mj_call("test",
                         [&] {
                           (void)mj_stackAllocNum(d, 100);
                           (void)mj_stackAllocNum(d, size_t{1} << 40);  // more than there is
                         }),
                 MujocoError);
  }
  for (int i = 0; i < 3; i++) {
    EXPECT_TRUE(same_bits(rollout(scene.model, scene.input(), 20).qpos, before.qpos));
  }
}

TEST(Rollout, GradientThatOverflowsIsAnError) {
  const Model model = Model::from_xml(kExploding);
  const Trajectory t = rollout(model, {}, 1000);  // at rest it stays, but only just
  ASSERT_TRUE(t.ok());
  const Vector bar(1001, 1.0);
  const std::string text =
      message_of<RolloutError>([&] { (void)rollout_pullback(model, t, {.qpos = bar}); });
  EXPECT_NE(text.find("not finite from step"), std::string::npos) << text;
}

TEST(Rollout, WrongSizesAndNumbersAreNamed) {
  const Scene scene = zoo("act_basic");
  const Model& model = scene.model;
  const auto rejects = [&](auto&& change, std::initializer_list<const char*> words) {
    RolloutInput input = scene.input();
    change(input);
    const std::string text = message_of<InputError>([&] { (void)rollout(model, input, 4); });
    for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
  };
  const Vector seven(7, 0.0);
  Vector bad(scene.x.qvel);
  bad[1] = kNan;
  Vector infinite(scene.ctrl);
  infinite[0] = HUGE_VAL;
  Vector huge(4 * scene.ctrl.size(), 0.0);
  huge[scene.ctrl.size() + 2] = 1e11;
  const Vector two(2, 0.0);
  rejects([&](RolloutInput& in) { in.qpos = two; }, {"qpos has 2 numbers", "(nq)"});
  rejects([&](RolloutInput& in) { in.qvel = two; }, {"qvel has 2 numbers", "(nv)"});
  rejects([&](RolloutInput& in) { in.act = Vector(99); }, {"act has 99 numbers", "(na)"});
  rejects([&](RolloutInput& in) { in.ctrl = two; }, {"ctrl has 2 numbers", "nstep x nu"});
  rejects([&](RolloutInput& in) { in.qfrc_applied = two; }, {"qfrc_applied has 2", "nstep x nv"});
  rejects([&](RolloutInput& in) { in.xfrc_applied = two; }, {"xfrc_applied has 2", "6 nbody"});
  rejects([&](RolloutInput& in) { in.mocap_pos = two; }, {"mocap_pos has 2 numbers"});
  rejects([&](RolloutInput& in) { in.qvel = bad; }, {"qvel[1] is nan", "finite"});
  rejects([&](RolloutInput& in) { in.ctrl = infinite; }, {"ctrl[0] is inf"});
  rejects([&](RolloutInput& in) { in.ctrl = huge; }, {"ctrl[1, 2] is 1e+11"});
  rejects([&](RolloutInput& in) { in.time = kNan; }, {"time is not finite"});
  EXPECT_NE(message_of<InputError>([&] { (void)rollout(model, scene.input(), -1); }).find("nstep"),
            std::string::npos);

  const Scene free = zoo("spin_free");
  Vector zero(free.x.qpos.size(), 0.0);
  const std::string text =
      message_of<InputError>([&] { (void)rollout(free.model, {.qpos = zero}, 1); });
  EXPECT_NE(text.find("quaternion"), std::string::npos) << text;
}

TEST(Rollout, MemoryThatCannotBeHad) {
  const Scene scene = zoo("act_basic");
  const std::string text =
      message_of<MemoryError>([&] { (void)rollout(scene.model, {}, 2000000000); });
  EXPECT_NE(text.find("GB"), std::string::npos) << text;
}

TEST(Rollout, CotangentsAreChecked) {
  const Scene scene = zoo("act_basic");
  const Trajectory t = rollout(scene.model, scene.input(), 3);
  const auto rejects = [&](const Cotangents& cotangents, const char* word) {
    const std::string text =
        message_of<InputError>([&] { (void)rollout_pullback(scene.model, t, cotangents); });
    EXPECT_NE(text.find(word), std::string::npos) << text;
  };
  const Vector short_row(5, 1.0);
  Vector bad(4 * static_cast<size_t>(t.nv), 1.0);
  bad[8] = kNan;
  rejects({.qpos = short_row}, "qpos");
  rejects({.qpos_tangent = short_row}, "qpos_tangent");
  rejects({.qvel = short_row}, "qvel");
  rejects({.act = short_row}, "act");
  rejects({.qvel = bad}, "row 1");
  const Scene other = zoo("spin_free");
  EXPECT_NE(message_of<InputError>([&] {
              (void)rollout_pullback(other.model, t, {});
            }).find("another model"),
            std::string::npos);
}

TEST(Rollout, CanBeInterrupted) {
  const Scene scene = zoo("act_basic");
  const RolloutOptions stop = {.nthread = 2, .interrupted = [] { return true; }};
  const Trajectory t = rollout(scene.model, scene.input(), 1000000, stop);
  EXPECT_EQ(t.outcome, Outcome::kInterrupted);
  EXPECT_LT(t.nstep, 1000000);
  const std::vector<RolloutInput> inputs(4, scene.input());
  EXPECT_THROW((void)rollout_batch(scene.model, inputs, 1000000, stop), Interrupted);
  const Trajectory done = rollout(scene.model, scene.input(), 50);
  EXPECT_THROW((void)rollout_pullback(scene.model, done, {}, stop), Interrupted);
}

TEST(Rollout, WarningsAreRecorded) {
  // an arena too small for the contacts: MuJoCo drops some and warns
  const Model model = Model::from_xml(
      "<mujoco><size memory='100K'/><worldbody><geom type='plane' size='5 5 1'/>"
      "<replicate count='20' offset='.05 0 0'><body pos='0 0 .04'><freejoint/>"
      "<geom type='box' size='.05 .05 .05'/></body></replicate></worldbody></mujoco>");
  const Trajectory t = rollout(model, {}, 3);
  ASSERT_FALSE(t.warnings.empty()) << t.message;
  EXPECT_EQ(t.warnings[0].first_step, 0);
  EXPECT_GE(t.warnings[0].count, 3);  // in every step, although MuJoCo prints only the first
  for (size_t i = 1; i < t.warnings.size(); i++) {
    EXPECT_NE(t.warnings[i].text.substr(0, 20), t.warnings[0].text.substr(0, 20));
  }
}

TEST(Rollout, ZeroStepsIsTheIdentity) {
  const Scene scene = zoo("spin_free");
  const Trajectory t = rollout(scene.model, scene.input(), 0);
  EXPECT_TRUE(t.ok());
  EXPECT_TRUE(same_bits(t.qpos, scene.x.qpos));
  const Vector bar(static_cast<size_t>(t.nv), 2.0);
  const Gradient g = rollout_pullback(scene.model, t, {.qvel = bar});
  EXPECT_TRUE(same_bits(g.qvel, bar));
}

}  // namespace
}  // namespace diffmj
