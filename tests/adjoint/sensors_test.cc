// A loss on sensors: sensordata() against MuJoCo, and its cotangents against differences.
// label: smoke
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "harness/models.h"
#include "harness/tolerances.h"

namespace diffmj {
namespace {

using DataPtr = std::unique_ptr<mjData, void (*)(mjData*)>;

size_t at(int i) { return static_cast<size_t>(i); }

std::string name_of(const mjModel* m, int sensor) { return mj_id2name(m, mjOBJ_SENSOR, sensor); }

// the numbers of one sensor at all states, as a function of the tangent of the state and of the
// controls, which are held
Operation sensor_operation(const Scene& scene, const ModelOptions& options, int sensor, int nstep) {
  const Model model = Model::from_mjmodel(scene.model.tightened().mj(), options).tightened();
  const auto n = static_cast<size_t>(model.ntangent()), width = at(model.nsensordata());
  const SensorRange range = sensor_range(model, name_of(model.mj(), sensor));
  const auto base = std::make_shared<Trajectory>(rollout(model, scene.input(), nstep));
  const auto run = [=](const Vector& z) {
    const State x = plus(model, scene.x, std::span(z).first(n));
    Vector ctrl = scene.ctrl;
    for (size_t i = 0; i < ctrl.size(); i++) ctrl[i] += z[n + i];
    RolloutInput input = scene.input();
    input.qpos = x.qpos;
    input.qvel = x.qvel;
    input.act = x.act;
    input.ctrl = ctrl;
    return rollout(model, input, nstep,
                   {.steps_of = model.is_adaptive() ? base.get() : nullptr, .sensors = true});
  };
  return {
      .forward =
          [=](const Vector& z) {
            const Trajectory t = run(z);
            Vector y;
            for (size_t row = 0; row <= at(nstep); row++) {
              const auto begin =
                  t.sensordata.begin() + static_cast<ptrdiff_t>(row * width) + range.adr;
              y.insert(y.end(), begin, begin + range.dim);
            }
            return y;
          },
      .pullback =
          [=](const Vector& z, const Vector& y_bar, Vector& z_bar) {
            const Trajectory t = run(z);
            Vector bar(t.sensordata.size());
            for (size_t row = 0; row <= at(nstep); row++) {
              for (size_t k = 0; k < at(range.dim); k++) {
                bar[row * width + at(range.adr) + k] = y_bar[row * at(range.dim) + k];
              }
            }
            const Gradient g = rollout_pullback(model, t, {.sensordata = bar});
            size_t i = 0;
            for (const Vector* part : {&g.qpos_tangent, &g.qvel, &g.act}) {
              for (double value : *part) z_bar[i++] += value;
            }
            const auto nu = at(model.nu());
            for (size_t k = 0; k < g.ctrl.size(); k++) z_bar[i + k % nu] += g.ctrl[k];
          },
  };
}

struct Case {
  std::string name;
  std::string scene;
  ModelOptions options;
};

class Sensors : public ::testing::TestWithParam<Case> {};

// iterating colliders, and the oracle's differences of stiff contacts, have noise of their own
double tolerance_of(const mjModel* m, int sensor, const Case& c) {
  const bool iterates = m->sensor_type[sensor] == mjSENS_GEOMDIST;
  return iterates || c.options.gradient_path != GradientPath::kAnalytic ||
                 c.scene == "sensors_tendon"
             ? tolerances().large_model
             : tolerances().trajectory;
}

TEST_P(Sensors, PullbackMatchesDifferences) {
  const Scene scene = zoo(GetParam().scene);
  const mjModel* m = scene.model.mj();
  const auto n = static_cast<size_t>(scene.model.ntangent()) + scene.ctrl.size();
  for (int i = 0; i < static_cast<int>(m->nsensor); i++) {
    EXPECT_TRUE(check_pullback(sensor_operation(scene, GetParam().options, i, 2), Vector(n), n,
                               {.tolerance = tolerance_of(m, i, GetParam()),
                                .smallest = 1e-7,
                                .step = 1e-4,
                                .directions = 2}))
        << name_of(m, i);
  }
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const std::string scene : {"sensors", "sensors_tendon"}) {
    const auto add = [&](const std::string& name, const ModelOptions& options) {
      out.push_back({scene + "_" + name, scene, options});
    };
    add("Euler", {});
    add("implicitfast", {.integrator = Integrator::kImplicitFast});
    add("RK4", {.integrator = Integrator::kRk4});
    add("Tsit5", {.integrator = Integrator::kTsit5, .adaptive = {.step = 5e-4}});
    add("oracle", {.gradient_path = GradientPath::kOracle});
    add("differences", {.gradient_path = GradientPath::kDifferences});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Zoo, Sensors, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// what mj_step leaves, state by state
TEST(SensorValues, AreThoseOfMujoco) {
  for (const std::string name : {"sensors", "sensors_tendon"}) {
    for (const Integrator integrator :
         {Integrator::kEuler, Integrator::kImplicitFast, Integrator::kRk4}) {
      const Scene scene = with_options(zoo(name), {.integrator = integrator});
      constexpr int kSteps = 5;
      const Trajectory recorded = rollout(scene.model, scene.input(), kSteps, {.sensors = true});
      const Trajectory plain = rollout(scene.model, scene.input(), kSteps);
      EXPECT_TRUE(plain.sensordata.empty());
      EXPECT_EQ(recorded.qpos, plain.qpos);
      EXPECT_EQ(recorded.sensordata, sensordata(scene.model, plain));

      const std::unique_ptr<mjModel, void (*)(mjModel*)> m(mj_copyModel(nullptr, scene.model.mj()),
                                                           mj_deleteModel);
      m->opt.disableflags &= ~mjDSBL_SENSOR;
      const DataPtr d(mj_makeData(m.get()), mj_deleteData);
      std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
      std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
      std::copy(scene.x.act.begin(), scene.x.act.end(), d->act);
      std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
      const auto width = at(scene.model.nsensordata());
      for (int i = 0; i <= kSteps; i++) {
        if (i < kSteps) {
          mj_step(m.get(), d.get());
        } else {
          mj_forward(m.get(), d.get());
        }
        EXPECT_TRUE(std::equal(d->sensordata, d->sensordata + width,
                               recorded.sensordata.begin() + static_cast<ptrdiff_t>(at(i) * width)))
            << name << ", row " << i;
      }
    }
  }
}

TEST(SensorValues, OfABatchAreThoseOfEach) {
  const Scene scene = zoo("sensors");
  const std::vector<RolloutInput> inputs(3, scene.input());
  const Trajectory one = rollout(scene.model, scene.input(), 3, {.sensors = true});
  for (const Trajectory& t : rollout_batch(scene.model, inputs, 3, {.sensors = true})) {
    EXPECT_EQ(t.sensordata, one.sensordata);
  }
}

// a humanoid that lands on its feet: accelerometer, gyro and touch over ten steps
TEST(SensorGradient, OfAHumanoidThatLands) {
  Scene scene = humanoid_with_sensors();
  scene.x.qvel[2] = -0.5;
  // until both feet are down
  const mjModel* m = scene.model.mj();
  const SensorRange left = sensor_range(scene.model, "left"),
                    right = sensor_range(scene.model, "right");
  bool landed = false;
  for (int i = 0; i < 200 && !landed; i++) {
    scene.x = after(scene, 1);
    const Vector values = sensordata(scene.model, rollout(scene.model, scene.input(), 0));
    landed = values[at(left.adr)] > 1 && values[at(right.adr)] > 1;
  }
  ASSERT_TRUE(landed);
  const auto n = static_cast<size_t>(scene.model.ntangent()) + scene.ctrl.size();
  for (const std::string name : {"accelerometer", "gyro", "left", "right"}) {
    const int i = sensor_range(scene.model, name).id;
    EXPECT_TRUE(check_pullback(
        sensor_operation(scene, {}, i, 10), Vector(n), n,
        {.tolerance = tolerances().large_model, .step = 1e-5, .levels = 8, .directions = 2}))
        << name_of(m, i);
  }
}

// C and D as mjd_transitionFD gives them
TEST(SensorGradient, LinearizeIsThatOfMujoco) {
  for (const std::string name : {"sensors", "sensors_tendon"}) {
    const Scene scene = zoo(name);
    const Model tight = scene.model.tightened();
    const Linearization linear = linearize(tight, scene.input(), true);
    const std::unique_ptr<mjModel, void (*)(mjModel*)> m(mj_copyModel(nullptr, tight.mj()),
                                                         mj_deleteModel);
    m->opt.disableflags &= ~mjDSBL_SENSOR;
    const DataPtr d(mj_makeData(m.get()), mj_deleteData);
    std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
    std::copy(scene.x.qvel.begin(), scene.x.qvel.end(), d->qvel);
    std::copy(scene.x.act.begin(), scene.x.act.end(), d->act);
    std::copy(scene.ctrl.begin(), scene.ctrl.end(), d->ctrl);
    Vector C(linear.C.size()), D(linear.D.size());
    mjd_transitionFD(m.get(), d.get(), 1e-6, 1, nullptr, nullptr, C.data(), D.data());
    ASSERT_EQ(C.size(), at(tight.nsensordata() * tight.ntangent()));
    for (int i = 0; i < static_cast<int>(m->nsensor); i++) {
      double size = 1;
      for (int k = m->sensor_adr[i]; k < m->sensor_adr[i] + m->sensor_dim[i]; k++) {
        for (int j = 0; j < tight.ntangent(); j++) {
          size = std::max(size, std::abs(C[at(k * tight.ntangent() + j)]));
        }
      }
      for (int k = m->sensor_adr[i]; k < m->sensor_adr[i] + m->sensor_dim[i]; k++) {
        for (int j = 0; j < tight.ntangent(); j++) {
          // MuJoCo counts kinetic energy to the position stage, and takes no differences in
          // velocity of what that stage has
          if (m->sensor_type[i] == mjSENS_E_KINETIC && j >= tight.nv()) continue;
          const size_t entry = at(k * tight.ntangent() + j);
          EXPECT_NEAR(linear.C[entry], C[entry], 1e-4 * size) << name_of(m.get(), i) << ", " << j;
        }
        // before 4.0 MuJoCo's centred differences of sensors in controls have the wrong sign
        const double sign = mjVERSION_HEADER >= 4000000 ? 1 : -1;
        for (int j = 0; j < tight.nu(); j++) {
          const size_t entry = at(k * tight.nu() + j);
          EXPECT_NEAR(linear.D[entry], sign * D[entry], 1e-4 * size)
              << name_of(m.get(), i) << ", " << j;
        }
      }
    }
  }
}

// every field of mjModel, against differences of the sensors with that field moved
TEST(SensorGradient, InParametersIsThatOfTheOracle) {
  for (const std::string name : {"sensors", "sensors_tendon"}) {
    const Scene analytic = zoo(name);
    const Scene oracle = with_options(analytic, {.gradient_path = GradientPath::kOracle});
    const mjModel* m = analytic.model.mj();
    const Trajectory t = rollout(analytic.model, analytic.input(), 1, {.sensors = true}),
                     u = rollout(oracle.model, oracle.input(), 1, {.sensors = true});
    for (int i = 0; i < static_cast<int>(m->nsensor); i++) {
      Vector bar(t.sensordata.size());
      for (size_t row = 0; row < 2; row++) {
        for (int k = m->sensor_adr[i]; k < m->sensor_adr[i] + m->sensor_dim[i]; k++) {
          bar[row * at(static_cast<int>(m->nsensordata)) + at(k)] = 1 + 0.3 * k;
        }
      }
      const Cotangents cotangents{.sensordata = bar, .params = parameter_names()};
      const Gradient a = rollout_pullback(analytic.model, t, cotangents),
                     b = rollout_pullback(oracle.model, u, cotangents);
      for (const auto& [field, values] : a.params) {
        const Vector& expected = b.params.at(field);
        double size = 1e-3;
        for (double x : expected) size = std::max(size, std::abs(x));
        for (size_t k = 0; k < values.size(); k++) {
          EXPECT_NEAR(values[k], expected[k], 1e-4 * size)
              << name_of(m, i) << ", " << field << "[" << k << "]";
        }
      }
    }
  }
}

Model with_sensor(const std::string& sensor, const std::string& extra = "") {
  return Model::from_xml(R"(<mujoco><worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="ball" pos="0 0 0.5"><freejoint/><geom name="ball" size="0.1"/>
      <site name="site" pos="0.05 0 0"/></body></worldbody>)" +
                         extra + "<sensor>" + sensor + "</sensor></mujoco>");
}

// beyond the cutoff a value does not change
TEST(SensorGradient, IsZeroBeyondTheCutoff) {
  const Model model =
      with_sensor(R"(<framelinvel name="v" objtype="body" objname="ball" cutoff="1"/>)");
  const Vector qvel = {2, 0.5, -3, 0, 0, 0};
  const Trajectory t = rollout(model, {.qvel = qvel}, 0, {.sensors = true});
  EXPECT_EQ(t.sensordata, (Vector{1, 0.5, -1}));
  const Vector bar = {1, 1, 1};
  const Gradient g = rollout_pullback(model, t, {.sensordata = bar});
  EXPECT_EQ(g.qvel, (Vector{0, 1, 0, 0, 0, 0}));
}

// what has no derivative is refused when it has a cotangent, not before
TEST(SensorErrors, NameTheSensor) {
  const Model model = with_sensor(R"(<rangefinder name="laser" site="site"/>
      <framepos name="place" objtype="site" objname="site"/>)");
  const Trajectory t = rollout(model, {}, 1, {.sensors = true});
  Vector bar(t.sensordata.size());
  bar[1] = 1;
  EXPECT_NO_THROW((void)rollout_pullback(model, t, {.sensordata = bar}));
  bar[0] = 1;
  try {
    (void)rollout_pullback(model, t, {.sensordata = bar});
    FAIL() << "a rangefinder has no derivative";
  } catch (const UnsupportedError& error) {
    EXPECT_NE(std::string(error.what()).find("laser"), std::string::npos) << error.what();
  }
  EXPECT_THROW((void)rollout_pullback(model, t, {.sensordata = std::span(bar).first(2)}),
               InputError);
  EXPECT_THROW((void)sensor_range(model, "lidar"), InputError);
  EXPECT_THROW((void)linearize(model, {}, true), UnsupportedError);
}

TEST(SensorErrors, NameADelay) {
  const Model model = with_sensor(R"(<gyro name="slow" site="site" nsample="3" delay="0.002"/>)");
  try {
    (void)rollout(model, {}, 1, {.sensors = true});
    FAIL() << "a delay is not supported";
  } catch (const UnsupportedError& error) {
    EXPECT_NE(std::string(error.what()).find("slow"), std::string::npos) << error.what();
  }
  // without sensors the model is served as any other
  EXPECT_TRUE(rollout(model, {}, 1).ok());
}

// flat faces: nearest points are not unique
TEST(SensorErrors, NameNearestPointsThatAreNotUnique) {
  const Model model = Model::from_xml(R"(<mujoco><worldbody>
      <geom name="table" type="box" size="0.5 0.5 0.1"/>
      <body name="box" pos="0 0 0.3"><freejoint/><geom name="box" type="box" size="0.1 0.1 0.1"/></body>
    </worldbody><sensor><fromto name="gap" geom1="box" geom2="table" cutoff="1"/>
      <distance name="height" geom1="box" geom2="table" cutoff="1"/></sensor></mujoco>)");
  const Trajectory t = rollout(model, {}, 0, {.sensors = true});
  Vector bar(7);
  bar[6] = 1;
  const Gradient g = rollout_pullback(model, t, {.sensordata = bar});
  EXPECT_NEAR(g.qpos_tangent[2], 1, 1e-6);
  bar[0] = 1;
  EXPECT_THROW((void)rollout_pullback(model, t, {.sensordata = bar}), UnsupportedError);
}

// the control at the last state is that of the last step
TEST(SensorGradient, OfTheLastStateIsInTheLastControl) {
  const Model model =
      with_sensor(R"(<actuatorfrc name="force" actuator="lift"/>)",
                  R"(<actuator><motor name="lift" site="site" gear="0 0 2 0 0 0"/></actuator>)");
  const Vector ctrl = {0.1, 0.2, 0.3};
  const Trajectory t = rollout(model, {.ctrl = ctrl}, 3, {.sensors = true});
  EXPECT_EQ(t.sensordata, (Vector{0.1, 0.2, 0.3, 0.3}));
  const Vector bar = {1, 10, 100, 1000};
  EXPECT_EQ(rollout_pullback(model, t, {.sensordata = bar}).ctrl, (Vector{1, 10, 1100}));
}

}  // namespace
}  // namespace diffmj
