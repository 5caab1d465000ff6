// Orders of convergence: constant steps of every Runge-Kutta method, of the state and of the
// gradient, by regression over falling step sizes; rotations, activations, a stiff servo and a
// contact included.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/models.h"

namespace diffmj {
namespace {

struct Problem {
  const char* name;
  const char* mjcf;
  double duration;  // [s]
  // The smallest number of steps of methods of order 1, 2, 3, 4, 5 and 8: errors are asymptotic
  // from there on, and far above rounding.
  std::array<int, 6> nstep;
  Vector qvel, act, ctrl;
};

// No force: the body turns about all its axes.
constexpr const char* kTumblingMjcf = R"(<mujoco>
  <option gravity="0 0 0"/>
  <worldbody><body><freejoint/><geom type="box" size=".3 .2 .1" pos=".05 -.02 .03"/></body>
  </worldbody></mujoco>)";

// A spring-driven ball joint that is pulled by muscles and through an exact filter. Lengths stay
// within one piece of the muscles' curves, velocities are far below the largest, and tausmooth is
// wider than the range of activations: nothing has a corner.
constexpr const char* kMusclesMjcf = R"(<mujoco>
  <option gravity="0 0 -2"/>
  <worldbody>
    <site name="a" pos="-.3 .4 .5"/><site name="b" pos=".4 -.3 .5"/>
    <body><joint type="ball" stiffness="6" damping=".3"/>
      <geom type="box" size=".3 .1 .1" pos=".1 .05 .2" density="100"/>
      <site name="p" pos=".2 .1 .3"/><site name="q" pos="-.1 .15 .3"/></body>
  </worldbody>
  <tendon><spatial name="s"><site site="a"/><site site="p"/></spatial>
    <spatial name="t"><site site="b"/><site site="q"/></spatial></tendon>
  <actuator>
    <muscle tendon="s" lengthrange=".2 1.4" range=".8 1" lmin=".2" lmax="3" vmax="1e6" force="10"
      timeconst=".3 .4" tausmooth="5"/>
    <muscle tendon="t" lengthrange=".2 1.4" range=".8 1" lmin=".2" lmax="3" vmax="1e6" force="20"
      timeconst=".2 .5" tausmooth="5"/>
    <general tendon="s" dyntype="filterexact" dynprm=".2" gainprm="1"/>
  </actuator></mujoco>)";

// An unbalanced ball that slides over a soft floor, always in touch with it and always sliding.
constexpr const char* kContactMjcf = R"(<mujoco>
  <option gravity="0 0 -9.81" cone="elliptic"/>
  <default><geom solref=".3 1" solimp=".1 .12 9 .5 2" friction=".02" density="1"/></default>
  <worldbody>
    <geom type="plane" size="9 9 1"/>
    <body pos="0 0 1.9"><freejoint/><geom type="sphere" size="3"/>
      <geom type="sphere" size=".6" pos=".9 .3 .6" density="20" contype="0" conaffinity="0"/>
    </body>
  </worldbody></mujoco>)";

// The same from above the floor: a large jump of the forces within the run, at an event.
constexpr const char* kImpactMjcf = R"(<mujoco>
  <option gravity="0 0 -9.81" cone="elliptic"/>
  <default><geom solref=".3 1" solimp=".1 .12 9 .5 2" friction=".02" density="1"/></default>
  <worldbody>
    <geom type="plane" size="9 9 1"/>
    <body pos="0 0 3.7"><freejoint/><geom type="sphere" size="3"/>
      <geom type="sphere" size=".6" pos=".9 .3 .6" density="20" contype="0" conaffinity="0"/>
    </body>
  </worldbody></mujoco>)";

const Problem kTumbling = {.name = "tumbling",
                           .mjcf = kTumblingMjcf,
                           .duration = 1,
                           .nstep = {1200, 180, 75, 60, 50, 18},
                           .qvel = {.1, -.2, .3, 2, 6, 4},
                           .act = {},
                           .ctrl = {}};
