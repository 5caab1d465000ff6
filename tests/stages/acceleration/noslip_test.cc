// The no-slip pass: MuJoCo's forces, the reverse of its sweeps, and gradients of rollouts that have
// it.
// label: smoke
#include "stages/acceleration/noslip.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "model/parameters.h"
#include "setup/workspace_lease.h"
#include "stages/acceleration/noslip_ellipse.h"
#include "stages/oracle.h"
#include "stages/vector_field.h"

namespace diffmj {
namespace {

constexpr int kSteps = 2;
constexpr double kSticks = 5;  // friction loss

struct Settings {
  int iterations = 3;
  double tolerance = 0;
  int solver = mjSOL_NEWTON;
  bool islands = true;
  int cone = -1;   // as the model has it
  int condim = 0;  // "
  double frictionloss = 0;
};

// a model of the zoo with a no-slip pass
Scene noslip_zoo(const std::string& name, const Settings& settings,
                 const ModelOptions& options = {}) {
  Scene scene = zoo(name);
  const MjModelPtr copy = movable_copy(scene.model.tightened().mj());
  mjOption& opt = copy->opt;
  opt.noslip_iterations = settings.iterations;
  opt.noslip_tolerance = settings.tolerance;
  opt.solver = settings.solver;
  if (settings.solver != mjSOL_NEWTON) opt.iterations = 5000;
  if (!settings.islands) opt.disableflags |= mjDSBL_ISLAND;
  if (settings.cone >= 0) opt.cone = settings.cone;
  for (int i = 0; i < static_cast<int>(copy->ngeom) && settings.condim > 0; i++) {
    copy->geom_condim[i] = settings.condim;
  }
  for (int i = 0; i < static_cast<int>(copy->nv) && settings.frictionloss > 0; i++) {
    copy->dof_frictionloss[i] = settings.frictionloss * (1 + 0.1 * i);
  }
  scene.model = Model::from_mjmodel(copy.get(), options);
  return scene;
}

void write(const Scene& scene, const mjModel* m, mjData* d) {
  std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
  std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
  std::copy(scene.x.act.begin(), scene.x.act.end(), d->act);
  std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
  mju_zero(d->qacc_warmstart, static_cast<int>(m->nv));
}

StepInput input_of(const Scene& scene) {
  StepInput in;
  in.qpos = scene.x.qpos;
  in.qvel = scene.x.qvel;
  in.act = scene.x.act;
  in.ctrl = scene.ctrl;
  return in;
}

std::vector<Settings> all_settings() {
  std::vector<Settings> out;
  for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    for (const int condim : {0, 1, 3, 4, 6}) {
      out.push_back({.cone = cone, .condim = condim});
      out.push_back({.islands = false, .cone = cone, .condim = condim, .frictionloss = 0.02});
    }
    // friction that sticks, beside whatever else the model has
    out.push_back({.cone = cone, .frictionloss = kSticks});
    for (const int solver : {mjSOL_PGS, mjSOL_CG}) out.push_back({.solver = solver, .cone = cone});
    // MuJoCo's tolerance stops after two sweeps or three, the others later
    for (const double tolerance : {1e-6, 1e-10, 1e-14}) {
      out.push_back({.iterations = 50, .tolerance = tolerance, .cone = cone});
      out.push_back({.iterations = 50, .tolerance = tolerance, .islands = false, .cone = cone});
    }
  }
  return out;
}

std::string text(const Settings& s) {
  return std::to_string(s.iterations) + " sweeps, tolerance " + std::to_string(s.tolerance) +
         ", solver " + std::to_string(s.solver) + (s.islands ? ", islands" : "") + ", cone " +
         std::to_string(s.cone) + ", condim " + std::to_string(s.condim) +
         (s.frictionloss > 0 ? ", friction loss" : "");
}

class NoslipZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(NoslipZoo, ForcesAreMujocos) {
  double most = 0;  // by which the pass moves forces
  for (const Settings& settings : all_settings()) {
    SCOPED_TRACE(text(settings));
    const Scene scene = noslip_zoo(GetParam(), settings);
    const mjModel* m = scene.model.mj();
    const MjDataPtr d(mj_makeData(m));
    write(scene, m, d.get());
    mj_forward(m, d.get());
    ASSERT_GT(d->nefc, 0);

    WorkspaceLease workspace(scene.model.impl());
    vector_field_evaluate(scene.model.impl(), input_of(scene), {}, true, *workspace);
    const Noslip& pass = workspace->noslip;
    ASSERT_EQ(pass.force.size(), static_cast<size_t>(d->nefc));
    double size = 1, moved = 0;
    for (int i = 0; i < d->nefc; i++) size = std::max(size, std::abs(d->efc_force[i]));
    for (int i = 0; i < d->nefc; i++) {
      const auto k = static_cast<size_t>(i);
      EXPECT_NEAR(pass.force[k], d->efc_force[i], 1e-11 * size) << "row " << i;
      moved = std::max(moved, std::abs(pass.change[k]));
    }
    most = std::max(most, moved / size);

    // sweeps, where rounding does not end them
    if (settings.tolerance == 0) continue;
    const Scene main = noslip_zoo(GetParam(), [&] {
      Settings without = settings;
      without.iterations = 0;
      return without;
    }());
    const MjDataPtr before(mj_makeData(main.model.mj()));
    write(scene, main.model.mj(), before.get());
    mj_forward(main.model.mj(), before.get());
    int sweeps = 0;
    for (int k = 0; k < std::max(1, d->nisland); k++) {
      sweeps += d->solver_niter[k] - before->solver_niter[k];
    }
    int expected = 0;
    size_t update = 0;
    for (size_t first = 0, end = 0; first < pass.blocks.size(); first = end) {
      while (end < pass.blocks.size() && pass.blocks[end].island == pass.blocks[first].island)
        end++;
      while (update < pass.updates.size() &&
             pass.updates[update].block == static_cast<int>(first)) {
        expected++;
        update += end - first;
      }
    }
    // islands without friction have one sweep of nothing, or two
    EXPECT_GE(sweeps, expected);
    EXPECT_LE(sweeps, expected + 2 * std::max(d->nisland, pass.blocks.empty() ? 1 : 0));
  }
  EXPECT_GT(most, 1e-3);
}

Vector gradient(const Scene& scene, std::map<std::string, Vector>* params = nullptr) {
  const Trajectory t = rollout(scene.model, scene.input(), kSteps);
  Vector bar((kSteps + 1) * static_cast<size_t>(scene.model.nv()));
  for (size_t i = 0; i < bar.size(); i++) bar[i] = std::sin(0.1 + 1.7 * static_cast<double>(i));
  Cotangents cotangents{.qpos_tangent = bar, .qvel = bar};
  if (params) cotangents.params = parameter_names();
  const Gradient g = rollout_pullback(scene.model, t, cotangents);
  Vector all = g.qpos_tangent;
  for (const Vector* x : {&g.qvel, &g.act, &g.ctrl}) all.insert(all.end(), x->begin(), x->end());
  for (const auto& [name, value] : g.params) (*params)[name] = value;
  return all;
}

void agree(const Vector& value, const Vector& expected, double tolerance, const std::string& what) {
  double size = 1;
  for (const double x : expected) size = std::max(size, std::abs(x));
  ASSERT_EQ(value.size(), expected.size());
  for (size_t i = 0; i < value.size(); i++) {
    EXPECT_NEAR(value[i], expected[i], tolerance * size) << what << ", entry " << i;
  }
}

TEST_P(NoslipZoo, AgreesWithOracle) {
  for (const Integrator integrator :
       {Integrator::kEuler, Integrator::kImplicit, Integrator::kImplicitFast, Integrator::kRk4}) {
    for (const double frictionloss : {0.0, kSticks}) {
      const auto by = [&](GradientPath path) {
        const Scene scene = noslip_zoo(GetParam(), {.frictionloss = frictionloss},
                                       {.integrator = integrator, .gradient_path = path});
        EXPECT_EQ(scene.model.gradient_path(), path) << scene.model.gradient_path_reason();
        return gradient(scene);
      };
      agree(by(GradientPath::kAnalytic), by(GradientPath::kOracle), tolerances().stage,
            integrator_name(integrator));
    }
  }
}

TEST_P(NoslipZoo, AgreesWithDifferences) {
  for (const Settings& settings : all_settings()) {
    SCOPED_TRACE(text(settings));
    if (settings.solver != mjSOL_NEWTON) continue;  // they stop short of the optimum
    const Scene scene = noslip_zoo(GetParam(), settings);
    const size_t n = rollout_ntangent(scene, kSteps);
    EXPECT_TRUE(check_pullback(
        rollout_operation(scene, kSteps), Vector(n), n,
        {.tolerance = tolerances().trajectory, .smallest = 1e-3, .step = 1e-4, .directions = 2}));
  }
}

// f of (f₀, b, A, friction, friction loss), with the sweeps that a scene has
Operation sweeps_operation(const Scene& scene, size_t* ninput) {
  const auto lease = std::make_shared<WorkspaceLease>(scene.model.impl());
  Workspace& workspace = **lease;
  vector_field_evaluate(scene.model.impl(), input_of(scene), {}, true, workspace);
  mjData* d = workspace.data.get();
  // every contact has force, none at a bound
  for (int i = 0; i < d->nefc; i++) {
    const int type = d->efc_type[i];
    const bool normal =
        type == mjCNSTR_CONTACT_PYRAMIDAL ||
        (type == mjCNSTR_CONTACT_ELLIPTIC && d->contact[d->efc_id[i]].efc_address == i);
    workspace.noslip.main_force[static_cast<size_t>(i)] = (normal ? 1 : 0) + 0.3 * std::sin(1 + i);
  }
  const auto base =
      std::make_shared<std::pair<Noslip, Projection>>(workspace.noslip, workspace.projection);
  const auto nefc = static_cast<size_t>(d->nefc), ncon = static_cast<size_t>(d->ncon);
  Vector friction(5 * ncon);
  for (size_t i = 0; i < friction.size(); i++) friction[i] = d->contact[i / 5].friction[i % 5];
  const Vector loss(d->efc_frictionloss, d->efc_frictionloss + nefc);
  // A stays symmetric: of each non-zero, the one on the other side
  const Projection& p = base->second;
  std::vector<size_t> other(p.A.size());
  for (size_t i = 0; i < nefc; i++) {
    for (int e = p.begin[i]; e < p.begin[i + 1]; e++) {
      const auto j = static_cast<size_t>(p.column[static_cast<size_t>(e)]);
      const auto row = p.column.begin() + p.begin[j];
      other[static_cast<size_t>(e)] = static_cast<size_t>(
          std::find(row, p.column.begin() + p.begin[j + 1], static_cast<int>(i)) -
          p.column.begin());
    }
  }
  *ninput = 2 * nefc + other.size() + 5 * ncon + nefc;
  const auto set = [=](const Vector& z) {
    Workspace& w = **lease;
    w.noslip = base->first;
    w.projection = base->second;
    const double* x = z.data();
    for (size_t i = 0; i < nefc; i++) w.noslip.main_force[i] += *x++;
    for (size_t i = 0; i < nefc; i++) w.noslip.b[i] += *x++;
    for (size_t e = 0; e < other.size(); e++) {
      w.projection.A[e] += 0.5 * *x;
      w.projection.A[other[e]] += 0.5 * *x++;
    }
    for (size_t i = 0; i < 5 * ncon; i++) d->contact[i / 5].friction[i % 5] = friction[i] + *x++;
    for (size_t i = 0; i < nefc; i++) d->efc_frictionloss[i] = loss[i] + *x++;
    noslip_sweeps(scene.model.mj(), d, w);
  };
  return {.forward =
              [=](const Vector& z) {
                set(z);
                return (**lease).noslip.force;
              },
          .pullback =
              [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
                set(z);
                Workspace& w = **lease;
                w.noslip.force_bar = y_bar;
                Vector b_bar(nefc);
                noslip_sweeps_pullback(scene.model.mj(), d, b_bar, w);
                double* to = z_bar.data();
                for (const double x : w.noslip.main_force_bar) *to++ += x;
                for (const double x : b_bar) *to++ += x;
                for (size_t e = 0; e < other.size(); e++) {
                  *to++ += 0.5 * (w.projection.A_bar[e] + w.projection.A_bar[other[e]]);
                }
                for (const auto& of_contact : w.noslip.friction_bar) {
                  for (const double x : of_contact) *to++ += x;
                }
                for (const double x : w.noslip.frictionloss_bar) *to++ += x;
              }};
}

TEST(Noslip, SweepsPullbackMatchesDifferences) {
  for (const char* name : {"noslip", "contact_plane", "contact_plane_ell"}) {
    for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
      for (const int condim : {3, 4, 6}) {
        // a tolerance that ends no sweep
        const Settings settings{
            .tolerance = -1, .cone = cone, .condim = condim, .frictionloss = 0.02};
        SCOPED_TRACE(std::string(name) + ": " + text(settings));
        const Scene scene = noslip_zoo(name, settings);
        size_t n = 0;
        const Operation op = sweeps_operation(scene, &n);
        EXPECT_TRUE(
            check_pullback(op, Vector(n), n, {.tolerance = tolerances().stage, .step = 1e-5}));
      }
    }
  }
}

