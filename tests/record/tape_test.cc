#include "diffmj/tape.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "diffmj/error.h"
#include "diffmj/gradient.h"
#include "diffmj/serialize.h"
#include "harness/models.h"
#include "record/rollout_into.h"
#include "record/tape.h"

namespace diffmj {
namespace {

std::vector<double> tape_of(const Model& model, const Trajectory& trajectory) {
  std::vector<double> tape(tape_size(model, trajectory.nstep_asked), 7.0);
  write_tape(model, trajectory, tape);
  return tape;
}

// the inputs that are not part of the tape
RolloutInput without_state(RolloutInput input) {
  input.qpos = input.qvel = input.act = {};
  return input;
}

Gradient gradient(const Model& model, const Trajectory& t) {
  std::vector<double> qpos_bar(t.qpos.size()), qvel_bar(t.qvel.size());
  for (size_t i = 0; i < qpos_bar.size(); i++) qpos_bar[i] = 0.1 * static_cast<double>(i % 7) - 0.3;
  for (size_t i = 0; i < qvel_bar.size(); i++) qvel_bar[i] = 0.2 * static_cast<double>(i % 5) - 0.3;
  return rollout_pullback(model, t, {.qpos = qpos_bar, .qvel = qvel_bar});
}

// every model of the zoo, MuJoCo's integrator and adaptive steps
TEST(Tape, GradientsHaveTheSameBits) {
  for (const std::string& name : zoo_names()) {
    SCOPED_TRACE(name);
    const bool has_field = zoo(name).model.gradient_path() != GradientPath::kDifferences;
    for (const Integrator integrator : {Integrator::kModel, Integrator::kBosh3}) {
      if (integrator == Integrator::kBosh3 && !has_field) continue;
      ModelOptions options{.integrator = integrator};
      if (is_runge_kutta(integrator)) {
        options.adaptive.interval = 0.01;
        options.adaptive.stepping.rtol = 1e-3;
      }
      const Scene scene = zoo(name, options);
      const Model& model = scene.model;
      const Trajectory trajectory = rollout(model, scene.input(), 3);
      ASSERT_TRUE(trajectory.ok()) << trajectory.message;
      const Trajectory read =
          trajectory_from_tape(model, without_state(scene.input()), 3, tape_of(model, trajectory));
      const Gradient expected = gradient(model, trajectory), found = gradient(model, read);
      EXPECT_EQ(found.qpos, expected.qpos);
      EXPECT_EQ(found.qvel, expected.qvel);
      EXPECT_EQ(found.act, expected.act);
      EXPECT_EQ(found.ctrl, expected.ctrl);
      EXPECT_EQ(found.qfrc_applied, expected.qfrc_applied);
      EXPECT_EQ(read.next_warmstart, trajectory.next_warmstart);
    }
  }
}

// a rollout that goes on from the warm start of another has the bits of one rollout
TEST(Tape, WarmStartsContinueARollout) {
  const Scene scene = humanoid_on_floor();
  const Model& model = scene.model;
  const Trajectory whole = rollout(model, scene.input(), 6);
  const Trajectory begin = rollout(model, scene.input(), 3);
  RolloutInput input = scene.input();
  const auto last = [](const std::vector<double>& x, int width) {
    return std::span(x).last(static_cast<size_t>(width));
  };
  input.qpos = last(begin.qpos, model.nq());
  input.qvel = last(begin.qvel, model.nv());
  input.act = last(begin.act, model.na());
  const Trajectory cold = rollout(model, input, 3);
  input.qacc_warmstart = begin.next_warmstart;
  const Trajectory warm = rollout(model, input, 3);
  const auto ends_alike = [&](const Trajectory& a) {
    const auto x = last(a.qvel, model.nv()), y = last(whole.qvel, model.nv());
    return std::equal(x.begin(), x.end(), y.begin());
  };
  EXPECT_TRUE(ends_alike(warm));
  EXPECT_FALSE(ends_alike(cold));
}

TEST(Tape, KnowsThatARolloutFailed) {
  const Scene scene = humanoid_on_floor();
  const Model& model = scene.model;
  RolloutInput input = scene.input();
  std::vector<double> force(5 * static_cast<size_t>(model.nv()), 0.0);  // large in one step
  for (size_t i = 0; i < static_cast<size_t>(model.nv()); i++) {
    force[3 * static_cast<size_t>(model.nv()) + i] = 1e10;
  }
  input.qfrc_applied = force;
  const Trajectory failed = rollout(model, input, 5);
  ASSERT_FALSE(failed.ok());
  ASSERT_LT(failed.nstep, 5);
  const Trajectory read =
      trajectory_from_tape(model, without_state(input), 5, tape_of(model, failed));
  EXPECT_EQ(read.outcome, Outcome::kNotFinite);
  EXPECT_EQ(read.nstep, failed.nstep);
  EXPECT_EQ(read.qpos, failed.qpos);
  EXPECT_THROW((void)rollout_pullback(model, read, {}), InputError);
}

TEST(Tape, RefusesWrongSizes) {
  const Scene scene = zoo("humanoid");
  const Model& model = scene.model;
  const Trajectory trajectory = rollout(model, scene.input(), 2);
  std::vector<double> tape(tape_size(model, 3));
  EXPECT_THROW(write_tape(model, trajectory, tape), InputError);
  EXPECT_THROW((void)trajectory_from_tape(model, {}, 2, tape), InputError);
  const std::vector<double> ctrl(static_cast<size_t>(model.nu()) + 1);
  EXPECT_THROW((void)trajectory_from_tape(model, {.ctrl = ctrl}, 3, tape), InputError);
  const Scene other = zoo("hand");
  EXPECT_THROW(write_tape(other.model, trajectory, tape), InputError);
}

// what only the backward pass reads, behind Trajectory::tape

TEST(TrajectoryTape, IsRequired) {
  const Scene scene = zoo("contact_plane");
  Trajectory t = rollout(scene.model, scene.input(), 3);
  ASSERT_TRUE(t.ok());
  t.tape.reset();
  std::vector<double> array(tape_size(scene.model, 3));
  EXPECT_THROW((void)gradient(scene.model, t), InputError);
  EXPECT_THROW((void)poses(scene.model, t), InputError);
  EXPECT_THROW((void)constraint_forces(scene.model, t, 0), InputError);
  EXPECT_THROW((void)to_bytes(scene.model, std::span(&t, 1)), InputError);
  EXPECT_THROW(write_tape(scene.model, t, array), InputError);
}

// the tape of a trajectory that someone else holds is not written again
TEST(TrajectoryTape, IsTakenFromItsLastOwnerOnly) {
  const Scene scene = zoo("contact_plane");
  const std::vector<RolloutInput> input(1, scene.input());
  std::vector<Trajectory> t(1);
  rollout_batch_into(scene.model, input, 3, {}, t);
  const Tape* first = t[0].tape.get();
  ASSERT_FALSE(first->contacts.empty());
  rollout_batch_into(scene.model, input, 3, {}, t);
  EXPECT_EQ(t[0].tape.get(), first);

  const Trajectory copy = t[0];
  EXPECT_EQ(copy.tape.get(), first);
  const Gradient expected = gradient(scene.model, copy);
  rollout_batch_into(scene.model, input, 2, {}, t);
  EXPECT_NE(t[0].tape.get(), first);
  EXPECT_EQ(gradient(scene.model, copy).qpos, expected.qpos);
}

TEST(TrajectoryTape, AdoptedTrajectoriesAreThoseOfTheOtherModel) {
  const Scene scene = zoo("contact_plane");
  const Trajectory t = rollout(scene.model, scene.input(), 3);
  const Model other =
      Model::from_mjmodel(scene.model.mj(), {.gradient_path = GradientPath::kOracle});
  EXPECT_THROW((void)gradient(other, t), InputError);
  const Trajectory own = adopted(other, t);
  EXPECT_TRUE(is_made_with(other, own));
  EXPECT_TRUE(is_made_with(scene.model, t));
  EXPECT_EQ(gradient(other, own).qpos.size(), t.qpos.size() / 4);
  EXPECT_THROW((void)adopted(zoo("humanoid").model, t), InputError);
}

}  // namespace
}  // namespace diffmj
