// diffmj plan: from a task file to executed controls and a page.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "cli_fixture.h"

namespace diffmj::cli {
namespace {

constexpr const char* kCart = R"(<mujoco><option timestep="0.02" gravity="0 0 0"/><worldbody>
    <body name="cart"><joint name="x" type="slide" axis="1 0 0" damping="0.5"/>
      <geom name="cart" size="0.1" mass="1"/></body></worldbody>
    <actuator><motor name="push" joint="x" ctrlrange="-5 5"/></actuator>
    <keyframe><key name="away" qpos="-0.5"/></keyframe></mujoco>)";

constexpr const char* kTask = R"(model = "cart.xml"
[start]
key = "away"
[[cost]]
term = "distance"
of = "body:cart"
to = [1, 0, 0]
weight = 10
[[cost]]
term = "joint_velocity"
weight = 0.1
[[cost]]
term = "control_effort"
weight = 0.001
[planner]
method = "gradient"
horizon = 40
iterations = 10
[execution]
seconds = 2
execute = 10
)";

class PlanTest : public CliTest {
 protected:
  PlanTest() {
    write_text(dir_ / "cart.xml", kCart);
    write_text(dir_ / "task.toml", kTask);
  }
  void expect_refused(const std::string& from, const std::string& to, const std::string& text) {
    std::string task = kTask;
    task.replace(task.find(from), from.size(), to);
    write_text(dir_ / "bad.toml", task);
    expect_error("plan bad.toml", 2, text);
  }
};

TEST_F(PlanTest, EveryPlannerMovesTheCart) {
  for (const std::string planner : {"gradient", "sampling", "hybrid", "ilqr"}) {
    const Result result = diffmj("plan task.toml --planner " + planner + " --out " + planner);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("written to " + planner + "/report.html"), std::string::npos);
    const Json run = Json::parse(read_text(dir_ / planner / "run.json"));
    EXPECT_EQ(run["planner"], planner);
    EXPECT_EQ(run["nstep"], 100);
    EXPECT_EQ(run["plans"].size(), 10U);
    EXPECT_EQ(lines(result.err).size(), 10U);
    EXPECT_LT(run["plans"].back()["cost"].get<double>(),
              0.05 * run["plans"][0]["cost"].get<double>());
    // states in the form of recordings
    const std::vector<std::string> states = lines(read_text(dir_ / planner / "states.csv"));
    ASSERT_EQ(states.size(), 102U);
    EXPECT_EQ(states[0].rfind("time,qpos[0]", 0), 0U) << states[0];
    EXPECT_NE(read_text(dir_ / planner / "report.html").find("<svg"), std::string::npos);
  }
}

TEST_F(PlanTest, TheSameSeedGivesTheSameRun) {
  for (const char* out : {"a", "b"}) {
    EXPECT_EQ(
        diffmj("plan task.toml --planner sampling --seed 3 --out " + std::string(out)).exit_code,
        0);
  }
  EXPECT_EQ(read_text(dir_ / "a/states.csv"), read_text(dir_ / "b/states.csv"));
  EXPECT_EQ(diffmj("plan task.toml --planner sampling --seed 4 --out c").exit_code, 0);
  EXPECT_NE(read_text(dir_ / "a/states.csv"), read_text(dir_ / "c/states.csv"));
}

TEST_F(PlanTest, NamesWhatIsWrong) {
  expect_refused("term = \"distance\"", "term = \"dist\"", "[[cost]] 1: term 'dist' is not known");
  expect_refused("body:cart", "body:car", "the model has no body 'car'");
  expect_refused("body:cart", "cart", "of is \"cart\", expected \"site:NAME\"");
  expect_refused("[1, 0, 0]", "[1, 0]", "to is [1,0], expected");
  expect_refused("horizon", "horizn",
                 "[planner]: key 'horizn' is not known; did you mean 'horizon'?");
  expect_refused("\"gradient\"", "\"magic\"", "method 'magic' is not known");
  expect_refused("key = \"away\"", "key = \"awy\"", "awy");
  expect_refused("seconds = 2", "seconds = \"2\"", "seconds is \"2\", expected a number");
  write_text(dir_ / "none.toml", "model = \"cart.xml\"\n");
  expect_error("plan none.toml", 2, "[[cost]] is missing");
}

