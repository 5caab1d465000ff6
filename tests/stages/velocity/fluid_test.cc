#include "stages/velocity/fluid.h"

#include <gtest/gtest.h>

#include <memory>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

using Matrix6 = Eigen::Matrix<double, 6, 6>;

// One body per type of geom, with a geom that is off its centre. The first half are boxes, the
// second ellipsoids; the last is so small that an absolute guard of its lift would be seen.
constexpr const char* kGeoms[] = {
    "type='sphere' size='.1'",
    "type='capsule' size='.05 .2'",
    "type='ellipsoid' size='.12 .04 .03'",
    "type='box' size='.1 .2 .03'",
    "type='cylinder' size='.05 .02'",
    "type='box' size='.01 .004 .02'",
};

std::string swimmers(const std::string& option, const std::string& joint) {
  std::string xml = "<mujoco><option gravity='0 0 0' " + option + "/><worldbody>";
  for (const char* fluid : {"", " fluidshape='ellipsoid' fluidcoef='.6 .3 1.2 .8 1.1'"}) {
    for (const char* geom : kGeoms) {
      xml += "<body>" + joint + "<geom contype='0' conaffinity='0' pos='.03 -.02 .05' " +
             "euler='20 -30 40' " + geom + fluid + "/></body>";
    }
  }
  return xml + "</worldbody></mujoco>";
}

const std::string kMedium = "density='800' viscosity='.7' wind='.4 -.3 .2'";

// A model and a state of it at which mj_forward was called.
struct Flow {
  Flow(const mjModel* from, const Vector& qpos, const Vector& qvel)
      : m(mj_copyModel(nullptr, from), mj_deleteModel), d(mj_makeData(m.get()), mj_deleteData) {
    std::copy(qpos.begin(), qpos.end(), d->qpos);
    std::copy(qvel.begin(), qvel.end(), d->qvel);
    mj_forward(m.get(), d.get());
  }
  std::unique_ptr<mjModel, void (*)(mjModel*)> m;
  std::unique_ptr<mjData, void (*)(mjData*)> d;
};

Flow flow(const Scene& scene) { return {scene.model.mj(), scene.x.qpos, scene.x.qvel}; }

// a state far from anything special
Flow flow(const std::string& xml) {
  const Model model = Model::from_xml(xml);
  const mjModel* m = model.mj();
  Vector qpos(m->qpos0, m->qpos0 + m->nq), dq(static_cast<size_t>(m->nv)), qvel(dq.size());
  for (size_t i = 0; i < dq.size(); i++) {
    const double t = static_cast<double>(i);
    dq[i] = 0.8 * std::sin(1 + 2.3 * t);
    qvel[i] = 1.5 * std::cos(2 + 1.7 * t);
  }
  mj_integratePos(m, qpos.data(), dq.data(), 1);
  return {m, qpos, qvel};
}

// A shape at the place where it is.
struct Placed {
  FluidShape shape;
  int body = 0;
  Vector3 pos = Vector3::Zero();
  Eigen::Matrix<double, 3, 3, Eigen::RowMajor> mat = Eigen::Matrix3d::Identity();
  Vector6 twist = Vector6::Zero();
};

std::vector<Placed> placed(const mjModel* m, const mjData* d) {
  std::vector<Placed> all;
  const auto add = [&](const FluidShape& shape, int body, int type, int id, const double* pos,
                       const double* mat) {
    Placed p{.shape = shape, .body = body, .pos = Vector3(pos)};
    p.mat = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(mat);
    mj_objectVelocity(m, d, type, id, p.twist.data(), 1);
    p.twist.tail<3>() -= p.mat.transpose() * Vector3(m->opt.wind);
    all.push_back(p);
  };
  for (int body = 0; body < static_cast<int>(m->nbody); body++) {
    if (!fluid_uses_ellipsoid(m, body)) {
      add(fluid_box(m, body), body, mjOBJ_BODY, body, d->xipos + 3 * body, d->ximat + 9 * body);
      continue;
    }
    for (int i = 0; i < m->body_geomnum[body]; i++) {
      const int geom = m->body_geomadr[body] + i;
      add(fluid_ellipsoid(m, geom), body, mjOBJ_GEOM, geom, d->geom_xpos + 3 * geom,
          d->geom_xmat + 9 * geom);
    }
  }
  return all;
}

void expect_forward_matches(const Flow& flow) {
  const mjModel* m = flow.m.get();
  mjData* d = flow.d.get();
  Eigen::VectorXd qfrc = Eigen::VectorXd::Zero(m->nv);
  for (const Placed& p : placed(m, d)) {
    const Vector6 wrench = fluid_force(p.shape, p.twist);
    const Vector3 torque = p.mat * wrench.head<3>(), force = p.mat * wrench.tail<3>();
    mj_applyFT(m, d, force.data(), torque.data(), p.pos.data(), p.body, qfrc.data());
  }
  // per dof: the forces of small bodies are not hidden by those of large ones
  for (int i = 0; i < static_cast<int>(m->nv); i++) {
    const double expected = d->qfrc_fluid[i];
    const double size = std::abs(expected) + std::abs(qfrc[i]);
    EXPECT_LE(std::abs(qfrc[i] - expected), tolerances().forward * size) << "dof " << i;
  }
  EXPECT_GT(Eigen::Map<Eigen::VectorXd>(d->qfrc_fluid, m->nv).norm(), 1e-3);
}

