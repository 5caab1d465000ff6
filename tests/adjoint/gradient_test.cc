// What the public gradient promises beyond the sweep: ambient forms, held controls, linearize, and
// solvers that are not run to convergence.
// label: smoke
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <Eigen/Core>
#include <cmath>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

double norm(const Vector& x) {
  return Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size())).norm();
}

double distance(const Vector& a, const Vector& b) {
  Vector d(a);
  for (size_t i = 0; i < d.size(); i++) d[i] -= b[i];
  return norm(d);
}

TEST(Linearize, MatchesTransitionFD) {
  for (const char* name : {"act_basic", "act_general", "joints_ball", "contact_plane_ell",
                           "eq_weld", "spin_free", "noslip"}) {
    SCOPED_TRACE(name);
    // 3.17's own differences are wrong for a control of this model, by 0.1; mj_step's are not
    if (mjVERSION_HEADER < 4000000 && std::string(name) == "act_basic") continue;
    const Scene scene = zoo(name);
    const Model model = scene.model.tightened();
    const Linearization analytic = linearize(model, scene.input());
    const mjModel* m = model.mj();
    mjData* d = mj_makeData(m);
    mju_copy(d->qpos, scene.x.qpos.data(), model.nq());
    mju_copy(d->qvel, scene.x.qvel.data(), model.nv());
    mju_copy(d->act, scene.x.act.data(), model.na());
    mju_copy(d->ctrl, scene.ctrl.data(), model.nu());
    std::copy(scene.mocap_pos.begin(), scene.mocap_pos.end(), d->mocap_pos);
    std::copy(scene.mocap_quat.begin(), scene.mocap_quat.end(), d->mocap_quat);
    Vector A(analytic.A.size()), B(analytic.B.size());
    mjd_transitionFD(m, d, 1e-6, 1, A.data(), B.data(), nullptr, nullptr);
    mj_deleteData(d);
    // their differences at 1e-6 are good to about 1e-7 of stiff entries
    EXPECT_LE(distance(analytic.A, A), 1e-5 * norm(A));
    EXPECT_LE(distance(analytic.B, B), 1e-5 * (norm(B) + 1e-9));
  }
}

// y = qpos coordinates themselves: the ambient cotangent must give what the chain rule gives
TEST(Gradient, AmbientCotangentsOfQuaternions) {
  const Scene scene = zoo("joints_ball");
  const Model model = scene.model.tightened();
  const auto nq = static_cast<size_t>(model.nq()), nv = static_cast<size_t>(model.nv());
  const Operation op = {
      .forward =
          [&](const Vector& z) {
            const State x = plus(model, scene.x, z);
            RolloutInput input = scene.input();
            input.qpos = x.qpos;
            input.qvel = x.qvel;
            const Trajectory t = rollout(model, input, 2);
            return Vector(t.qpos.end() - t.nq, t.qpos.end());
          },
      .pullback =
          [&](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            const State x = plus(model, scene.x, z);
            RolloutInput input = scene.input();
            input.qpos = x.qpos;
            input.qvel = x.qvel;
            const Trajectory t = rollout(model, input, 2);
            Vector qpos_bar(3 * nq, 0.0);
            std::copy(y_bar.begin(), y_bar.end(), qpos_bar.end() - static_cast<ptrdiff_t>(nq));
            const Gradient g = rollout_pullback(model, t, {.qpos = qpos_bar});
            for (size_t i = 0; i < nv; i++) {
              z_bar[i] += g.qpos_tangent[i];
              z_bar[nv + i] += g.qvel[i];
            }
          },
  };
  EXPECT_TRUE(
      check_pullback(op, Vector(2 * nv, 0.0), 2 * nv, {.tolerance = tolerances().trajectory}));
}

