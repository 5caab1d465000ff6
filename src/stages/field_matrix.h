// Derivatives of the vector field as matrices: all rows of what the analytic pullback gives for one
// λ at a time, at a fraction of the cost.
//
//   G = -∂g/∂z,                g(a; z) = M a + c - τ - Jᵀ f,   a held fixed
//   N =  ∂(M a - Mhat b)/∂z,   a and b held fixed;             z = (q, v, act, ctrl, θ)
//
// so that ∂a/∂z = H⁻¹ G, and of a step ∂b/∂z = Mhat⁻¹ (M ∂a/∂z + N).
//
// Inverse dynamics (docs/derivations/field_matrix.md, eq. 1 to 6): behind dof k all that moves with
// q_k turns together, which leaves motions u_k = V × S_k and w_k of the frame before it and sums of
// inertias over the bodies behind, O(nv depth). Contacts, tendons and rows of single dofs add
// products of few rows and columns each.
#ifndef DIFFMJ_STAGES_FIELD_MATRIX_H_
#define DIFFMJ_STAGES_FIELD_MATRIX_H_

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "stages/analytic.h"
#include "stages/position/tendon.h"

namespace diffmj {

class FieldMatrix {
 public:
  // Names what of the model, or of the parameters that are wanted, has no matrix form; empty if
  // everything has one.
  static std::string obstacle(const StageModel& impl, const ParameterColumns& columns = {});

  // The stages must have been evaluated at problem.in and, where constrained, the zones decided.
  // With problem.has_metric also N; unless constrained, problem.qacc must be b then, and N is that
  // of (M - Mhat) b.
  void compute(const StageModel& impl, const AnalyticProblem& problem,
               const ParameterColumns& columns, Workspace& workspace);

  Matrix G, N;  // nv x (2 nv + na + nu + columns)

 private:
  struct Dof {            // motions of the frame before it, and what follows from them
    Vector6 S;            // its axis
    Vector6 V, A, Q;      // velocity, acceleration, X(a)
    Vector6 u, w;         // V × S,  A × S - u × V
    Vector6 u_v;          // (V + V after its joint) × S
    int joint_begin = 0;  // the first dof that turns with it
  };
  struct Body {
    Matrix6 I, B, K;  // sums over the bodies behind, after inverse_dynamics
    Vector6 F;
    Vector6 V, Q;  // motions of the body
  };

  void motions(CVec qvel, CVec qacc, CVec row_qacc, const Vector3& gravity);
  void add_force_at(int body, const Vector3& point, const Vector3& F, const Vector3& T);
  void inverse_dynamics(double scale, bool forces, Matrix& to);
  void passive();
  void actuation();
  // Rows of a connect or weld, which have an impedance in common; 0 of others.
  static int equality_rows(int type);
  int rows_together(int i) const;  // the number of rows from i on that belong together
  void constraints();
  void single_dof_rows();
  void equalities();
  void equality(int i, int nrow);
  void find_chain(int body0, int body1);
  void add_blocks(const Eigen::Map<Matrix>& left, const Eigen::Map<Matrix>& right,
                  const Eigen::Map<Matrix>& velocity);
  void contacts();
  void contact(const mjContact& contact, const Eigen::Matrix<double, 7, 12>& geometry);
  void tendons();
  void metric();

  const StageModel* impl_ = nullptr;
  const mjModel* m_ = nullptr;
  mjData* d_ = nullptr;
  const AnalyticProblem* problem_ = nullptr;
  const ParameterColumns* columns_ = nullptr;
  Workspace* workspace_ = nullptr;
  int nv_ = 0, na_ = 0;

  std::vector<Dof> dofs_;
  std::vector<Body> bodies_;
  std::vector<Vector6> external_;    // nbody: wrenches fixed in the world
  std::vector<Matrix6> external_K_;  // nbody: how others change with the body's motion
  std::vector<double> ones_, zeros_, q_bar_, v_bar_, act_bar_, ctrl_bar_, out_bar_, params_bar_;
  // of rows, for a unit cotangent of J λ in the k-th row of every contact
  static constexpr int kMaxDim = 6;
  std::array<RowsBar, kMaxDim> rows_;
  std::vector<double> unit_rows_;  // nefc
  // of one contact or tendon
  std::vector<int> chain_;
  std::vector<int> side_;  // of each dof of the chain: 1, 2 or both
  // matrices whose sizes change from one to the next, without allocating each time
  struct Buffer {
    Eigen::Map<Matrix> shaped(Eigen::Index rows, Eigen::Index columns) {
      numbers.resize(std::max(numbers.size(), static_cast<size_t>(rows * columns)));
      return {numbers.data(), rows, columns};
    }
    std::vector<double> numbers;
  };
  Buffer left_, right_, block_, velocity_;
  // of tendons: dT/dl, dT/dv and the factors of J a and J v in their rows; T is the tension
  struct Tendon {
    double T = 0, by_length = 0, by_velocity = 0, row_a = 0;
  };
  std::vector<Tendon> tendons_;
  TendonHessian tendon_hessian_;
  Matrix hessian_;
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_FIELD_MATRIX_H_
