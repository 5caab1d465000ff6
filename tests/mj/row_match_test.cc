#include "mj/row_match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "harness/models.h"

namespace diffmj {
namespace {

struct Rows {
  explicit Rows(const Scene& scene)
      : m(scene.model.mj()), d(mj_makeData(m), mj_deleteData), x(scene.x) {}
  const mjData* at(const Vector& dq) {
    std::copy(x.qpos.begin(), x.qpos.end(), d->qpos);
    mj_integratePos(m, d->qpos, dq.data(), 1);
    mj_fwdPosition(m, d.get());
    return d.get();
  }
  const mjModel* m;
  std::unique_ptr<mjData, void (*)(mjData*)> d;
  State x;
};

TEST(RowMatch, FindsEveryRowOfTheSamePose) {
  for (const std::string& name : zoo_names()) {
    const Scene scene = zoo(name);
    Rows rows(scene);
    const Vector still(static_cast<size_t>(scene.model.nv()), 0.0);
    RowMatch match;
    match.set_base(rows.at(still));
    ASSERT_TRUE(match.match(rows.at(still))) << name;
    for (int i = 0; i < rows.d->nefc; i++) EXPECT_EQ(match.base_row(i), i) << name;
  }
}

// a box turned by 45 degrees on a box, four contacts: yaw permutes them, a lift removes them
TEST(RowMatch, FollowsContactsThatChangeTheirOrder) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><geom type='box' size='.3 .3 .1'/><body pos='0 0 .198' euler='0 0 45'>"
      "<freejoint/><geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>");
  Rows rows({.name = "turned box", .model = model, .x = default_state(model)});
  const mjData* d = rows.at(Vector(6, 0.0));
  ASSERT_EQ(d->ncon, 4);
  std::vector<Vector> base;  // position of the contact of every row
  for (int i = 0; i < d->nefc; i++) {
    const double* pos = d->contact[d->efc_id[i]].pos;
    base.emplace_back(pos, pos + 3);
  }
  RowMatch match;
  match.set_base(d);
  for (double yaw : {1e-7, -1e-7, 1e-5, -1e-5}) {
    d = rows.at({0, 0, 0, 0, 0, yaw});
    ASSERT_TRUE(match.match(d)) << yaw;
    for (int i = 0; i < d->nefc; i++) {
      const Vector& pos = base[static_cast<size_t>(match.base_row(i))];
      EXPECT_LT(mju_dist3(d->contact[d->efc_id[i]].pos, pos.data()), 1e-4) << yaw;
    }
  }
  EXPECT_FALSE(match.match(rows.at({0, 0, 0.01, 0, 0, 0})));
}

// what appears has no base row, and does not hide what was there
TEST(RowMatch, NewRowsAreNew) {
  const Scene scene = zoo("contact_plane");
  Rows rows(scene);
  const auto nv = static_cast<size_t>(scene.model.nv());
  Vector lifted(nv, 0.0);
  lifted[2] = 1;  // the first body off the floor
  RowMatch match;
  match.set_base(rows.at(lifted));
  const int nbase = rows.d->nefc;
  const mjData* d = rows.at(Vector(nv, 0.0));
  ASSERT_GT(d->nefc, nbase);
  EXPECT_TRUE(match.match(d));
  int fresh = 0;
  for (int i = 0; i < d->nefc; i++) fresh += match.base_row(i) < 0 ? 1 : 0;
  EXPECT_EQ(fresh, d->nefc - nbase);
}

}  // namespace
}  // namespace diffmj
