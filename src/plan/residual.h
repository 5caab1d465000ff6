// Residuals: what a term of a cost measures at one state, with its pullback.
#ifndef DIFFMJ_PLAN_RESIDUAL_H_
#define DIFFMJ_PLAN_RESIDUAL_H_

#include <memory>
#include <string>
#include <vector>

#include "diffmj/cost.h"
#include "diffmj/observables.h"
#include "mj/view.h"
#include "plan/jacobian.h"

namespace diffmj {

class Residual {
 public:
  virtual ~Residual() = default;
  int size() const { return size_; }
  // Of controls and forces: it belongs to a step, not to a state.
  bool of_steps() const { return of_steps_; }
  // First step or state it exists at.
  int first() const { return first_; }
  const std::vector<const Observable*>& observables() const { return observables_; }
  bool sensors() const { return sensors_; }

  // r (size) at state or step i.
  virtual void value(const Model& model, const Trajectory& t, const Poses& poses, int i,
                     Vec r) const = 0;
  // Adds to bars, whose rows are there; r is the value.
  virtual void pullback(const Model& model, const Trajectory& t, const Poses& poses, int i, CVec r,
                        CVec r_bar, CostBars& bars) const = 0;
  // Rows of ∂r/∂(x, u) at the place's state or step, after those that are there; r is the value. Of
  // a change of controls, u is the change.
  virtual void jacobian(JacobianPlace& place, CVec r, JacobianRows& out) const = 0;
  // It is of the change of ctrl from the step before.
  virtual bool of_change() const { return false; }
  // Which cotangents it adds to, beside those of observables and sensors.
  virtual std::vector<std::vector<double> CostBars::*> bars() const { return {}; }

 protected:
  int size_ = 0;
  bool of_steps_ = false;
  int first_ = 1;  // the first state is not the plan's doing
  std::vector<const Observable*> observables_;
  bool sensors_ = false;
};

// Resolves names; who is for messages.
std::unique_ptr<Residual> make_residual(const std::string& who, const Model& model,
                                        const CostQuantity& of);
// The same for what is measured at frames: Distance, Orientation and FrameVelocity.
std::unique_ptr<Residual> make_distance(const std::string& who, const Model& model,
                                        const Distance& of);
std::unique_ptr<Residual> make_orientation(const std::string& who, const Model& model,
                                           const Orientation& of);
std::unique_ptr<Residual> make_frame_velocity(const std::string& who, const Model& model,
                                              const FrameVelocity& of);

// Number of an element by name; InputError lists the names there are. type is mjtObj.
int element_id(const std::string& who, const Model& model, int type, const std::string& name);

// Value of the norm, and its derivative in r, which overwrites r_bar.
double norm_value(Norm norm, double scale, CVec r);
double norm_pullback(Norm norm, double scale, CVec r, Vec r_bar);
// Diagonal of a positive Hessian in r, which overwrites h: of kSquared and kCosh the norm's own; of
// kL2 and kHuber that of the paraboloid that touches the norm at r and lies above it elsewhere, for
// their own is flat along r.
void norm_curvature(Norm norm, double scale, CVec r, Vec h);

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_RESIDUAL_H_