TEST_F(PlanTest, FollowsAReferenceOverTime) {
  std::string path = "time,x,y,z\n";
  for (int i = 0; i <= 40; i++) {
    const double t = 0.05 * i;
    path += std::to_string(t) + "," + std::to_string(-0.5 + 0.3 * std::sin(2 * t)) + ",0,0\n";
  }
  write_text(dir_ / "path.csv", path);
  const auto run = [&](const std::string& to, const std::string& out) {
    std::string task = kTask;
    task.replace(task.find("to = [1, 0, 0]"), 14, to);
    task.replace(task.find("weight = 10"), 11, "weight = 1000");
    write_text(dir_ / "moving.toml", task);
    const Result result = diffmj("plan moving.toml --planner ilqr --out " + out);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_text(dir_ / out / "states.csv");
  };
  std::istringstream states(run("to = {file = \"path.csv\"}", "moving"));
  std::string line;
  std::getline(states, line);
  double worst = 0, t = 0, x = 0;
  char comma = 0;
  while (std::getline(states, line)) {
    std::istringstream(line) >> t >> comma >> x;
    if (t > 0.5) worst = std::max(worst, std::abs(x - (-0.5 + 0.3 * std::sin(2 * t))));
  }
  EXPECT_LT(worst, 0.02);
  EXPECT_EQ(run("to = {time = [0, 1], values = [[1, 0, 0], [1, 0, 0]]}", "held"),
            run("to = [1, 0, 0]", "constant"));
  expect_refused("to = [1, 0, 0]", "to = {file = \"none.csv\"}", "none.csv: cannot be opened");
  expect_refused("to = [1, 0, 0]", "to = {time = [0, 1], values = [[1, 0, 0]]}",
                 "values is not an array of numbers for each time");
  write_text(dir_ / "path.csv", "0,1,0,0\n1,2,0\n");
  expect_refused("to = [1, 0, 0]", "to = {file = \"path.csv\"}",
                 "path.csv, line 2: there are 3 numbers, expected a time and 3");
}

TEST_F(PlanTest, KeepsWhatWasDoneAfterCtrlC) {
  std::string task = kTask;
  task.replace(task.find("seconds = 2"), 11, "seconds = 100000");
  write_text(dir_ / "long.toml", task);
  const Result result =
      shell("'" DIFFMJ_CLI
            "' plan long.toml 2> log.txt & while [ ! -s log.txt ]; do sleep 0.1; done; "
            "kill -INT $!; wait $!");
  EXPECT_EQ(result.exit_code, 130);
  const Json run = Json::parse(read_text(dir_ / "run/run.json"));
  EXPECT_EQ(run["interrupted"], true);
  EXPECT_GE(run["plans"].size(), 1U);
}

TEST_F(PlanTest, ResumesWithTheStatesOfOneRun) {
  EXPECT_EQ(diffmj("plan task.toml --planner hybrid --out whole").exit_code, 0);
  std::string task = kTask;
  task.replace(task.find("seconds = 2"), 11, "seconds = 0.9");
  write_text(dir_ / "short.toml", task);
  EXPECT_EQ(diffmj("plan short.toml --planner hybrid --out parts").exit_code, 0);
  EXPECT_NE(read_text(dir_ / "parts/states.csv"), read_text(dir_ / "whole/states.csv"));
  const Result result = diffmj("plan task.toml --planner hybrid --out parts --resume");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(lines(result.err).size(), 6U) << result.err;  // plans from step 40 on
  EXPECT_EQ(read_text(dir_ / "parts/states.csv"), read_text(dir_ / "whole/states.csv"));

  expect_error("plan task.toml --out empty --resume", 2, "empty/run.checkpoint' cannot be read");
  expect_error("plan task.toml --planner gradient --out parts --resume", 2, "another problem");
}

TEST_F(PlanTest, GoesOnAfterCtrlC) {
  std::string task = kTask;
  task.replace(task.find("seconds = 2"), 11, "seconds = 100000");
  write_text(dir_ / "long.toml", task);
  const Result result =
      shell("'" DIFFMJ_CLI
            "' plan long.toml 2> log.txt & while [ ! -s log.txt ]; do sleep 0.1; done; "
            "kill -INT $!; wait $!");
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_NE(result.out.find("continue with --resume"), std::string::npos) << result.out;
  const int before = Json::parse(read_text(dir_ / "run/run.json"))["nstep"];
  task.replace(task.find("seconds = 100000"), 16, "nstep = " + std::to_string(before + 200));
  write_text(dir_ / "more.toml", task);
  EXPECT_EQ(diffmj("plan more.toml --resume").exit_code, 0);
  EXPECT_EQ(Json::parse(read_text(dir_ / "run/run.json"))["nstep"], before + 200);
}

// The viewer's process is a script here that keeps what it is told.
TEST_F(PlanTest, ShowsStatesToAViewer) {
  write_text(dir_ / "viewer", "#!/bin/sh\necho \"$@\" > arguments.txt\ncat > shown.txt\n");
  const std::string environment = "chmod +x viewer; DIFFMJ_PYTHON=./viewer ";
  Result result = shell(environment + "'" DIFFMJ_CLI "' plan task.toml --view --no-film");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(read_text(dir_ / "arguments.txt"), "-m diffmj.view cart.xml\n");
  const std::vector<std::string> shown = lines(read_text(dir_ / "shown.txt"));
  ASSERT_EQ(shown.size(), 101U);
  EXPECT_EQ(shown[0], "0 -0.5");
  // one that ends at once: the plan goes on
  write_text(dir_ / "viewer", "#!/bin/sh\nexit 1\n");
  result = shell(environment + "'" DIFFMJ_CLI "' plan task.toml --view --no-film");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("the view was closed"), std::string::npos) << result.err;
  expect_error("plan task.toml --view", 2, "--view needs the Python package");
}

}  // namespace
}  // namespace diffmj::cli
