// check_gradient(): agrees, differs or is inconclusive, and says why.
// label: smoke
#include "diffmj/check.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/ridders.h"
#include "harness/models.h"

namespace diffmj {
namespace {

bool mentions(const std::vector<std::string>& lines, const std::string& word) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(word) != std::string::npos; });
}

TEST(Check, PassesOnSmoothModels) {
  for (const char* name : {"joints_order", "contact_plane_ell", "act_muscle"}) {
    const Scene scene = zoo(name);
    const CheckReport report = check_gradient(scene.model, scene.input(), {.directions = 3});
    EXPECT_TRUE(report.passed) << name;
    EXPECT_EQ(report.directions.size(), 3U);
    EXPECT_LT(report.solver_residual, 1e-6) << name;
    EXPECT_LT(report.adjoint_residual, 1e-10) << name;
    for (const CheckDirection& direction : report.directions) EXPECT_LT(direction.error, 1e-6);
  }
}

const char* const kBall =
    "<mujoco><option timestep='.001' gravity='0 0 0'/><worldbody>"
    "<geom name='floor' type='plane' size='5 5 1'/><body name='ball'><joint type='slide' "
    "axis='0 0 1'/><geom name='ball' size='.1'/></body></worldbody></mujoco>";

// 1e-11 m inside a floor with MuJoCo's default contacts, moving slowly: half of the directions
// leave it within any difference
TEST(Check, ComparesOnTheSideOfAContactThatTheRolloutIsOn) {
  const Model model = Model::from_xml(kBall);
  for (const double above : {-1e-11, 1e-11}) {
    const Vector qpos = {0.1 + above}, qvel = {-1e-3};
    const CheckReport report =
        check_gradient(model, {.qpos = qpos, .qvel = qvel}, {.nstep = 1, .directions = 4});
    EXPECT_TRUE(report.passed) << above << " " << report.reason;
    EXPECT_EQ(report.reason, "");
    for (const CheckDirection& direction : report.directions) {
      EXPECT_EQ(direction.verdict, CheckDirection::Verdict::kAgrees);
      EXPECT_EQ(direction.method, CheckDirection::Method::kOneSided);
    }
    EXPECT_EQ(report.nearest_kink.step, above < 0 ? 0 : -1);
  }
}

// a range without width: whichever way the control moves, it is clamped
TEST(Check, SaysWhatIsInTheWayAtAKink) {
  const Model model = Model::from_xml(R"(<mujoco><worldbody><body>
      <joint name='x' type='slide'/><geom size='.1'/></body></worldbody><actuator>
      <motor name='wedged' joint='x' ctrllimited='true' ctrlrange='0 1e-12'/></actuator></mujoco>)");
  const Vector ctrl = {5e-13};
  const CheckReport report = check_gradient(model, {.ctrl = ctrl}, {.nstep = 3, .directions = 2});
  EXPECT_FALSE(report.passed);
  for (const CheckDirection& direction : report.directions) {
    EXPECT_EQ(direction.verdict, CheckDirection::Verdict::kAtKink);
    EXPECT_NE(direction.kink.find("control of actuator 'wedged'"), std::string::npos)
        << direction.kink;
  }
  EXPECT_NE(report.reason.find("control of actuator 'wedged'"), std::string::npos) << report.reason;
  EXPECT_STREQ(verdict_name(report.directions[0].verdict), "at a kink");
}

