// Observables: their values against MuJoCo's, bit for bit; their gradients against differences of
// rollouts, in states, controls and parameters; cotangents of the last row alone.
#include "diffmj/observables.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "harness/models.h"
#include "harness/stage_fixture.h"
#include "harness/tolerances.h"
#include "mj/handle.h"
#include "model/parameters.h"

namespace diffmj {
namespace {

std::vector<std::string> observable_names() {
  std::vector<std::string> out;
  for (const Observable& x : observables()) out.emplace_back(x.name);
  return out;
}

// Joints of every type, sites and geoms with frames of their own, on fixed and mocap bodies too,
// and a contact.
constexpr const char* kScene = R"(<mujoco><compiler angle='radian'/>
  <option timestep='.004'/>
  <default><geom contype='0' conaffinity='0'/></default>
  <worldbody>
    <geom name='floor' type='plane' size='5 5 1' contype='1' conaffinity='1'
      solref='.05 1' solimp='.5 .9 .1'/>
    <site name='fixed' pos='.1 .2 .3' euler='.1 .2 .3'/>
    <body name='shelf' pos='2 0 1' euler='.2 0 .1'><geom size='.1' pos='.1 0 0'/><site/></body>
    <body name='hand' mocap='true' pos='0 2 1' quat='1 .2 .1 0'><geom size='.1'/><site/></body>
    <body name='box' pos='0 0 .095' euler='.03 .05 .4'><freejoint/>
      <geom type='box' size='.2 .15 .1' pos='.01 .02 0' euler='.01 0 .1' contype='1' conaffinity='1'
        solref='.05 1' solimp='.5 .9 .1'/>
      <site name='lid' pos='.1 0 .1' euler='.4 .2 0'/>
      <body name='upper' pos='.1 0 .15' euler='0 .5 .3'>
        <joint name='hinge' axis='0 1 .2' pos='-.03 0 0' damping='.02'/>
        <joint name='ball' type='ball' pos='.02 .03 -.01' stiffness='.8' damping='.05'/>
        <geom type='capsule' size='.03 .1' pos='0 .01 .1' euler='.3 .1 0'/>
        <body name='tip' pos='.05 0 .2'>
          <joint name='slide' type='slide' axis='.1 .2 1' stiffness='40' damping='.1'/>
          <geom type='ellipsoid' size='.04 .07 .1' pos='.02 .01 .05' euler='.4 0 .2'/>
          <site name='end' pos='.03 .02 .1' euler='.2 -.3 .5'/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint='hinge' gear='.3'/><motor joint='slide'/></actuator></mujoco>)";

Scene scene(const ModelOptions& options = {}) {
  Scene out{.name = "observables", .model = Model::from_xml(kScene, options)};
  out.x = default_state(out.model);
  for (size_t i = 0; i < out.x.qvel.size(); i++) {
    out.x.qvel[i] = 0.6 * std::sin(1 + 1.7 * static_cast<double>(i));
  }
  out.ctrl = {.3, -.2};
  // given, for the model's own follow body_pos and body_quat, which a test moves
  out.mocap_pos = {0, 2, 1};
  out.mocap_quat = {std::sqrt(.95), .2, .1, 0};
  return out;
}

Vector values(const Model& model, const Trajectory& t, const std::vector<std::string>& names) {
  const Poses all = poses(model, t, names);
  Vector y;
  for (const std::string& name : names) {
    const Vector& x = all.*observable(name).values;
    y.insert(y.end(), x.begin(), x.end());
  }
  return y;
}

// y_bar of values(), by observable
Cotangents cotangents(const Model& model, const std::vector<std::string>& names, int rows,
                      const Vector& y_bar) {
  Cotangents out;
  size_t begin = 0;
  for (const std::string& name : names) {
    const Observable& x = observable(name);
    const size_t n = static_cast<size_t>(rows) * static_cast<size_t>(x.size(model));
    out.*x.cotangent = std::span(y_bar).subspan(begin, n);
    begin += n;
  }
  EXPECT_EQ(begin, y_bar.size());
  return out;
}

class ObservablesZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(ObservablesZoo, ValuesAreThoseOfMujoco) {
  const Scene at = GetParam() == "observables" ? scene() : zoo(GetParam());
  const mjModel* m = at.model.mj();
  const Trajectory t = rollout(at.model, at.input(), 3);
  ASSERT_TRUE(t.ok()) << t.message;
  const Poses all = poses(at.model, t, observable_names());
  const MjDataPtr data(mj_makeData(m));
  mjData* d = data.get();
  std::copy(t.mocap_pos.begin(), t.mocap_pos.end(), d->mocap_pos);
  std::copy(t.mocap_quat.begin(), t.mocap_quat.end(), d->mocap_quat);
  for (size_t i = 0; i <= 3; i++) {
    mju_copy(d->qpos, &t.qpos[i * static_cast<size_t>(t.nq)], t.nq);
    mju_copy(d->qvel, &t.qvel[i * static_cast<size_t>(t.nv)], t.nv);
    if (t.na) mju_copy(d->act, &t.act[i * static_cast<size_t>(t.na)], t.na);
    mj_fwdPosition(m, d);
    mj_fwdVelocity(m, d);
    const auto row = [&](const Vector& x) {
      const auto n = static_cast<ptrdiff_t>(x.size() / 4);
      return Vector(x.begin() + static_cast<ptrdiff_t>(i) * n,
                    x.begin() + static_cast<ptrdiff_t>(i + 1) * n);
    };
    const auto field = [&](const mjtNum* x, int width, auto n) {
      return Vector(x, x + width * static_cast<int>(n));
    };
    EXPECT_EQ(row(all.xpos), field(d->xpos, 3, m->nbody));
    EXPECT_EQ(row(all.xquat), field(d->xquat, 4, m->nbody));
    EXPECT_EQ(row(all.xmat), field(d->xmat, 9, m->nbody));
    EXPECT_EQ(row(all.site_xpos), field(d->site_xpos, 3, m->nsite));
    EXPECT_EQ(row(all.site_xmat), field(d->site_xmat, 9, m->nsite));
    EXPECT_EQ(row(all.geom_xpos), field(d->geom_xpos, 3, m->ngeom));
    EXPECT_EQ(row(all.geom_xmat), field(d->geom_xmat, 9, m->ngeom));
    EXPECT_EQ(row(all.subtree_com), field(d->subtree_com, 3, m->nbody));
    const auto velocities = [&](int type, auto n, const Vector& linear, const Vector& angular) {
      Vector lin, ang;
      for (int k = 0; k < static_cast<int>(n); k++) {
        mjtNum v[6];
        mj_objectVelocity(m, d, type, k, v, 0);
        ang.insert(ang.end(), v, v + 3);
        lin.insert(lin.end(), v + 3, v + 6);
      }
      EXPECT_EQ(row(linear), lin);
      EXPECT_EQ(row(angular), ang);
    };
    velocities(mjOBJ_XBODY, m->nbody, all.body_linvel, all.body_angvel);
    velocities(mjOBJ_SITE, m->nsite, all.site_linvel, all.site_angvel);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ObservablesZoo,
                         ::testing::Values("observables", "joints_ball", "joints_order", "humanoid",
                                           "eq_weld", "contact_plane", "spin_free"),
                         [](const auto& info) { return info.param; });

TEST(Observables, OnlyWhatIsNamedIsComputed) {
  const Scene at = scene();
  const Trajectory t = rollout(at.model, at.input(), 3);
  for (const std::string& name : observable_names()) {
    const Poses one = poses(at.model, t, {name});
    for (const Observable& x : observables()) {
      const size_t n = name == x.name ? 4 * static_cast<size_t>(x.size(at.model)) : 0;
      EXPECT_EQ((one.*x.values).size(), n) << name << ", " << x.name;
    }
  }
  const Poses none = poses(at.model, t, {}), usual = poses(at.model, t);
  EXPECT_TRUE(none.xpos.empty());
  EXPECT_EQ(usual.subtree_com, poses(at.model, t, observable_names()).subtree_com);
  EXPECT_TRUE(usual.xmat.empty() && usual.body_linvel.empty());
}

TEST(Observables, UnknownNamesAreListed) {
  const Scene at = scene();
  const Trajectory t = rollout(at.model, at.input(), 1);
  try {
    (void)poses(at.model, t, {"site_xvel"});
    FAIL();
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'site_xvel'"), std::string::npos) << text;
    EXPECT_NE(text.find("site_linvel"), std::string::npos) << text;
  }
}

struct Case {
  Integrator integrator;
  int nstep;
};

ModelOptions options_of(Integrator integrator) {
  ModelOptions o{.integrator = integrator};
  if (is_runge_kutta(integrator)) o.adaptive.stepping.rtol = o.adaptive.stepping.atol = 1e-6;
  return o;
}

class ObservablesGradient : public ::testing::TestWithParam<Case> {};

// z = (tangent of x, rows of ctrl)
TEST_P(ObservablesGradient, MatchesDifferences) {
  const auto [integrator, nstep] = GetParam();
  Scene at = scene(options_of(integrator));
  // without the contact, whose corners come and go within adaptive steps
  if (at.model.is_adaptive()) at.x.qpos[2] += 0.5;
  const Model model = at.model.tightened();
  const auto n = static_cast<size_t>(model.ntangent()), nctrl = static_cast<size_t>(2 * nstep);
  std::shared_ptr<const Trajectory> base;
  const auto run = [&](const Vector& z) {
    const State x = plus(model, at.x, std::span(z).first(n));
    Vector ctrl(z.begin() + static_cast<ptrdiff_t>(n), z.end());
    for (size_t i = 0; i < nctrl; i++) ctrl[i] += at.ctrl[i % 2];
    RolloutInput input = at.input();
    input.qpos = x.qpos;
    input.qvel = x.qvel;
    input.ctrl = ctrl;
    Trajectory t = rollout(model, input, nstep, {.steps_of = base.get()});
    EXPECT_TRUE(t.ok()) << t.message;
    return t;
  };
  const Vector zero(n + nctrl);
  if (model.is_adaptive()) {
    base = std::make_shared<const Trajectory>(run(zero));
  } else {
    EXPECT_GT(run(zero).steps[0].ncon, 0);
  }
  std::vector<std::vector<std::string>> choices = {observable_names()};
  for (const std::string& name : observable_names()) choices.push_back({name});
  for (const auto& names : choices) {
    const Operation op = {
        .forward = [&](const Vector& z) { return values(model, run(z), names); },
        .pullback =
            [&](const Vector& z, const Vector& y_bar, Vector& z_bar) {
              const Gradient g =
                  rollout_pullback(model, run(z), cotangents(model, names, nstep + 1, y_bar));
              size_t k = 0;
              for (const Vector* part : {&g.qpos_tangent, &g.qvel, &g.act, &g.ctrl}) {
                for (double x : *part) z_bar[k++] += x;
              }
            },
    };
    EXPECT_TRUE(check_pullback(op, zero, zero.size(),
                               {.tolerance = tolerances().trajectory, .directions = 3}))
        << names[0] << (names.size() > 1 ? ", ..." : "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Integrators, ObservablesGradient,
    ::testing::Values(Case{Integrator::kEuler, 1}, Case{Integrator::kEuler, 10},
                      Case{Integrator::kImplicitFast, 1}, Case{Integrator::kImplicitFast, 10},
                      Case{Integrator::kRk4, 1}, Case{Integrator::kRk4, 10},
                      Case{Integrator::kTsit5, 1}, Case{Integrator::kTsit5, 10}),
    [](const auto& info) {
      return std::string(integrator_name(info.param.integrator)) + "_" +
             std::to_string(info.param.nstep);
    });

// the fields that frames depend on, each alone; differences of rollouts of models that were moved
TEST(Observables, ParametersMatchDifferences) {
  constexpr int kSteps = 2;
  const Scene at = scene();
  const Model model = at.model.tightened();
  const std::vector<std::string> names = observable_names();
  for (const char* field_name : {"body_pos", "body_quat", "body_ipos", "body_mass", "jnt_pos",
                                 "jnt_axis", "site_pos", "geom_pos", "geom_quat"}) {
    const ParameterField& field = parameter_field(field_name);
    const auto n = static_cast<size_t>(field.size(model.mj()));
    const auto moved = [&](const Vector& z) {
      const MjModelPtr copy = movable_copy(model.mj());
      mjModel* m = copy.get();
      mjtNum* data = field.data(m);
      // the world is no body to move
      const size_t first =
          std::string(field.rows) == "nbody" ? static_cast<size_t>(field.width) : 0;
      for (size_t i = first; i < n; i++) data[i] += z[i];
      for (size_t i = 0; i < n && field.kind == ParameterKind::kUnit;
           i += static_cast<size_t>(field.width)) {
        mju_normalize(data + i, field.width);
      }
      for (int b = static_cast<int>(m->nbody) - 1; b >= 0; b--) {
        m->body_subtreemass[b] = m->body_mass[b];
        for (int c = b + 1; c < static_cast<int>(m->nbody); c++) {
          if (m->body_parentid[c] == b) m->body_subtreemass[b] += m->body_subtreemass[c];
        }
      }
      return Model::from_mjmodel(m);
    };
    const Operation op = {
        .forward =
            [&](const Vector& z) {
              const Model there = moved(z);
              return values(there, rollout(there, at.input(), kSteps), names);
            },
        .pullback =
            [&](const Vector& z, const Vector& y_bar, Vector& z_bar) {
              const Model there = moved(z);
              Cotangents c = cotangents(there, names, kSteps + 1, y_bar);
              c.params = {field_name};
              const Gradient g = rollout_pullback(there, rollout(there, at.input(), kSteps), c);
              const Vector& bar = g.params.at(field_name);
              const size_t first =
                  std::string(field.rows) == "nbody" ? static_cast<size_t>(field.width) : 0;
              for (size_t i = first; i < n; i++) z_bar[i] += bar[i];
            },
    };
    EXPECT_TRUE(check_pullback(
        op, Vector(n), n,
        {.tolerance = tolerances().step, .smallest = 1e-3, .step = 1e-4, .directions = 4}))
        << field_name;
  }
}

// only the part along rotations counts: what stretches a matrix gives nothing
TEST(Observables, MatricesAreAmbient) {
  const Scene at = scene();
  const Trajectory t = rollout(at.model, at.input(), 2);
  const Poses all = poses(at.model, t, {"xmat", "geom_xmat", "site_xmat"});
  // d |R|²/2 = R
  const Gradient g = rollout_pullback(
      at.model, t, {.xmat = all.xmat, .site_xmat = all.site_xmat, .geom_xmat = all.geom_xmat});
  for (double x : g.qpos_tangent) EXPECT_NEAR(x, 0, 1e-12);
  for (double x : g.qvel) EXPECT_NEAR(x, 0, 1e-12);
}

// a pendulum of length l about y: v = l q' (-cos q, 0, sin q), w = (0, q', 0)
TEST(Observables, ClosedFormOfAPendulum) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><body><joint axis='0 1 0'/><geom size='.1' pos='0 0 -.5'/>"
      "<site pos='0 0 -.5'/></body></worldbody></mujoco>");
  const Vector q = {0.4}, v = {1.5}, F = {0.3, -0.2, 0.7}, T = {.1, .2, .3};
  const double c = std::cos(q[0]), s = std::sin(q[0]), l = 0.5;
  const Trajectory t = rollout(model, {.qpos = q, .qvel = v}, 0);
  const Poses at = poses(model, t, {"site_linvel", "site_angvel"});
  EXPECT_NEAR(at.site_linvel[0], -l * v[0] * c, 1e-14);
  EXPECT_NEAR(at.site_linvel[2], l * v[0] * s, 1e-14);
  EXPECT_NEAR(at.site_angvel[1], v[0], 1e-14);
  const Gradient g = rollout_pullback(model, t, {.site_linvel = F, .site_angvel = T});
  EXPECT_NEAR(g.qvel[0], l * (-c * F[0] + s * F[2]) + T[1], 1e-14);
  EXPECT_NEAR(g.qpos_tangent[0], l * v[0] * (s * F[0] + c * F[2]), 1e-14);
}

Vector last_row_only(const Vector& row, int rows) {
  Vector out((static_cast<size_t>(rows) - 1) * row.size());
  out.insert(out.end(), row.begin(), row.end());
  return out;
}

TEST(FinalRow, IsTheFullCotangentWithZeros) {
  for (const Integrator integrator :
       {Integrator::kEuler, Integrator::kImplicitFast, Integrator::kRk4, Integrator::kTsit5}) {
    SCOPED_TRACE(integrator_name(integrator));
    const Scene at = scene(options_of(integrator));
    const Model& model = at.model;
    constexpr int kSteps = 5;
    const Trajectory t = rollout(model, at.input(), kSteps);
    ASSERT_TRUE(t.ok());
    const Vector qpos = wave(static_cast<size_t>(model.nq()), 0.1),
                 tangent = wave(static_cast<size_t>(model.nv()), 0.2),
                 qvel = wave(static_cast<size_t>(model.nv()), 0.3);
    const Vector full_qpos = last_row_only(qpos, kSteps + 1),
                 full_tangent = last_row_only(tangent, kSteps + 1),
                 full_qvel = last_row_only(qvel, kSteps + 1);
    Cotangents last{.qpos = qpos, .qpos_tangent = tangent, .qvel = qvel, .final_row = true};
    Cotangents full{.qpos = full_qpos, .qpos_tangent = full_tangent, .qvel = full_qvel};
    std::vector<Vector> rows;
    rows.reserve(2 * observables().size());
    for (const Observable& x : observables()) {
      const Vector& row = rows.emplace_back(
          wave(static_cast<size_t>(x.size(model)), 0.4 + static_cast<double>(rows.size())));
      last.*x.cotangent = row;
      full.*x.cotangent = rows.emplace_back(last_row_only(row, kSteps + 1));
    }
    std::vector<Vector> forces;  // of every step, also with final_row
    if (integrator == Integrator::kEuler || integrator == Integrator::kImplicitFast) {
      for (const StepRecord& step : t.steps) {
        forces.push_back(wave(static_cast<size_t>(step.nefc), 1));
      }
    }
    last.efc_force = full.efc_force = forces;
    last.params = full.params = {"body_mass", "site_pos", "geom_quat", "jnt_axis"};
    const Gradient a = rollout_pullback(model, t, last), b = rollout_pullback(model, t, full);
    EXPECT_EQ(a.qpos, b.qpos);
    EXPECT_EQ(a.qpos_tangent, b.qpos_tangent);
    EXPECT_EQ(a.qvel, b.qvel);
    EXPECT_EQ(a.ctrl, b.ctrl);
    EXPECT_EQ(a.qfrc_applied, b.qfrc_applied);
    EXPECT_EQ(a.params, b.params);
    const std::vector<Trajectory> batch = {t, t};
    for (const Gradient& g :
         rollout_pullback_batch(model, batch, std::vector<Cotangents>{last, full})) {
      EXPECT_EQ(g.qvel, a.qvel);
    }
  }
}

TEST(FinalRow, WrongInputIsNamed) {
  const Scene at = scene();
  const Trajectory t = rollout(at.model, at.input(), 3);
  const auto nv = static_cast<size_t>(at.model.nv());
  const auto message = [&](const Cotangents& c) -> std::string {
    try {
      (void)rollout_pullback(at.model, t, c);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const Vector full(4 * nv);
  EXPECT_NE(
      message({.qvel = full, .final_row = true}).find("1 x " + std::to_string(nv) + " (final"),
      std::string::npos)
      << message({.qvel = full, .final_row = true});
  Vector linvel(3 * static_cast<size_t>(at.model.nsite()));
  EXPECT_NE(message({.site_linvel = linvel}).find("site_linvel"), std::string::npos);
  linvel[4] = std::numeric_limits<double>::quiet_NaN();
  const std::string text = message({.site_linvel = linvel, .final_row = true});
  EXPECT_NE(text.find("site_linvel is not finite at row 0, column 4"), std::string::npos) << text;
}

}  // namespace
}  // namespace diffmj
