// Detection of contacts from distance, against mj_collision with wide gaps.
#include "stages/cfd/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "diffmj/error.h"
#include "harness/models.h"
#include "harness/stage_fixture.h"
#include "harness/tolerances.h"
#include "mj/call.h"
#include "record/input.h"
#include "setup/workspace_lease.h"
#include "stages/position/collision/detect.h"

namespace diffmj {
namespace {

constexpr double kWidth = 0.4;

const Cfd kAll{.law = CfdLaw{.width = kWidth}, .max_contacts = 10000};

bool convex(const mjModel* m, const mjContact& c) {
  return is_iterative(m, c.geom[0], c.geom[1]) && m->geom_type[c.geom[0]] != mjGEOM_HFIELD;
}

// in an order of their own; from distance, the nearest alone of what convex colliders find
std::vector<mjContact> sorted(const mjModel* m, std::vector<mjContact> contacts) {
  std::sort(contacts.begin(), contacts.end(), [](const mjContact& a, const mjContact& b) {
    return std::tuple(a.geom[0], a.geom[1], a.dist, a.pos[0], a.pos[1]) <
           std::tuple(b.geom[0], b.geom[1], b.dist, b.pos[0], b.pos[1]);
  });
  std::vector<mjContact> out;
  for (const mjContact& c : contacts) {
    const bool again = !out.empty() && c.dist >= c.includemargin && convex(m, c) &&
                       out.back().geom[0] == c.geom[0] && out.back().geom[1] == c.geom[1];
    if (!again) out.push_back(c);
  }
  return out;
}

// mj_collision at the scene's state: what touches; and with gaps of the width: what does not
std::vector<mjContact> mujoco_contacts(const Scene& scene, mjData* d) {
  const mjModel* m = scene.model.mj();
  std::vector<mjContact> out;
  MjModelPtr wide(mj_copyModel(nullptr, m));
  // the boxes of the mid phase know of margins, not of gaps
  wide->opt.disableflags |= mjDSBL_MIDPHASE;
  for (int g = 0; g < static_cast<int>(m->ngeom); g++) wide->geom_gap[g] = kWidth / 2;
  for (int p = 0; p < static_cast<int>(m->npair); p++) wide->pair_gap[p] = kWidth;
  for (const bool touching : {true, false}) {
    mj_call("mj_collision", [&] { mj_collision(touching ? m : wide.get(), d); });
    for (int i = 0; i < d->ncon; i++) {
      const mjContact& c = d->contact[i];
      const double r = c.dist - c.includemargin;
      if ((r < 0) == touching && r < kWidth) out.push_back(c);
    }
  }
  return sorted(m, out);
}

std::vector<mjContact> found_contacts(const Scene& scene, const Cfd& options, Workspace& workspace,
                                      CfdScratch& scratch) {
  const mjModel* m = scene.model.mj();
  mjData* d = workspace.data.get();
  const CfdModel cfd(m, options);
  bool fits = false;
  mj_call("cfd_contacts", [&] { fits = cfd_contacts(cfd, m, d, scratch); });
  EXPECT_TRUE(fits);
  EXPECT_EQ(scratch.law.size(), static_cast<size_t>(d->ncon));
  return {d->contact, d->contact + d->ncon};
}

void place(const Scene& scene, Workspace& workspace) {
  const mjModel* m = scene.model.mj();
  mjData* d = workspace.data.get();
  reset_data(scene.model, scene.mocap_pos, scene.mocap_quat, workspace);
  std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
  mj_kinematics(m, d);
  mj_comPos(m, d);
}

TEST(CfdPairs, FindWhatMujocoFinds) {
  int compared = 0;
  for (const std::string& name : zoo_names()) {
    const Scene scene = zoo(name);
    if (scene.model.gradient_path() != GradientPath::kAnalytic) continue;
    SCOPED_TRACE(name);
    WorkspaceLease workspace(scene.model.impl());
    place(scene, *workspace);
    const std::vector<mjContact> expected = mujoco_contacts(scene, workspace->data.get());
    CfdScratch scratch;
    const std::vector<mjContact> found =
        sorted(scene.model.mj(), found_contacts(scene, kAll, *workspace, scratch));
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); i++) {
      const mjContact &a = found[i], &b = expected[i];
      EXPECT_EQ(a.geom[0], b.geom[0]);
      EXPECT_EQ(a.geom[1], b.geom[1]);
      EXPECT_EQ(a.dim, b.dim);
      // what iterates is as good as its inflated geoms
      const double tolerance = a.dist >= 0 && convex(scene.model.mj(), a) ? 1e-3 : 1e-14;
      const auto same = [&](const mjtNum* x, const mjtNum* y, int n) {
        for (int k = 0; k < n; k++) EXPECT_NEAR(x[k], y[k], tolerance);
      };
      same(&a.dist, &b.dist, 1);
      same(&a.includemargin, &b.includemargin, 1);
      same(a.pos, b.pos, 3);
      same(a.frame, b.frame, 9);
      same(a.friction, b.friction, 5);
      same(a.solref, b.solref, mjNREF);
      same(a.solreffriction, b.solreffriction, mjNREF);
      same(a.solimp, b.solimp, mjNIMP);
      EXPECT_EQ(a.exclude, 0);
      compared++;
    }
  }
  EXPECT_GT(compared, 200);
}

