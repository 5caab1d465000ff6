// Impedance and reference of contacts from distance: the curves of [Paulus26, fig. 4].
// label: smoke
#include "stages/cfd/law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "diffmj/error.h"
#include "harness/check_pullback.h"
#include "harness/tolerances.h"
#include "model/option_list.h"

namespace diffmj {
namespace {

constexpr mjtNum kSolimp[mjNIMP] = {0.008, 0.95, 0.001, 0.5, 2};

const CfdLaw kLaws[] = {
    {},
    {.width = 1, .d_0 = 0.1, .power = 4},
    {.width = 0.1, .d_0 = 0.01},
    {.width = 0.3, .d_c = 0.02, .d_0 = 0.3, .midpoint = 0.4, .power = 3, .softplus = 0.05},
    {.width = 0.2, .power = 1, .softplus = 1e-3}};

// MuJoCo's own impedance, of a point on a slide joint at distance r from its limit
double mujoco_impedance(double r) {
  mjModel* m = nullptr;
  char error[500] = "";
  mjVFS vfs;
  mj_defaultVFS(&vfs);
  const std::string xml =
      "<mujoco><worldbody><body><joint type='slide' axis='1 0 0' range='0 1' limited='true' "
      "solimplimit='0.008 0.95 0.001 0.5 2'/><geom size='.1'/></body></worldbody></mujoco>";
  mj_addBufferVFS(&vfs, "model.xml", xml.data(), static_cast<int>(xml.size()));
  m = mj_loadXML("model.xml", &vfs, error, sizeof(error));
  mj_deleteVFS(&vfs);
  mjData* d = mj_makeData(m);
  d->qpos[0] = r;
  mj_forward(m, d);
  const double out = d->nefc == 1 ? d->efc_KBIP[2] : std::numeric_limits<double>::quiet_NaN();
  mj_deleteData(d);
  mj_deleteModel(m);
  return out;
}

TEST(CfdLaw, ImpedanceGoesOnFromMujocosToItsEnd) {
  for (const CfdLaw& law : kLaws) {
    const double near = cfd_impedance(law, kSolimp, 1e-12).value;
    EXPECT_NEAR(near, law.d_0.value_or(mujoco_impedance(-1e-12)), 1e-9);
    const CfdValue far = cfd_impedance(law, kSolimp, law.width * (1 - 1e-9));
    EXPECT_NEAR(far.value, law.d_c, 2e-9);
    // a spline that begins flat: forces end without a corner
    if (law.power > 1) {
      EXPECT_NEAR(far.slope, 0, 1e-5);
    }
  }
}

TEST(CfdLaw, BeginsWithOneHundredthAtMost) {
  const mjtNum stiff[mjNIMP] = {0.9, 0.95, 0.001, 0.5, 2};
  EXPECT_NEAR(cfd_impedance({}, stiff, 0).value, 0.01, 1e-15);
  EXPECT_NEAR(cfd_impedance({.d_0 = 0.9}, stiff, 0).value, 0.9, 1e-15);
}

TEST(CfdLaw, ImpedanceFallsWithDistance) {
  for (const CfdLaw& law : kLaws) {
    double last = 1;
    for (int i = 0; i < 100; i++) {
      const double d = cfd_impedance(law, kSolimp, law.width * i / 100).value;
      EXPECT_LT(d, last);
      last = d;
    }
  }
}

TEST(CfdLaw, ClosedFormOfTheSpline) {
  // midpoint 1, power 4: d_0 (1 - r/w)⁴
  const CfdLaw law{.width = 1, .d_0 = 0.1, .power = 4};
  EXPECT_NEAR(cfd_impedance(law, kSolimp, 0.25).value, 0.1 * std::pow(0.75, 4), 1e-15);
}

TEST(CfdLaw, ReferenceIsASoftplus) {
  for (const CfdLaw& law : kLaws) {
    const double s = law.softplus.value_or(law.width / 100);
    EXPECT_NEAR(cfd_violation(law, 0).value, -s * std::log(2), 1e-15);
    EXPECT_NEAR(cfd_violation(law, 0).slope, 0.5, 1e-15);
    // far inside it is MuJoCo's, far outside nothing
    EXPECT_NEAR(cfd_violation(law, -100 * s).value, -100 * s, 1e-12);
    EXPECT_NEAR(cfd_violation(law, -100 * s).slope, 1, 1e-12);
    EXPECT_NEAR(cfd_violation(law, 100 * s).value, 0, 1e-12);
    EXPECT_TRUE(std::isfinite(cfd_violation(law, 1e6 * s).slope));
  }
  const CfdLaw hard{.softplus = 0};
  EXPECT_EQ(cfd_violation(hard, -0.01).value, -0.01);
  EXPECT_EQ(cfd_violation(hard, 0.01).value, 0);
  EXPECT_EQ(cfd_violation(hard, 0.01).slope, 0);
}

// both curves in r, and the impedance in solimp
TEST(CfdLaw, SlopesMatchDifferences) {
  for (const CfdLaw& law : kLaws) {
    for (const double share : {0.05, 0.3, 0.55, 0.9}) {
      const double at = share * law.width;
      const Operation curves{
          .forward =
              [&](const Vector& z) {
                mjtNum solimp[mjNIMP];
                std::copy_n(kSolimp, mjNIMP, solimp);
                for (size_t k = 0; k < mjNIMP; k++) solimp[k] += z[1 + k];
                const double r = at * (1 + z[0]);
                return Vector{cfd_impedance(law, solimp, r).value, cfd_violation(law, r).value};
              },
          .pullback =
              [&](const Vector&, const Vector& y_bar, Vector& z_bar) {
                z_bar[0] += at * (y_bar[0] * cfd_impedance(law, kSolimp, at).slope +
                                  y_bar[1] * cfd_violation(law, at).slope);
                cfd_impedance_pullback(law, kSolimp, at, y_bar[0], &z_bar[1]);
              }};
      EXPECT_TRUE(check_pullback(curves, Vector(1 + mjNIMP, 0.0), 1 + mjNIMP,
                                 {.tolerance = tolerances().smooth, .step = 1e-4}));
    }
  }
}

// without a width MuJoCo's impedance at contact is the mean of both, and so is what it goes on from
TEST(CfdLaw, SolimpWithoutWidthIsAMean) {
  const mjtNum solimp[mjNIMP] = {0.002, 0.007, 0, 0.5, 2};
  const CfdLaw law{.width = 0.2, .power = 3};
  EXPECT_NEAR(impedance_at_zero(solimp), 0.0045, 1e-15);
  EXPECT_NEAR(cfd_impedance(law, solimp, 0).value, 0.0045, 1e-15);
  const Operation mean{
      .forward =
          [&](const Vector& z) {
            const mjtNum moved[mjNIMP] = {solimp[0] + z[0], solimp[1] + z[1], 0, 0.5, 2};
            return Vector{cfd_impedance(law, moved, 0.05).value};
          },
      .pullback =
          [&](const Vector&, const Vector& y_bar, Vector& z_bar) {
            double solimp_bar[mjNIMP] = {};
            cfd_impedance_pullback(law, solimp, 0.05, y_bar[0], solimp_bar);
            for (size_t k = 0; k < 2; k++) z_bar[k] += solimp_bar[k];
            EXPECT_EQ(solimp_bar[2], 0);
          }};
  EXPECT_TRUE(
      check_pullback(mean, Vector(2, 0.0), 2, {.tolerance = tolerances().smooth, .step = 1e-4}));
}

// R grows without bound as d goes to 0: there is a floor, and nothing moves it
TEST(CfdLaw, ImpedanceHasAFloor) {
  const CfdLaw law{.width = 0.2, .power = 3};
  const CfdValue far = cfd_impedance(law, kSolimp, 0.2);
  EXPECT_EQ(far.value, 1e-10);
  EXPECT_EQ(far.slope, 0);
  double solimp_bar[mjNIMP] = {};
  cfd_impedance_pullback(law, kSolimp, 0.2, 1, solimp_bar);
  EXPECT_EQ(solimp_bar[0], 0);
}

// what MuJoCo clamps has no gradient
TEST(CfdLaw, ClampedSolimpHasNoGradient) {
  const mjtNum solimp[mjNIMP] = {0, 0.95, 0.001, 0.5, 2};
  double solimp_bar[mjNIMP] = {};
  EXPECT_NEAR(impedance_at_zero(solimp), mjMINIMP, 1e-18);
  cfd_impedance_pullback({.width = 0.2}, solimp, 0.05, 1, solimp_bar);
  EXPECT_EQ(solimp_bar[0], 0);
}

TEST(CfdLaw, NamesWhatIsOutOfRange) {
  const auto message = [](const CfdLaw& law) -> std::string {
    try {
      require_law("cfd", law);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_NE(message({.width = -0.1}).find("width is -0.1"), std::string::npos);
  EXPECT_NE(message({.d_c = 1}).find("d_c is 1"), std::string::npos);
  EXPECT_NE(message({.d_0 = -1}).find("d_0 is -1"), std::string::npos);
  EXPECT_NE(message({.midpoint = 0}).find("midpoint is 0"), std::string::npos);
  EXPECT_NE(message({.power = 0.5}).find("power is 0.5"), std::string::npos);
  EXPECT_NE(message({.softplus = -2}).find("softplus is -2"), std::string::npos);
  EXPECT_NE(message({.width = std::nan("")}).find("width is nan"), std::string::npos);
}

}  // namespace
}  // namespace diffmj