TEST(Check, SaysWhatTheModelUsesAndWhatWouldHelp) {
  const Model model = Model::from_xml(kBall);
  const Vector qpos = {0.5};
  const CheckReport report = check_gradient(model, {.qpos = qpos}, {.nstep = 1, .directions = 1});
  EXPECT_TRUE(mentions(report.features, "1 slide"));
  EXPECT_TRUE(mentions(report.features, "1 plane, 1 sphere"));
  EXPECT_TRUE(mentions(report.advice, "solimp d0 = 0.9"));
  const CheckReport discrete =
      check_gradient(zoo("limits", {.integrator = Integrator::kDiscrete}).model,
                     zoo("limits").input(), {.nstep = 1, .directions = 1});
  EXPECT_EQ(discrete.path, GradientPath::kDifferences);
  EXPECT_TRUE(mentions(discrete.advice, "discrete"));
  const CheckReport noslip =
      check_gradient(zoo("noslip").model, zoo("noslip").input(), {.nstep = 2, .directions = 2});
  EXPECT_TRUE(noslip.passed);
  EXPECT_EQ(noslip.path, GradientPath::kAnalytic);
  EXPECT_LT(noslip.oracle_difference, 1e-6);
  EXPECT_LT(noslip.solver_residual, 1e-4);  // of the main solver, at its default tolerance
  EXPECT_TRUE(mentions(noslip.features, "no-slip pass: at most 200 sweeps, tolerance 1e-12"));
  EXPECT_TRUE(mentions(check_gradient(zoo("solver_cg").model, zoo("solver_cg").input(),
                                      {.nstep = 1, .directions = 1})
                           .advice,
                       "CG"));
}

// every kind of constraint, each at a distance that is known; nothing moves in the first step
const char* const kKinks =
    R"(<mujoco><option timestep='1e-9' gravity='0 0 0'/><worldbody>
      <geom name='floor' type='plane' size='5 5 1' gap='.02'/>
      <body pos='0 0 .11'><freejoint/><geom name='above' size='.1'/></body>
      <body pos='1 0 .096'><freejoint/><geom name='pressed' size='.1'/></body>
      <body pos='2 0 .5'><freejoint/><geom name='far' size='.1'/></body>
      <body pos='3 0 1'><joint name='elbow' axis='0 1 0' limited='true' range='-30 60' frictionloss='2'/>
        <geom size='.1' contype='0' conaffinity='0'/><site name='s'/></body>
      <body pos='4 0 1'><joint name='ball' type='ball' limited='true' range='0 90'/>
        <geom size='.1' pos='.3 0 0' contype='0' conaffinity='0'/></body>
      <body pos='5 0 1'><joint name='slide' type='slide' axis='1 0 0'/>
        <geom size='.1' contype='0' conaffinity='0'/><site name='t'/></body>
      <body pos='6 0 1'><joint name='free of limits' axis='0 1 0'/>
        <geom size='.1' contype='0' conaffinity='0'/></body>
    </worldbody>
    <tendon>
      <fixed name='sum' limited='true' range='-1 .5'><joint joint='slide' coef='2'/></fixed>
      <spatial name='path' limited='true' range='0 2.25'><site site='s'/><site site='t'/></spatial>
    </tendon>
    </mujoco>)";

