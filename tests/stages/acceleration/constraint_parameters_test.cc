// The impedance of a row as a function of solimp; the fields of a model are in
// analytic_parameters_test.cc.
#include "stages/acceleration/constraint_parameters.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

// a hinge beyond its limit by r: MuJoCo's I as a function of solimp
class Impedance {
 public:
  Impedance()
      : model_(Model::from_xml(R"(<mujoco><worldbody><body>
          <joint axis='0 1 0' limited='true' range='-57 57'/><geom size='.1'/>
        </body></worldbody></mujoco>)")),
        copy_(movable_copy(model_.mj())),
        data_(mj_makeData(model_.mj())) {}

  double operator()(const Vector& solimp, double r) const {
    std::copy(solimp.begin(), solimp.end(), copy_->jnt_solimp);
    data_->qpos[0] = copy_->jnt_range[1] - r;
    mj_forward(copy_.get(), data_.get());
    return data_->efc_KBIP[2];
  }

 private:
  Model model_;
  MjModelPtr copy_;
  MjDataPtr data_;
};

Operation impedance_operation(const Impedance& impedance, double r) {
  return {.forward = [&, r](const Vector& solimp) { return Vector{impedance(solimp, r)}; },
          .pullback =
              [r](const Vector& solimp, const Vector& I_bar, Vector& solimp_bar) {
                impedance_pullback(solimp.data(), r, I_bar[0], solimp_bar.data());
              }};
}

TEST(ConstraintParameters, ImpedanceMatchesDifferences) {
  const Impedance impedance;
  const Vector shapes[] = {
      {0.5, 0.9, 0.1, 0.4, 2.5},   {0.9, 0.3, 0.2, 0.7, 1.3}, {0.5, 0.9, 0.1, 0.5, 2},
      {0.4, 0.4, 0.1, 0.5, 2},     {0.5, 0.9, 0.01, 0.5, 3},  {0.00005, 0.9, 0.1, 0.3, 3},
      {0.5, 0.99995, 0.1, 0.3, 3}, {0.5, 0.9, 0.1, 1.2, 3},   {0.5, 0.9, 0.1, 0.4, 0.5}};
  for (const Vector& solimp : shapes) {
    for (const double r : {-0.002, -0.03, -0.06, -0.095, -0.5}) {
      EXPECT_TRUE(check_pullback(impedance_operation(impedance, r), solimp, solimp.size(),
                                 {.tolerance = tolerances().stage, .smallest = 1e-3, .step = 1e-5}))
          << ::testing::PrintToString(solimp) << ", r = " << r;
    }
  }
}

// at a bound the slope inside; without width the mean
TEST(ConstraintParameters, ImpedanceAtItsBounds) {
  const auto bar = [](const Vector& solimp, double r) {
    Vector out(5);
    impedance_pullback(solimp.data(), r, 1, out.data());
    return out;
  };
  EXPECT_EQ(bar({0.5, 0.9, 0, 0.5, 2}, -0.1), Vector({0.5, 0.5, 0, 0, 0}));
  EXPECT_EQ(bar({0.5, 0.9, 0.1, 0.5, 2}, 0), Vector({1, 0, 0, 0, 0}));
  EXPECT_EQ(bar({0.5, mjMAXIMP, 0.1, 0.5, 2}, -0.2), Vector({0, 1, 0, 0, 0}));
  EXPECT_EQ(bar({0.5, 1, 0.1, 0.5, 2}, -0.2), Vector({0, 0, 0, 0, 0}));
  // y = x (x/midpoint)^(power - 1) at power 1: dy/dpower = x log(x/midpoint)
  EXPECT_NEAR(bar({0.5, 0.9, 0.1, 0.5, 1}, -0.02)[4], 0.4 * 0.2 * std::log(0.4), 1e-15);
}

}  // namespace
}  // namespace diffmj
