// The pullback of (qacc, act_dot) against differences of mj_forward, over the zoo.
#include "stages/vector_field.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include "harness/models.h"
#include "harness/tolerances.h"
#include "integrate/manifold.h"
#include "setup/model_impl.h"
#include "setup/workspace_lease.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/evaluate_stages.h"

namespace diffmj {
namespace {

// z = (tangent of x, ctrl, qfrc_applied, xfrc_applied) -> (qacc, act_dot)
Operation vector_field_operation(const Scene& scene) {
  const auto model = std::make_shared<Model>(scene.model.tightened());
  struct At {
    State x;
    Vector ctrl, qfrc, xfrc;
    StepInput input() const {
      return {.time = 0,
              .qpos = x.qpos,
              .qvel = x.qvel,
              .act = x.act,
              .qacc_warmstart = {},
              .ctrl = ctrl,
              .qfrc_applied = qfrc,
              .xfrc_applied = xfrc};
    }
  };
  const auto at = [=](const Vector& z) {
    auto part = [begin = z.begin()](int size) mutable {
      Vector out(begin, begin + size);
      begin += size;
      return out;
    };
    At out;
    out.x = plus(*model, scene.x, part(model->ntangent()));
    out.ctrl = part(model->nu());
    for (size_t i = 0; i < out.ctrl.size(); i++) out.ctrl[i] += scene.ctrl[i];
    out.qfrc = part(model->nv());
    out.xfrc = part(6 * model->nbody());
    return out;
  };
  const auto solve = [=](const At& a, Workspace& workspace) {
    mjData* d = workspace.data.get();
    mj_resetData(model->mj(), d);
    std::copy(scene.mocap_pos.begin(), scene.mocap_pos.end(), d->mocap_pos);
    std::copy(scene.mocap_quat.begin(), scene.mocap_quat.end(), d->mocap_quat);
    write_input(model->mj(), d, a.input());
    mj_forward(model->mj(), d);
  };
  return {
      .forward =
          [=](const Vector& z) {
            WorkspaceLease workspace(model->impl());
            solve(at(z), *workspace);
            const mjData* d = workspace->data.get();
            Vector y(d->qacc, d->qacc + model->nv());
            y.insert(y.end(), d->act_dot, d->act_dot + model->na());
            return y;
          },
      .pullback =
          [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            WorkspaceLease workspace(model->impl());
            const At a = at(z);
            solve(a, *workspace);
            const mjData* d = workspace->data.get();
            const Vector qacc(d->qacc, d->qacc + model->nv());
            const int nv = model->nv(), na = model->na();
            const Matrix a_bar = Eigen::Map<const Matrix>(y_bar.data(), 1, nv);
            const Matrix act_dot_bar = Eigen::Map<const Matrix>(y_bar.data() + nv, 1, na);
            Matrix x_bar = Matrix::Zero(1, 2 * nv + na), ctrl_bar = Matrix::Zero(1, model->nu()),
                   qfrc_bar = Matrix::Zero(1, nv), xfrc_bar = Matrix::Zero(1, 6 * model->nbody());
            evaluate_stages(model->impl(), a.input(), *workspace);
            solution_factorize(model->impl(), qacc, *workspace);
            OracleProblem problem;
            problem.in = a.input();
            problem.qacc = qacc;
            Multipliers multipliers;
            multipliers.act_dot_bar = &act_dot_bar;
            oracle_field_pullback(model->impl(), problem, a_bar, multipliers,
                                  {x_bar, ctrl_bar, qfrc_bar, xfrc_bar}, *workspace);
            size_t i = 0;
            for (const Matrix* bar : {&x_bar, &ctrl_bar, &qfrc_bar, &xfrc_bar}) {
              for (Eigen::Index k = 0; k < bar->size(); k++) z_bar[i++] += bar->data()[k];
            }
          },
  };
}

class VectorFieldZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(VectorFieldZoo, PullbackMatchesDifferences) {
  const Scene scene = zoo(GetParam());
  const auto n = static_cast<size_t>(scene.model.ntangent() + scene.model.nu() + scene.model.nv() +
                                     6 * scene.model.nbody());
  EXPECT_TRUE(check_pullback(vector_field_operation(scene), Vector(n, 0.0), n,
                             {.tolerance = tolerances().stage}));
}

INSTANTIATE_TEST_SUITE_P(Zoo, VectorFieldZoo, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace diffmj
