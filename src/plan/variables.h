// Decision variables z = (knots of ctrl, knots of qfrc_applied, qvel of the start), as far as they
// are decided, and the inputs of a rollout they stand for.
#ifndef DIFFMJ_PLAN_VARIABLES_H_
#define DIFFMJ_PLAN_VARIABLES_H_

#include <vector>

#include "diffmj/plan.h"
#include "plan/noise.h"
#include "plan/spline.h"

namespace diffmj {

struct PlanInputs {
  std::vector<double> ctrl;          // nstep x nu
  std::vector<double> qfrc_applied;  // nstep x nv
  std::vector<double> qvel;          // nv
};

class PlanVariables {
 public:
  PlanVariables(const Model& model, const PlanOptions& options);

  size_t size() const { return scale_.size(); }
  CVec scale() const { return scale_; }
  CVec low() const { return low_; }
  CVec high() const { return high_; }
  const Spline& spline() const { return spline_; }

  // 0, or what is next to it within the bounds.
  std::vector<double> zero() const;
  // Sets the controls of all knots at the end that are equal, as they are after shift(), to those
  // of zero(). False if that changes nothing.
  bool release_end(Vec z) const;
  // Parts of z from rows, one row that is held, or nothing: that part stays.
  void set_ctrl(CVec rows, Vec z) const;
  void set_forces(CVec rows, Vec z) const;
  void set_velocity(CVec qvel, Vec z) const;

  void inputs(CVec z, PlanInputs& out) const;
  // Adds to z_bar. gradient: 0 where a cubic spline is clipped to the bounds.
  void pullback(CVec z, const PlanInputs& bars, Vec z_bar, std::vector<double>& scratch) const;

  // Into the bounds.
  void clip(Vec z) const;
  // Earlier by so many steps, the last row held; shift_moments() does not clip.
  void shift(double steps, Vec z) const;
  void shift_moments(double steps, Vec moments) const;
  void add_noise(RandomNormal& random, double sigma, Vec z) const;

 private:
  void set(CVec rows, size_t begin, int width, Vec z) const;

  bool cubic_;
  int nu_ = 0, nforce_ = 0, nvelocity_ = 0;
  Spline spline_;
  ColoredNoise noise_;
  size_t force_ = 0, velocity_ = 0;  // where these parts of z begin
  std::vector<double> scale_, low_, high_;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_VARIABLES_H_
