// Recordings: what is accepted and what is refused, velocities, resampling, segments, files.
#include "diffmj/recording.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "diffmj/diffmj.h"

namespace diffmj {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A box that falls on the floor, and an arm with a ball joint, a hinge, a motor and an actuator
// with an activation.
constexpr const char* kScene = R"(<mujoco><compiler angle='radian'/>
  <option timestep='.002'/>
  <worldbody>
    <geom name='floor' type='plane' size='5 5 1'/>
    <body name='box' pos='0 0 .17' euler='.1 .2 .3'><freejoint name='free'/>
      <geom name='box' type='box' size='.1 .1 .1'/></body>
    <body name='upper' pos='2 0 2'>
      <joint name='shoulder' type='ball' damping='.1'/>
      <geom type='capsule' fromto='0 0 0 .3 0 0' size='.02'/>
      <body name='lower' pos='.3 0 0'>
        <joint name='elbow' axis='0 1 0' damping='.1'/>
        <geom type='capsule' fromto='0 0 0 .3 0 0' size='.02'/>
        <site name='imu' pos='.1 0 .01'/><site name='tip' pos='.3 0 0'/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name='motor' joint='elbow'/>
    <general name='slow' joint='elbow' dyntype='filter' dynprm='.1' gainprm='.5'/>
  </actuator>
  <sensor>
    <accelerometer name='acc' site='imu'/>
    <framequat name='attitude' objtype='site' objname='tip'/>
    <jointpos name='angle' joint='elbow'/>
    <gyro site='imu'/>
  </sensor></mujoco>)";
constexpr int kNq = 12, kNv = 10, kNs = 11;
constexpr int kEvery = 2, kRows = 31;  // a recording at 4 ms

Model scene(const ModelOptions& options = {}) { return Model::from_xml(kScene, options); }

Trajectory simulate(const Model& model) {
  State x = default_state(model);
  for (size_t i = 0; i < x.qvel.size(); i++) x.qvel[i] = .5 * std::sin(1. + 2. * double(i));
  const int nstep = (kRows - 1) * kEvery;
  std::vector<double> ctrl;
  for (int i = 0; i < nstep; i++) {
    const int row = i / kEvery;  // held
    ctrl.push_back(.3 * std::sin(.2 * row));
    ctrl.push_back(.5);
  }
  return rollout(model, {.qpos = x.qpos, .qvel = x.qvel, .act = x.act, .ctrl = ctrl, .time = .5},
                 nstep, {.sensors = true});
}

Recording recorded(const Model& model) {
  const Trajectory t = simulate(model);
  Recording out = record(model, t, kEvery);
  out.name = "fall";
  const Poses all = poses(model, t, {"site_xpos", "xpos", "xquat"});
  const auto take = [&](const std::vector<double>& from, int count, int element, int width) {
    std::vector<double> rows;
    for (int i = 0; i <= t.nstep; i += kEvery) {
      const auto begin = from.begin() + (i * count + element) * width;
      rows.insert(rows.end(), begin, begin + width);
    }
    return rows;
  };
  out.sites["tip"] = take(all.site_xpos, 2, 1, 3);
  out.body_pos["lower"] = take(all.xpos, 4, 3, 3);
  out.body_quat["lower"] = take(all.xquat, 4, 3, 4);
  return out;
}

double& at(std::vector<double>& rows, int width, int i, int j) {
  return rows[static_cast<size_t>(i * width + j)];
}
double at(const std::vector<double>& rows, int width, int i, int j) {
  return rows[static_cast<size_t>(i * width + j)];
}

// the message of the InputError that f throws
std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

::testing::AssertionResult has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "'" << part << "' is not in: " << text;
    }
  }
  return ::testing::AssertionSuccess();
}

// the message about a recording that is changed by f
std::string refusal_of(const std::function<void(Recording&)>& change) {
  const Model model = scene();
  Recording x = recorded(model);
  change(x);
  return refusal([&] { (void)validate(model, x); });
}

// equal, and missing where the other is
void expect_same(const std::vector<double>& a, const std::vector<double>& b, double tolerance = 0) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); i++) {
    ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << i;
    if (std::isnan(a[i])) continue;
    ASSERT_NEAR(a[i], b[i], tolerance) << i;
  }
}
void expect_same(const Recording& a, const Recording& b, double tolerance = 0) {
  expect_same(a.time, b.time, tolerance);
  expect_same(a.qpos, b.qpos, tolerance);
  expect_same(a.qvel, b.qvel, tolerance);
  expect_same(a.act, b.act, tolerance);
  expect_same(a.ctrl, b.ctrl, tolerance);
  expect_same(a.sensordata, b.sensordata, tolerance);
  for (const auto member : {&Recording::sensors, &Recording::sites, &Recording::body_pos,
                            &Recording::body_quat, &Recording::weights}) {
    ASSERT_EQ((a.*member).size(), (b.*member).size());
    for (const auto& [name, rows] : a.*member) expect_same(rows, (b.*member).at(name), tolerance);
  }
}

double largest(const std::vector<double>& x) {
  double out = 0;
  for (const double y : x) out = std::max(out, std::abs(y));
  return out;
}

TEST(Recording, OfARolloutIsValid) {
  const Model model = scene();
  ASSERT_EQ(model.nq(), kNq);
  ASSERT_EQ(model.nv(), kNv);
  ASSERT_EQ(model.nsensordata(), kNs);
  const Recording x = recorded(model);
  EXPECT_EQ(x.nrow(), kRows);
  EXPECT_EQ(x.time[0], .5);
  EXPECT_TRUE(std::isnan(x.ctrl.back()));
  validate(x);
  expect_same(validate(model, x), x, 1e-15);
}

TEST(Recording, OfARolloutHoldsControls) {
  const Model model = scene();
  const Trajectory t = simulate(model);
  EXPECT_TRUE(has(refusal([&] { (void)record(model, t, 2 * kEvery); }),
                  {"ctrl changes between steps 0 and 2", "smaller"}));
  EXPECT_TRUE(has(refusal([&] { (void)record(model, t, 0); }), {"every is 0"}));
  EXPECT_TRUE(has(refusal([&] { (void)record(scene(), t, 1); }), {"another model"}));
  // one control that is held, and none
  const std::vector<double> one = {.1, .2};
  const Recording held = record(model, rollout(model, {.ctrl = one}, 4), 2);
  EXPECT_EQ(held.ctrl[0], .1);
  EXPECT_EQ(held.ctrl[3], .2);
  EXPECT_EQ(record(model, rollout(model, {}, 4), 2).ctrl[3], 0);
}

