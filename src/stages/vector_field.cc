#include "stages/vector_field.h"

#include "mj/call.h"
#include "stages/acceleration/constraint_solve.h"

namespace diffmj {
namespace {

// xfrc_applied acts at the bodies' centres of mass: λᵀ Jᵀ xfrc
void xfrc_pullback(const ModelImpl& impl, const Matrix& lambda, Matrix& xfrc_bar,
                   Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  double* jacobian = workspace.body_jacobian.data();
  const Eigen::Map<const Matrix> J(jacobian, 6, impl.nv);
  for (int body = 1; body < impl.nbody; body++) {
    mj_call("mj_jacBodyCom", [&] { mj_jacBodyCom(m, d, jacobian, jacobian + 3 * impl.nv, body); });
    xfrc_bar.middleCols(6 * body, 6).noalias() += lambda * J.transpose();
  }
}

}  // namespace

void vector_field_pullback(const ModelImpl& impl, const OracleProblem& problem, const Matrix& a_bar,
                           OracleMultipliers multipliers, const VectorFieldBar& bar,
                           Workspace& workspace) {
  Matrix& lambda = workspace.lambda;
  lambda.resize(a_bar.rows(), impl.nv);
  for (Eigen::Index i = 0; i < a_bar.rows(); i++) {
    newton_solve(workspace, row_part(a_bar, i, 0, impl.nv), row_part(lambda, i, 0, impl.nv));
  }
  // g contains -qfrc_applied and -Jᵀ xfrc_applied
  bar.qfrc_applied += lambda;
  if (bar.xfrc_applied.cols() > 0) xfrc_pullback(impl, lambda, bar.xfrc_applied, workspace);

  multipliers.lambda = &lambda;
  oracle_pullback(impl, problem, multipliers, bar.x, bar.ctrl, workspace);
}

}  // namespace diffmj