TEST(Check, ListsTheKinksOfEveryConstraint) {
  const Model model = Model::from_xml(kKinks);
  State x = default_state(model);
  const double elbow = 0.1, slide = 0.15, ball = 0.3;
  x.qpos[21] = elbow;
  x.qpos[22] = std::cos(ball / 2);
  x.qpos[24] = std::sin(ball / 2);
  x.qpos[26] = slide;
  const CheckReport report = check_gradient(model, {.qpos = x.qpos}, {.nstep = 2, .directions = 1});
  const auto find = [&](const std::string& name) -> const ConstraintKinks& {
    static const ConstraintKinks none;
    for (const ConstraintKinks& one : report.kinks) {
      if (one.constraint.find(name) != std::string::npos) return one;
    }
    ADD_FAILURE() << name << " is not in the list";
    return none;
  };
  EXPECT_EQ(report.kinks.size(), 7U);

  const ConstraintKinks& above = find("contact of geom 'floor' and geom 'above'");
  EXPECT_EQ(above.activation.step, 0);
  EXPECT_NEAR(above.activation.distance, 0.01, 1e-7);
  EXPECT_EQ(above.activation.unit, "m");
  EXPECT_NE(above.activation.what.find("closes"), std::string::npos);
  EXPECT_EQ(above.zone.step, -1) << "is no row yet";

  const ConstraintKinks& pressed = find("contact of geom 'floor' and geom 'pressed'");
  EXPECT_NEAR(pressed.activation.distance, 0.004, 1e-7);
  EXPECT_NE(pressed.activation.what.find("opens"), std::string::npos);
  EXPECT_GE(pressed.zone.step, 0);
  EXPECT_GT(pressed.zone.distance, 0);
  EXPECT_LE(pressed.zone.distance, 1);

  const ConstraintKinks& limit = find("limit of joint 'elbow'");
  EXPECT_NEAR(limit.activation.distance, elbow + mjPI / 6, 1e-7);
  EXPECT_EQ(limit.activation.unit, "rad");
  const ConstraintKinks& turn = find("limit of joint 'ball'");
  EXPECT_NEAR(turn.activation.distance, mjPI / 2 - ball, 1e-7);
  EXPECT_EQ(turn.activation.unit, "rad");
  const ConstraintKinks& sum = find("limit of tendon 'sum'");
  EXPECT_NEAR(sum.activation.distance, 0.5 - 2 * slide, 1e-7);
  EXPECT_EQ(sum.activation.unit, "of length");
  const ConstraintKinks& path = find("limit of tendon 'path'");
  EXPECT_NEAR(path.activation.distance, 2.25 - (2 + slide), 1e-7);
  EXPECT_EQ(path.activation.unit, "m");

  const ConstraintKinks& friction = find("friction of joint 'elbow'");
  EXPECT_EQ(friction.activation.step, -1);
  EXPECT_GE(friction.zone.step, 0);
  EXPECT_NE(friction.zone.what.find("sticking"), std::string::npos);

  // nearest first: the first entry holds the nearest kink of all
  const ConstraintKinks& first = report.kinks.front();
  EXPECT_TRUE(report.nearest_kink.what == first.zone.what ||
              report.nearest_kink.what == first.activation.what)
      << report.nearest_kink.what;
}

// two bodies fall: the step at which each is nearest to its switch
TEST(Check, KinksAreThoseOfTheNearestStep) {
  const Model model =
      Model::from_xml(R"(<mujoco><option timestep='.001' gravity='0 0 0'/><worldbody>
      <body><joint name='towards' type='slide' limited='true' range='-1 1'/><geom size='.1'/></body>
      <body pos='0 1 0'><joint name='away' type='slide' limited='true' range='-1 1'/><geom size='.1'/></body>
    </worldbody></mujoco>)");
  const Vector qpos = {0.5, 0.5}, qvel = {1, -1};
  const CheckReport report =
      check_gradient(model, {.qpos = qpos, .qvel = qvel}, {.nstep = 10, .directions = 1});
  ASSERT_EQ(report.kinks.size(), 2U);
  EXPECT_EQ(report.kinks[0].constraint, "limit of joint 'towards'");
  EXPECT_EQ(report.kinks[0].activation.step, 9);
  EXPECT_NEAR(report.kinks[0].activation.distance, 0.5 - 0.009, 1e-12);
  EXPECT_EQ(report.kinks[1].constraint, "limit of joint 'away'");
  EXPECT_EQ(report.kinks[1].activation.step, 0);
  EXPECT_NEAR(report.kinks[1].activation.distance, 0.5, 1e-12);
}