const Problem kMuscles = {.name = "muscles",
                          .mjcf = kMusclesMjcf,
                          .duration = 1,
                          .nstep = {1600, 240, 100, 60, 200, 24},
                          .qvel = {.5, -1, .7},
                          .act = {.2, .6, .1},
                          .ctrl = {.9, .1, .8}};
const Problem kContact = {.name = "contact",
                          .mjcf = kContactMjcf,
                          .duration = 1,
                          .nstep = {800, 120, 50, 40, 42, 9},
                          .qvel = {20, 6, -.1, 3, 5, 6},
                          .act = {},
                          .ctrl = {}};

const Problem kImpact = {.name = "impact",
                         .mjcf = kImpactMjcf,
                         .duration = .6,
                         .nstep = {1600, 240, 100, 60, 50, 14},
                         .qvel = {20, 6, -2, 6, 12, 14},
                         .act = {},
                         .ctrl = {}};

// A loaded die that is tossed: it tumbles through the air, and two of its corners land, one after
// the other, and slide.
constexpr const char* kTossMjcf = R"(<mujoco>
  <option gravity="0 0 -9.81" cone="elliptic"/>
  <default><geom solref=".3 1" solimp=".1 .12 9 .5 2" friction=".02" density="100"/></default>
  <worldbody>
    <geom type="plane" size="9 9 1"/>
    <body pos="0 0 .6" euler="20 35 10"><freejoint/><geom type="box" size=".2 .2 .2"/>
      <geom type="box" size=".03 .06 .1" pos=".08 .1 .05" density="3000" contype="0" conaffinity="0"/>
    </body>
  </worldbody></mujoco>)";

const Problem kToss = {.name = "toss",
                       .mjcf = kTossMjcf,
                       .duration = .265,
                       .nstep = {1600, 240, 100, 60, 0, 0},
                       .qvel = {4, 1, -.5, 6, 9, 4},
                       .act = {},
                       .ctrl = {}};

// A pendulum whose tip a stiff servo holds: its fastest rate is 500 /s.
const Problem kServo = {.name = "servo",
                        .mjcf = R"(<mujoco>
  <worldbody><body><joint name="swing" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 .3 0 -.5"/>
    <body pos=".3 0 -.5"><joint name="tip" axis="0 1 0" armature=".01"/><geom size=".02" pos=".1 0 0"/></body>
  </body></worldbody>
  <actuator><position joint="tip" kp="50" kv="5.2"/></actuator></mujoco>)",
                        .duration = 1,
                        .nstep = {0, 0, 0, 700, 0, 0},
                        .qvel = {1, -.5},
                        .act = {},
                        .ctrl = {.4}};

class Convergence : public ::testing::TestWithParam<std::tuple<const Problem*, Integrator>> {};

struct Result {
  Vector x, gradient;
};

Result solve(const Problem& p, Integrator integrator, double step) {
  ModelOptions o{.integrator = integrator};
  o.adaptive.step = step;
  o.adaptive.interval = p.duration;
  const Model model = Model::from_xml(p.mjcf, o);
  const Trajectory t = rollout(model, {.qvel = p.qvel, .act = p.act, .ctrl = p.ctrl}, 1);
  EXPECT_TRUE(t.ok()) << t.message;
  // d(loss) of a smooth function of the final state; its weights are fixed
  const auto nq = static_cast<size_t>(model.nq()), nv = static_cast<size_t>(model.nv()),
             na = static_cast<size_t>(model.na());
  Vector q(2 * nq), v(2 * nv), w(2 * na);
  for (size_t i = 0; i < nq; i++) q[nq + i] = std::sin(1 + static_cast<double>(i));
  for (size_t i = 0; i < nv; i++) v[nv + i] = std::cos(2 + static_cast<double>(i));
  for (size_t i = 0; i < na; i++) w[na + i] = 1;
  const Gradient g = rollout_pullback(model, t, {.qpos = q, .qvel = v, .act = w});
  Result out;
  const auto add = [](const Vector& from, size_t width, Vector& to) {
    to.insert(to.end(), from.end() - static_cast<ptrdiff_t>(width), from.end());
  };
  add(t.qpos, nq, out.x);
  add(t.qvel, nv, out.x);
  add(t.act, na, out.x);
  for (const Vector* part : {&g.qpos_tangent, &g.qvel, &g.act, &g.ctrl}) {
    add(*part, part->size(), out.gradient);
  }
  return out;
}