// x of (A, b, friction, normal force); A is symmetric
Operation ellipse_operation(const Ellipse& at) {
  const auto n = static_cast<size_t>(at.n);
  const auto read = [=](const Vector& z) {
    Ellipse in = at;
    for (size_t i = 0; i < n; i++) {
      for (size_t j = 0; j < n; j++) {
        in.A[i * n + j] += 0.5 * (z[i * n + j] + z[j * n + i]);
      }
      in.b[i] += z[n * n + i];
      in.friction[i] += z[n * n + n + i];
    }
    in.normal += z[n * n + 2 * n];
    return in;
  };
  return {.forward =
              [=](const Vector& z) {
                Vector x(n);
                ellipse_minimum(read(z), x.data());
                return x;
              },
          .pullback =
              [=](const Vector& z, const Vector& x_bar, Vector& z_bar) {
                Ellipse bar{.n = at.n, .A = {}, .b = {}, .friction = {}};
                ellipse_pullback(read(z), x_bar.data(), bar);
                for (size_t i = 0; i < n; i++) {
                  for (size_t j = 0; j < n; j++) {
                    z_bar[i * n + j] += 0.5 * (bar.A[i * n + j] + bar.A[j * n + i]);
                  }
                  z_bar[n * n + i] += bar.b[i];
                  z_bar[n * n + n + i] += bar.friction[i];
                }
                z_bar[n * n + 2 * n] += bar.normal;
              }};
}