// A muscle: its control acts clamped to [0, 1], and an implicit integrator's metric bends at rest.
TEST(Check, SeesTheKinksOfMuscles) {
  const auto report = [](const char* integrator, double velocity, double ctrl) {
    const Model model = Model::from_xml(std::string("<mujoco><option integrator='") + integrator +
                                        R"('/><worldbody><body>
          <joint name='j' axis='0 1 0' damping='.1'/><geom size='.1' pos='.2 0 0'/></body></worldbody>
          <actuator><muscle name='m' joint='j' lengthrange='-1 1' ctrllimited='false'/></actuator></mujoco>)");
    Scene scene{.name = "muscle", .model = model, .x = default_state(model), .ctrl = {ctrl}};
    scene.x.qvel = {velocity};
    scene.x.act = {0.9995};
    return check_gradient(model, scene.input(), {.nstep = 1, .directions = 1}).nearest_kink;
  };
  const Kink meets = report("Euler", 0.3, 1.3);
  EXPECT_NE(meets.what.find("meets its control"), std::string::npos) << meets.what;
  EXPECT_NEAR(meets.distance, 5e-4, 1e-12);
  const Kink rest = report("implicitfast", 0, 0.2);
  EXPECT_NE(rest.what.find("force-velocity curve bends"), std::string::npos) << rest.what;
  EXPECT_EQ(rest.distance, 0);
  EXPECT_EQ(report("Euler", 0, 0.2).what.find("force-velocity"), std::string::npos);
}

// the residual is that of the model's own solver, cut short here
TEST(Check, ReportsASolverThatStopsEarly) {
  mjModel* m = mj_copyModel(nullptr, zoo("contact_plane").model.mj());
  m->opt.iterations = 1;
  const Model cut = Model::from_mjmodel(m);
  mj_deleteModel(m);
  const Scene scene = zoo("contact_plane");
  const CheckReport report = check_gradient(cut, scene.input(), {.nstep = 1, .directions = 1});
  EXPECT_GT(report.solver_residual, 1e-4);
  EXPECT_TRUE(mentions(report.advice, "stops early"));
  EXPECT_TRUE(report.passed);  // the derivative is that of the optimum, and right there
}

ModelOptions adaptive(double tolerance, Adjoint adjoint = Adjoint::kDiscrete) {
  ModelOptions o{.integrator = Integrator::kTsit5};
  o.adaptive.stepping.rtol = o.adaptive.stepping.atol = tolerance;
  o.adaptive.interval = 0.01;
  o.adaptive.adjoint = adjoint;
  return o;
}

// so loose a tolerance that the number of steps depends on the state: with sizes of their own the
// rollouts of differences would be no smooth function
TEST(Check, HoldsTheStepsOfAdaptiveRollouts) {
  for (const char* name : {"joints_ball", "contact_plane_ell", "act_muscle", "tendon_wrap"}) {
    const Scene scene = zoo(name, adaptive(1e-3));
    const CheckReport report =
        check_gradient(scene.model, scene.input(), {.nstep = 3, .directions = 3});
    EXPECT_TRUE(report.passed) << name;
    EXPECT_LT(report.solver_residual, 1e-6) << name;
    EXPECT_LT(report.adjoint_residual, 1e-10) << name;
    EXPECT_GE(report.oracle_difference, 0) << name;
    EXPECT_LT(report.oracle_difference, 1e-6) << name;
    EXPECT_TRUE(mentions(report.features,
                         "tsit5, adaptive with rtol 0.001 and atol 0.001; intervals of 0.01 s, "
                         "control hold, adjoint discrete, events"))
        << name;
    EXPECT_FALSE(mentions(report.advice, "discrete adjoint")) << name;
  }
}

TEST(Check, OfContinuousAdjointsIsOfTheDiscreteOne) {
  const Scene discrete = zoo("joints_ball", adaptive(1e-6));
  const CheckOptions options{.nstep = 3, .directions = 2};
  const CheckReport expected = check_gradient(discrete.model, discrete.input(), options);
  for (const Adjoint adjoint : {Adjoint::kInterpolated, Adjoint::kBacksolve}) {
    ModelOptions o = adaptive(1e-6, adjoint);
    o.adaptive.adjoint_rtol = 1e-7;
    o.adaptive.checkpoints = 2;
    const CheckReport report =
        check_gradient(zoo("joints_ball", o).model, discrete.input(), options);
    EXPECT_TRUE(report.passed);
    for (size_t i = 0; i < report.directions.size(); i++) {
      EXPECT_EQ(report.directions[i].adjoint, expected.directions[i].adjoint);
      EXPECT_EQ(report.directions[i].differences, expected.directions[i].differences);
    }
    EXPECT_TRUE(mentions(report.advice, std::string("the check compares the discrete adjoint, and "
                                                    "adjoint ") +
                                            adjoint_name(adjoint) + " differs"));
    EXPECT_TRUE(mentions(report.features, std::string("adjoint ") + adjoint_name(adjoint) +
                                              " with rtol 1e-07 and atol 1e-06"));
    EXPECT_EQ(mentions(report.features, "2 checkpoints"), adjoint == Adjoint::kInterpolated);
  }
}

