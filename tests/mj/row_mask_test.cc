// Which limits and contacts are active, and which are held back.
#include "mj/row_mask.h"

#include <gtest/gtest.h>

#include "harness/models.h"
#include "mj/handle.h"

namespace diffmj {
namespace {

// two sliders with a limit at 0, and a ball above a floor
const char kScene[] = R"(<mujoco><option gravity='0 0 0'/><worldbody>
    <geom name='floor' type='plane' size='5 5 .1'/>
    <body pos='0 0 5'><joint name='a' type='slide' axis='1 0 0' limited='true' range='0 9'/>
    <geom size='.1' contype='0' conaffinity='0'/></body>
    <body pos='0 3 5'><joint name='b' type='slide' axis='1 0 0' limited='true' range='0 9'/>
    <geom size='.1' contype='0' conaffinity='0'/></body>
    <body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><geom name='ball' size='.1'/></body>
    </worldbody></mujoco>)";

class RowMaskTest : public ::testing::Test {
 protected:
  RowMaskTest() : model_(Model::from_xml(kScene)), d_(mj_makeData(model_.mj())) {}

  mjData* at(double time, const Vector& qpos, const Vector& qvel) {
    d_->time = time;
    std::copy(qpos.begin(), qpos.end(), d_->qpos);
    std::copy(qvel.begin(), qvel.end(), d_->qvel);
    mj_fwdPosition(model_.mj(), d_.get());
    mj_fwdVelocity(model_.mj(), d_.get());
    return d_.get();
  }
  bool is_held(int row) const { return d_->efc_aref[row] < -1e12; }

  Model model_;
  MjDataPtr d_;
  RowMask mask_{model_.mj()};
};

// 1e-14 m inside is not inside, whatever is known
TEST_F(RowMaskTest, OnTheMarginNothingIsActive) {
  mask_.hold(at(0, {-1e-14, -1e-3, -1e-14}, {0, 0, 0}));
  ASSERT_EQ(d_->nefc, 2 + 4);  // limits, and a pyramid
  for (const int row : {0, 2, 3, 4, 5}) EXPECT_TRUE(is_held(row)) << row;
  EXPECT_FALSE(is_held(1));
  EXPECT_TRUE(mask_.rows().empty());
  EXPECT_FALSE(mask_.lost());
}

TEST_F(RowMaskTest, WhatHasBecomeActiveIsHeldAndDescribed) {
  mask_.set_base(at(0, {.01, -.01, .01}, {-1, 0, -1}), 0);
  mask_.hold(at(.011, {-.001, -.01, -.001}, {-1, 0, -2}));
  ASSERT_EQ(mask_.rows().size(), 2U);
  const RowMask::Row &limit = mask_.rows()[0], contact = mask_.rows()[1];
  EXPECT_EQ(limit.what.type, mjCNSTR_LIMIT_JOINT);
  EXPECT_EQ(limit.what.id, 0);
  EXPECT_NEAR(limit.phi, -.001, 1e-12);
  EXPECT_NEAR(limit.what.rate, -1, 1e-12);
  EXPECT_NEAR(limit.since(), .001, 1e-9);
  EXPECT_EQ(contact.what.type, mjCNSTR_CONTACT_PYRAMIDAL);
  EXPECT_EQ(contact.what.nrow, 4);
  EXPECT_NEAR(contact.what.rate, -2, 1e-12);
  EXPECT_TRUE(is_held(limit.what.row));
  EXPECT_TRUE(is_held(contact.what.row + 3));
  EXPECT_FALSE(is_held(1));
  EXPECT_EQ(&earliest(mask_.rows()), &mask_.rows()[0]);

  // what it says of the contact outlives the evaluation
  at(.1, {1, 1, 1}, {0, 0, 0});
  ASSERT_EQ(d_->ncon, 0);
  EXPECT_EQ(contact.what.geom[0], mj_name2id(model_.mj(), mjOBJ_GEOM, "floor"));
  EXPECT_EQ(contact.what.geom[1], mj_name2id(model_.mj(), mjOBJ_GEOM, "ball"));
}

TEST_F(RowMaskTest, WhatCannotHaveComeSinceIsNotHeld) {
  mask_.set_base(at(0, {.01, .01, .01}, {-1, 0, -1}), 0);
  EXPECT_TRUE(mask_.find(at(.001, {.01, -.5, .01}, {-1, 0, -1})).empty());
}

// the base is what was active, not what MuJoCo listed
TEST_F(RowMaskTest, FromTheMarginItBecomesActive) {
  mask_.set_base(at(0, {-1e-14, .1, .1}, {0, 0, 0}), 0);
  EXPECT_TRUE(mask_.find(at(1e-6, {-5e-14, .1, .1}, {-1e-7, 0, 0})).empty());
  ASSERT_EQ(mask_.find(at(1e-6, {-5e-12, .1, .1}, {-1e-5, 0, 0})).size(), 1U);
  EXPECT_FALSE(mask_.lost());
}

TEST_F(RowMaskTest, WhatLeavesIsLostAtTheMargin) {
  mask_.set_base(at(0, {-.001, .1, .1}, {1, 0, 0}), 0);
  EXPECT_TRUE(mask_.find(at(.0005, {-.0005, .1, .1}, {1, 0, 0})).empty());
  EXPECT_FALSE(mask_.lost());
  ASSERT_EQ(mask_.leaving().size(), 1U);
  EXPECT_NEAR(mask_.leaving()[0].phi, -.0005, 1e-12);
  mask_.hold(at(.001, {-1e-14, .1, .1}, {1, 0, 0}));
  EXPECT_TRUE(mask_.lost());
  EXPECT_TRUE(is_held(0));
  (void)mask_.find(at(.001, {1e-14, .1, .1}, {1, 0, 0}));
  EXPECT_TRUE(mask_.lost());
}

// a released one carries no force while it leaves, and is new when it comes back
TEST_F(RowMaskTest, ReleasedOnesAreHeldUntilTheyComeBack) {
  for (const bool at_next : {false, true}) {
    const EventConstraint released{.type = mjCNSTR_LIMIT_JOINT, .id = 0, .row = 0, .nrow = 1};
    const std::span<const EventConstraint> all(&released, 1);
    mjData* start = at(0, {-5e-13, -.01, .1}, {.01, 0, 0});
    if (at_next) {
      mask_.set_base_at_next(0, all);
    } else {
      mask_.set_base(start, 0, all);
    }
    mask_.hold(start);
    EXPECT_TRUE(is_held(0));
    EXPECT_FALSE(is_held(1));
    EXPECT_TRUE(mask_.rows().empty());
    EXPECT_FALSE(mask_.lost());
    mask_.hold(at(.001, {-1e-9, -.01, .1}, {-.01, 0, 0}));
    EXPECT_EQ(mask_.rows().size(), 1U);
    EXPECT_TRUE(is_held(0));
    mask_.clear_base();
    mask_.hold(at(.001, {-1e-9, -.01, .1}, {-.01, 0, 0}));
    EXPECT_FALSE(is_held(0));
  }
}

}  // namespace
}  // namespace diffmj