Ellipse ellipse(int n, double normal) {
  Ellipse out{.n = n, .A = {}, .b = {}, .friction = {}, .normal = normal};
  for (int i = 0; i < n; i++) {
    const auto k = static_cast<size_t>(i);
    out.b[k] = std::sin(1.0 + i);
    out.friction[k] = 0.6 + 0.1 * i;
    for (int j = 0; j < n; j++) {
      out.A[static_cast<size_t>(i * n + j)] = (i == j ? 2 + 0.3 * i : 0) + 0.4 * std::cos(i + j);
    }
  }
  return out;
}

// normal forces so large that friction sticks, so small that it slides, and a slide whose steps end
// far from their limit: there the derivative is of the steps
TEST(Noslip, EllipsePullbackMatchesDifferences) {
  for (const int n : {2, 3, 5}) {
    for (const double normal : {3.0, 0.2, 1e-4}) {
      SCOPED_TRACE("n = " + std::to_string(n) + ", normal force " + std::to_string(normal));
      const Ellipse at = ellipse(n, normal);
      double x[kMaxEllipse];
      EXPECT_EQ(ellipse_minimum(at, x), normal > 1 ? EllipseCase::kInside : EllipseCase::kCone);
      const auto size = static_cast<size_t>(n * n + 2 * n + 1);
      EXPECT_TRUE(
          check_pullback(ellipse_operation(at), Vector(size), size,
                         {.tolerance = tolerances().stage, .step = 0.03 * std::min(1.0, normal)}));
    }
  }
}