TEST(Fluid, ForwardMatchesMujoco) {
  for (const char* name : {"fluid_box", "fluid_ellipsoid"}) {
    SCOPED_TRACE(name);
    expect_forward_matches(flow(zoo(name)));
  }
  for (const std::string& medium :
       {kMedium, std::string("density='1.2'"), std::string("viscosity='.7' wind='.4 -.3 .2'")}) {
    SCOPED_TRACE(medium);
    expect_forward_matches(flow(swimmers(medium, "<freejoint/>")));
  }
}

TEST(Fluid, InteractionScalesForce) {
  Flow f = flow(swimmers(kMedium, "<freejoint/>"));
  for (int geom = 0; geom < static_cast<int>(f.m->ngeom); geom++) {
    f.m->geom_fluid[mjNFLUID * geom] *= 0.3;
  }
  mj_forward(f.m.get(), f.d.get());
  expect_forward_matches(f);
}

// a sphere in a viscous medium: Stokes' law; in a thin one: drag over its area
TEST(Fluid, SphereFollowsStokes) {
  const double radius = 0.1, viscosity = 0.7, pi = std::acos(-1.0);
  const std::string geom =
      "<geom type='sphere' size='.1' fluidshape='ellipsoid' "
      "fluidcoef='.4 .4 .4 0 0'/>";
  const auto force = [&](const std::string& medium) {
    const Flow f = flow("<mujoco><option " + medium + "/><worldbody><body><freejoint/>" + geom +
                        "</body></worldbody></mujoco>");
    return fluid_force(fluid_ellipsoid(f.m.get(), 0), (Vector6() << 0, 0, 0, 2, 0, 0).finished());
  };
  EXPECT_NEAR(force("viscosity='.7'")[3], -6 * pi * viscosity * radius * 2, tolerances().forward);
  EXPECT_NEAR(force("density='3'")[3], -3 * 0.4 * pi * radius * radius * 4, tolerances().forward);
}

TEST(Fluid, BodyWithoutMassFeelsNothing) {
  Flow f = flow(swimmers(kMedium, "<freejoint/>"));
  const Vector6 twist = Vector6::Constant(1.5);
  EXPECT_EQ(fluid_force(fluid_box(f.m.get(), 0), twist).norm(), 0);
  const int geom = static_cast<int>(f.m->ngeom) - 1;
  EXPECT_GT(fluid_force(fluid_ellipsoid(f.m.get(), geom), twist).norm(), 0);
  f.m->body_mass[f.m->geom_bodyid[geom]] = 0;
  EXPECT_EQ(fluid_force(fluid_ellipsoid(f.m.get(), geom), twist).norm(), 0);
}

Vector6 vector6(const Vector& x) { return Vector6(x.data()); }
void add(const Vector6& v, double scale, Vector& out) {
  for (size_t i = 0; i < 6; i++) out[i] += scale * v[static_cast<Eigen::Index>(i)];
}

// twists: that of the scene, and slow ones
std::vector<Vector6> twists(const Vector6& twist) { return {twist, 0.1 * twist, -3 * twist}; }

// the differences are good to this; measured residuals are below 1e-10
double tight() { return tolerances().stage / 10; }

TEST(Fluid, JacobianMatchesDifferences) {
  const Flow f = flow(swimmers(kMedium, "<freejoint/>"));
  for (const Placed& p : placed(f.m.get(), f.d.get())) {
    const Operation op = {
        .forward =
            [&](const Vector& x) {
              const Vector6 wrench = fluid_force(p.shape, vector6(x));
              return Vector(wrench.data(), wrench.data() + 6);
            },
        .pullback =
            [&](const Vector& x, const Vector& y_bar, Vector& x_bar) {
              Vector6 wrench;
              Matrix6 J;
              fluid_jacobian(p.shape, vector6(x), wrench, J);
              EXPECT_EQ(wrench, fluid_force(p.shape, vector6(x)));
              add(J.transpose() * vector6(y_bar), 1, x_bar);
            },
    };
    for (const Vector6& twist : twists(p.twist)) {
      EXPECT_TRUE(
          check_pullback(op, Vector(twist.data(), twist.data() + 6), 6, {.tolerance = tight()}))
          << "body " << p.body << ", twist " << twist.transpose();
    }
  }
}

