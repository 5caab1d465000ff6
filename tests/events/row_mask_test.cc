// Which limits and contacts are active, and which are suppressed.
#include "events/row_mask.h"

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
  void suppress(mjData* d) { mask_.suppress(d, true); }
  bool is_suppressed(int row) const { return d_->efc_aref[row] < -1e12; }

  Model model_;
  MjDataPtr d_;
  RowMask mask_{model_.mj()};
};

// 1e-14 m inside is not inside, whatever is known
TEST_F(RowMaskTest, OnTheMarginNothingIsActive) {
  suppress(at(0, {-1e-14, -1e-3, -1e-14}, {0, 0, 0}));
  ASSERT_EQ(d_->nefc, 2 + 4);  // limits, and a pyramid
  for (const int row : {0, 2, 3, 4, 5}) EXPECT_TRUE(is_suppressed(row)) << row;
  EXPECT_FALSE(is_suppressed(1));
  EXPECT_TRUE(mask_.begun().empty());
  EXPECT_FALSE(mask_.lost());
}

TEST_F(RowMaskTest, WhatHasBecomeActiveIsSuppressedAndDescribed) {
  mask_.set_base(at(0, {.01, -.01, .01}, {-1, 0, -1}), 0);
  suppress(at(.011, {-.001, -.01, -.001}, {-1, 0, -2}));
  ASSERT_EQ(mask_.begun().size(), 2U);
  const RowMask::Row &limit = mask_.begun()[0], contact = mask_.begun()[1];
  EXPECT_EQ(limit.what.type, mjCNSTR_LIMIT_JOINT);
  EXPECT_EQ(limit.what.id, 0);
  EXPECT_NEAR(limit.phi, -.001, 1e-12);
  EXPECT_NEAR(limit.what.rate, -1, 1e-12);
  EXPECT_NEAR(limit.since(), .001, 1e-9);
  EXPECT_EQ(contact.what.type, mjCNSTR_CONTACT_PYRAMIDAL);
  EXPECT_EQ(contact.what.nrow, 4);
  EXPECT_NEAR(contact.what.rate, -2, 1e-12);
  EXPECT_TRUE(is_suppressed(limit.what.row));
  EXPECT_TRUE(is_suppressed(contact.what.row + 3));
  EXPECT_FALSE(is_suppressed(1));
  EXPECT_EQ(&earliest(mask_.begun()), &mask_.begun()[0]);

  // what it says of the contact outlives the evaluation
  at(.1, {1, 1, 1}, {0, 0, 0});
  ASSERT_EQ(d_->ncon, 0);
  EXPECT_EQ(contact.what.geom[0], mj_name2id(model_.mj(), mjOBJ_GEOM, "floor"));
  EXPECT_EQ(contact.what.geom[1], mj_name2id(model_.mj(), mjOBJ_GEOM, "ball"));
}

TEST_F(RowMaskTest, WhatCannotHaveComeSinceIsNotSuppressed) {
  mask_.set_base(at(0, {.01, .01, .01}, {-1, 0, -1}), 0);
  EXPECT_TRUE(mask_.find(at(.001, {.01, -.5, .01}, {-1, 0, -1})).empty());
}

// a base that was kept does what it did where it was found
TEST_F(RowMaskTest, BaseIsAValue) {
  const EventConstraint released{.type = mjCNSTR_LIMIT_JOINT, .id = 1, .row = 0, .nrow = 1};
  mask_.set_base(at(.5, {.01, -1e-12, -.01}, {-1, .01, 0}), .5, std::span(&released, 1));
  const RowBase base = mask_.base();
  EXPECT_EQ(base.time, .5);
  EXPECT_EQ(base.released, std::vector<int>{0});
  RowMask other(model_.mj());
  (void)other.find(at(.6, {.01, .01, .01}, {0, 0, 0}));
  other.set_base(base);
  for (const double z : {-.01, .01}) {
    const mjData* d = at(.511, {-.001, -1e-9, z}, {-1, .01, 0});
    (void)mask_.find(d);
    (void)other.find(d);
    ASSERT_EQ(other.begun().size(), 1U);
    EXPECT_EQ(mask_.begun().size(), 1U);
    EXPECT_EQ(other.begun()[0].what.row, mask_.begun()[0].what.row);
    EXPECT_EQ(other.lost(), mask_.lost());
    EXPECT_EQ(other.lost(), z > 0);
  }
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
  suppress(at(.001, {-1e-14, .1, .1}, {1, 0, 0}));
  EXPECT_TRUE(mask_.lost());
  EXPECT_TRUE(is_suppressed(0));
  (void)mask_.find(at(.001, {1e-14, .1, .1}, {1, 0, 0}));
  EXPECT_TRUE(mask_.lost());
}

// a released one carries no force while it leaves, and is new when it comes back
TEST_F(RowMaskTest, ReleasedOnesAreSuppressedUntilTheyComeBack) {
  for (const bool at_next : {false, true}) {
    const EventConstraint released{.type = mjCNSTR_LIMIT_JOINT, .id = 0, .row = 0, .nrow = 1};
    const std::span<const EventConstraint> all(&released, 1);
    mjData* start = at(0, {-5e-13, -.01, .1}, {.01, 0, 0});
    if (at_next) {
      mask_.set_base_at_next(0, all);
    } else {
      mask_.set_base(start, 0, all);
    }
    suppress(start);
    EXPECT_TRUE(is_suppressed(0));
    EXPECT_FALSE(is_suppressed(1));
    EXPECT_TRUE(mask_.begun().empty());
    EXPECT_FALSE(mask_.lost());
    suppress(at(.001, {-1e-9, -.01, .1}, {-.01, 0, 0}));
    EXPECT_EQ(mask_.begun().size(), 1U);
    EXPECT_TRUE(is_suppressed(0));
    mask_.clear_base();
    suppress(at(.001, {-1e-9, -.01, .1}, {-.01, 0, 0}));
    EXPECT_FALSE(is_suppressed(0));
  }
}

}  // namespace
}  // namespace diffmj