TEST(Recording, RefusesWrongWidths) {
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.qpos.resize(kRows * 7, 1.); }),
                  {"recording 'fall'", "qpos has 31 x 7", "31 x 12", "rows x nq"}));
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.qvel.pop_back(); }),
                  {"qvel has 309 numbers", "31 x 10"}));
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.sites["tip"].resize(kRows * 2); }),
                  {"site:tip has 31 x 2", "31 x 3"}));
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.sensors["angle"].resize(kRows * 2); }),
                  {"sensor:angle has 31 x 2", "31 x 1", "dim of the sensor"}));
  Recording x{.time = {0, 1}, .qpos = {1, 2, 3}};
  EXPECT_TRUE(has(refusal([&] { validate(x); }), {"qpos has 3 numbers", "multiple", "2"}));
}

TEST(Recording, RefusesUnknownNames) {
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.sites["tap"] = x.sites["tip"]; }),
                  {"recording 'fall'", "no site 'tap'", "'tip'"}));
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.sensors["angel"].resize(kRows); }),
                  {"no sensor 'angel'", "'angle'"}));
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.body_quat["uper"].resize(4 * kRows); }),
                  {"no body 'uper'", "'upper'"}));
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.body_pos["uper"].resize(3 * kRows); }),
                  {"no body 'uper'", "'upper'"}));
  // of many names the nearest three
  std::string many = "<mujoco><worldbody><body><joint/><geom size='.1'/></body>";
  for (const char* name : {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"}) {
    many += "<site name='" + std::string(name) + "'/>";
  }
  const Model model = Model::from_xml(many + "</worldbody></mujoco>");
  Recording x{.time = {0}, .sites = {{"bet", {0, 0, 0}}}};
  const std::string text = refusal([&] { (void)validate(model, x); });
  EXPECT_TRUE(has(text, {"did you mean 'beta'", "'zeta'", "'eta'"}));
  EXPECT_FALSE(has(text, {"epsilon"}));
  x = {.time = {0}, .sensors = {{"imu", {0, 0, 0}}}};
  EXPECT_TRUE(has(refusal([&] { (void)validate(model, x); }), {"it has no named sensor"}));
}

TEST(Recording, RefusesTimesThatDoNotIncrease) {
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.time[5] = x.time[4]; }),
                  {"time[5] is 0.516", "not after time[4]", "sort"}));
  EXPECT_TRUE(has(refusal_of([](Recording& x) { x.time[5] = kNan; }), {"time[5] is nan"}));
  EXPECT_TRUE(has(refusal([] { validate(Recording{}); }), {"time has no rows"}));
}

TEST(Recording, RefusesInfiniteNumbers) {
  EXPECT_TRUE(has(refusal_of([](Recording& x) { at(x.qvel, kNv, 3, 2) = HUGE_VAL; }),
                  {"qvel[3, 2] is inf", "NaN"}));
  EXPECT_TRUE(has(refusal_of([](Recording& x) { at(x.ctrl, 2, 3, 1) = -HUGE_VAL; }),
                  {"ctrl[3, 1] is -inf"}));
  EXPECT_TRUE(
      has(refusal_of([](Recording& x) { at(x.qpos, kNq, 3, 1) = 1e11; }), {"qpos[3, 1] is 1e+11"}));
}

TEST(Recording, RefusesMissingControls) {
  EXPECT_TRUE(has(refusal_of([](Recording& x) { at(x.ctrl, 2, 3, 1) = kNan; }),
                  {"ctrl[3, 1] is missing", "held"}));
  // but not where nothing was recorded
  const Model model = scene();
  Recording x{.time = {0, 1, 2}, .qvel = std::vector<double>(3 * kNv, 1.)};
  x.ctrl = {0, 0, kNan, kNan, 0, 0};
  EXPECT_TRUE(has(refusal([&] { validate(x); }), {"ctrl[1, 0]"}));
  std::fill_n(x.qvel.begin() + kNv, kNv, kNan);
  validate(x);
}

TEST(Recording, NormalisesQuaternions) {
  const Model model = scene();
  Recording x = recorded(model);
  const Recording before = x;
  for (int k = 3; k < 7; k++) at(x.qpos, kNq, 4, k) *= 1.0009;
  for (int k = 0; k < 4; k++) at(x.body_quat["lower"], 4, 2, k) *= .9995;
  for (int k = 3; k < 7; k++) at(x.sensordata, kNs, 2, k) *= .9995;
  expect_same(validate(model, x), before, 1e-15);
  // one missing number, and the rotation is unknown
  at(x.qpos, kNq, 4, 5) = kNan;
  const Recording y = validate(model, x);
  for (int k = 0; k < kNq; k++) {
    EXPECT_EQ(std::isnan(at(y.qpos, kNq, 4, k)), k >= 3 && k < 7) << k;
  }
}

TEST(Recording, RefusesQuaternionsOfAnotherLength) {
  const auto scale = [](std::vector<double>& rows, int width, int at) {
    for (int k = 0; k < 4; k++) rows[static_cast<size_t>(2 * width + at + k)] *= 1.0011;
  };
  EXPECT_TRUE(has(refusal_of([&](Recording& x) { scale(x.qpos, kNq, 3); }),
                  {"qpos[2, 3:7]", "joint 'free'", "length 1.0011", "w x y z"}));
  EXPECT_TRUE(has(refusal_of([&](Recording& x) { scale(x.qpos, kNq, 7); }),
                  {"qpos[2, 7:11]", "joint 'shoulder'"}));
  EXPECT_TRUE(has(refusal_of([&](Recording& x) { scale(x.sensordata, kNs, 3); }),
                  {"sensordata[2, 3:7]", "sensor 'attitude'"}));
  EXPECT_TRUE(has(refusal_of([&](Recording& x) { scale(x.body_quat["lower"], 4, 0); }),
                  {"body_quat:lower[2, 0:4]"}));
}