double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += std::pow(a[i] - b[i], 2);
  return std::sqrt(sum);
}

// slope of log(error) over log(step)
double slope(const std::vector<std::pair<double, double>>& points) {
  double mx = 0, my = 0, sxy = 0, sxx = 0;
  for (const auto& [x, y] : points) {
    mx += std::log(x) / static_cast<double>(points.size());
    my += std::log(y) / static_cast<double>(points.size());
  }
  for (const auto& [x, y] : points) {
    sxy += (std::log(x) - mx) * (std::log(y) - my);
    sxx += std::pow(std::log(x) - mx, 2);
  }
  return sxy / sxx;
}

int order(Integrator integrator) {
  switch (integrator) {
    case Integrator::kExplicitEuler:
      return 1;
    case Integrator::kBosh3:
      return 3;
    case Integrator::kRodas4p:
      return 4;
    case Integrator::kTsit5:
    case Integrator::kDopri5:
      return 5;
    case Integrator::kDopri8:
      return 8;
    default:
      return 2;
  }
}

TEST_P(Convergence, StateAndGradientHaveTheOrder) {
  const auto [problem, integrator] = GetParam();
  const Result exact = solve(*problem, Integrator::kDopri8,
                             problem->duration / std::max(300, 5 * problem->nstep[3]));
  // from numbers of steps at which errors are asymptotic to before rounding is seen
  const int p = order(integrator);
  const int fewest = problem->nstep[p <= 5 ? static_cast<size_t>(p) - 1 : 5];
  std::vector<std::pair<double, double>> states, gradients;
  for (int k = 0; k < 6; k++) {
    const double h = problem->duration / std::round(fewest * std::pow(2, k * (p < 5 ? .35 : .2)));
    const Result r = solve(*problem, integrator, h);
    states.emplace_back(h, distance(r.x, exact.x));
    gradients.emplace_back(h, distance(r.gradient, exact.gradient));
  }
  // measured: 4.25, since a state that a servo holds forgets most of its errors
  EXPECT_NEAR(slope(states), p, problem == &kServo ? 0.3 : 0.2) << ::testing::PrintToString(states);
  EXPECT_NEAR(slope(gradients), p, 0.2) << ::testing::PrintToString(gradients);
}

INSTANTIATE_TEST_SUITE_P(
    Problems, Convergence,
    ::testing::Combine(::testing::Values(&kTumbling, &kMuscles, &kContact, &kImpact),
                       ::testing::Values(Integrator::kExplicitEuler, Integrator::kHeun,
                                         Integrator::kMidpoint, Integrator::kRalston,
                                         Integrator::kBosh3, Integrator::kTsit5,
                                         Integrator::kDopri5, Integrator::kDopri8,
                                         Integrator::kRodas4p)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)->name) + "_" +
             integrator_name(std::get<1>(info.param));
    });

// errors of methods of higher order reach rounding before they are asymptotic
INSTANTIATE_TEST_SUITE_P(Toss, Convergence,
                         ::testing::Combine(::testing::Values(&kToss),
                                            ::testing::Values(Integrator::kExplicitEuler,
                                                              Integrator::kHeun, Integrator::kBosh3,
                                                              Integrator::kRodas4p)),
                         [](const auto& info) { return integrator_name(std::get<1>(info.param)); });

INSTANTIATE_TEST_SUITE_P(Servo, Convergence,
                         ::testing::Values(std::tuple(&kServo, Integrator::kRodas4p)),
                         [](const auto& info) { return std::get<0>(info.param)->name; });

}  // namespace
}  // namespace diffmj