// models that are made anew on the way keep their integrator
TEST(Check, OfSmoothedMusclesIsThatOfTheSameSteps) {
  ModelOptions o = adaptive(1e-3);
  const Scene exact = zoo("act_muscle", o);
  o.muscle_smoothing = 0.1;
  const Scene smooth = zoo("act_muscle", o);
  const CheckOptions options{.nstep = 2, .directions = 2};
  const CheckReport a = check_gradient(exact.model, exact.input(), options),
                    b = check_gradient(smooth.model, smooth.input(), options);
  EXPECT_TRUE(a.passed);
  for (size_t i = 0; i < a.directions.size(); i++) {
    EXPECT_EQ(a.directions[i].adjoint, b.directions[i].adjoint);
    EXPECT_EQ(a.directions[i].differences, b.directions[i].differences);
  }
  EXPECT_EQ(a.oracle_difference, b.oracle_difference);
  EXPECT_TRUE(mentions(b.advice, "muscle_smoothing"));
}

// one interval, in which the limit is met and left again
TEST(Check, SeesKinksInsideIntervals) {
  ModelOptions o = adaptive(1e-8);
  o.adaptive.interval = 1;
  const Model model = Model::from_xml(R"(<mujoco><option gravity='0 0 0'/><worldbody>
      <body><joint name='x' type='slide' range='-1 1' limited='true' solreflimit='.05 1'
        solimplimit='0 .95 .05'/><geom size='.1'/></body></worldbody></mujoco>)",
                                      o);
  const Vector qpos = {0.5}, qvel = {1};
  const CheckReport report =
      check_gradient(model, {.qpos = qpos, .qvel = qvel}, {.nstep = 1, .directions = 1});
  ASSERT_EQ(report.kinks.size(), 1U);
  EXPECT_EQ(report.kinks[0].activation.step, 0);
  EXPECT_LT(report.kinks[0].activation.distance, 0.05) << "at the start it is 0.5";
  EXPECT_EQ(report.kinks[0].zone.step, 0) << "it acts, though not at the start";
}

// what still reads the model's timestep
TEST(Check, SaysWhereTheTimestepMattersToAdaptiveSteps) {
  const char* const xml = R"(<mujoco><option timestep='.01'/><worldbody>
      <geom type='plane' size='5 5 1'/><body pos='0 0 1'><joint name='x' type='slide' axis='0 0 1'/>
      <geom name='ball' size='.1' solref='.005 1'/></body></worldbody><actuator>
      <general name='early' joint='x' dyntype='filterexact' dynprm='.1' actearly='true'/>
      </actuator></mujoco>)";
  const auto advice = [&](const ModelOptions& options) {
    return check_gradient(Model::from_xml(xml, options), {}, {.nstep = 1, .directions = 1}).advice;
  };
  const std::vector<std::string> own = advice({}), ours = advice(adaptive(1e-6));
  EXPECT_TRUE(mentions(own, "by refsafe: contacts depend on the time step"));
  EXPECT_TRUE(mentions(ours, "by refsafe: contacts depend on the model's timestep"));
  EXPECT_FALSE(mentions(own, "actearly"));
  EXPECT_TRUE(mentions(ours, "actearly (actuator 'early')"));
}