// grad.qpos is the gradient of the rollout as a function of nq numbers, quaternions normalised
TEST(Gradient, AmbientGradientIsThatOfTheCoordinates) {
  const Scene scene = zoo("joints_ball");
  const Model model = scene.model.tightened();
  const auto nq = static_cast<size_t>(model.nq()), nv = static_cast<size_t>(model.nv());
  const auto run = [&](const Vector& qpos) {
    RolloutInput input = scene.input();
    input.qpos = qpos;
    return rollout(model, input, 2);
  };
  // normalise: MuJoCo integrates the quaternion it is given, so that its length would be kept
  const auto normalised = [&](Vector qpos) {
    mj_normalizeQuat(model.mj(), qpos.data());
    return qpos;
  };
  const Operation op = {
      .forward =
          [&](const Vector& qpos) {
            const Trajectory t = run(normalised(qpos));
            return Vector(t.qvel.end() - t.nv, t.qvel.end());
          },
      .pullback =
          [&](const Vector& qpos, const Vector& y_bar, Vector& qpos_bar) {
            const Trajectory t = run(normalised(qpos));
            Vector qvel_bar(3 * nv, 0.0);
            std::copy(y_bar.begin(), y_bar.end(), qvel_bar.end() - static_cast<ptrdiff_t>(nv));
            const Gradient g = rollout_pullback(model, t, {.qvel = qvel_bar});
            for (size_t i = 0; i < nq; i++) qpos_bar[i] += g.qpos[i];
          },
  };
  EXPECT_TRUE(
      check_pullback(op, normalised(scene.x.qpos), nq, {.tolerance = tolerances().trajectory}));
}

TEST(Gradient, AppliedWrenchesMatchDifferences) {
  const Scene scene = zoo("contact_plane_ell");
  const Model model = scene.model.tightened();
  constexpr int kSteps = 3;
  const auto n = static_cast<size_t>(kSteps * 6 * model.nbody());
  const auto nv = static_cast<size_t>(model.nv());
  const auto run = [&](const Vector& xfrc) {
    RolloutInput input = scene.input();
    input.xfrc_applied = xfrc;
    return rollout(model, input, kSteps);
  };
  const Operation op = {
      .forward =
          [&](const Vector& xfrc) {
            const Trajectory t = run(xfrc);
            return Vector(t.qvel.end() - t.nv, t.qvel.end());
          },
      .pullback =
          [&](const Vector& xfrc, const Vector& y_bar, Vector& xfrc_bar) {
            Vector qvel_bar((kSteps + 1) * nv, 0.0);
            std::copy(y_bar.begin(), y_bar.end(), qvel_bar.end() - static_cast<ptrdiff_t>(nv));
            const Gradient g = rollout_pullback(model, run(xfrc), {.qvel = qvel_bar});
            for (size_t i = 0; i < n; i++) xfrc_bar[i] += g.xfrc_applied[i];
          },
  };
  EXPECT_TRUE(check_pullback(op, Vector(n, 0.1), n, {.tolerance = tolerances().trajectory}));
}

// A parameter that is asked for alone has the gradient that it has among all others, of models that
// take the analytic path.
TEST(Gradient, ParametersDoNotDependOnWhatElseIsAskedFor) {
  constexpr int kSteps = 2;
  for (const std::string& name : zoo_names()) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    if (scene.model.gradient_path() != GradientPath::kAnalytic) continue;
    const Trajectory t = rollout(scene.model, scene.input(), kSteps);
    Vector bar((kSteps + 1) * static_cast<size_t>(scene.model.nv()));
    for (size_t i = 0; i < bar.size(); i++) bar[i] = std::sin(0.1 + 1.7 * static_cast<double>(i));
    const auto gradient = [&](const std::vector<std::string>& params) {
      return rollout_pullback(scene.model, t, {.qpos_tangent = bar, .qvel = bar, .params = params});
    };
    const Gradient all = gradient(parameter_names());
    for (const auto& [field, expected] : all.params) {
      const Gradient one = gradient({field});
      ASSERT_EQ(one.params.size(), 1U);
      // measured 2e-9: of rk4_mixed, whose solver stops elsewhere
      EXPECT_LE(distance(one.params.at(field), expected), 1e-7 * (1e-6 + norm(expected))) << field;
      EXPECT_LE(distance(one.qvel, all.qvel), 1e-7 * (1e-6 + norm(all.qvel))) << field;
    }
  }
}

