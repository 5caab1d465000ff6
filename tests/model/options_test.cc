// The list of options: every rule of it holds for options that are set in C++ or by name.
// label: smoke
#include "diffmj/options.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "diffmj/error.h"
#include "integrate/tableau.h"

namespace diffmj {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// the message of the InputError that validate() throws; empty: none
std::string message(const ModelOptions& options) {
  try {
    options.validate();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}
std::string by_name(const NamedOptions& values) {
  try {
    model_options_by_name(values).validate();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

ModelOptions tsit5() { return {.integrator = Integrator::kTsit5}; }

const OptionInfo& info(const std::string& name) {
  for (const OptionInfo& x : model_option_list()) {
    if (x.name == name) return x;
  }
  throw InputError(name);
}

TEST(ModelOptions, DefaultsAreValid) {
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message(tsit5()), "");
  ModelOptions cfd;
  cfd.cfd = Cfd{.law = CfdLaw{}};
  EXPECT_EQ(message(cfd), "");
}

TEST(ModelOptions, EveryOptionByNameHasItsDefault) {
  for (const OptionInfo& x : model_option_list()) {
    SCOPED_TRACE(x.name);
    EXPECT_EQ(option_value({}, x.name), x.default_value);
    EXPECT_FALSE(x.help.empty());
    EXPECT_FALSE(x.expected.empty());
    EXPECT_FALSE(x.default_text.empty());
    if (std::holds_alternative<std::monostate>(x.default_value)) continue;
    NamedOptions values = {{x.name, x.default_value}};
    if (x.runge_kutta) values.emplace_back("integrator", std::string("tsit5"));
    EXPECT_EQ(option_value(model_options_by_name(values), x.name), x.default_value);
  }
}

TEST(ModelOptions, AMessageHasTheValueTheRangeAndTheDefault) {
  ModelOptions o = tsit5();
  o.adaptive.stepping.rtol = -1;
  EXPECT_EQ(message(o), "rtol is -1, expected a number ≥ 0; leave it out for the default, 1e-06");
  o = tsit5();
  o.adaptive.interval = 0;
  EXPECT_EQ(message(o),
            "interval is 0, expected a time > 0; leave it out for the default, the model's "
            "timestep");
}

TEST(ModelOptions, RangesHold) {
  const auto refuses = [](const char* words, auto&& set) {
    ModelOptions o = tsit5();
    set(o);
    EXPECT_NE(message(o).find(words), std::string::npos) << words << ": " << message(o);
  };
  refuses("atol is nan", [](auto& o) { o.adaptive.stepping.atol = kNan; });
  refuses("i (of pid) is 0", [](auto& o) { o.adaptive.stepping.i = 0; });
  refuses("safety is 1, expected a number between 0 and 1",
          [](auto& o) { o.adaptive.stepping.safety = 1; });
  refuses("shrink (of step_ratio) is 0", [](auto& o) { o.adaptive.stepping.shrink = 0; });
  refuses("grow (of step_ratio) is 1", [](auto& o) { o.adaptive.stepping.grow = 1; });
  refuses("max_steps is 0", [](auto& o) { o.adaptive.stepping.max_steps = 0; });
  refuses("step is 0", [](auto& o) { o.adaptive.step = 0; });
  refuses("checkpoints is 0", [](auto& o) { o.adaptive.checkpoints = 0; });
  refuses("adjoint_rtol is -1", [](auto& o) { o.adaptive.adjoint_rtol = -1; });
  refuses("muscle_smoothing is -1", [](auto& o) { o.muscle_smoothing = -1; });
  refuses("smoothness is 0", [](auto& o) { o.collisions.smoothness = 0; });
  refuses("cfd: max_contacts is 0", [](auto& o) { o.cfd = Cfd{.max_contacts = 0}; });
  refuses("cfd: d_0 is -1, expected an impedance from 0 to 0.9999",
          [](auto& o) { o.cfd = Cfd{.law = CfdLaw{.d_0 = -1}}; });
  refuses("cfd of geom 'a': power is 0", [](auto& o) {
    o.cfd = Cfd{.geoms = {{"a", CfdLaw{.power = 0}}}};
  });
}

TEST(ModelOptions, RulesBetweenOptionsHold) {
  ModelOptions o = tsit5();
  o.adaptive.stepping.rtol = o.adaptive.stepping.atol = 0;
  EXPECT_EQ(message(o), "rtol and atol are 0, expected one of them > 0");
  o.adaptive.step = 0.01;
  EXPECT_EQ(message(o), "");
  o = tsit5();
  o.adaptive.stepping.min_step = 1;
  o.adaptive.stepping.max_step = 0.5;
  EXPECT_NE(message(o).find("not below min_step"), std::string::npos);
  o = tsit5();
  o.adaptive.adjoint = Adjoint::kBacksolve;
  o.adaptive.adjoint_rtol = o.adaptive.adjoint_atol = 0;
  EXPECT_NE(message(o).find("adjoint_rtol and adjoint_atol are 0"), std::string::npos);
  o = tsit5();
  o.adaptive.onset = 1e-6;
  EXPECT_NE(message(o).find("onset is 1e-06, expected 0 or a width"), std::string::npos);
  o.adaptive.step = 0.01;
  EXPECT_EQ(message(o), "");
}

TEST(ModelOptions, LinearlyImplicitStepsHaveOneAdjoint) {
  EXPECT_EQ(tsit5().adjoint(), Adjoint::kDiscrete);
  for (const Integrator integrator : {Integrator::kRodas4p, Integrator::kAuto}) {
    ModelOptions o{.integrator = integrator};
    EXPECT_EQ(o.adjoint(), Adjoint::kInterpolated);
    o.adaptive.adjoint = Adjoint::kInterpolated;
    EXPECT_EQ(message(o), "");
    o.adaptive.adjoint = Adjoint::kDiscrete;
    EXPECT_NE(message(o).find("second derivatives"), std::string::npos) << message(o);
    o.adaptive.adjoint = Adjoint::kBacksolve;
    EXPECT_NE(message(o).find("solved backwards"), std::string::npos) << message(o);
  }
}

// the methods that need a constant step are those whose tableau has no error estimate
TEST(ModelOptions, AMethodWithoutAnEstimateNeedsAStep) {
  for (const std::string& name : info("integrator").choices) {
    SCOPED_TRACE(name);
    const Tableau* tableau = find_tableau(name.c_str());
    ModelOptions o{.integrator = integrator_from_name(name)};
    const bool chooses = o.integrator == Integrator::kAuto;
    EXPECT_EQ(is_runge_kutta(o.integrator), tableau != nullptr || chooses);
    if (chooses) {
      EXPECT_EQ(message(o), "");
      o.adaptive.step = 0.01;
      EXPECT_NE(message(o).find("step is given, but integrator auto"), std::string::npos);
    }
    if (!tableau) continue;
    EXPECT_EQ(message(o).empty(), tableau->embedded_order > 0) << message(o);
    o.adaptive.step = 0.01;
    EXPECT_EQ(message(o), "");
  }
}

TEST(ModelOptions, RungeKuttaOptionsNeedARungeKuttaMethod) {
  ModelOptions o;
  o.adaptive.stepping.rtol = 1e-3;
  o.adaptive.events = false;
  EXPECT_NE(message(o).find("rtol, events are for diffmj's Runge-Kutta methods"),
            std::string::npos)
      << message(o);
  // by name also where the value is the default
  EXPECT_NE(by_name({{"integrator", std::string("RK4")}, {"rtol", 1e-6}}).find("'RK4'"),
            std::string::npos);
  EXPECT_EQ(by_name({{"integrator", std::string("tsit5")}, {"rtol", 1e-6}}), "");
}

TEST(ModelOptions, NamesAndKindsAreChecked) {
  EXPECT_NE(by_name({{"rtoll", 1.0}}).find("did you mean 'rtol'?"), std::string::npos);
  EXPECT_NE(by_name({{"rtol", std::string("small")}}).find("rtol is 'small', expected a number"),
            std::string::npos);
  EXPECT_NE(by_name({{"max_steps", 1.5}}).find("expected an integer"), std::string::npos);
  EXPECT_NE(by_name({{"pid", std::vector<double>{1, 2}}}).find("expected 3 numbers, p, i, d"),
            std::string::npos);
  EXPECT_NE(by_name({{"checkpoints", 1L << 40}, {"integrator", std::string("tsit5")}})
                .find("up to 2147483647"),
            std::string::npos);
  EXPECT_NE(by_name({{"integrator", std::string("tsit6")}}).find("did you mean 'tsit5'?"),
            std::string::npos);
  EXPECT_THROW((void)option_value({}, "rtoll"), InputError);
}

TEST(CfdLaw, FromNumbers) {
  const CfdLaw law = cfd_law_from_numbers("cfd", std::vector<double>{0.2, 0.01, -1, 0.5, 3, -1});
  EXPECT_EQ(law.width, 0.2);
  EXPECT_EQ(law.d_c, 0.01);
  EXPECT_FALSE(law.d_0);
  EXPECT_EQ(law.midpoint, 0.5);
  EXPECT_EQ(law.power, 3);
  EXPECT_FALSE(law.softplus);
  EXPECT_EQ(cfd_law_from_numbers("cfd", std::vector<double>{1, 0, 0.02}).d_0, 0.02);
  for (const size_t n : {0U, 7U}) {
    EXPECT_THROW((void)cfd_law_from_numbers("cfd", std::vector<double>(n, 0.1)), InputError);
  }
}

}  // namespace
}  // namespace diffmj