TEST(Recording, RefusesASensorThatIsThereTwice) {
  const auto twice = [](Recording& x) { x.sensors["angle"].assign(kRows, 0.); };
  EXPECT_TRUE(has(refusal_of(twice), {"sensor 'angle' is in sensordata and in sensors"}));
  EXPECT_EQ(refusal_of([&](Recording& x) {
              twice(x);
              for (int i = 0; i < kRows; i++) at(x.sensordata, kNs, i, 7) = kNan;
            }),
            "nothing was refused");
}

TEST(Recording, RefusesWrongWeights) {
  const auto with = [](const std::string& name, std::vector<double> weights) {
    return refusal_of([&](Recording& x) { x.weights[name] = weights; });
  };
  EXPECT_TRUE(has(with("qpso", {1}), {"weights of 'qpso'", "'qpos'"}));
  EXPECT_TRUE(has(with("ctrl", {1}), {"weights of 'ctrl'"}));
  EXPECT_TRUE(has(with("qpos", {-1}), {"weights of qpos[0, 0] is -1", "0 leaves"}));
  EXPECT_TRUE(has(with("qpos", {kNan}), {"is nan"}));
  EXPECT_TRUE(has(with("qpos", {1, 2}), {"weights of qpos have 2", "31"}));
  EXPECT_TRUE(has(with("qpos", std::vector<double>(kNq * kRows, 1.)),
                  {"weights of qpos have 372", "31 x 10", "a rotation has 3"}));
  EXPECT_EQ(with("qpos", std::vector<double>(kNv * kRows, 1.)), "nothing was refused");
  EXPECT_EQ(with("body_quat:lower", std::vector<double>(3 * kRows, 1.)), "nothing was refused");
  EXPECT_EQ(with("sensordata", std::vector<double>(kNs * kRows, 1.)), "nothing was refused");
}

// positions along constant velocities, at times that need not be uniform
Recording steady(const Model& model, const std::vector<double>& time,
                 const std::vector<double>& qvel) {
  Recording out{.time = time};
  const State x = default_state(model);
  for (const double t : time) {
    std::vector<double> qpos = x.qpos;
    mj_integratePos(model.mj(), qpos.data(), qvel.data(), t);
    out.qpos.insert(out.qpos.end(), qpos.begin(), qpos.end());
    out.ctrl.insert(out.ctrl.end(), {t, -t});
  }
  return out;
}
std::vector<double> some_velocity() {
  std::vector<double> out(kNv);
  for (size_t i = 0; i < out.size(); i++) out[i] = std::sin(1. + double(i));
  return out;
}

TEST(EstimateVelocities, IsExactAtConstantVelocity) {
  const Model model = scene();
  const std::vector<double> v = some_velocity();
  const Recording x = steady(model, {0, .1, .19, .3, .41}, v);
  for (const Difference difference : {Difference::kBackward, Difference::kCentral}) {
    const Recording y = estimate_velocities(model, x, difference);
    for (int i = 0; i < 5; i++) {
      const bool missing = i == 0 || (i == 4 && difference == Difference::kCentral);
      for (int j = 0; j < kNv; j++) {
        ASSERT_EQ(std::isnan(at(y.qvel, kNv, i, j)), missing) << i;
        if (missing) continue;
        EXPECT_NEAR(at(y.qvel, kNv, i, j), v[size_t(j)], 1e-12) << i << " " << j;
      }
    }
  }
}

TEST(EstimateVelocities, CentralIsOfSecondOrder) {
  const Model model = Model::from_xml(
      "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>");
  Recording x;
  for (int i = 0; i < 5; i++) {
    x.time.push_back(.1 * i);
    x.qpos.push_back(.01 * i * i);
  }
  EXPECT_NEAR(estimate_velocities(model, x, Difference::kCentral).qvel[2], .4, 1e-12);
  EXPECT_NEAR(estimate_velocities(model, x, Difference::kBackward).qvel[2], .3, 1e-12);
}

TEST(EstimateVelocities, KeepsWhatIsRecordedAndLeavesGaps) {
  const Model model = scene();
  Recording x = steady(model, {0, .1, .2, .3, .6, .7}, some_velocity());
  x.qvel.assign(6 * kNv, kNan);
  at(x.qvel, kNv, 2, 1) = 42;
  at(x.qpos, kNq, 1, 8) = kNan;  // the shoulder
  at(x.qpos, kNq, 1, 2) = kNan;  // z of the box
  const Recording y = estimate_velocities(model, x);
  EXPECT_EQ(at(y.qvel, kNv, 2, 1), 42);
  for (int j = 0; j < kNv; j++) {
    const bool unknown = j == 2 || (j >= 6 && j < 9);
    EXPECT_EQ(std::isnan(at(y.qvel, kNv, 1, j)), unknown) << j;
    EXPECT_EQ(std::isnan(at(y.qvel, kNv, 2, j)), unknown) << j;
    EXPECT_FALSE(std::isnan(at(y.qvel, kNv, 3, j)));
    EXPECT_TRUE(std::isnan(at(y.qvel, kNv, 4, j)));  // after 0.3 s without a row
    EXPECT_FALSE(std::isnan(at(y.qvel, kNv, 5, j)));
  }
  const Recording z = estimate_velocities(model, x, Difference::kCentral);
  EXPECT_TRUE(std::isnan(at(z.qvel, kNv, 3, 0)));
  EXPECT_TRUE(has(refusal([&] {
                    (void)estimate_velocities(model, {.name = "a", .time = {0, 1}});
                  }),
                  {"estimate_velocities: recording 'a'", "qpos is not recorded"}));
  EXPECT_EQ(difference_from_name("central"), Difference::kCentral);
  EXPECT_EQ(difference_from_name("backward"), Difference::kBackward);
  EXPECT_TRUE(has(refusal([] { difference_from_name("forward"); }), {"backward or central"}));
}