TEST(Fluid, CurvatureMatchesDifferences) {
  const Flow f = flow(swimmers(kMedium, "<freejoint/>"));
  const Vector6 u = (Vector6() << 0.3, -0.5, 0.9, 0.2, 1.1, -0.4).finished();
  const Vector6 w = (Vector6() << -0.8, 0.1, 0.6, 0.7, -0.2, 0.5).finished();
  for (const Placed& p : placed(f.m.get(), f.d.get())) {
    for (bool symmetric : {false, true}) {
      const Operation op = {
          .forward =
              [&](const Vector& x) {
                Vector6 wrench;
                Matrix6 J;
                fluid_jacobian(p.shape, vector6(x), wrench, J);
                const double uJw = u.dot(J * w);
                return Vector{symmetric ? 0.5 * (uJw + w.dot(J * u)) : uJw};
              },
          .pullback =
              [&](const Vector& x, const Vector& y_bar, Vector& x_bar) {
                add(fluid_curvature(p.shape, vector6(x), u, w, symmetric), y_bar[0], x_bar);
              },
      };
      for (const Vector6& twist : twists(p.twist)) {
        EXPECT_TRUE(
            check_pullback(op, Vector(twist.data(), twist.data() + 6), 6, {.tolerance = tight()}))
            << "body " << p.body << ", twist " << twist.transpose();
      }
    }
  }
}

// what MuJoCo's implicit integrators put into the mass matrix is the symmetric part of our J
TEST(Fluid, JacobianMatchesImplicitIntegrator) {
  // six dofs that are no free joint: those are not made symmetric
  const std::string joint =
      "<joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 1 0'/>"
      "<joint type='slide' axis='0 0 1'/><joint type='ball'/>";
  Flow f = flow(swimmers(kMedium + " integrator='implicitfast'", joint));
  const mjModel* m = f.m.get();
  mjData* d = f.d.get();
  Eigen::MatrixXd expected = Eigen::MatrixXd::Zero(m->nv, m->nv);
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> jac(6, m->nv);
  for (const Placed& p : placed(m, d)) {
    Vector6 wrench;
    Matrix6 J;
    fluid_jacobian(p.shape, p.twist, wrench, J);
    mj_jac(m, d, jac.data() + 3 * m->nv, jac.data(), p.pos.data(), p.body);
    jac.topRows<3>() = p.mat.transpose() * jac.topRows<3>().eval();
    jac.bottomRows<3>() = p.mat.transpose() * jac.bottomRows<3>().eval();
    expected += 0.5 * jac.transpose() * (J + J.transpose()) * jac;
  }
  mj_step(f.m.get(), d);
  for (int i = 0; i < static_cast<int>(m->nv); i++) {
    // the six dofs of a body share a scale
    const double size = expected.middleRows(i / 6 * 6, 6).norm();
    for (int k = 0; k < m->D_rownnz[i]; k++) {
      const int at = m->D_rowadr[i] + k, j = m->D_colind[at];
      EXPECT_NEAR(d->qDeriv[at], expected(i, j), tolerances().forward * size) << i << " " << j;
    }
  }
}

// the force vanishes with the twist; all derivatives are finite at rest, near it, and at every kink
TEST(Fluid, RestIsFinite) {
  const Flow f = flow(swimmers(kMedium, "<freejoint/>"));
  const Vector6 u = Vector6::Constant(0.7), w = Vector6::LinSpaced(-1, 1);
  for (const Placed& p : placed(f.m.get(), f.d.get())) {
    if (p.body == 0) continue;
    Vector6 wrench;
    Matrix6 J;
    fluid_jacobian(p.shape, Vector6::Zero(), wrench, J);
    EXPECT_EQ(wrench.norm(), 0);
    // only the viscosity is left
    Vector6 viscous;
    viscous << Vector3::Constant(-p.shape.viscous_torque),
        Vector3::Constant(-p.shape.viscous_force);
    EXPECT_EQ(J, Matrix6(viscous.asDiagonal()));
    // the box has only |x| x, the ellipsoid also products
    if (p.shape.model == FluidModel::kBox) {
      EXPECT_EQ(fluid_curvature(p.shape, Vector6::Zero(), u, w, false).norm(), 0);
    }

    for (int axis = 0; axis < 7; axis++) {
      for (double scale = 1e3; scale > 1e-323; scale *= 0.1) {
        Vector6 twist = scale * p.twist;
        if (axis < 6) twist[axis] = 0;
        fluid_jacobian(p.shape, twist, wrench, J);
        ASSERT_TRUE(wrench.allFinite() && J.allFinite()) << p.body << " " << twist.transpose();
        ASSERT_TRUE(fluid_curvature(p.shape, twist, u, w, false).allFinite())
            << p.body << " " << twist.transpose();
      }
    }
  }
}

TEST(Fluid, AllocatesNothing) {
  const Flow f = flow(zoo("fluid_ellipsoid"));
  const Placed p = placed(f.m.get(), f.d.get())[1];
  Vector6 wrench;
  Matrix6 J;
  const size_t before = allocations();
  fluid_jacobian(p.shape, p.twist, wrench, J);
  wrench += fluid_curvature(p.shape, p.twist, wrench, p.twist, true);
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace diffmj
