#include "stages/acceleration/constraint_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/models.h"
#include "mj/handle.h"
#include "stages/position/constraint_onset.h"

namespace diffmj {
namespace {

// A model, and the cases of its constraints at states that a test sets.
struct Cases {
  explicit Cases(const std::string& xml)
      : model(Model::from_xml(xml)), m(model.mj()), d(mj_makeData(m)) {}

  ConstraintCases now(double onset = 0) {
    forward_with_onset(m, d.get(), onset);
    ConstraintCases out;
    out.read(m, d.get(), {d->qacc, static_cast<size_t>(m->nv)});
    return out;
  }

  Model model;
  const mjModel* m;
  MjDataPtr d;
};

// With one constraint its number is linear in the force: I F / frictionloss, or y without it.
TEST(CaseChange, IsWhereAJointBeginsToSlide) {
  Cases joint(
      "<mujoco><option gravity='0 0 0'/><worldbody><body><joint type='slide' frictionloss='2' "
      "solimpfriction='.9 .9 .01'/>"
      "<geom size='.1' mass='1.5'/></body></worldbody></mujoco>");
  const auto at = [&](double force) {
    joint.d->qfrc_applied[0] = force;
    return joint.now();
  };
  const double slides = 2 / 0.9;
  CaseChange change(false);
  EXPECT_FALSE(change.find(at(-1), at(1)));
  for (const double sign : {-1.0, 1.0}) {
    ASSERT_TRUE(change.find(at(sign), at(6 * sign)));
    EXPECT_NEAR(change.share(), (slides - 1) / 5, 1e-9);
    ASSERT_TRUE(change.find(at(6 * sign), at(sign)));
    EXPECT_NEAR(change.share(), (6 - slides) / 5, 1e-9);
    // from one side, and from the other
    EXPECT_NEAR(change.beyond(at(0.5 * sign), at(sign), at(6 * sign), false), (slides - 1) / 0.5,
                1e-9);
    EXPECT_NEAR(change.beyond(at(7 * sign), at(6 * sign), at(sign), true), 6 - slides, 1e-9);
  }
  // from one direction to the other it sticks in between: the first of the two
  ASSERT_TRUE(change.find(at(-4), at(6)));
  EXPECT_NEAR(change.share(), (4 - slides) / 10, 1e-9);
}

TEST(CaseChange, IsWhereALimitCeasesToPush) {
  Cases joint(
      "<mujoco><option gravity='0 0 0'/><worldbody><body><joint name='j' type='slide' "
      "limited='true'"
      " range='0 1' solimplimit='.8 .8 .01'/><geom size='.1' mass='2'/></body></worldbody>"
      "</mujoco>");
  joint.d->qpos[0] = -0.002;
  const auto at = [&](double force) {
    joint.d->qfrc_applied[0] = force;
    return joint.now();
  };
  // where the acceleration without the limit is aref
  at(0);
  const double free = joint.d->efc_aref[0] * 2;
  CaseChange change(false);
  ASSERT_TRUE(change.find(at(free - 3), at(free + 1)));
  EXPECT_NEAR(change.share(), 0.75, 1e-9);
  EXPECT_FALSE(change.find(at(free - 3), at(free - 1)));
}

TEST(CaseChange, TellsTheZonesOfACone) {
  Cases ball(
      "<mujoco><option cone='elliptic' gravity='0 0 0'/><worldbody><geom type='plane' size='1 1 "
      "1'/>"
      "<body pos='0 0 .099'><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/>"
      "<geom size='.1' mass='1' friction='.5'/></body></worldbody></mujoco>");
  const auto at = [&](double sideways, double up) {
    ball.d->qfrc_applied[0] = sideways;
    ball.d->qfrc_applied[1] = up;
    return ball.now();
  };
  const ConstraintCases sticks = at(1, -30), slides = at(40, -30), leaves = at(0, 5000);
  ASSERT_EQ(ball.d->ncon, 1);
  CaseChange change(false);
  EXPECT_FALSE(change.find(sticks, at(2, -31)));
  EXPECT_FALSE(change.find(slides, at(-40, -31)));
  EXPECT_TRUE(change.find(sticks, slides));
  EXPECT_TRUE(change.find(sticks, leaves));
  EXPECT_TRUE(change.find(slides, leaves));
}

// The force of a contact that sets in over a width begins and ends without a corner of the field.
TEST(CaseChange, OnsetLeavesNoneWhereContactsBegin) {
  Cases ball(
      "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body><joint type='slide' axis='0 0 1'/>"
      "<geom size='.1'/></body></worldbody></mujoco>");
  const auto at = [&](double height, double onset) {
    ball.d->qpos[0] = height;
    return ball.now(onset);
  };
  CaseChange at_once(false), over_width(true);
  ASSERT_TRUE(at_once.find(at(0.1 + 1e-4, 0), at(0.1 - 1e-4, 0)));
  EXPECT_EQ(at_once.share(), 0.5);
  EXPECT_TRUE(at_once.find(at(0.1 - 1e-4, 0), at(0.1 + 1e-4, 0)));
  EXPECT_FALSE(over_width.find(at(0.1 + 1e-4, 1e-3), at(0.1 - 1e-4, 1e-3)));
  EXPECT_FALSE(over_width.find(at(0.1 - 1e-4, 1e-3), at(0.1 + 1e-4, 1e-3)));
  EXPECT_FALSE(over_width.find(at(0.2, 1e-3), at(0.3, 1e-3)));
}

// Its slope jumps where the impedance becomes flat if its power is 1, and only then.
TEST(CaseChange, IsWhereALinearImpedanceBecomesFlat) {
  for (const int power : {1, 2}) {
    Cases ball("<mujoco><default><geom solimp='.5 .9 .01 .5 " + std::to_string(power) +
               "'/></default><worldbody><geom type='plane' size='1 1 1'/><body><joint type='slide' "
               "axis='0 0 1'/><geom size='.1'/></body></worldbody></mujoco>");
    const auto at = [&](double depth) {
      ball.d->qpos[0] = 0.1 - depth;
      return ball.now();
    };
    CaseChange change(false);
    EXPECT_EQ(change.find(at(.004), at(.012)), power == 1);
    if (power == 1) {
      EXPECT_NEAR(change.share(), 0.75, 1e-9);
    }
    EXPECT_FALSE(change.find(at(.004), at(.006)));
  }
}

// Two boxes: one is lifted off, and the contacts of the other are still the same.
TEST(CaseChange, FollowsContactsWhoseNumbersChange) {
  Cases boxes(
      "<mujoco><worldbody><geom type='plane' size='1 1 1'/>"
      "<body pos='0 0 .0999'><joint type='slide' axis='0 0 1'/><geom type='box' size='.1 .1 .1'/>"
      "</body><body pos='1 0 .0999'><joint type='slide' axis='0 0 1'/>"
      "<geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>");
  const auto at = [&](double first, double force) {
    boxes.d->qpos[0] = first;
    boxes.d->qfrc_applied[1] = force;
    return boxes.now(1e-3);
  };
  CaseChange change(true);
  EXPECT_FALSE(change.find(at(0, 0), at(0.01, 0)));
  EXPECT_FALSE(change.find(at(0.01, 0), at(0, 0)));
  EXPECT_TRUE(change.find(at(0, 0), at(0.01, 1e5)));
}

}  // namespace
}  // namespace diffmj