TEST(Noslip, EllipseWithoutInertiaHasNoFriction) {
  Ellipse at = ellipse(2, 1.0);
  at.A = {};
  double x[kMaxEllipse];
  EXPECT_EQ(ellipse_minimum(at, x), EllipseCase::kSingular);
  EXPECT_EQ(x[0], 0);
  Ellipse bar{.n = 2, .A = {}, .b = {}, .friction = {}};
  const double x_bar[2] = {1, 1};
  ellipse_pullback(at, x_bar, bar);
  EXPECT_EQ(bar.normal, 0);
}

TEST(Noslip, ParametersAgreeWithOracle) {
  for (const char* name :
       {"noslip", "limits", "eq_weld", "eq_couple", "contact_pairs", "tendon_spatial_dyn"}) {
    for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
      const Settings settings{.cone = cone, .frictionloss = 0.5};
      SCOPED_TRACE(std::string(name) + ": " + text(settings));
      std::map<std::string, Vector> analytic, oracle;
      gradient(noslip_zoo(name, settings), &analytic);
      gradient(noslip_zoo(name, settings, {.gradient_path = GradientPath::kOracle}), &oracle);
      for (const auto& [field, expected] : oracle) {
        // of damping that is 0 the oracle's differences are off by up to 5e-5, with the pass and
        // without it; stages/analytic_parameters_test.cc has it against differences of rollouts
        if (field == "dof_damping") continue;
        agree(analytic.at(field), expected, tolerances().stage, field);
      }
    }
  }
}

