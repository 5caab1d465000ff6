#include "stages/acceleration/constraint_solve.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <map>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "setup/model_impl.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

// the solution at the scene's state, solver at machine precision
struct Solved {
  explicit Solved(const Scene& scene)
      : model(scene.model.tightened()), lease(model.impl()), d(lease->data.get()) {
    mj_resetData(model.mj(), d);
    mju_copy(d->qpos, scene.x.qpos.data(), model.nq());
    mju_copy(d->qvel, scene.x.qvel.data(), model.nv());
    mju_copy(d->act, scene.x.act.data(), model.na());
    mju_copy(d->ctrl, scene.ctrl.data(), model.nu());
    mj_forward(model.mj(), d);
    qacc.assign(d->qacc, d->qacc + model.nv());
    newton_factorize(model.mj(), d, qacc, *lease);
  }
  Model model;
  WorkspaceLease lease;
  mjData* d;
  Vector qacc;
};

Zone zone_of_state(int state) {
  switch (state) {
    case mjCNSTRSTATE_SATISFIED:
      return Zone::kSatisfied;
    case mjCNSTRSTATE_QUADRATIC:
      return Zone::kQuadratic;
    case mjCNSTRSTATE_CONE:
      return Zone::kCone;
    default:
      return Zone::kLinear;
  }
}

TEST(ConstraintSolve, ZonesForcesAndCurvatureAreThoseOfMujoco) {
  std::map<std::pair<int, Zone>, int> seen;
  for (const std::string& name : zoo_names()) {
    SCOPED_TRACE(name);
    Solved s(zoo(name));
    const int nefc = s.d->nefc;
    if (nefc == 0) continue;
    const Vector y = s.lease->newton.y;
    // MuJoCo's own update at this y, which refreshes efc_state, efc_force and the cones' Hessians
    mj_constraintUpdate(s.model.mj(), s.d, y.data(), nullptr, 1);
    Vector f(y.size());
    for (int i = 0, dim = 1; i < nefc; i += dim) {
      dim = constraint_rows_at(s.d, i);
      const Zone zone = constraint_zone(s.d, y, i);
      EXPECT_EQ(zone, zone_of_state(s.d->efc_state[i])) << "row " << i;
      EXPECT_EQ(zone, s.lease->newton.zone[static_cast<size_t>(i)]) << "row " << i;
      seen[{s.d->efc_type[i], zone}]++;
      constraint_force(s.d, zone, y, i, f);
      if (zone != Zone::kCone) continue;
      const mjContact& contact = s.d->contact[s.d->efc_id[i]];
      double S[36];
      cone_hessian(contact, s.d->efc_D[i], &y[static_cast<size_t>(i)], S);
      for (int k = 0; k < dim * dim; k++) {
        EXPECT_NEAR(S[k], contact.H[k], tolerances().forward * (1 + std::abs(contact.H[0])));
      }
    }
    for (int i = 0; i < nefc; i++) {
      EXPECT_NEAR(f[static_cast<size_t>(i)], s.d->efc_force[i],
                  tolerances().forward * (1 + std::abs(s.d->efc_force[i])))
          << "row " << i;
    }
  }
  // the zoo visits every zone of every type
  for (int type : {mjCNSTR_FRICTION_DOF, mjCNSTR_FRICTION_TENDON}) {
    EXPECT_TRUE((seen.count({type, Zone::kQuadratic}) + seen.count({type, Zone::kLinear})) > 0);
  }
  EXPECT_TRUE(seen.count({mjCNSTR_EQUALITY, Zone::kQuadratic}));
  EXPECT_TRUE(seen.count({mjCNSTR_FRICTION_DOF, Zone::kLinear}));
  EXPECT_TRUE(seen.count({mjCNSTR_FRICTION_DOF, Zone::kQuadratic}));
  EXPECT_TRUE(seen.count({mjCNSTR_LIMIT_JOINT, Zone::kQuadratic}));
  EXPECT_TRUE(seen.count({mjCNSTR_LIMIT_TENDON, Zone::kQuadratic}));
  EXPECT_TRUE(seen.count({mjCNSTR_CONTACT_FRICTIONLESS, Zone::kQuadratic}));
  EXPECT_TRUE(seen.count({mjCNSTR_CONTACT_PYRAMIDAL, Zone::kQuadratic}));
  EXPECT_TRUE(seen.count({mjCNSTR_CONTACT_PYRAMIDAL, Zone::kSatisfied}));
  for (Zone zone : {Zone::kSatisfied, Zone::kQuadratic, Zone::kCone}) {
    EXPECT_TRUE(seen.count({mjCNSTR_CONTACT_ELLIPTIC, zone})) << static_cast<int>(zone);
  }
}

// S is the derivative of -f: the pullback of f is -S, for every condim
TEST(ConstraintSolve, ConeHessianMatchesDifferences) {
  for (int dim : {3, 4, 6}) {
    mjContact contact = {};
    contact.dim = dim;
    contact.mu = 0.6;
    const double friction[5] = {0.9, 0.8, 0.05, 0.02, 0.03};
    std::copy(friction, friction + 5, contact.friction);
    int type = mjCNSTR_CONTACT_ELLIPTIC, id = 0;
    mjtNum D[6] = {120, 100, 90, 80, 70, 60};
    mjData d = {};
    d.efc_type = &type;
    d.efc_id = &id;
    d.efc_D = D;
    d.contact = &contact;
    const auto n = static_cast<size_t>(dim);
    const Operation op = {
        .forward =
            [&](const Vector& y) {
              Vector f(n);
              constraint_force(&d, Zone::kCone, y, 0, f);
              return f;
            },
        .pullback =
            [&](const Vector& y, const Vector& f_bar, Vector& y_bar) {
              double S[36];
              cone_hessian(contact, D[0], y.data(), S);
              for (size_t j = 0; j < n; j++) {
                for (size_t k = 0; k < n; k++) y_bar[j] -= S[j * n + k] * f_bar[k];
              }
            },
    };
    Vector at = {-0.1, 0.4, -0.3, 1.5, 2, -1};
    at.resize(n);
    ASSERT_EQ(constraint_zone(&d, at, 0), Zone::kCone);
    EXPECT_TRUE(check_pullback(op, at, n, {.tolerance = tolerances().stage})) << dim;
  }
}

TEST(ConstraintSolve, SolveInvertsTheNewtonMatrix) {
  for (const std::string& name : zoo_names()) {
    Solved s(zoo(name));
    Vector a_bar(s.qacc.size()), lambda(s.qacc.size());
    for (size_t i = 0; i < a_bar.size(); i++) a_bar[i] = std::sin(1.0 + static_cast<double>(i));
    newton_solve(*s.lease, a_bar, lambda);
    EXPECT_LE(newton_residual(s.model.mj(), s.d, lambda, a_bar, *s.lease), 1e-11) << name;
  }
}

TEST(ConstraintSolve, SingularInertiaIsAnError) {
  Solved s(zoo("joints_order"));
  mju_zero(s.d->M, static_cast<int>(s.model.mj()->nC));
  EXPECT_THROW(newton_factorize(s.model.mj(), s.d, s.qacc, *s.lease), Error);
}

}  // namespace
}  // namespace diffmj