// the backward pass does not reset its mjData: it must write all that it reads
TEST(Gradient, ReadsNothingThatWasLeftInTheWorkspace) {
  for (const std::string& name : zoo_names()) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    const int nstep = 3;
    const Trajectory t = rollout(scene.model, scene.input(), nstep);
    ASSERT_TRUE(t.ok());
    const Vector bar(static_cast<size_t>(nstep + 1) * static_cast<size_t>(scene.model.nv()), 1.0);
    const Cotangents cotangents{.qpos_tangent = bar, .qvel = bar};
    const Gradient expected = rollout_pullback(scene.model, t, cotangents);
    {
      // all bits set: numbers that are not, indices of -1
      const WorkspaceLease workspace(scene.model.impl());
      mj_resetDataDebug(scene.model.mj(), workspace->data.get(), 0xff);
    }
    const Gradient g = rollout_pullback(scene.model, t, cotangents);
    EXPECT_EQ(g.qpos, expected.qpos);
    EXPECT_EQ(g.qvel, expected.qvel);
    EXPECT_EQ(g.act, expected.act);
    EXPECT_EQ(g.ctrl, expected.ctrl);
    EXPECT_EQ(g.qfrc_applied, expected.qfrc_applied);
  }
}

TEST(Gradient, HeldControlIsTheSameRowEveryStep) {
  const Scene scene = zoo("act_general");
  const Model& model = scene.model;
  constexpr int kSteps = 4;
  Vector rows;
  for (int i = 0; i < kSteps; i++) rows.insert(rows.end(), scene.ctrl.begin(), scene.ctrl.end());
  RolloutInput per_step = scene.input();
  per_step.ctrl = rows;
  const Vector bar((kSteps + 1) * static_cast<size_t>(model.nv()), 1.0);
  const Gradient a = rollout_pullback(model, rollout(model, scene.input(), kSteps), {.qvel = bar});
  const Gradient b = rollout_pullback(model, rollout(model, per_step, kSteps), {.qvel = bar});
  EXPECT_EQ(a.ctrl.size(), rows.size());
  EXPECT_EQ(a.ctrl, b.ctrl);
}

TEST(Gradient, ControlAtItsBoundHasTheSlopeInside) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><body><joint name='s' type='slide'/><geom size='.1' mass='2'/></body>"
      "</worldbody><actuator><motor joint='s' ctrlrange='-1 1' ctrllimited='true'/></actuator>"
      "</mujoco>");
  const double h = model.timestep();
  const Vector bar = {0, 1};
  for (const auto& [u, slope] :
       {std::pair{1.0, h / 2}, {-1.0, h / 2}, {0.3, h / 2}, {1.5, 0.0}, {-1.5, 0.0}}) {
    const Vector ctrl = {u};
    const Gradient g = rollout_pullback(model, rollout(model, {.ctrl = ctrl}, 1), {.qvel = bar});
    EXPECT_NEAR(g.ctrl[0], slope, 1e-9) << u;
  }
}

// the solvers as models have them: gradients of what they stop at stay near those of the optimum
TEST(Gradient, DoesNotDependOnTheSolver) {
  for (const char* name : {"solver_pgs", "solver_pgs_pyr", "solver_cg", "contact_plane"}) {
    SCOPED_TRACE(name);
    const Scene scene = zoo(name);
    const Vector bar(2 * static_cast<size_t>(scene.model.nv()), 1.0);
    const auto gradient = [&](const Model& model) {
      return rollout_pullback(model, rollout(model, scene.input(), 1), {.qvel = bar});
    };
    const Gradient loose = gradient(scene.model), tight = gradient(scene.model.tightened());
    EXPECT_LE(distance(loose.qvel, tight.qvel), 1e-3 * norm(tight.qvel));
    EXPECT_LE(distance(loose.qpos_tangent, tight.qpos_tangent), 1e-3 * norm(tight.qpos_tangent));
  }
}

TEST(Gradient, JacobianFormatAndIslandsDoNotMatter) {
  const Scene scene = zoo("contact_plane_ell");
  const Vector bar(2 * static_cast<size_t>(scene.model.nv()), 1.0);
  std::vector<Vector> results;
  for (int jacobian : {mjJAC_DENSE, mjJAC_SPARSE}) {
    for (int island : {0, +mjDSBL_ISLAND}) {
      mjModel* m = mj_copyModel(nullptr, scene.model.tightened().mj());
      m->opt.jacobian = jacobian;
      m->opt.disableflags = (m->opt.disableflags & ~mjDSBL_ISLAND) | island;
      const Model model = Model::from_mjmodel(m);
      mj_deleteModel(m);
      results.push_back(
          rollout_pullback(model, rollout(model, scene.input(), 1), {.qvel = bar}).qpos_tangent);
      EXPECT_LE(distance(results.back(), results.front()), 1e-7 * norm(results.front()));
    }
  }
}

}  // namespace
}  // namespace diffmj
