// Jacobians of residuals in the state and the control: exact, in the tangent space, sparse by rows.
#ifndef DIFFMJ_PLAN_JACOBIAN_H_
#define DIFFMJ_PLAN_JACOBIAN_H_

#include <optional>
#include <vector>

#include "diffmj/rollout.h"
#include "integrate/step.h"
#include "mj/view.h"
#include "setup/workspace_lease.h"

namespace diffmj {

// ∂r/∂(x, u), row after row. Columns below 2 nv + na are of the state, those from there on of ctrl.
struct JacobianRows {
  std::vector<int> column;
  std::vector<double> value;
  std::vector<size_t> begin;  // of each row, and the end of the last

  void clear() {
    column.clear();
    value.clear();
    begin.assign(1, 0);
  }
  void add(int at, double x) {
    if (x == 0) return;
    column.push_back(at);
    value.push_back(x);
  }
  void end_row() { begin.push_back(column.size()); }
  int rows() const { return static_cast<int>(begin.size()) - 1; }
};

// A state of a trajectory at which Jacobians are taken, one after the other. Its memory is used
// again from state to state. Model, trajectory and poses must outlive it.
class JacobianPlace {
 public:
  JacobianPlace(const Model& model, const Trajectory& trajectory, const Poses& poses);

  const Model& model;
  const Trajectory& trajectory;
  const Poses& poses;

  void move(int state);
  int state() const { return state_; }
  int ntangent() const { return model.ntangent(); }

  // mj_kinematics and mj_comPos at the state; computed when first asked for.
  const mjData* frames();
  // The velocity of a world point that is fixed to a body, and the body's angular velocity, per dof
  // (mj_jac). 3 x nv each; good until the next call.
  struct PointJacobian {
    const double *linear, *angular;
  };
  PointJacobian point(int body, const double* point);
  // The same of the centre of mass of a body and all that hangs on it: no rotation.
  const double* subtree(int body);
  // What the state receives of cotangents of poses and velocities, in 2 nv + na numbers.
  CVec pose_row(const PoseBar& bar);
  // What the state and ctrl receive of the k-th number of sensordata, in 2 nv + na + nu numbers.
  CVec sensor_row(int k);
  // Of the residual that is asked.
  std::vector<double> scratch;

 private:
  int state_ = -1;
  bool frames_ready_ = false, motion_ready_ = false;
  std::optional<WorkspaceLease> frames_, sensors_;
  std::vector<double> linear_, angular_, row_, unit_;
  StepBar bar_;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_JACOBIAN_H_