// forces as observables: those of MuJoCo's step, and their cotangents
TEST(Noslip, ConstraintForces) {
  for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    const Scene scene = noslip_zoo("contact_plane", {.cone = cone});
    const Model& model = scene.model;
    const mjModel* m = model.mj();
    const MjDataPtr d(mj_makeData(m));
    write(scene, m, d.get());
    mj_forward(m, d.get());
    const Trajectory t = rollout(model, scene.input(), 1);
    const ConstraintForces forces = constraint_forces(model, t, 0);
    ASSERT_EQ(forces.force.size(), static_cast<size_t>(d->nefc));
    Vector f_bar(forces.force.size());
    for (size_t i = 0; i < f_bar.size(); i++) {
      EXPECT_NEAR(forces.force[i], d->efc_force[i], 1e-9);
      f_bar[i] = std::sin(1 + 1.3 * static_cast<double>(i));
    }
    const auto n = static_cast<size_t>(2 * model.nv());
    const Operation op{.forward =
                           [&](const Vector& z) {
                             const State x = plus(model, scene.x, z);
                             RolloutInput input = scene.input();
                             input.qpos = x.qpos;
                             input.qvel = x.qvel;
                             const Trajectory moved = rollout(model, input, 1);
                             return constraint_forces(model, moved, 0).force;
                           },
                       .pullback =
                           [&](const Vector& z, const Vector& y_bar, Vector& z_bar) {
                             const State x = plus(model, scene.x, z);
                             RolloutInput input = scene.input();
                             input.qpos = x.qpos;
                             input.qvel = x.qvel;
                             const Trajectory moved = rollout(model, input, 1);
                             const std::vector<Vector> force_bar = {y_bar};
                             const Gradient g =
                                 rollout_pullback(model, moved, {.efc_force = force_bar});
                             for (size_t k = 0; k < n / 2; k++) {
                               z_bar[k] += g.qpos_tangent[k];
                               z_bar[n / 2 + k] += g.qvel[k];
                             }
                           }};
    EXPECT_TRUE(
        check_pullback(op, Vector(n), n, {.tolerance = tolerances().trajectory, .step = 1e-5}));
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, NoslipZoo,
                         ::testing::Values("noslip", "flags", "contact_plane", "contact_plane_ell",
                                           "limits", "eq_connect", "eq_weld", "eq_couple",
                                           "contact_pairs", "tendon_fixed", "tendon_spatial_dyn",
                                           "humanoid", "hand"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace diffmj