TEST(Resample, FollowsConstantVelocity) {
  const Model model = scene();
  const std::vector<double> v = some_velocity();
  Recording x = steady(model, {0, .1, .19, .3, .41}, v);
  x.weights["qpos"] = {0, 1, 1.9, 3, 4.1};
  x.body_quat["upper"] = {1, 0, 0, 0};
  for (const double t : {.1, .19, .3, .41}) {
    const double a = -t / 2;  // the other sign is the same rotation
    x.body_quat["upper"].insert(x.body_quat["upper"].end(), {-std::cos(a), -std::sin(a), 0, 0});
  }
  const Recording y = resample(model, x, .05);
  ASSERT_EQ(y.nrow(), 9);
  std::vector<double> time(9);
  for (size_t i = 0; i < 9; i++) time[i] = .05 * double(i);
  const Recording expected = steady(model, time, v);
  expect_same(y.time, expected.time, 1e-15);
  expect_same(y.qpos, expected.qpos, 1e-12);
  const double held[] = {0, 0, .1, .1, .19, .19, .3, .3, .3};
  for (int i = 0; i < 9; i++) {
    EXPECT_EQ(at(y.ctrl, 2, i, 0), held[i]) << i;
    EXPECT_NEAR(y.weights.at("qpos")[size_t(i)], .5 * i, 1e-12);
    const double a = -time[size_t(i)] / 2;
    const double w = std::abs(at(y.body_quat.at("upper"), 4, i, 0));
    EXPECT_NEAR(w, std::cos(a), 1e-12);
  }
}

TEST(Resample, OnItsOwnGridIsTheSame) {
  const Model model = scene();
  Recording x = recorded(model);
  x.weights["qvel"] = {2};
  x.weights["qpos"].assign(kRows * kNv, 3);
  at(x.qvel, kNv, 3, 1) = kNan;
  Recording y = resample(model, x, .004);
  expect_same(x, y, 1e-12);
  // times with few digits: the remedy that segments() names
  for (double& t : x.time) t = std::round(t * 1e3 + .2) * 1e-3 + 1e-5 * std::sin(1e5 * t);
  EXPECT_TRUE(has(refusal([&] { (void)segments(model, {{x}}); }), {"resample(recording, 0.00"}));
  EXPECT_GT(segments(model, {{resample(model, x, .004)}}).size(), 20U);
}

TEST(Resample, LeavesGaps) {
  const Model model = scene();
  const Recording x = steady(model, {0, .1, .2, .3, .6, .7}, some_velocity());
  const Recording y = resample(model, x, .05);
  ASSERT_EQ(y.nrow(), 15);
  for (int i = 0; i < 15; i++) {
    const bool lost = i > 6 && i < 12;
    EXPECT_EQ(std::isnan(at(y.qpos, kNq, i, 0)), lost) << i;
    EXPECT_EQ(std::isnan(at(y.ctrl, 2, i, 0)), lost) << i;
  }
  EXPECT_EQ(validate(model, y).nrow(), 15);
  // a missing number spoils both sides of it
  Recording z = x;
  at(z.qpos, kNq, 1, 0) = kNan;
  const Recording w = resample(model, z, .05);
  for (int i = 0; i < 6; i++) EXPECT_EQ(std::isnan(at(w.qpos, kNq, i, 0)), i > 0 && i < 4) << i;
  EXPECT_THROW((void)resample(model, x, 1e-15), MemoryError);
  EXPECT_EQ(resample(model, x, 10).nrow(), 1);
  for (const double dt : {0., -1., kNan, HUGE_VAL}) {
    EXPECT_TRUE(has(refusal([&] { (void)resample(model, x, dt); }), {"dt is"}));
  }
}

TEST(Segments, OfARolloutHaveNoResidual) {
  for (const Integrator integrator : {Integrator::kEuler, Integrator::kRk4}) {
    // without a warm start, which a segment does not have
    const Model model = scene({.integrator = integrator}).tightened();
    const Recording x = recorded(model);
    const std::vector<Segment> all = segments(model, {{x}}, {.length = 5, .stride = 3});
    ASSERT_EQ(all.size(), 9U);
    size_t counted = 0;
    for (size_t i = 0; i < all.size(); i++) {
      const Segment& s = all[i];
      EXPECT_EQ(s.recording, 0);
      EXPECT_EQ(s.first, 3 * static_cast<int>(i));
      EXPECT_EQ(s.length, 5);
      EXPECT_EQ(s.substeps, kEvery);
      EXPECT_EQ(s.ctrl.size(), 2U * 5 * kEvery);
      const Trajectory t = rollout(model, segment_input(s), s.length * s.substeps);
      const auto r = residuals(model, s, t);
      // qpos qvel act, four sensors, site, body
      ASSERT_EQ(r.size(), 10U);
      for (size_t j = 0; j < r.size(); j++) {
        EXPECT_EQ(r[j].size(), s.targets[j].weights.size());
        EXPECT_LT(largest(r[j]), 1e-9) << s.targets[j].name << " from row " << s.first;
        counted += static_cast<size_t>(
            std::count(s.targets[j].weights.begin(), s.targets[j].weights.end(), 1.));
      }
    }
    // all numbers, but for the accelerometer in the last row: the control changes there
    const size_t per_row = kNv + kNv + 1 + 3 + 3 + 1 + 3 + 3 + 3 + 3;
    EXPECT_EQ(counted, all.size() * (per_row * 6 - 3));
  }
}

TEST(Segments, FirstOneIsBitForBit) {
  const Model model = scene();
  const Recording x = recorded(model);
  const Segment s = segments(model, {{x}}, {.length = kRows - 1}).at(0);
  const auto r = residuals(model, s, rollout(model, segment_input(s), s.length * s.substeps));
  for (size_t j = 0; j < r.size(); j++) EXPECT_LT(largest(r[j]), 1e-15) << s.targets[j].name;
  EXPECT_EQ(s.start.time, .5);
}

