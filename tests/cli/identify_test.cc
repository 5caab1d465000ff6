// diffmj identify: from a problem file and logs to values, a fitted MJCF and a page.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cli_fixture.h"

namespace diffmj::cli {
namespace {

constexpr const char* kCart = R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
    <body name="cart"><joint name="x" type="slide" axis="1 0 0" damping="0.5"/>
      <geom name="cart" size="0.1" mass="MASS"/></body></worldbody>
    <actuator><motor name="push" joint="x"/></actuator></mujoco>)";

std::string cart(const std::string& mass) {
  std::string out = kCart;
  out.replace(out.find("MASS"), 4, mass);
  return out;
}

constexpr const char* kProblem = R"(model = "cart.xml"
recordings = ["log*.csv"]
[parameters]
"geom:cart/mass" = { start = 3, bounds = [0.1, 10] }
"x/damping[0]" = { bounds = [0, inf] }
[segments]
length = 10
held_out = 0.3
[weights]
qpos = 100
[fit]
method = "lm"
)";

class IdentifyTest : public CliTest {
 protected:
  IdentifyTest() {
    write_text(dir_ / "cart.xml", cart("3"));
    write_text(dir_ / "truth.xml", cart("2"));
    for (int i = 0; i < 3; i++) {
      const std::string ctrl = std::to_string(1 + i);
      const Json r = json("rollout truth.xml --nstep 40 --json --ctrl " + ctrl);
      std::string log = "time,qpos_x,qvel_x,ctrl_push\n";
      for (size_t k = 0; k < r["time"].size(); k++) {
        const auto text = [](const Json& x) { return x.dump(); };
        log += text(r["time"][k]) + "," + text(r["qpos"][k][0]) + "," + text(r["qvel"][k][0]) +
               "," + ctrl + "\n";
      }
      write_text(dir_ / ("log" + ctrl + ".csv"), log);
    }
    write_text(dir_ / "problem.toml", kProblem);
  }
  void expect_refused(const std::string& from, const std::string& to, const std::string& text) {
    std::string problem = kProblem;
    problem.replace(problem.find(from), from.size(), to);
    write_text(dir_ / "bad.toml", problem);
    expect_error("identify bad.toml", 2, text);
  }
};

TEST_F(IdentifyTest, FindsTheMassAndWritesWhatItFound) {
  const Result result = diffmj("identify problem.toml");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("written to fit/report.html"), std::string::npos) << result.out;
  const Json fit = Json::parse(read_text(dir_ / "fit/fit.json"));
  EXPECT_NEAR(fit["parameters"]["geom:cart/mass"]["value"], 2, 1e-6);
  EXPECT_NEAR(fit["parameters"]["x/damping[0]"]["value"], 0.5, 1e-6);
  EXPECT_EQ(fit["converged"], true);
  EXPECT_LT(fit["held_out"]["after"].get<double>(), 1e-9 * fit["held_out"]["before"].get<double>());
  const std::string page = read_text(dir_ / "fit/report.html");
  EXPECT_NE(page.find("Recordings held out"), std::string::npos);
  // what was fitted is the true model
  const Json again = json("rollout fit/fitted.xml --nstep 40 --json --ctrl 2"),
             truth = json("rollout truth.xml --nstep 40 --json --ctrl 2");
  EXPECT_NEAR(again["qpos"][40][0], truth["qpos"][40][0], 1e-6);
}

TEST_F(IdentifyTest, GoesOnFromItsCheckpoint) {
  EXPECT_EQ(diffmj("identify problem.toml --iterations 1 --out one").exit_code, 0);
  EXPECT_GT(std::abs(Json::parse(
                         read_text(dir_ / "one/fit.json"))["parameters"]["geom:cart/mass"]["value"]
                         .get<double>() -
                     2),
            1e-3);
  EXPECT_EQ(diffmj("identify problem.toml --out one --resume").exit_code, 0);
  const Json fit = Json::parse(read_text(dir_ / "one/fit.json"));
  EXPECT_NEAR(fit["parameters"]["geom:cart/mass"]["value"], 2, 1e-6);
  EXPECT_EQ(fit["history"][0]["iteration"], 0);
  EXPECT_EQ(fit["history"][1]["iteration"], 1);
}

TEST_F(IdentifyTest, KeepsTheBestAfterCtrlC) {
  std::string problem = kProblem;
  problem.replace(problem.find("method = \"lm\""), 13, "iterations = 10000000");
  write_text(dir_ / "long.toml", problem);
  const Result result =
      shell("'" DIFFMJ_CLI
            "' identify long.toml & while [ ! -e fit/checkpoint.txt ]; do sleep 0.1; done; "
            "sleep 0.5; kill -INT $!; wait $!");
  EXPECT_EQ(result.exit_code, 130);
  const Json fit = Json::parse(read_text(dir_ / "fit/fit.json"));
  EXPECT_EQ(fit["interrupted"], true);
  EXPECT_LE(fit["loss"].get<double>(), fit["history"][0]["loss"].get<double>());
  EXPECT_NE(read_text(dir_ / "fit/report.html").find("It was interrupted"), std::string::npos);
}

TEST_F(IdentifyTest, TakesOptionsOfTheSimulator) {
  write_text(dir_ / "tsit.toml", std::string(kProblem) +
                                     "[simulator]\nintegrator = \"tsit5\"\nrtol = 1e-9\ncfd = "
                                     "\"0.1\"\ncfd_controls_steps = false\n");
  EXPECT_EQ(diffmj("identify tsit.toml").exit_code, 0);
  const Json fit = Json::parse(read_text(dir_ / "fit/fit.json"));
  // Euler's steps are of first order
  EXPECT_NEAR(fit["parameters"]["geom:cart/mass"]["value"], 2, 0.05);
  EXPECT_GT(std::abs(fit["parameters"]["geom:cart/mass"]["value"].get<double>() - 2), 1e-6);
}

TEST_F(IdentifyTest, NamesWhatIsWrong) {
  expect_refused("method", "metod", "[fit]: key 'metod' is not known; did you mean 'method'?");
  expect_refused("length = 10", "length = \"ten\"", "length is \"ten\", expected a whole number");
  expect_refused("[fit]", "[fit", "bad.toml, line ");
  expect_refused("[fit]", "[fit]\nloss = \"square\"", "use linear, soft_l1, huber or cauchy");
  expect_refused("[fit]", "[fit]\nloss_scale = -1", "scale of the loss is -1");
  expect_refused("log*.csv", "logs*.csv", "no file matches 'logs*.csv'");
  expect_refused("x/damping", "x/dampng", "has no numbers dampng");
  expect_refused("[0.1, 10]", "[0.1]", "bounds has 1 numbers, expected two");
  expect_refused("start = 3", "start = [1, 2]", "start has 2 numbers, expected 1 or 1");
  expect_refused("start = 3", "start = 30", "starts at 30, expected between its bounds");
  expect_refused("[weights]", "[weights]\nqvel = [1, 2]", "weights of qvel");
  expect_refused("model = \"cart.xml\"\n", "", "model is missing, expected a string");
  expect_refused("[fit]", "[simulator]\nrtoll = 1\n[fit]",
                 "[simulator]: key 'rtoll' is not known; did you mean 'rtol'?");
  expect_refused("[fit]", "[simulator]\nrtol = 1e-3\n[fit]", "rtol is for diffmj's");
  expect_error("identify missing.toml", 2, "missing.toml");
}

}  // namespace
}  // namespace diffmj::cli