// what the search remembers of the last state has no effect
TEST(CfdPairs, SearchDoesNotDependOnTheLastOne) {
  const Scene scene = hand_with_object();
  WorkspaceLease workspace(scene.model.impl());
  const mjModel* m = scene.model.mj();
  mjData* d = workspace->data.get();
  Cfd options = kAll;
  options.max_contacts = 5;
  const CfdModel cfd(m, options);
  CfdScratch scratch;
  for (int i = 0; i < 40; i++) {
    place(scene, *workspace);
    // near, then far apart, then near
    d->qpos[0] += i % 3 == 1 ? 0.15 : 0.002 * i;
    mj_kinematics(m, d);
    mj_comPos(m, d);
    CfdScratch fresh;
    const auto find = [&](CfdScratch& s) {
      mj_call("cfd_contacts", [&] { (void)cfd_contacts(cfd, m, d, s); });
      Vector r;
      for (int c = 0; c < d->ncon; c++) r.push_back(d->contact[c].dist);
      return r;
    };
    EXPECT_EQ(find(scratch), find(fresh));
  }
}

TEST(CfdPairs, CapKeepsTheNearest) {
  const Scene scene = hand_with_object();
  WorkspaceLease workspace(scene.model.impl());
  place(scene, *workspace);
  CfdScratch scratch;
  const auto distances = [&](int most) {
    Cfd options = kAll;
    options.max_contacts = most;
    Vector r;
    for (const mjContact& c : found_contacts(scene, options, *workspace, scratch)) {
      if (c.dist >= c.includemargin) r.push_back(c.dist - c.includemargin);
    }
    std::sort(r.begin(), r.end());
    return r;
  };
  const Vector all = distances(10000);
  ASSERT_GT(all.size(), 20U);
  EXPECT_EQ(scratch.counts.capped, 0);
  for (const int most : {1, 7, 20}) {
    const long before = scratch.counts.capped;
    const Vector nearest = distances(most);
    ASSERT_EQ(nearest.size(), static_cast<size_t>(most));
    // colliders that are asked with another margin round differently
    for (size_t i = 0; i < nearest.size(); i++) EXPECT_NEAR(nearest[i], all[i], 1e-12);
    EXPECT_EQ(scratch.counts.capped, before + 1);
  }
}

constexpr const char* kBalls = R"(
<mujoco>
  %s
  <worldbody>
    <geom name="a" size=".1"/>
    <body pos=".5 0 0"><freejoint/><geom name="b" size=".1"/></body>
    <body pos="1 0 0"><freejoint/><geom name="c" size=".1"/></body>
  </worldbody>
</mujoco>)";