TEST(Segments, ResidualsAreSimulatedMinusRecorded) {
  const Model model = scene();
  Recording x = recorded(model);
  at(x.qpos, kNq, 1, 0) -= .25;
  at(x.sites["tip"], 3, 1, 2) += .5;
  double* q = &at(x.body_quat["lower"], 4, 1, 0);
  const double turn[3] = {.1, 0, 0};
  mju_quatIntegrate(q, turn, 1);
  for (int k = 0; k < 4; k++) q[k] = -q[k];
  const Segment s = segments(model, {{x}}, {.length = 1}).at(0);
  const auto r = residuals(model, s, rollout(model, segment_input(s), kEvery));
  const auto of = [&](const std::string& name) {
    const auto found = std::find_if(s.targets.begin(), s.targets.end(),
                                    [&](const Target& t) { return t.name == name; });
    return r[static_cast<size_t>(found - s.targets.begin())];
  };
  EXPECT_NEAR(of("qpos")[kNv], .25, 1e-12);
  EXPECT_NEAR(of("site:tip")[5], -.5, 1e-12);
  EXPECT_NEAR(of("body_quat:lower")[3], -.1, 1e-12);
  EXPECT_TRUE(has(refusal([&] { (void)residuals(model, s, rollout(model, {}, 1)); }),
                  {"has 1 steps, expected 2"}));
  EXPECT_TRUE(
      has(refusal([&] { (void)residuals(model, s, rollout(scene(), {}, 2)); }), {"another model"}));
}

TEST(Segments, TargetsSayWhereTheyAre) {
  const Model model = scene();
  const Recording x = recorded(model);
  const Segment s = segments(model, {{x}}, {.length = 2}).at(1);
  std::vector<std::string> names;
  for (const Target& t : s.targets) names.push_back(t.name);
  EXPECT_EQ(names, (std::vector<std::string>{"qpos", "qvel", "act", "sensor:acc", "sensor:attitude",
                                             "sensor:angle", "sensor:3", "site:tip",
                                             "body_pos:lower", "body_quat:lower"}));
  const Target& quat = s.targets[4];
  EXPECT_EQ(quat.observable, "sensordata");
  EXPECT_EQ(quat.offset, 3);
  EXPECT_EQ(quat.width, 4);
  EXPECT_EQ(quat.nweight, 3);
  EXPECT_TRUE(quat.quaternion);
  EXPECT_EQ(s.targets[7].observable, "site_xpos");
  EXPECT_EQ(s.targets[7].offset, 3);
  EXPECT_EQ(s.targets[8].observable, "xpos");
  EXPECT_EQ(s.targets[8].offset, 9);
  EXPECT_EQ(s.targets[9].observable, "xquat");
  EXPECT_EQ(s.targets[9].offset, 12);
  for (int i = 0; i <= 2; i++) {
    for (int j = 0; j < kNq; j++) {
      EXPECT_EQ(at(s.targets[0].values, kNq, i, j), at(x.qpos, kNq, 2 + i, j));
    }
  }
  // some of them
  const Segment some = segments(model, {{x}}, {.targets = {"site:tip", "qvel"}}).at(0);
  ASSERT_EQ(some.targets.size(), 2U);
  EXPECT_EQ(some.targets[0].name, "qvel");
  EXPECT_TRUE(has(refusal([&] { (void)segments(model, {{x}}, {.targets = {"site:top"}}); }),
                  {"recording 'fall'", "target 'site:top' is not recorded", "'site:tip'"}));
}

TEST(Segments, AccelerationsOfTheLastRowNeedItsControl) {
  const Model model = scene();
  Recording x = recorded(model);
  const auto last = [&] {
    const Target t = segments(model, {{x}}, {.length = 2}).at(0).targets[3];
    EXPECT_EQ(t.name, "sensor:acc");
    EXPECT_EQ(t.weights[5], 1);
    return t.weights[6];
  };
  EXPECT_EQ(last(), 0);
  std::copy_n(x.ctrl.begin() + 2, 2, x.ctrl.begin() + 4);
  EXPECT_EQ(last(), 1);
}

TEST(Segments, Weights) {
  const Model model = scene();
  Recording x = recorded(model);
  x.weights["qvel"] = {.5};
  for (int i = 0; i < kRows; i++) {
    x.weights["act"].push_back(i);
    for (int j = 0; j < kNv; j++) x.weights["qpos"].push_back(10 * i + j);
    for (int j = 0; j < kNs; j++) x.weights["sensordata"].push_back(100 * i + j);
  }
  const Segment s = segments(model, {{x}}, {.length = 2}).at(1);
  for (int i = 0; i <= 2; i++) {
    const int row = 2 + i;
    EXPECT_EQ(s.targets[2].weights[size_t(i)], row);
    for (int j = 0; j < kNv; j++) {
      EXPECT_EQ(at(s.targets[1].weights, kNv, i, j), .5);
      EXPECT_EQ(at(s.targets[0].weights, kNv, i, j), 10 * row + j);
    }
    for (int j = 0; j < 3; j++) EXPECT_EQ(at(s.targets[4].weights, 3, i, j), 100 * row + 3);
    EXPECT_EQ(s.targets[5].weights[size_t(i)], 100 * row + 7);
    for (int j = 0; j < 3; j++) EXPECT_EQ(at(s.targets[6].weights, 3, i, j), 100 * row + 8 + j);
  }
}

TEST(Segments, MissingNumbers) {
  const Model model = scene();
  Recording x = recorded(model);
  at(x.qvel, kNv, 4, 0) = kNan;        // no start at row 4
  at(x.qpos, kNq, 7, 8) = kNan;        // no shoulder in row 7
  at(x.qpos, kNq, 7, 1) = kNan;        // nor y of the box
  at(x.sensordata, kNs, 9, 4) = kNan;  // nor attitude in row 9
  const std::vector<Segment> all = segments(model, {{x}}, {.length = 2});
  for (const Segment& s : all) EXPECT_NE(s.first, 4);
  ASSERT_EQ(all.size(), 14U);
  const Segment& s = all[2];
  ASSERT_EQ(s.first, 6);
  for (int j = 0; j < kNv; j++) {
    EXPECT_EQ(at(s.targets[0].weights, kNv, 1, j), j == 1 || (j >= 6 && j < 9) ? 0 : 1) << j;
  }
  EXPECT_EQ(at(s.targets[0].values, kNq, 1, 1), 0);
  EXPECT_EQ(at(s.targets[0].values, kNq, 1, 7), 1);
  EXPECT_EQ(at(s.targets[0].values, kNq, 1, 8), 0);
  const Target& attitude = all[3].targets[4];
  EXPECT_EQ(at(attitude.values, 4, 1, 0), 1);
  EXPECT_EQ(at(attitude.values, 4, 1, 1), 0);
  EXPECT_EQ(at(attitude.weights, 3, 1, 2), 0);
  EXPECT_EQ(at(attitude.weights, 3, 2, 2), 1);
  // every number is finite, and so are residuals
  for (const Segment& one : all) {
    for (const Target& t : one.targets) {
      for (const double v : t.values) EXPECT_TRUE(std::isfinite(v));
    }
    const Trajectory t = rollout(model, segment_input(one), one.length * one.substeps);
    for (const auto& r : residuals(model, one, t)) EXPECT_LT(largest(r), 1e-3);
  }
}

