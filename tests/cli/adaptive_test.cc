// The command line with explicit Runge-Kutta methods: options, statistics, steps, failures.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cli_fixture.h"

namespace diffmj::cli {
namespace {

TEST_F(CliTest, AdaptiveRolloutIsTheClosedForm) {
  const Json r = json(
      "rollout slider.xml --key moving --ctrl 4 --integrator tsit5 --interval 0.25 --nstep 4 "
      "--json");
  EXPECT_EQ(r["model"]["integrator"], "tsit5");
  ASSERT_EQ(r["time"].size(), 5U);
  for (size_t i = 0; i < 5; i++) {
    const double t = 0.25 * static_cast<double>(i);
    EXPECT_NEAR(r["time"][i], t, 1e-15);
    EXPECT_NEAR(r["qvel"][i][0], 3 + 2 * t, 1e-12);
    EXPECT_NEAR(r["qpos"][i][0], 0.5 + 3 * t + t * t, 1e-12);
  }
  const Json& s = r["integrator"];
  EXPECT_GE(s["accepted"], 4);
  EXPECT_EQ(s["rejected"], 0);
  EXPECT_GE(s["evaluations"].get<int>(), 6 * s["accepted"].get<int>());
  EXPECT_GT(s["smallest_step"], 0);
  EXPECT_GE(s["largest_step"], s["smallest_step"]);
  EXPECT_EQ(s["end_time"], 1);
  EXPECT_FALSE(json("rollout slider.xml --json").contains("integrator"));
}

TEST_F(CliTest, EveryAdaptiveOptionIsRead) {
  const std::string run = "rollout slider.xml --nstep 1 --json --integrator ";
  const Json given =
      json(run +
           "dopri5 --rtol 1e-3 --atol 1e-4 --max-steps 70 --interval 0.5 --control linear "
           "--events false --min-step 1e-9 --max-step 0.2 --pid 0.1 0.3 0.05 --safety 0.8 "
           "--step-ratio 0.3 5 "
           "--adjoint interpolated --checkpoints 3 --adjoint-rtol 1e-5 --adjoint-atol 1e-6");
  EXPECT_EQ(given["adaptive"], Json({{"rtol", 1e-3},
                                     {"atol", 1e-4},
                                     {"max_steps", 70},
                                     {"min_step", 1e-9},
                                     {"max_step", 0.2},
                                     {"pid", {0.1, 0.3, 0.05}},
                                     {"safety", 0.8},
                                     {"step_ratio", {0.3, 5.0}},
                                     {"interval", 0.5},
                                     {"control", "linear"},
                                     {"events", false},
                                     {"adjoint", "interpolated"},
                                     {"checkpoints", 3},
                                     {"adjoint_rtol", 1e-5},
                                     {"adjoint_atol", 1e-6}}));
  const Json defaults = json(run + "bosh3");
  EXPECT_EQ(defaults["adaptive"], Json({{"rtol", 1e-6},
                                        {"atol", 1e-8},
                                        {"max_steps", 100000},
                                        {"min_step", 1e-12},
                                        {"pid", {0.2, 0.6, 0.0}},
                                        {"safety", 0.9},
                                        {"step_ratio", {0.2, 10.0}},
                                        {"interval", 0.01},
                                        {"control", "hold"},
                                        {"events", true},
                                        {"adjoint", "discrete"}}));
  for (const std::string method : {"explicit_euler", "heun", "midpoint", "ralston", "dopri8"}) {
    const Json constant = json(run + method + " --step 0.0025");
    EXPECT_EQ(constant["model"]["integrator"], method);
    EXPECT_EQ(constant["adaptive"]["step"], 0.0025);
    EXPECT_EQ(constant["integrator"]["accepted"], 4);
  }
}

TEST_F(CliTest, AdaptiveOptionsNeedAMethod) {
  for (const std::string command : {"check", "grad", "rollout"}) {
    for (const std::string option :
         {"--rtol 1", "--atol 1", "--max-steps 9", "--step 1", "--interval 1", "--control hold",
          "--events true", "--onset 1e-3", "--adjoint discrete", "--checkpoints 2",
          "--adjoint-rtol 1", "--adjoint-atol 1", "--min-step 1", "--max-step 1", "--pid 1 1 1",
          "--safety .5", "--step-ratio .5 2"}) {
      std::string name = option.substr(2, option.find(' ') - 2);
      std::replace(name.begin(), name.end(), '-', '_');
      std::string run = command + " slider.xml ";
      run += option;
      expect_error(run, 2, name + " is for diffmj's Runge-Kutta");
    }
    expect_error(command + " slider.xml --integrator RK4 --rtol 1", 2, "integrator is 'RK4'");
  }
  expect_error("rollout slider.xml --steps-output s.csv", 2, "--steps-output");
  EXPECT_FALSE(fs::exists(dir_ / "s.csv"));
}

TEST_F(CliTest, WrongAdaptiveOptionIsOneLine) {
  const std::string run = "rollout slider.xml --integrator ";
  expect_error(run + "tsit6", 2, "tsit5");
  expect_error(run + "explicit_euler", 2, "constant step");
  expect_error(run + "tsit5 --rtol -1", 2, "rtol is -1");
  expect_error(run + "tsit5 --rtol 0 --atol 0", 2, "rtol and atol are 0");
  expect_error(run + "tsit5 --atol nan", 2, "atol is nan");
  expect_error(run + "tsit5 --max-steps 0", 2, "max_steps is 0");
  expect_error(run + "tsit5 --max-step 0", 2, "max_step is 0");
  expect_error(run + "tsit5 --pid 1 0 1", 2, "i (of pid) is 0");
  expect_error(run + "tsit5 --pid 1 1", 2, "--pid");
  expect_error(run + "tsit5 --safety 1", 2, "safety is 1");
  expect_error(run + "tsit5 --step-ratio 2 3", 2, "shrink (of step_ratio) is 2");
  expect_error(run + "tsit5 --step 0", 2, "step is 0, expected a time > 0");
  expect_error(run + "tsit5 --step inf", 2, "step is inf");
  expect_error(run + "tsit5 --interval -1", 2, "interval is -1, expected a time > 0");
  expect_error(run + "tsit5 --control cubic", 2, "use hold or linear");
  expect_error(run + "tsit5 --events maybe", 2, "--events");
  expect_error(run + "tsit5 --adjoint reverse", 2, "use discrete, interpolated or backsolve");
  expect_error(run + "tsit5 --checkpoints 0", 2, "checkpoints is 0");
  expect_error(run + "tsit5 --adjoint-rtol -1", 2, "adjoint_rtol is -1");
}

TEST_F(CliTest, StepsHaveARowEach) {
  const Json r = json("rollout " + zoo("joints_ball") +
                      " --key 0 --integrator tsit5 --interval 0.05 --nstep 6 --json "
                      "--steps-output steps.csv");
  const std::vector<std::string> rows = lines(read_text(dir_ / "steps.csv"));
  ASSERT_EQ(rows.size(), 1 + r["integrator"]["accepted"].get<size_t>());
  EXPECT_EQ(rows[0], "interval,time,size,implicit");
  double end = 0;
  int last = 0;
  for (size_t n = 1; n < rows.size(); n++) {
    int interval = 0;
    int implicit = -1;
    double time = 0, size = 0;
    ASSERT_EQ(std::sscanf(rows[n].c_str(), "%d,%lf,%lf,%d", &interval, &time, &size, &implicit), 4)
        << rows[n];
    EXPECT_EQ(implicit, 0);
    EXPECT_NEAR(time, end, 1e-12);
    EXPECT_GE(time, 0.05 * interval - 1e-12);
    EXPECT_LE(time + size, 0.05 * (interval + 1) + 1e-12);
    EXPECT_TRUE(interval == last || interval == last + 1) << rows[n];
    last = interval;
    end = time + size;
  }
  EXPECT_EQ(last, 5);
  EXPECT_NEAR(end, 0.3, 1e-12);
  // CSV on stdout, steps in their file
  const Result csv = diffmj("rollout slider.xml --integrator tsit5 --steps-output again.csv");
  EXPECT_EQ(csv.exit_code, 0);
  EXPECT_EQ(lines(csv.out).size(), 102U);
  EXPECT_GE(lines(read_text(dir_ / "again.csv")).size(), 101U);
  expect_error("rollout slider.xml --integrator tsit5 --steps-output nowhere/s.csv", 2, "nowhere");
}

TEST_F(CliTest, ImplicitStepsAreCounted) {
  const Json r = json("rollout slider.xml --integrator rodas4p --json --steps-output steps.csv");
  EXPECT_EQ(r["integrator"]["implicit"], r["integrator"]["accepted"]);
  EXPECT_EQ(lines(read_text(dir_ / "steps.csv"))[1].back(), '1');
  expect_error("grad slider.xml --integrator auto --adjoint discrete", 2, "second derivatives");
}

TEST_F(CliTest, ControlsMayBeLinear) {
  write_text(dir_ / "ctrl.csv", "0\n2\n4\n");
  const std::string run =
      " slider.xml --ctrl-file ctrl.csv --integrator tsit5 --interval 0.1 --control ";
  // v = Σ T mean(u) / m; the last control is held
  EXPECT_NEAR(json("rollout" + run + "linear --json")["qvel"][3][0], 0.1 * (1 + 3 + 4) / 2, 1e-12);
  EXPECT_NEAR(json("rollout" + run + "hold --json")["qvel"][3][0], 0.1 * (0 + 2 + 4) / 2, 1e-12);
  const Json g = json("grad" + run + "linear --loss qvel")["gradient"]["ctrl"];
  const double expected[] = {0.5, 1, 1.5};
  for (size_t i = 0; i < 3; i++) EXPECT_NEAR(g[i][0], 0.1 / 2 * expected[i], 1e-12);
}

TEST_F(CliTest, AdjointsAgreeAndSayWhatTheyDid) {
  const std::string run = "grad " + zoo("joints_ball") +
                          " --key 0 --integrator tsit5 --rtol 1e-9 --atol 1e-9 --nstep 5 "
                          "--interval 0.05";
  const Json discrete = json(run);
  EXPECT_EQ(discrete["outcome"], "success");
  EXPECT_EQ(discrete["adjoint"], Json({{"name", "discrete"}, {"recomputed", 0}}));
  EXPECT_GT(discrete["integrator"]["accepted"], 5);

  const Json few = json(run + " --checkpoints 2");
  EXPECT_EQ(few["gradient"], discrete["gradient"]);
  EXPECT_GT(few["adjoint"]["recomputed"], 0);

  for (const std::string adjoint : {"interpolated", "backsolve"}) {
    std::string with_adjoint = run + " --adjoint ";
    with_adjoint += adjoint;
    const Json other = json(with_adjoint);
    EXPECT_EQ(other["adjoint"]["name"], adjoint);
    EXPECT_GT(other["adjoint"]["accepted"], 0);
    EXPECT_GT(other["adjoint"]["evaluations"], 0);
    const Json &a = discrete["gradient"]["qvel"], &b = other["gradient"]["qvel"];
    for (size_t i = 0; i < a.size(); i++) {
      EXPECT_NEAR(a[i], b[i], 1e-5 * (1 + std::abs(a[i].get<double>())));
    }
  }
}

// each of the ways in which adaptive steps end early: the rows there are, one line, exit code 4
TEST_F(CliTest, AdaptiveRolloutThatFailsPrintsWhatThereIs) {
  struct Case {
    std::string run, outcome, message;
    size_t least_rows;
  };
  const std::string plane = "rollout " + zoo("contact_plane") + " --integrator tsit5";
  for (const Case& one :
       {Case{plane + " --max-steps 5", "budget exhausted", "max_steps = 5", 2},
        Case{plane + " --rtol 0 --atol 1e-30", "step too small", "larger tolerance", 1},
        Case{"rollout diverging.xml --key off --integrator dopri5", "not finite", "diverged", 1}}) {
    const Result csv = diffmj(one.run + " --steps-output steps.csv");
    EXPECT_EQ(csv.exit_code, 4) << one.run;
    expect_one_error_line(csv.err, one.message);
    EXPECT_GE(lines(csv.out).size(), 1 + one.least_rows) << one.run;
    EXPECT_LT(lines(csv.out).size(), 102U) << one.run;
    const Result text = diffmj(one.run + " --json");
    EXPECT_EQ(text.exit_code, 4);
    expect_one_error_line(text.err, one.message);
    const Json r = Json::parse(text.out);
    EXPECT_EQ(r["outcome"], one.outcome);
    EXPECT_EQ(r["qpos"].size(), lines(csv.out).size() - 1);
    EXPECT_GE(r["integrator"]["end_time"], r["time"].back());
    EXPECT_EQ(r["integrator"]["end_qpos"].size(), r["qpos"][0].size());
    // steps after the last row are there too
    EXPECT_EQ(lines(read_text(dir_ / "steps.csv")).size() - 1, r["integrator"]["accepted"]);
    std::string other = one.run;
    other.replace(0, 7, "grad");
    expect_error(other, 4, one.message);
    other.replace(0, 4, "check");
    expect_error(other + " --settle 0 --nstep 20", 4, one.message);
  }
  expect_error(plane + " --max-steps 5 --settle 0.1", 4, "while settling: max_steps = 5");
}

// intervals, not timesteps, are what settling is made of
TEST_F(CliTest, SettlingTakesWholeIntervals) {
  const Json r = json(
      "rollout slider.xml --key moving --integrator tsit5 --interval 0.2 --settle 0.5 --nstep 1 "
      "--json");
  EXPECT_NEAR(r["time"][0], 0.6, 1e-12);
  EXPECT_NEAR(r["qpos"][0][0], 0.5 + 0.6 * 3, 1e-12);
  EXPECT_NE(std::string(r["start"]).find("settled for 0.6 s"), std::string::npos);
}

TEST_F(CliTest, CheckOfAdaptiveSteps) {
  const std::string run = "check " + zoo("contact_plane_ell") +
                          " --key 0 --nstep 3 --integrator tsit5 --interval 0.004 --rtol 1e-4";
  const Result text = diffmj(run + " --adjoint backsolve");
  EXPECT_EQ(text.exit_code, 0) << text.out;
  for (const char* words : {"3 intervals of 0.004 s", "tsit5, adaptive with rtol 0.0001",
                            "the check compares the discrete"}) {
    EXPECT_NE(text.out.find(words), std::string::npos) << words << " is not in\n" << text.out;
  }
  const Json r = json(run + " --json");
  EXPECT_EQ(r["verdict"], "passed");
  EXPECT_EQ(r["adaptive"]["rtol"], 1e-4);
  EXPECT_LT(r["oracle_difference"], 1e-6);
}

// a capsule that topples: its contact begins and ends again and again
TEST_F(CliTest, ChatterIsAWarning) {
  write_text(dir_ / "topple.xml", R"(<mujoco><worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/><body pos="0 0 .1"><freejoint/>
    <geom name="rod" type="capsule" size=".05 .05"/></body></worldbody>
    <keyframe><key qpos="0 0 .1 1 0 0 0" qvel=".3 0 0 0 3 0"/></keyframe></mujoco>)");
  const std::string what = "chatter: contact of geom 'floor' and geom 'rod'",
                    run = "topple.xml --key 0 --nstep 150 --integrator tsit5 --rtol 1e-5";
  for (const std::string command : {"rollout ", "grad --csv "}) {
    const Result result = diffmj(command + run);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.err.find("diffmj: warning: " + what), std::string::npos) << result.err;
  }
  const Json r = json("rollout " + run + " --json");
  int found = 0;
  for (const Json& warning : r["warnings"]) {
    if (warning["kind"] != "chatter") continue;
    found++;
    EXPECT_EQ(std::string(warning["text"]).rfind(what, 0), 0U) << warning;
  }
  EXPECT_EQ(found, 1);
  const Result checked = diffmj("check " + run + " --directions 1");
  EXPECT_NE(checked.out.find("chatter: contact of"), std::string::npos) << checked.out;
}

}  // namespace
}  // namespace diffmj::cli