TEST(Check, NamesConstantSteps) {
  ModelOptions o{.integrator = Integrator::kExplicitEuler};
  o.adaptive.step = 0.001;
  const Scene scene = zoo("joints_ball", o);
  const CheckReport report =
      check_gradient(scene.model, scene.input(), {.nstep = 2, .directions = 2});
  EXPECT_TRUE(report.passed);
  EXPECT_TRUE(mentions(report.features, "explicit_euler, constant steps of at most 0.001 s"));
}

constexpr const char* kMotors = R"(<mujoco><worldbody>
    <body><joint name='x' type='slide'/><geom size='.1'/></body>
    <body pos='1 0 0'><joint name='y' type='slide'/><geom size='.1'/></body></worldbody><actuator>
    <motor name='a' joint='x' ctrllimited='true' ctrlrange='-1 1'/>
    <motor name='b' joint='y' ctrllimited='true' ctrlrange='0 .01'/></actuator></mujoco>)";

// as many steps as there are rows of ctrl
TEST(Check, TakesTheLengthFromTheInputs) {
  const Model model = Model::from_xml(kMotors);
  const Vector ctrl(2 * size_t{20}, 0.005);
  const CheckReport report = check_gradient(model, {.ctrl = ctrl}, {.directions = 1});
  EXPECT_TRUE(report.passed) << report.reason;
  EXPECT_THROW((void)check_gradient(model, {.ctrl = ctrl}, {.nstep = 10}), InputError);
}

// in any row, and relative to the range
TEST(Check, NamesControlsAtTheirBounds) {
  const Model model = Model::from_xml(kMotors);
  const Vector inside = {.2, .005, .3, .005, .1, .0095};
  const CheckReport open = check_gradient(model, {.ctrl = inside}, {.directions = 1});
  EXPECT_FALSE(mentions(open.advice, "at a bound"));
  EXPECT_EQ(open.nearest_kink.what, "control of actuator 'b' is clamped");
  EXPECT_NEAR(open.nearest_kink.distance, 5e-4, 1e-12);
  const Vector later = {.2, .005, 1, .005, .1, .01};
  const CheckReport report = check_gradient(model, {.ctrl = later}, {.directions = 1});
  EXPECT_TRUE(report.passed) << report.reason;
  EXPECT_TRUE(mentions(report.advice,
                       "control of actuator 'a' is at a bound of its range at step 1, and 1 other "
                       "control is at some step"));
}

TEST(Check, RejectsBadOptions) {
  const Model model = Model::from_xml(kBall);
  EXPECT_THROW((void)check_gradient(model, {}, {.nstep = 0}), InputError);
  EXPECT_THROW((void)check_gradient(model, {}, {.directions = 0}), InputError);
  for (const double tolerance : {-1.0, 0.0, std::nan(""), HUGE_VAL}) {
    try {
      (void)check_gradient(model, {}, {.tolerance = tolerance});
      ADD_FAILURE() << tolerance;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("tolerance is "), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW((void)check_gradient(model, {}, {.interrupted = [] { return true; }}), Interrupted);
  double last = -1;
  (void)check_gradient(model, {}, {.nstep = 1, .directions = 2, .progress = [&](double share) {
                                     EXPECT_GE(share, last);
                                     last = share;
                                   }});
  EXPECT_EQ(last, 1);
}

TEST(Ridders, ErrorBarHoldsTheError) {
  const RiddersResult smooth = ridders([](double h) { return std::sin(1 + 3 * h); });
  EXPECT_NEAR(smooth.derivative, 3 * std::cos(1), 1e-10);
  EXPECT_LE(std::abs(smooth.derivative - 3 * std::cos(1)), 10 * smooth.error_bar);
  EXPECT_EQ(smooth.corner, 0);
  const RiddersResult corner = ridders([](double h) { return std::abs(h) + h; });
  EXPECT_NEAR(corner.corner, 1, 1e-9);
}

}  // namespace
}  // namespace diffmj