TEST(Segments, TooMuchIsMissing) {
  const Model model = scene();
  Recording x = recorded(model);
  x.sensordata.clear();
  x.body_pos.clear();
  x.body_quat.clear();
  x.sites.clear();
  // of rows 3 and 4 all positions: of 2 (12 + 10 + 1) numbers 24
  for (int j = 0; j < kNq; j++) at(x.qpos, kNq, 3, j) = at(x.qpos, kNq, 4, j) = kNan;
  const auto starts = [&](double share) {
    std::vector<int> out;
    const SegmentOptions options = {.length = 2, .stride = 1, .max_missing = share};
    for (const Segment& s : segments(model, {{x}}, options)) out.push_back(s.first);
    out.resize(4);
    return out;
  };
  EXPECT_EQ(starts(0), (std::vector<int>{0, 5, 6, 7}));
  EXPECT_EQ(starts(.5), (std::vector<int>{0, 1, 5, 6}));
  EXPECT_EQ(starts(.53), (std::vector<int>{0, 1, 2, 5}));
  // what is never recorded is not missing
  x.sensordata.assign(kRows * kNs, kNan);
  EXPECT_EQ(starts(0), (std::vector<int>{0, 5, 6, 7}));
  EXPECT_EQ(segments(model, {{x}}).at(0).targets.size(), 3U);
}

TEST(Segments, DoNotCrossGaps) {
  const Model model = scene();
  Recording x = recorded(model);
  for (int i = 10; i < kRows; i++) x.time[size_t(i)] += .02;
  std::vector<int> starts;
  for (const Segment& s : segments(model, {{x}}, {.length = 3, .stride = 1})) {
    starts.push_back(s.first);
  }
  std::vector<int> expected;
  for (int i = 0; i + 3 < kRows; i++) {
    if (i + 3 < 10 || i >= 10) expected.push_back(i);
  }
  EXPECT_EQ(starts, expected);
  // nor rows without controls, which resample() makes in their place
  const Recording y = resample(model, x, .004);
  EXPECT_EQ(y.nrow(), kRows + 5);
  for (const Segment& s : segments(model, {{y}}, {.length = 3, .stride = 1})) {
    EXPECT_TRUE(s.first + 3 <= 10 || s.first >= 15) << s.first;  // row 10 is a missing target
  }
}

TEST(Segments, NearContact) {
  const Model model = scene();
  const Trajectory t = simulate(model);
  Recording x = record(model, t, kEvery);
  std::set<int> touching;
  double before = 1;  // [m] the distance in the last row without contact
  for (int i = 0; i < kRows; i++) {
    mjData* d = mj_makeData(model.mj());
    std::copy_n(&at(x.qpos, kNq, i, 0), kNq, d->qpos);
    mj_fwdPosition(model.mj(), d);
    if (d->ncon > 0) touching.insert(i);
    if (touching.empty()) before = mj_geomDistance(model.mj(), d, 0, 1, 1, nullptr);
    mj_deleteData(d);
  }
  ASSERT_GT(touching.size(), 3U);
  const int first = *touching.begin();
  ASSERT_GT(first, 5);
  const auto starts = [&](double margin) {
    std::vector<int> out;
    for (const Segment& s :
         segments(model, {{x}},
                  {.length = 2, .stride = 1, .rule = SegmentRule::kContact, .margin = margin})) {
      out.push_back(s.first);
    }
    return out;
  };
  std::vector<int> expected;
  for (int i = 0; i + 2 < kRows; i++) {
    if (touching.count(i) || touching.count(i + 1) || touching.count(i + 2)) expected.push_back(i);
  }
  EXPECT_EQ(starts(0), expected);
  EXPECT_EQ(starts(0).front(), first - 2);
  // one row earlier with a margin just above the distance there
  EXPECT_EQ(starts(before - 1e-6).front(), first - 2);
  EXPECT_EQ(starts(before + 1e-6).front(), first - 3);
  EXPECT_EQ(starts(10).front(), 0);
  // an unknown position touches nothing
  for (double& q : x.qpos) q = kNan;
  EXPECT_TRUE(starts(0).empty());
  EXPECT_EQ(segment_rule_from_name("contact"), SegmentRule::kContact);
  EXPECT_EQ(segment_rule_from_name("all"), SegmentRule::kAll);
  EXPECT_TRUE(has(refusal([] { segment_rule_from_name("some"); }), {"'some'", "all or contact"}));
}

TEST(Segments, ComeInTheOrderOfRecordings) {
  const Model model = scene();
  const Recording x = recorded(model);
  const Recording all[] = {x,
                           x,
                           {.name = "one row",
                            .time = {0},
                            .qpos = default_state(model).qpos,
                            .qvel = std::vector<double>(kNv),
                            .act = {0},
                            .ctrl = {0, 0}}};
  const std::vector<Segment> cut = segments(model, all, {.length = 10});
  ASSERT_EQ(cut.size(), 6U);
  for (size_t i = 0; i < 6; i++) {
    EXPECT_EQ(cut[i].recording, static_cast<int>(i / 3));
    EXPECT_EQ(cut[i].first, 10 * static_cast<int>(i % 3));
  }
  EXPECT_TRUE(segments(model, all, {.length = kRows}).empty());
  constexpr int kHuge = std::numeric_limits<int>::max();
  EXPECT_TRUE(segments(model, all, {.length = kHuge}).empty());
  EXPECT_EQ(segments(model, all, {.stride = kHuge}).size(), 2U);
  EXPECT_TRUE(segments(model, {}).empty());
}

