// Every kind of constraint row in a model made for it: the gradient of one step against
// differences of mj_step. Each case says which rows it is about and which piece of their cost they
// must be on, so that none passes because nothing acts.
#include "stages/position/constraint_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "setup/workspace_lease.h"
#include "stages/acceleration/constraint_solve.h"

namespace diffmj {
namespace {

struct Case {
  std::string name;
  std::string xml;    // between <mujoco> and </mujoco>
  Vector qpos, qvel;  // empty: the model's, 0
  int type;           // mjtConstraint of the rows
  Zone zone;          // of at least nrow of them
  int nrow = 1;
  bool only = false;  // no row of this type is on another piece
};

// rows of the solution at the scene's state, solver at machine precision
struct Solved {
  explicit Solved(const Scene& scene)
      : model(scene.model.tightened()), lease(model.impl()), d(lease->data.get()) {
    mj_resetData(model.mj(), d);
    mju_copy(d->qpos, scene.x.qpos.data(), model.nq());
    mju_copy(d->qvel, scene.x.qvel.data(), model.nv());
    mju_copy(d->ctrl, scene.ctrl.data(), model.nu());
    mj_forward(model.mj(), d);
    const Vector qacc(d->qacc, d->qacc + model.nv());
    newton_factorize(model.mj(), d, qacc, *lease);
  }
  int count(int type, Zone zone) const {
    int n = 0;
    for (int i = 0; i < d->nefc; i += constraint_rows_at(d, i)) {
      if (d->efc_type[i] != type || lease->newton.zone[static_cast<size_t>(i)] != zone) continue;
      n++;
    }
    return n;
  }
  int count(int type) const {
    int n = 0;
    for (Zone zone : {Zone::kSatisfied, Zone::kQuadratic, Zone::kLinear, Zone::kCone}) {
      n += count(type, zone);
    }
    return n;
  }
  std::string rows() const {
    std::string out = std::to_string(d->ncon) + " contacts, rows (type, zone, pos, force):";
    for (int i = 0; i < d->nefc; i++) {
      out += " (" + std::to_string(d->efc_type[i]) + ", " +
             std::to_string(static_cast<int>(lease->newton.zone[static_cast<size_t>(i)])) + ", " +
             std::to_string(d->efc_pos[i]) + ", " + std::to_string(d->efc_force[i]) + ")";
    }
    return out;
  }
  Model model;
  mutable WorkspaceLease lease;
  mjData* d;
};

Scene scene_of(const Case& c) {
  const Model model = Model::from_xml("<mujoco>" + c.xml + "</mujoco>");
  Scene scene{.name = c.name, .model = model, .x = default_state(model)};
  if (!c.qpos.empty()) scene.x.qpos = c.qpos;
  if (!c.qvel.empty()) scene.x.qvel = c.qvel;
  scene.ctrl.assign(static_cast<size_t>(model.nu()), 0.3);
  return scene;
}

void gradient_is_exact(const Case& c) {
  SCOPED_TRACE(c.name);
  const Scene scene = scene_of(c);
  ASSERT_EQ(scene.x.qpos.size(), static_cast<size_t>(scene.model.nq()));
  ASSERT_EQ(scene.x.qvel.size(), static_cast<size_t>(scene.model.nv()));
  ASSERT_EQ(scene.model.gradient_path(), GradientPath::kAnalytic)
      << scene.model.gradient_path_reason();
  const Solved solved(scene);
  ASSERT_GE(solved.count(c.type, c.zone), c.nrow) << solved.rows();
  if (c.only) {
    ASSERT_EQ(solved.count(c.type, c.zone), solved.count(c.type)) << solved.rows();
  }
  const size_t n = rollout_ntangent(scene, 1);
  EXPECT_TRUE(check_pullback(rollout_operation(scene, 1), Vector(n), n,
                             {.tolerance = tolerances().step, .step = 1e-4, .directions = 6}))
      << solved.rows();
}

class ConstraintRows : public ::testing::TestWithParam<Case> {};
TEST_P(ConstraintRows, MatchDifferences) { gradient_is_exact(GetParam()); }

std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

// --- equality
// ---------------------------------------------------------------------------------------

// a chain of a free body and a ball joint, and a second body that moves by itself; all bodies,
// sites and joints have names
const std::string kTwoTrees =
    "<option timestep='.003'/><default><geom contype='0' conaffinity='0'/>"
    "<equality solref='.03 .9' solimp='.3 .95 .5 .4 3'/></default><worldbody>"
    "<site name='fixed' pos='.2 .1 .4' euler='20 10 40'/><body name='a' pos='0 0 .3'><freejoint/>"
    "<geom type='box' size='.1 .05 .03'/><site name='on_a' pos='.1 .02 .05' euler='10 -20 30'/>"
    "<body name='b' pos='.2 0 .05'><joint type='ball' pos='-.1 0 0' damping='.1'/>"
    "<geom type='box' size='.08 .04 .05'/><site name='on_b' pos='.03 -.05 .02' euler='5 40 -10'/>"
    "</body></body><body name='c' pos='.3 .2 .4'><joint name='h' axis='.3 1 .2'/>"
    "<joint name='s' type='slide' axis='1 .2 .1' pos='.05 0 0'/>"
    "<geom type='box' size='.06 .07 .05' pos='.1 .02 .04'/>"
    "<site name='on_c' pos='-.05 .03 .06' euler='-30 15 20'/></body></worldbody><equality>";
const Vector kTwoTreesQpos = {0.05, -0.03, 0.33, 0.9, 0.2, -0.3, 0.25,  //
                              0.85, -0.3,  0.35, 0.2,                   //
                              0.4,  0.15};
const Vector kTwoTreesQvel = {0.3, -0.4, 0.2, 0.8, -0.5, 0.6, -0.7, 0.4, 0.9, 0.5, -0.3};

Case equality(const std::string& name, const std::string& what, int nrow) {
  return {name,
          kTwoTrees + what + "</equality>",
          kTwoTreesQpos,
          kTwoTreesQvel,
          mjCNSTR_EQUALITY,
          Zone::kQuadratic,
          nrow};
}

const Case kEquality[] = {
    equality("connect_bodies", "<connect body1='a' body2='c' anchor='.1 .02 .03'/>", 3),
    equality("connect_world", "<connect body1='b' anchor='.1 .02 .03'/>", 3),
    equality("connect_sites", "<connect site1='on_b' site2='on_c'/>", 3),
    equality("connect_site_of_world", "<connect site1='on_b' site2='fixed'/>", 3),
    equality("connect_world_first", "<connect site1='fixed' site2='on_c'/>", 3),
    equality("connect_same_tree", "<connect site1='on_a' site2='on_b'/>", 3),
    equality("connect_stiff", "<connect site1='on_a' site2='on_c' solimp='.9 .95 .001 .5 2'/>", 3),
    equality("connect_direct", "<connect body1='a' body2='c' anchor='0 0 0' solref='-400 -25'/>",
             3),
    equality("weld_bodies", "<weld body1='a' body2='c'/>", 6),
    equality("weld_relpose",
             "<weld body1='b' body2='c' relpose='.1 .2 -.1 .8 .3 .4 -.2' torquescale='.4' "
             "anchor='.05 .02 -.03'/>",
             6),
    equality("weld_world", "<weld body1='a' torquescale='2.5'/>", 6),
    equality("weld_world_relpose",
             "<weld body1='c' relpose='.1 .2 .3 .9 .1 .3 -.2' torquescale='.7'/>", 6),
    equality("weld_sites", "<weld site1='on_b' site2='on_c' torquescale='.6'/>", 6),
    equality("weld_site_of_world", "<weld site1='on_a' site2='fixed'/>", 6),
    equality("weld_world_first", "<weld site1='fixed' site2='on_b' torquescale='3'/>", 6),
    equality("weld_same_tree", "<weld body1='a' body2='b' torquescale='1.5'/>", 6),
    equality("joint_quartic",
             "<joint joint1='h' joint2='s' polycoef='.1 .7 -.8 1.2 2.5' solref='.05 1'/>", 1),
    equality("joint_constant", "<joint joint1='h' polycoef='.2 0 0 0 0'/>", 1),
    equality("all_at_once",
             "<connect site1='on_a' site2='on_c'/><weld body1='b' body2='c' torquescale='.4'/>"
             "<joint joint1='s' joint2='h' polycoef='0 1 .5 -.3 .2'/>",
             10),
};
INSTANTIATE_TEST_SUITE_P(Equality, ConstraintRows, ::testing::ValuesIn(kEquality), case_name);

// --- friction loss and limits
// -----------------------------------------------------------------------

std::string arm(const std::string& joint1, const std::string& joint2) {
  return "<option timestep='.003'/><default><geom contype='0' conaffinity='0' mass='1' size='.05'/>"
         "</default><worldbody><body pos='0 0 1'><joint axis='0 1 .2' " +
         joint1 + "/><geom pos='.2 .03 .1'/><body pos='.3 0 0'><joint " + joint2 +
         "/><geom pos='.1 .1 -.1'/></body></body></worldbody>";
}
const std::string kSoft = " solreflimit='.04 .8' solimplimit='.4 .9 .2 .3 2.5'";

const Case kScalar[] = {
    {"friction_sliding",
     arm("frictionloss='.3'", "axis='1 0 .3' frictionloss='.2'"),
     {0.3, -0.4},
     {2, -1.5},
     mjCNSTR_FRICTION_DOF,
     Zone::kLinear,
     2},
    {"friction_sticking",
     arm("frictionloss='30' solreffriction='.05 1'",
         "axis='1 0 .3' frictionloss='20' "
         "solreffriction='-10 -5' solimpfriction='.5 .8 .3 .5 2'"),
     {0.3, -0.4},
     {0.02, -0.01},
     mjCNSTR_FRICTION_DOF,
     Zone::kQuadratic,
     2},
    {"friction_one_of_each",
     arm("frictionloss='30'", "axis='1 0 .3' frictionloss='.2'"),
     {0.3, -0.4},
     {0.02, -1.5},
     mjCNSTR_FRICTION_DOF,
     Zone::kLinear,
     1},
    {"friction_of_a_ball",
     arm("frictionloss='.2'", "type='ball' frictionloss='5' solreffriction='.05 1'"),
     {0.3, 0.8, 0.3, -0.2, 0.4},
     {1, 0.03, -0.02, 0.01},
     mjCNSTR_FRICTION_DOF,
     Zone::kQuadratic,
     3},
    {"limit_lower",
     arm("limited='true' range='-10 50'" + kSoft, "axis='1 0 .3'"),
     {-0.25, 0.2},
     {-0.5, 0.3},
     mjCNSTR_LIMIT_JOINT,
     Zone::kQuadratic,
     1},
    {"limit_upper",
     arm("limited='true' range='-50 10'" + kSoft, "axis='1 0 .3'"),
     {0.25, 0.2},
     {0.9, 0.3},
     mjCNSTR_LIMIT_JOINT,
     Zone::kQuadratic,
     1},
    {"limit_both_sides",
     arm("limited='true' range='-10 14' margin='.9' solreflimit='.04 1' solimplimit='.4 .9 1'",
         "axis='1 0 .3'"),
     {0.03, 0.2},
     {0.1, 0.3},
     mjCNSTR_LIMIT_JOINT,
     Zone::kQuadratic,
     2},
    {"limit_in_margin",
     arm("limited='true' range='-10 50' margin='.3'" + kSoft, "axis='1 0 .3'"),
     {0, 0.2},
     {-0.5, 0.3},
     mjCNSTR_LIMIT_JOINT,
     Zone::kQuadratic,
     1},
    {"limit_of_slides",
     arm("type='slide' limited='true' range='-.1 .1'" + kSoft,
         "type='slide' limited='true' range='-.2 .1' axis='0 1 .5'" + kSoft),
     {0.16, -0.23},
     {0.3, -0.4},
     mjCNSTR_LIMIT_JOINT,
     Zone::kQuadratic,
     2},
    {"limit_leaves",
     arm("limited='true' range='-10 50'" + kSoft, "axis='1 0 .3'"),
     {-0.2, 0.2},
     {9, 0.3},
     mjCNSTR_LIMIT_JOINT,
     Zone::kSatisfied,
     1},
    {"limit_direct",
     arm("limited='true' range='-10 50' solreflimit='-300 -15' solimplimit='.5 .9 .1 .5 1'",
         "axis='1 0 .3'"),
     {-0.25, 0.2},
     {-0.5, 0.3},
     mjCNSTR_LIMIT_JOINT,
     Zone::kQuadratic,
     1},
    {"limit_ball",
     arm("", "type='ball' limited='true' range='0 40'" + kSoft),
     {0.3, 0.85, 0.3, -0.2, 0.4},
     {0.2, 0.7, -0.5, 0.8},
     mjCNSTR_LIMIT_JOINT,
     Zone::kQuadratic,
     1},
    {"limit_ball_margin",
     arm("", "type='ball' limited='true' range='0 70' margin='.3'" + kSoft),
     {0.3, 0.85, 0.3, -0.2, 0.4},
     {0.2, 0.7, -0.5, 0.8},
     mjCNSTR_LIMIT_JOINT,
     Zone::kQuadratic,
     1},
    // beyond half a turn the quaternion's other sign is the nearer rotation
    {"limit_ball_negative_w",
     arm("", "type='ball' limited='true' range='0 40'" + kSoft),
     {0.3, -0.85, 0.3, -0.2, 0.4},
     {0.2, 0.7, -0.5, 0.8},
     mjCNSTR_LIMIT_JOINT,
     Zone::kQuadratic,
     1},
};
INSTANTIATE_TEST_SUITE_P(Scalar, ConstraintRows, ::testing::ValuesIn(kScalar), case_name);

// --- contacts
// ---------------------------------------------------------------------------------------

struct Contact {
  std::string option, floor, ball;  // attributes
  double depth = 0.004;
  std::string more = {};  // elements after the world
};

// an ellipsoid of unequal axes: its contact with the plane is in closed form
std::string ball_on_floor(const Contact& c) {
  return "<option timestep='.003' " + c.option +
         "/><default><geom solref='.03 1' solimp='.3 .95 .02' friction='.7 .02 .01'/></default>"
         "<worldbody><geom name='floor' type='plane' size='3 3 1' " +
         c.floor +
         "/><body><freejoint/><geom name='ball' type='ellipsoid' size='.11 .1 .1' mass='1' " +
         c.ball + "/></body></worldbody>" + c.more;
}
Vector ball_qpos(double depth) { return {0.02, -0.03, 0.1 - depth, 0.99, 0.02, 0.0, 0.05}; }
const Vector kPress = {0, 0, -0.15, 0, 0, 0};

std::vector<Case> contact_cases() {
  std::vector<Case> cases;
  for (const std::string cone : {"pyramidal", "elliptic"}) {
    const bool elliptic = cone == "elliptic";
    for (const int dim : {1, 3, 4, 6}) {
      const int type = dim == 1   ? mjCNSTR_CONTACT_FRICTIONLESS
                       : elliptic ? mjCNSTR_CONTACT_ELLIPTIC
                                  : mjCNSTR_CONTACT_PYRAMIDAL;
      const std::string xml = ball_on_floor({.option = "cone='" + cone + "'",
                                             .floor = "condim='" + std::to_string(dim) + "'",
                                             .ball = "condim='" + std::to_string(dim) + "'"});
      const std::string name = cone + std::to_string(dim);
      // pyramids: all edges push where the contact sticks, some where it slides
      const int edges = dim == 1 || elliptic ? 1 : 2 * (dim - 1);
      const auto add = [&](const std::string& how, const Vector& qvel, Zone zone, int nrow) {
        cases.push_back({name + how, xml, ball_qpos(0.004), qvel, type, zone, nrow});
      };
      add("_sticking", {0.003, -0.002, -0.3, 0.001, 0.002, 0.003}, Zone::kQuadratic,
          dim == 1 ? 1 : edges);
      add("_sliding", {1.5, 0.7, -0.2, 0.6, -0.4, 2},
          dim > 1 && elliptic ? Zone::kCone : Zone::kQuadratic, 1);
      add("_separating", {0.3, -0.2, 2.5, 0.5, 0.3, 0.2}, Zone::kSatisfied, edges);
      // the point of contact rests, v = ω × r
      add("_rolling", {0.5, 0.3, -0.2, -3, 5, 1.5}, Zone::kQuadratic, 1);
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Contact, ConstraintRows, ::testing::ValuesIn(contact_cases()), case_name);

// two bodies of different trees, and two of one tree; several contacts of one pair
std::vector<Case> moving_cases() {
  std::vector<Case> cases;
  for (const std::string cone : {"pyramidal", "elliptic"}) {
    for (const int dim : {1, 3, 4, 6}) {
      const int type = dim == 1             ? mjCNSTR_CONTACT_FRICTIONLESS
                       : cone == "elliptic" ? mjCNSTR_CONTACT_ELLIPTIC
                                            : mjCNSTR_CONTACT_PYRAMIDAL;
      const std::string head = "<option timestep='.003' cone='" + cone +
                               "'/><default><geom solref='.03 1' solimp='.3 .95 .02' condim='" +
                               std::to_string(dim) + "' friction='.7 .02 .01'/></default>";
      const std::string name = cone + std::to_string(dim);
      cases.push_back({name + "_two_trees",
                       head + "<worldbody><body><freejoint/><geom size='.1'/></body><body>"
                              "<freejoint/><geom type='capsule' size='.08 .1'/></body></worldbody>",
                       {0, 0, 0, 1, 0, 0, 0, 0.12, 0.06, 0.11, 0.9, 0.2, -0.3, 0.1},
                       {0.2, 0.1, 0.3, 1, -2, 0.5, -0.6, -0.3, -0.4, 0.5, 1, -1},
                       type,
                       Zone::kQuadratic,
                       // tangents and edges of a sliding contact may be on other pieces
                       0});
      cases.push_back({name + "_one_tree",
                       head + "<worldbody><body><freejoint/><geom size='.1'/><body pos='.3 0 0'>"
                              "<joint axis='0 1 0'/><geom type='capsule' size='.04' fromto='0 0 0 "
                              "-.1 .02 .2'/><body pos='-.1 0 .2'><joint axis='0 1 .2'/><geom "
                              "type='capsule' size='.04' fromto='0 0 0 -.15 .01 -.1'/></body>"
                              "</body></body></worldbody>",
                       {0, 0, 0, 1, 0, 0, 0, 0.05, 0.08},
                       {0.2, 0.1, 0.3, 1, -2, 0.5, -0.6, -0.9},
                       type,
                       Zone::kQuadratic,
                       0});
    }
    // a box on a box, four contacts that share one collider's answer
    cases.push_back(
        {cone + "_box_on_box",
         "<option timestep='.003' cone='" + cone +
             "'/><default><geom solref='.03 1' solimp='.3 .95 .02'/></default><worldbody><body>"
             "<freejoint/><geom type='box' size='.3 .25 .1'/></body><body><freejoint/>"
             "<geom type='box' size='.1 .12 .09'/></body></worldbody>",
         {0, 0, 0, 1, 0, 0, 0, 0.05, 0.03, 0.187, 0.98, 0.004, -0.006, 0.2},
         {0.2, 0.1, 0.1, 0.1, -0.2, 0.5, -0.3, -0.2, -0.2, 0.1, 0.1, -0.4},
         cone == "elliptic" ? mjCNSTR_CONTACT_ELLIPTIC : mjCNSTR_CONTACT_PYRAMIDAL,
         cone == "elliptic" ? Zone::kCone : Zone::kQuadratic,
         3});
  }
  return cases;
}
class MovingContacts : public ::testing::TestWithParam<Case> {};
TEST_P(MovingContacts, MatchDifferences) {
  const Solved s(scene_of(GetParam()));
  ASSERT_GE(s.d->ncon, 1);
  double force = 0;
  for (int i = 0; i < s.d->nefc; i++) force = std::max(force, std::abs(s.d->efc_force[i]));
  ASSERT_GT(force, 0.1) << s.rows();
  gradient_is_exact(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Moving, MovingContacts, ::testing::ValuesIn(moving_cases()), case_name);

// what turns dist into a force
std::vector<Case> parameter_cases() {
  std::vector<Case> cases;
  const Vector sticking = {0.003, -0.002, -0.3, 0.001, 0.002, 0.003},
               sliding = {1.5, 0.7, -0.2, 0.6, -0.4, 2};
  const auto add = [&](const std::string& name, Contact c, double depth = 0.004) {
    const std::string option = c.option;
    for (const std::string cone : {"pyramidal", "elliptic"}) {
      const bool elliptic = cone == "elliptic";
      c.option = option + " cone='" + cone + "'";
      cases.push_back({name + "_" + cone + "_sticking", ball_on_floor(c), ball_qpos(depth),
                       sticking, elliptic ? mjCNSTR_CONTACT_ELLIPTIC : mjCNSTR_CONTACT_PYRAMIDAL,
                       Zone::kQuadratic, 1});
      cases.push_back({name + "_" + cone + "_sliding", ball_on_floor(c), ball_qpos(depth), sliding,
                       elliptic ? mjCNSTR_CONTACT_ELLIPTIC : mjCNSTR_CONTACT_PYRAMIDAL,
                       elliptic ? Zone::kCone : Zone::kQuadratic, 1});
    }
  };
  const auto both = [](const std::string& s) {
    return Contact{.option = {}, .floor = s, .ball = s};
  };
  add("solref_standard", both("solref='.05 .6'"));
  add("solref_direct", both("solref='-1500 -60'"));
  add("solref_of_two",
      {.option = {}, .floor = "solref='.05 1' solmix='2'", .ball = "solref='.02 .7'"});
  int k = 0;
  for (const double power : {1.0, 2.0, 3.5}) {
    for (const double midpoint : {0.2, 0.5, 0.8}) {
      // both sides of the midpoint
      for (const double depth : {0.001, 0.0045}) {
        add("solimp_" + std::to_string(k++),
            both("solimp='.2 .9 .006 " + std::to_string(midpoint) + " " + std::to_string(power) +
                 "'"),
            depth);
      }
    }
  }
  add("solimp_saturated", both("solimp='.2 .9 .002'"));
  add("impratio_10", {.option = "impratio='10'", .floor = {}, .ball = {}});
  add("margin", both("margin='.01'"), -0.004);
  add("margin_and_gap", both("margin='.01' gap='.004'"), -0.002);
  add("refsafe", both("solref='.002 1'"));
  add("refsafe_off", {.option = {},
                      .floor = "solref='.0045 1'",
                      .ball = "solref='.0045 1'",
                      .more = "<option><flag refsafe='disable'/></option>"});
  const std::string pair =
      "<contact><pair geom1='floor' geom2='ball' condim='4' friction='.2 .1 .03 .01 .02' "
      "solref='.04 .9' solimp='.4 .9 .01 .3 3' margin='.008' gap='.001'";
  add("pair", {.option = {}, .floor = {}, .ball = {}, .more = pair + "/></contact>"});
  add("pair_solreffriction", {.option = {},
                              .floor = {},
                              .ball = {},
                              .more = pair + " solreffriction='.09 1'/></contact>"});
  add("pair_solreffriction_direct", {.option = {},
                                     .floor = {},
                                     .ball = {},
                                     .more = pair + " solreffriction='-20 -8'/></contact>"});
  add("override",
      {.option = "o_margin='.01' o_solref='.05 .8' o_solimp='.3 .9 .03 .4 2' "
                 "o_friction='.5 .6 .02 .01 .01'",
       .floor = {},
       .ball = {},
       .more = "<option><flag override='enable'/></option>"},
      -0.003);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Parameters, ConstraintRows, ::testing::ValuesIn(parameter_cases()),
                         case_name);

// --- the parameters are where the tests say
// -----------------------------------------------------------

const Case& find(const std::vector<Case>& cases, const std::string& name) {
  for (const Case& c : cases) {
    if (c.name == name) return c;
  }
  throw Error("no case " + name);
}

TEST(ConstraintRowsCases, ImpedancesAreInsideTheirCurve) {
  for (const Case& c : parameter_cases()) {
    if (c.name.rfind("solimp_", 0) != 0 || c.name.rfind("solimp_sat", 0) == 0) continue;
    const Solved s(scene_of(c));
    EXPECT_GT(std::abs(s.d->efc_KBIP[3]), 1) << c.name;  // slope of the impedance, 1/m
  }
  for (const std::string end : {"_pyramidal_sticking", "_elliptic_sticking"}) {
    const Solved s(scene_of(find(parameter_cases(), "solimp_saturated" + end)));
    EXPECT_EQ(s.d->efc_KBIP[3], 0);
  }
}

TEST(ConstraintRowsCases, RefsafeReplacesTheTimeConstant) {
  const double h = 0.003, damping = 1, imp = 0.95;
  const Solved s(scene_of(find(parameter_cases(), "refsafe_elliptic_sticking")));
  EXPECT_NEAR(s.d->efc_KBIP[0], 1 / (imp * imp * 4 * h * h * damping * damping),
              1e-6 * s.d->efc_KBIP[0]);
}

// MuJoCo keeps the first of two rows apart by their sign only
TEST(ConstraintRowsCases, LimitOnBothSidesHasTwoRows) {
  for (const Case& c : kScalar) {
    if (c.name != "limit_both_sides") continue;
    const Solved s(scene_of(c));
    ASSERT_EQ(s.d->nefc, 2);
    EXPECT_EQ(s.d->efc_id[0], s.d->efc_id[1]);
  }
}

// a limit whose middle the joint is at: the violations of both sides agree, the rows do not
TEST(ConstraintRowsCases, LimitInTheMiddleOfItsRange) {
  gradient_is_exact({"limit_middle",
                     arm("limited='true' range='-10 10' margin='.9' solreflimit='.04 1' "
                         "solimplimit='.4 .9 1'",
                         "axis='1 0 .3'"),
                     {0, 0.2},
                     {0.1, 0.3},
                     mjCNSTR_LIMIT_JOINT,
                     Zone::kQuadratic,
                     2});
}

}  // namespace
}  // namespace diffmj
