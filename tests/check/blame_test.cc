// responsible(): a disagreement is traced to the contact, limit, actuator or joint it comes from.
#include "check/blame.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <functional>
#include <random>
#include <string>

#include "check/directions.h"
#include "diffmj/check.h"
#include "diffmj/state.h"

namespace diffmj {
namespace {

// two balls and a capsule on a floor, an arm at its limit with two motors and a spring
const char* const kScene = R"(<mujoco><option timestep='.002'/><worldbody>
    <geom name='floor' type='plane' size='5 5 1'/>
    <body pos='0 0 .098'><freejoint/><geom name='ball' size='.1'/></body>
    <body pos='1 0 .097'><freejoint/><geom name='other' size='.1'/></body>
    <body pos='2 0 .049'><freejoint/><geom name='capsule' type='capsule' size='.05 .1'
      euler='0 80 0'/></body>
    <body pos='3 0 1'><joint name='shoulder' axis='0 1 0' damping='.2' stiffness='3'/>
      <geom name='upper' type='capsule' size='.03' fromto='0 0 0 .3 0 0' contype='0' conaffinity='0'/>
      <body pos='.3 0 0'><joint name='elbow' axis='0 1 0' limited='true' range='-30 30' damping='.1'/>
        <geom type='capsule' size='.03' fromto='0 0 0 .2 0 .05' contype='0' conaffinity='0'/></body>
    </body></worldbody>
    <actuator><motor name='lift' joint='shoulder' gear='2'/>
      <position name='bend' joint='elbow' kp='5'/></actuator></mujoco>)";

struct Case {
  Model model = Model::from_xml(kScene).tightened();
  State x = default_state(model);
  Vector ctrl = {0.3, 3};
  RolloutFunction function;

  Case() : function(make()) {
    std::mt19937 random(2);
    for (Vector* bar : {&function.qpos_bar, &function.qvel_bar, &function.act_bar}) {
      *bar = random_vector(bar->size(), 1, random);
    }
  }
  RolloutFunction make() {
    std::mt19937 random(1);
    const size_t elbow = x.qpos.size() - 1;
    x.qpos[elbow - 1] = 0.2;
    x.qpos[elbow] = 35 * mjPI / 180;
    x.qvel = random_vector(x.qvel.size(), 0.1, random);
    x.qvel.back() = 0.5;
    return {model, {.qpos = x.qpos, .qvel = x.qvel, .act = x.act, .ctrl = ctrl}, 1, {}};
  }
  // what is blamed for the gradient of a model whose numbers were changed
  std::string blame(const std::function<void(mjModel*)>& spoil) const {
    return responsible(model, function, 1e-5, [&](const Model& right) {
      mjModel* m = mj_copyModel(nullptr, right.mj());
      spoil(m);
      const Model wrong = Model::from_mjmodel(m, right.options());
      mj_deleteModel(m);
      return wrong;
    });
  }
};

TEST(Blame, NamesTheContact) {
  const Case c;
  const int other = mj_name2id(c.model.mj(), mjOBJ_GEOM, "other"),
            capsule = mj_name2id(c.model.mj(), mjOBJ_GEOM, "capsule");
  // the diagonal that a contact's softness is relative to
  const auto stiffer = [](mjModel* m, int geom) {
    m->body_invweight0[2 * m->geom_bodyid[geom]] *= 0.5;
  };
  EXPECT_EQ(c.blame([&](mjModel* m) { stiffer(m, other); }),
            "the contact of geom 'floor' and geom 'other'");
  EXPECT_EQ(c.blame([&](mjModel* m) {
    stiffer(m, other);
    stiffer(m, capsule);
  }),
            "the contact of geom 'floor' and geom 'other', the contact of geom 'floor' and geom "
            "'capsule'");
}

TEST(Blame, NamesTheLimit) {
  const Case c;
  const int elbow = mj_name2id(c.model.mj(), mjOBJ_JOINT, "elbow");
  EXPECT_EQ(c.blame([&](mjModel* m) { m->jnt_solimp[mjNIMP * elbow + 1] = 0.97; }),
            "the limit of joint 'elbow'");
}

TEST(Blame, NamesTheActuator) {
  const Case c;
  EXPECT_EQ(c.blame([](mjModel* m) { m->actuator_biasprm[mjNBIAS + 1] *= 1.1; }),
            "actuator 'bend'");
  EXPECT_EQ(c.blame([](mjModel* m) { m->actuator_gainprm[0] *= 1.1; }), "actuator 'lift'");
}

TEST(Blame, NamesTheJoint) {
  const Case c;
  const int shoulder = mj_name2id(c.model.mj(), mjOBJ_JOINT, "shoulder");
  EXPECT_EQ(c.blame([&](mjModel* m) { m->jnt_stiffness[shoulder] *= 1.1; }),
            "the spring or damper of joint 'shoulder'");
  EXPECT_EQ(c.blame([&](mjModel* m) { m->dof_damping[m->jnt_dofadr[shoulder]] *= 2; }),
            "the spring or damper of joint 'shoulder'");
}

TEST(Blame, NamesWhatRemains) {
  const Case c;
  const std::string text = c.blame([](mjModel* m) {
    for (int i = 0; i < m->nbody; i++) m->body_mass[i] *= 1.01;
  });
  EXPECT_NE(text.find("inertia, gravity or the integrator"), std::string::npos) << text;
}

}  // namespace
}  // namespace diffmj