TEST(Segments, RefuseAnotherGrid) {
  Recording x = recorded(scene());
  std::string text = kScene;
  text.replace(text.find("timestep='.002'"), 15, "timestep='.003'");
  const Model coarse = Model::from_xml(text);
  EXPECT_TRUE(has(refusal([&] { (void)segments(coarse, {{x}}); }),
                  {"recording 'fall'", "0.004 s apart", "1.33333 times", "timestep of 0.003",
                   "set the timestep to 0.002", "resample(recording, 0.003)"}));
  // the times of adaptive methods are those of their interval
  const Model adaptive = scene({.integrator = Integrator::kTsit5, .adaptive = {.interval = .0015}});
  EXPECT_TRUE(has(refusal([&] { (void)segments(adaptive, {{x}}); }), {"interval of 0.0015"}));
  EXPECT_EQ(
      segments(scene({.integrator = Integrator::kTsit5, .adaptive = {.interval = .001}}), {{x}})
          .at(0)
          .substeps,
      4);
  // seconds since 1970 have fewer digits
  const Model model = scene();
  for (double& t : x.time) t += 1.7e9;
  EXPECT_EQ(segments(model, {{x}}).size(), size_t(kRows) - 1);
}

TEST(Segments, RefuseWhatCannotStart) {
  const Model model = scene();
  const auto without = [&](std::vector<double> Recording::*member) {
    Recording x = recorded(model);
    (x.*member).clear();
    return refusal([&] { (void)segments(model, {{x}}); });
  };
  EXPECT_TRUE(has(without(&Recording::qpos), {"recording 'fall'", "qpos is not recorded"}));
  EXPECT_TRUE(has(without(&Recording::qvel), {"qvel is not recorded", "estimate_velocities"}));
  EXPECT_TRUE(has(without(&Recording::act), {"act is not recorded", "zeros"}));
  EXPECT_TRUE(has(without(&Recording::ctrl), {"ctrl is not recorded", "zeros"}));
  const Recording x = recorded(model);
  const auto with = [&](const SegmentOptions& options) {
    return refusal([&] { (void)segments(model, {{x}}, options); });
  };
  EXPECT_TRUE(has(with({.length = 0}), {"length is 0"}));
  EXPECT_TRUE(has(with({.stride = 0}), {"stride is 0"}));
  EXPECT_TRUE(has(with({.margin = -1}), {"margin is -1"}));
  EXPECT_TRUE(has(with({.max_missing = 1.5}), {"max_missing is 1.5"}));
}

TEST(Split, IsTheSameEveryTime) {
  const Split a = split(10, .3, 7), b = split(10, .3, 7);
  EXPECT_EQ(a.training, b.training);
  EXPECT_EQ(a.held_out, b.held_out);
  EXPECT_EQ(a.held_out.size(), 3U);
  EXPECT_TRUE(std::is_sorted(a.training.begin(), a.training.end()));
  EXPECT_TRUE(std::is_sorted(a.held_out.begin(), a.held_out.end()));
  std::vector<int> all = a.training;
  all.insert(all.end(), a.held_out.begin(), a.held_out.end());
  std::sort(all.begin(), all.end());
  std::vector<int> expected(10);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  // on every machine
  EXPECT_EQ(split(10, .3, 0).held_out, (std::vector<int>{0, 2, 7}));
  // other seeds, other recordings
  std::set<std::vector<int>> found;
  for (unsigned seed = 0; seed < 20; seed++) found.insert(split(10, .3, seed).held_out);
  EXPECT_GT(found.size(), 10U);
}

TEST(Split, LeavesOneOnEachSide) {
  EXPECT_EQ(split(10, .001).held_out.size(), 1U);
  EXPECT_EQ(split(2, .99).training.size(), 1U);
  EXPECT_EQ(split(10, 0).held_out.size(), 0U);
  EXPECT_TRUE(split(0, 0).training.empty());
  EXPECT_TRUE(has(refusal([] { (void)split(1, .5); }), {"1 recordings"}));
  EXPECT_TRUE(has(refusal([] { (void)split(5, 1); }), {"share is 1"}));
  EXPECT_TRUE(has(refusal([] { (void)split(5, -.1); }), {"share is -0.1"}));
  EXPECT_TRUE(has(refusal([] { (void)split(-1, 0); }), {"n is -1"}));
}

class Csv : public ::testing::Test {
 protected:
  std::string path = ::testing::TempDir() + "diffmj_recording_test.csv";
  const Model model = scene();

  void TearDown() override { std::remove(path.c_str()); }
  Recording read(const std::string& text) {
    std::ofstream(path) << text;
    return read_csv(model, path);
  }
  std::string refused(const std::string& text) {
    return refusal([&] { (void)read(text); });
  }
};

TEST_F(Csv, RoundTrip) {
  Recording x = recorded(model);
  at(x.qvel, kNv, 4, 0) = kNan;
  x.weights["qvel"].assign(kRows, .1);
  x.weights["site:tip"].assign(kRows * 3, 1. / 3);
  x.weights["act"] = {2};
  write_csv(x, path);
  Recording y = read_csv(model, path);
  EXPECT_EQ(y.name, "diffmj_recording_test");
  x.weights["act"].assign(kRows, 2);  // one number for all becomes one per row
  expect_same(x, y, 0);
  x.sensordata.clear();
  x.sensors["angle"].assign(kRows, .25);
  x.sensors["acc"].assign(kRows * 3, kNan);
  write_csv(x, path);
  expect_same(x, read_csv(model, path), 0);
}