std::vector<double> widths(const std::string& custom, const Cfd& options) {
  std::string xml = kBalls;
  xml.replace(xml.find("%s"), 2, custom);
  const Scene scene = scene_from_xml(xml);
  const CfdModel cfd(scene.model.mj(), options);
  std::vector<double> out;  // of a-b, a-c, b-c
  for (const CfdPair& pair : cfd.pairs()) out.push_back(cfd.law(pair.law).width);
  return out;
}

TEST(CfdPairs, LawsOfGeomsAndPairs) {
  using W = std::vector<double>;
  const CfdLaw one{.width = 1}, two{.width = 2}, none{.width = 0};
  EXPECT_EQ(widths("", {}), W({0.1, 0.1, 0.1}));
  EXPECT_EQ(widths("", {.law = one}), W({1, 1, 1}));
  EXPECT_EQ(widths("", {.geoms = {{"b", two}}}), W({2, 0.1, 2}));
  EXPECT_EQ(widths("", {.geoms = {{"b", two}, {"c", one}}}), W({2, 1, 2}));
  EXPECT_EQ(widths("", {.law = one, .pairs = {{{"c", "a"}, none}}}), W({1, 0, 1}));
  // from the model, and before it what is asked for
  const std::string custom =
      "<custom><numeric name='cfd' data='3 0 .1'/><numeric name='cfd_geom:b' data='4'/>"
      "<numeric name='cfd_pair:a,c' data='5'/></custom>";
  EXPECT_EQ(widths(custom, {}), W({4, 5, 4}));
  EXPECT_EQ(widths(custom, {.law = one, .geoms = {{"b", two}}}), W({2, 5, 2}));
}

// MuJoCo detects the two geoms of a <pair> within its own margin and gap, others within the sums of
// theirs
TEST(CfdPairs, MarginAndGapOfPredefinedPairsAreTheirOwn) {
  const Model model = Model::from_xml(
      "<mujoco><default><geom size='.1' margin='.01' gap='.02'/></default><worldbody>"
      "<body><freejoint/><geom name='a'/></body><body pos='1 0 0'><freejoint/><geom name='b'/>"
      "</body><body pos='2 0 0'><freejoint/><geom name='c'/></body></worldbody><contact>"
      "<pair geom1='a' geom2='b' margin='.1' gap='.3'/>"
      "<pair geom1='b' geom2='c' margin='.2' gap='.5'/></contact></mujoco>");
  const CfdModel cfd(model.mj(), kAll);
  std::vector<double> margin, touching;
  for (const CfdPair& pair : cfd.pairs()) {
    margin.push_back(pair.margin);
    touching.push_back(pair.touching);
  }
  ASSERT_EQ(touching.size(), 3U);
  const double expected_margin[] = {0.1, 0.2, 0.02}, expected[] = {0.4, 0.7, 0.06};
  for (size_t i = 0; i < 3; i++) {
    EXPECT_NEAR(margin[i], expected_margin[i], 1e-12) << i;
    EXPECT_NEAR(touching[i], expected[i], 1e-12) << i;
  }
}

TEST(CfdPairs, NamesWhatIsWrong) {
  const auto message = [](const std::string& custom, const Cfd& options) -> std::string {
    try {
      ModelOptions{.cfd = options}.validate();
      (void)widths(custom, options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message("", {.geoms = {{"x", {}}}}), "no geom 'x'");
  has(message("", {.geoms = {{"a", {.power = 0}}}}), "cfd of geom 'a': power is 0");
  has(message("", {.max_contacts = 0}), "max_contacts is 0");
  has(message("<custom><numeric name='cfd' data='-1'/></custom>", {}),
      "custom numeric 'cfd': width is -1");
  has(message("<custom><numeric name='cfd' data='1 2 3 4 5 6 7'/></custom>", {}), "7 numbers");
  has(message("<custom><numeric name='cfd_pair:a' data='1'/></custom>", {}), "comma");
}

}  // namespace
}  // namespace diffmj