TEST_F(Csv, NamesOfColumns) {
  const Recording x = read(
      "\xef\xbb\xbftime, qpos_elbow,\"qpos_free[2]\",qpos[0],qvel_elbow,qvel_shoulder[1],"
      "ctrl_motor,ctrl[1],act_slow,sensor:angle,sensor:acc[2],site:tip[0],body_pos:box[1],"
      "weight:site:tip,weight:qvel[3]\r\n"
      "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14\r\n"
      "\r\n"
      "+1e-1,,nan,3,4,NaN,6,7,8,9,10,11,12,13,.5\r\n");
  ASSERT_EQ(x.nrow(), 2);
  EXPECT_EQ(x.time[1], .1);
  EXPECT_EQ(at(x.qpos, kNq, 0, 11), 1);
  EXPECT_EQ(at(x.qpos, kNq, 0, 2), 2);
  EXPECT_EQ(at(x.qpos, kNq, 0, 0), 3);
  EXPECT_TRUE(std::isnan(at(x.qpos, kNq, 0, 1)));
  EXPECT_TRUE(std::isnan(at(x.qpos, kNq, 1, 11)));
  EXPECT_TRUE(std::isnan(at(x.qpos, kNq, 1, 2)));
  EXPECT_EQ(at(x.qvel, kNv, 0, 9), 4);
  EXPECT_EQ(at(x.qvel, kNv, 0, 7), 5);
  EXPECT_EQ(at(x.ctrl, 2, 1, 0), 6);
  EXPECT_EQ(at(x.ctrl, 2, 1, 1), 7);
  EXPECT_EQ(x.act[1], 8);
  EXPECT_EQ(x.sensors.at("angle")[0], 9);
  EXPECT_EQ(at(x.sensors.at("acc"), 3, 0, 2), 10);
  EXPECT_TRUE(std::isnan(at(x.sensors.at("acc"), 3, 0, 1)));
  EXPECT_EQ(at(x.sites.at("tip"), 3, 0, 0), 11);
  EXPECT_EQ(at(x.body_pos.at("box"), 3, 0, 1), 12);
  EXPECT_EQ(x.weights.at("site:tip"), (std::vector<double>{13, 13}));
  EXPECT_EQ(at(x.weights.at("qvel"), kNv, 1, 3), .5);
  EXPECT_EQ(at(x.weights.at("qvel"), kNv, 1, 4), 1);
}

TEST_F(Csv, NamesThatEndInBrackets) {
  const Model odd = Model::from_xml(
      "<mujoco><worldbody><body><joint/><geom size='.1'/></body><site name='a[1]'/><site "
      "name='b,\"c\"'/></worldbody></mujoco>");
  Recording x{.time = {0, 1},
              .sites = {{"a[1]", {1, 2, 3, 4, 5, 6}}, {"b,\"c\"", {6, 5, 4, 3, 2, 1}}}};
  write_csv(x, path);
  expect_same(read_csv(odd, path), x);
}

TEST_F(Csv, ErrorsSayWhere) {
  const std::string at1 = path + ", line 1, column ";
  EXPECT_TRUE(has(refused("time,qpos[0]\n0,1\n1,x1\n"),
                  {path + ", line 3, column 'qpos[0]': 'x1' is not a number"}));
  EXPECT_TRUE(has(refused("time,qpos[0]\n0,1 2\n"), {"line 2, column 'qpos[0]': '1 2'"}));
  EXPECT_TRUE(has(refused("time,qpos[0]\n0,inf\n"), {"line 2, column 'qpos[0]'", "infinite"}));
  EXPECT_TRUE(has(refused("time,qpos[0]\n,1\n"), {"line 2, column 'time'", "empty"}));
  EXPECT_TRUE(has(refused("time,qpos[0]\n0,1,2\n"), {"line 2: it has 3 cells", "names 2 columns"}));
  EXPECT_TRUE(
      has(refused("time,qpso[0]\n0,1\n"), {at1 + "'qpso[0]': this is not a known quantity"}));
  EXPECT_TRUE(has(refused("time,qpos[12]\n0,1\n"), {at1 + "'qpos[12]'", "index 0 to 11"}));
  EXPECT_TRUE(has(refused("time,qpos\n0,1\n"), {at1 + "'qpos': the index is missing"}));
  EXPECT_TRUE(has(refused("time,qpos_free\n0,1\n"), {"the index is missing", "index 0 to 6"}));
  EXPECT_TRUE(has(refused("time,qvel_free[6]\n0,1\n"), {"the index is wrong", "index 0 to 5"}));
  EXPECT_TRUE(has(refused("time,act_motor\n0,1\n"), {"act_motor has none"}));
  EXPECT_TRUE(has(refused("time,qpos_elbo\n0,1\n"), {"no joint 'elbo'", "'elbow'"}));
  EXPECT_TRUE(has(refused("time,ctrl_moto\n0,1\n"), {"no actuator 'moto'", "'motor'"}));
  EXPECT_TRUE(has(refused("time,site:tap[0]\n0,1\n"), {at1 + "'site:tap[0]'", "no site 'tap'"}));
  EXPECT_TRUE(has(refused("time,sensor:x[0]\n0,1\n"), {"no sensor 'x'", "'angle'"}));
  EXPECT_TRUE(has(refused("time,weight:x\n0,1\n"), {"quantity 'x' is not known"}));
  EXPECT_TRUE(has(refused("time,qvel[0],weight:qvel\n0,1,\n"), {"line 2, column 'weight:qvel'"}));
  EXPECT_TRUE(has(refused("time,qvel[0],weight:qvel,weight:qvel[1]\n0,1,1,1\n"),
                  {"'weight:qvel[1]'", "exclude each other"}));
  EXPECT_TRUE(has(refused("time,qpos[11],qpos_elbow\n0,1,1\n"), {"'qpos_elbow'", "twice"}));
  EXPECT_TRUE(has(refused("time,time\n0,1\n"), {"twice"}));
  EXPECT_TRUE(has(refused("qpos[0]\n0\n"), {"line 1: column 'time' is missing"}));
  EXPECT_TRUE(has(refused("time,ctrl[1]\n0,1\n"), {"column 'ctrl[0]' is missing"}));
  EXPECT_TRUE(has(refused("time,qpos[0]\n"), {"no rows"}));
  EXPECT_TRUE(has(refused(""), {"the file is empty"}));
  EXPECT_TRUE(has(refused("time,qpos[0]\n1,1\n1,1\n"), {path, "time[1] is 1, not after"}));
  EXPECT_TRUE(has(refusal([&] { (void)read_csv(model, "/nowhere/x.csv"); }),
                  {"/nowhere/x.csv: the file does not exist"}));
  EXPECT_TRUE(has(refusal([&] { write_csv(recorded(model), "/nowhere/x.csv"); }),
                  {"/nowhere/x.csv: the file cannot be written"}));
}

}  // namespace
}  // namespace diffmj
