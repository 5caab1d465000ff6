// The command line: exit codes, what is on stdout, what is on stderr.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cli_fixture.h"

namespace diffmj::cli {
namespace {

TEST_F(CliTest, VersionNamesBothMujocos) {
  const Result result = diffmj("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(lines(result.out).size(), 1U);
  for (const char* word : {"diffmj 0.", "MuJoCo", "compiled", "loaded"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << result.out;
  }
}

TEST_F(CliTest, HelpHasExamples) {
  for (const std::string command :
       {"", "check", "completion", "doctor", "grad", "identify", "plan", "rollout"}) {
    const Result result = diffmj(command + " --help");
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_NE(result.out.find("Examples:\n  diffmj " + command), std::string::npos) << result.out;
    for (const std::string& line : lines(result.out)) EXPECT_LE(line.size(), 120U) << line;
  }
}

TEST_F(CliTest, WrongUsageIsOneLine) {
  expect_error("", 2, "subcommand");
  expect_error("nonsense", 2, "nonsense");
  expect_error("check", 2, "MODEL");
  expect_error("rollout slider.xml --nonsense", 2, "--nonsense");
  expect_error("rollout slider.xml --nstep many", 2, "--nstep");
  expect_error("rollout slider.xml --nstep -1", 2, "nstep is -1");
  expect_error("rollout slider.xml --nstep 3000000000", 2, "--nstep");
  expect_error("rollout slider.xml --nstep 2000000000", 2, "GB");
  expect_error("rollout slider.xml --settle -1", 2, "--settle");
  expect_error("rollout slider.xml --settle nan", 2, "--settle");
  expect_error("rollout slider.xml --integrator leapfrog", 2, "implicitfast");
  expect_error("rollout slider.xml --key nowhere", 2, "moving");
  expect_error("rollout slider.xml --key 5", 2, "keyframe 5");
  expect_error("check slider.xml --tolerance nan", 2, "--tolerance");
  expect_error("check slider.xml --directions 0", 2, "--directions");
  expect_error("check slider.xml --nstep 0", 2, "--nstep");
}

TEST_F(CliTest, ErrorsSuggestTheNearestName) {
  expect_error("rolout slider.xml", 2, "did you mean 'rollout'?");
  expect_error("rollout slider.xml --nstp 3", 2, "did you mean '--nstep'?");
  expect_error("rollout slider.xml --nstp=3", 2, "diffmj rollout has no option --nstp;");
  expect_error("rollout slidr.xml", 2, "did you mean 'slider.xml'?");
  expect_error("rollout slider.xml --integrator tsit6", 2, "did you mean 'tsit5'?");
  expect_error("rollout slider.xml --key movin", 2, "did you mean 'moving'?");
  expect_error("grad slider.xml --loss qpso", 2, "did you mean 'qpos'?");
  expect_error("completion bsh", 2, "did you mean 'bash'?");
  // but not a name that has little in common
  EXPECT_EQ(diffmj("nonsense").err.find("did you mean"), std::string::npos);
}

// The script is generated from the options: what bash then offers is what they are.
TEST_F(CliTest, BashCompletes) {
  const auto complete = [&](const std::string& words, int n) {
    const Result result = shell("bash -c 'eval \"$('\"'\"'" DIFFMJ_CLI
                                "'\"'\"' completion bash)\"; compopt() { :; }; "
                                "COMP_WORDS=(" +
                                words + "); COMP_CWORD=" + std::to_string(n) +
                                "; _diffmj; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
    EXPECT_EQ(result.err, "");
    return lines(result.out);
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(complete("diffmj ro", 1), Words({"rollout"}));
  EXPECT_EQ(complete("diffmj rollout slid", 2), Words({"slider.xml"}));
  EXPECT_EQ(complete("diffmj rollout slider.xml --nst", 3), Words({"--nstep"}));
  EXPECT_EQ(complete("diffmj rollout slider.xml --integrator tsi", 4), Words({"tsit5"}));
  EXPECT_EQ(complete("diffmj plan task.toml --planner i", 4), Words({"ilqr"}));
  EXPECT_EQ(complete("diffmj completion z", 2), Words({"zsh"}));
}

TEST_F(CliTest, CompletionKnowsEverySubcommandAndOption) {
  for (const std::string shell : {"bash", "fish", "zsh"}) {
    const Result script = diffmj("completion " + shell);
    EXPECT_EQ(script.exit_code, 0);
    for (const char* word : {"check", "doctor", "grad", "identify", "plan", "rollout", "nstep",
                             "integrator", "implicitfast", "no-film", "cfd"}) {
      EXPECT_NE(script.out.find(word), std::string::npos) << shell << " lacks " << word;
    }
  }
}

TEST_F(CliTest, DoctorTestsTheInstallation) {
  const Result result = diffmj("doctor");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_EQ(lines(result.out)[0], "works: all self-tests passed");
  for (const char* word : {"diffmj  ", "MuJoCo  ", "libmujoco", "compiler", "threads", "memory",
                           "ok: a rollout of 40 steps has the bits of mj_step"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word << " is not in\n" << result.out;
  }
}

TEST_F(CliTest, WrongModelIsOneLine) {
  for (const std::string command : {"check", "grad", "rollout"}) {
    expect_error(command + " nowhere.xml", 2, "nowhere.xml");
    expect_error(command + " .", 2, "not a file");
    expect_error(command + " malformed.xml", 2, "nonsense");
    expect_error(command + " not_xml.xml", 2, "not_xml.xml");
    expect_error(command + " empty.xml", 2, "nv = 0");
  }
}

TEST_F(CliTest, WrongControlIsOneLine) {
  write_text(dir_ / "wide.csv", "1\n2,3\n");
  write_text(dir_ / "words.csv", "u0\n1\n");
  write_text(dir_ / "comment.csv", "# nothing here\n\n");
  write_text(dir_ / "three.csv", "1\n2\n3\n");
  for (const std::string command : {"check", "grad", "rollout"}) {
    const std::string begin = command + " slider.xml --ctrl";
    expect_error(begin + " '1 2'", 2, "expected 1 (nu");
    expect_error(begin + " nan", 2, "ctrl[0] is nan");
    expect_error(begin + " -inf", 2, "ctrl[0] is -inf");
    expect_error(begin + " one", 2, "'one' is not a number");
    expect_error(begin + "-file nowhere.csv", 2, "nowhere.csv");
    expect_error(begin + "-file .", 2, "--ctrl-file .");
    expect_error(begin + "-file wide.csv", 2, "line 2 has 2 numbers, expected 1");
    expect_error(begin + "-file words.csv", 2, "line 1: 'u0' is not a number");
    expect_error(begin + "-file comment.csv", 2, "no numbers");
    expect_error(begin + "-file three.csv --nstep 5", 2, "3 rows, expected 5");
    expect_error(begin + "-file three.csv --ctrl 1", 2, "--ctrl");
  }
}

TEST_F(CliTest, RolloutCsvHasARowPerState) {
  const Result result = diffmj("rollout slider.xml --nstep 4 --key moving");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const std::vector<std::string> rows = lines(result.out);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0], "time,qpos[0],qvel[0]");
  EXPECT_EQ(rows[1], "0,0.5,3");
  EXPECT_EQ(lines(diffmj("rollout slider.xml").out).size(), 102U);
}

TEST_F(CliTest, RolloutJsonHoldsTheStates) {
  const Json r = json("rollout slider.xml --nstep 4 --key moving --ctrl -2 --json");
  EXPECT_EQ(r["model"]["nu"], 1);
  ASSERT_EQ(r["time"].size(), 5U);
  ASSERT_EQ(r["qpos"].size(), 5U);
  EXPECT_EQ(r["act"][0].size(), 0U);
  // v = v0 + n h u / m
  EXPECT_NEAR(r["qvel"][4][0], 3 - 4 * 0.01, 1e-12);
}

TEST_F(CliTest, ControlFileSetsTheSteps) {
  write_text(dir_ / "ctrl.csv", "# force\n1\n\n-2\r\n+4\n");
  const Json r = json("rollout slider.xml --ctrl-file ctrl.csv --json");
  ASSERT_EQ(r["qvel"].size(), 4U);
  EXPECT_NEAR(r["qvel"][3][0], 0.01 * (1 - 2 + 4) / 2, 1e-14);
  write_text(dir_ / "one.csv", "2");
  EXPECT_NEAR(json("rollout slider.xml --ctrl-file one.csv --nstep 7 --json")["qvel"][7][0], 0.07,
              1e-14);
}

TEST_F(CliTest, SettlingComesFirst) {
  const Json r = json("rollout slider.xml --key moving --settle 0.5 --nstep 1 --json");
  EXPECT_NEAR(r["time"][0], 0.5, 1e-12);
  EXPECT_NEAR(r["qpos"][0][0], 0.5 + 0.5 * 3, 1e-12);
  EXPECT_NE(std::string(r["start"]).find("settled for 0.5 s"), std::string::npos);
}

TEST_F(CliTest, DivergedRolloutPrintsWhatThereIs) {
  const std::string run = "rollout diverging.xml --key off --nstep 50";
  const Result csv = diffmj(run);
  EXPECT_EQ(csv.exit_code, 4);
  EXPECT_GT(lines(csv.out).size(), 2U);
  EXPECT_LT(lines(csv.out).size(), 52U);
  expect_one_error_line(csv.err, "diverged");
  const Result text = diffmj(run + " --json");
  EXPECT_EQ(text.exit_code, 4);
  expect_one_error_line(text.err, "joint 'x'");
  const Json r = Json::parse(text.out);
  EXPECT_NE(r["outcome"], "success");
  EXPECT_EQ(r["qpos"].size(), lines(csv.out).size() - 1);
  EXPECT_EQ(text.out.find("nan"), std::string::npos);
}

TEST_F(CliTest, DivergedRolloutHasNoGradient) {
  expect_error("grad diverging.xml --key off", 4, "diverged");
  expect_error("check diverging.xml --key off", 4, "diverged");
  expect_error("rollout diverging.xml --key off --settle 1", 4, "while settling");
}

TEST_F(CliTest, GradIsTheClosedForm) {
  const Json r = json("grad slider.xml --nstep 20 --key moving --loss '2*qpos[0] - 0.5*qvel[x]'");
  constexpr double h = 0.01, m = 2;
  EXPECT_EQ(r["outcome"], "success");
  EXPECT_EQ(r["path"], "analytic");
  EXPECT_NEAR(r["loss"]["value"], 2 * (0.5 + 20 * h * 3) - 0.5 * 3, 1e-12);
  const Json& g = r["gradient"];
  EXPECT_NEAR(g["qpos"][0], 2, 1e-9);
  EXPECT_NEAR(g["qpos_tangent"][0], 2, 1e-9);
  EXPECT_NEAR(g["qvel"][0], 2 * 20 * h - 0.5, 1e-9);
  ASSERT_EQ(g["ctrl"].size(), 20U);
  ASSERT_EQ(g["qfrc_applied"].size(), 20U);
  for (size_t k = 0; k < 20; k++) {
    // a force in step k changes v by h / m and q by (n - k) h times that
    const double exact = h / m * (2 * static_cast<double>(20 - k) * h - 0.5);
    EXPECT_NEAR(g["ctrl"][k][0], exact, 1e-9);
    EXPECT_NEAR(g["qfrc_applied"][k][0], exact, 1e-9);
  }
}

TEST_F(CliTest, EveryStepAddsTheLoss) {
  const Json r = json("grad slider.xml --nstep 4 --key moving --loss qpos --every-step");
  EXPECT_NEAR(r["loss"]["value"], 5 * 0.5 + 0.01 * 3 * (1 + 2 + 3 + 4), 1e-12);
  EXPECT_NEAR(r["gradient"]["qvel"][0], 0.01 * 10, 1e-9);
}

TEST_F(CliTest, GradCsvHasARowPerEntry) {
  const Json sizes = json("grad " + zoo("act_basic") + " --nstep 3")["model"];
  const Result result = diffmj("grad " + zoo("act_basic") + " --nstep 3 --csv");
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<std::string> rows = lines(result.out);
  EXPECT_EQ(rows[0], "name,step,index,value");
  const auto n = [&sizes](const char* name) { return sizes[name].get<size_t>(); };
  EXPECT_EQ(rows.size(), 2 + n("nq") + 2 * n("nv") + n("na") + 3 * (n("nu") + n("nv")));
  for (const std::string& row : rows) EXPECT_EQ(std::count(row.begin(), row.end(), ','), 3) << row;
}

// a surrogate says so
TEST_F(CliTest, MuscleSmoothing) {
  const std::string run = "grad " + zoo("act_muscle_joint") + " --key test --nstep 2";
  const Json exact = json(run), smooth = json(run + " --muscle-smoothing 0.1");
  EXPECT_EQ(exact["muscle_smoothing"], 0);
  EXPECT_EQ(smooth["muscle_smoothing"], 0.1);
  EXPECT_EQ(exact["loss"], smooth["loss"]);
  EXPECT_NE(exact["gradient"]["ctrl"], smooth["gradient"]["ctrl"]);
  expect_error(run + " --muscle-smoothing -1", 2, "expected a width");
}

// colliders of the rollout, or of the gradient alone
TEST_F(CliTest, Collisions) {
  const std::string run = "grad " + zoo("humanoid") + " --settle 0.5 --nstep 20";
  const Json exact = json(run), smooth = json(run + " --collisions smooth --smoothness 0.01"),
             backward = json(run + " --collisions smooth-backward --smoothness 0.01");
  EXPECT_EQ(exact["collisions"], "mujoco");
  EXPECT_EQ(smooth["collisions"], "smooth");
  EXPECT_EQ(backward["collisions"], "smooth-backward");
  EXPECT_NE(exact["loss"], smooth["loss"]);
  EXPECT_EQ(exact["loss"], backward["loss"]);
  // on a floor there is nothing to smooth in its gradient
  EXPECT_EQ(exact["gradient"]["qpos"], backward["gradient"]["qpos"]);
  expect_error(run + " --collisions smooth --smoothness 0", 2, "expected a width > 0");
  expect_error(run + " --collisions soft", 2,
               "use mujoco, smooth, smooth-backward or smooth-field");
}

TEST_F(CliTest, LossNamesJoints) {
  const std::string run = "grad " + zoo("humanoid") + " --nstep 2 --csv --loss ";
  EXPECT_EQ(diffmj(run + "'qpos[root,2]'").out, diffmj(run + "'qpos[2]'").out);
  EXPECT_EQ(diffmj(run + "'qpos[waist_z]'").out, diffmj(run + "'qpos[7]'").out);
  EXPECT_EQ(diffmj(run + "'qvel[waist_z]'").out, diffmj(run + "'qvel[6]'").out);
  EXPECT_EQ(diffmj(run + "sum").out, diffmj(run + "'qpos + qvel+act'").out);
  expect_error(run + "'qpos[root]'", 2, "qpos[root,0]");
}

TEST_F(CliTest, LossNamesElements) {
  // the body of the slider is at (q, 0, 0) and moves with q'
  const std::string start = "grad slider.xml --nstep 20 --key moving --loss ";
  EXPECT_EQ(json(start + "'xpos[1,0]'")["gradient"], json(start + "'qpos[x]'")["gradient"]);
  EXPECT_EQ(json(start + "'geom_xpos[0,0]'")["gradient"], json(start + "'qpos[x]'")["gradient"]);
  EXPECT_EQ(json(start + "'body_linvel[1,0]'")["gradient"], json(start + "'qvel[x]'")["gradient"]);
  EXPECT_EQ(json(start + "'body_linvel[1,0]'")["loss"]["value"], 3);
  // a rotation matrix that does not turn
  const Json still = json(start + "'2*xmat[1,0] - xmat[1,8] + 4*xpos[world,0]'");
  EXPECT_EQ(still["loss"]["value"], 1);
  EXPECT_EQ(still["gradient"]["qpos"][0], 0);
  // --every-step adds over the states
  const Json every = json(start + "'xpos[1,0] + qvel' --every-step");
  EXPECT_EQ(every["gradient"], json(start + "'qpos + qvel' --every-step")["gradient"]);
  EXPECT_NEAR(every["loss"]["value"], json(start + "'qpos + qvel' --every-step")["loss"]["value"],
              1e-12);

  const std::string run = "grad " + zoo("humanoid") + " --nstep 2 --csv --loss ";
  EXPECT_EQ(diffmj(run + "'xpos[pelvis,2]'").out, diffmj(run + "'xpos[1,2]'").out);
  EXPECT_EQ(diffmj(run + "'geom_xmat'").exit_code, 0);
  expect_error(run + "'xpos[pelvis]'", 2, "xpos of body 'pelvis' has 3 entries");
  expect_error(run + "'xquat[pelvis,4]'", 2, "'4' is not an index of xquat of body 'pelvis'");
  expect_error(run + "'xpos[999,0]'", 2, "'999' is not an index of xpos");
  expect_error(run + "'xpos[tail,0]'", 2, "'tail' is not in the model; it has body 'world'");
  expect_error(start + "'site_xpos[tip,0]'", 2, "'tip' is not in the model; it has none");
}

TEST_F(CliTest, LossOfSensors) {
  const std::string run = "grad " + zoo("sensors") + " --key test --nstep 2 --csv --loss ";
  // a sensor of a joint is the joint
  EXPECT_EQ(diffmj(run + "\"2*sensor('jointpos')[0]\"").out, diffmj(run + "'2*qpos[elbow]'").out);
  EXPECT_EQ(diffmj(run + "\"sensor('jointvel')\"").out, diffmj(run + "'qvel[elbow]'").out);
  EXPECT_EQ(diffmj(run + "\"sensor('ballquat')\" --every-step").exit_code, 0);
  EXPECT_EQ(diffmj(run + "\"sensor('accelerometer')[2] + qpos[elbow]\"").exit_code, 0);
  expect_error(run + "\"sensor('gyro')[3]\"", 2, "'3' is not an index of sensor 'gyro'");
  expect_error(run + "\"sensor('lidar')\"", 2,
               "the model has no sensor 'lidar'; it has accelerometer");
  expect_error(run + "'sensor(gyro)'", 2, "expected the name of a sensor in quotes");
  expect_error(run + "sensor", 2, "expected the name of a sensor in quotes");
}

TEST_F(CliTest, WrongLossIsOneLine) {
  const std::string run = "grad slider.xml --loss ";
  expect_error(run + "''", 2, "expected one of qpos, qvel, act, sum, sensor, xpos");
  expect_error(run + "xvel", 2, "site_angvel at 'xvel'");
  expect_error(run + "'qpos[1]'", 2, "'1' is not an index of qpos, which has 1 entries");
  expect_error(run + "'qpos[99999999999]'", 2, "not an index");
  expect_error(run + "'act[0]'", 2, "not an index of act");
  expect_error(run + "'qpos[y]'", 2, "joint 'y' is not in the model; it has joint 'x'");
  expect_error(run + "'qpos[0'", 2, "expected ]");
  expect_error(run + "'2qpos'", 2, "expected *");
  expect_error(run + "'1e999*qpos'", 2, "1e999");
  expect_error(run + "'qpos qvel'", 2, "expected + or -");
}

TEST_F(CliTest, OutputAppearsWhenComplete) {
  write_text(dir_ / "out.csv", "old");
  expect_error("grad diverging.xml --key off --output out.csv", 4, "diverged");
  EXPECT_EQ(read_text(dir_ / "out.csv"), "old");
  const Result result = diffmj("rollout slider.xml --output out.csv");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(read_text(dir_ / "out.csv"), diffmj("rollout slider.xml").out);
  for (const auto& file : fs::directory_iterator(dir_)) {
    EXPECT_EQ(file.path().string().find(".tmp"), std::string::npos) << file.path();
  }
  expect_error("rollout slider.xml --output nowhere/out.csv", 2, "nowhere/out.csv");
  expect_error("rollout slider.xml --output .", 2, "cannot write");
}

TEST_F(CliTest, OutputFollowsLinks) {
  fs::create_symlink("target.csv", dir_ / "link.csv");
  write_text(dir_ / "target.csv", "old");
  EXPECT_EQ(diffmj("rollout slider.xml --output link.csv").exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(dir_ / "link.csv"));
  EXPECT_NE(read_text(dir_ / "target.csv"), "old");
  EXPECT_EQ(diffmj("rollout slider.xml --output /dev/null").exit_code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(CliTest, FullDiskIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  for (const std::string to : {"> /dev/full", "--output /dev/full"}) {
    const Result result = diffmj("rollout slider.xml " + to);
    EXPECT_EQ(result.exit_code, 2);
    expect_one_error_line(result.err, "No space left");
  }
}

TEST_F(CliTest, ClosedPipeIsQuiet) {
  const Result result = shell("diffmj rollout slider.xml --nstep 100000 | head -n 2");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(lines(result.out).size(), 2U);
}

TEST_F(CliTest, InterruptIsOneLine) {
  // long enough to be under way after two seconds, whatever the machine; in the foreground, for
  // timeout else sends the signal twice and the second one ends the process, as it should
  for (const std::string command : {"grad", "check"}) {
    const Result result =
        shell("timeout --foreground --preserve-status -s INT 2 '" DIFFMJ_CLI "' " + command + " " +
              zoo("humanoid") + " --nstep 200000");
    EXPECT_EQ(result.exit_code, 130) << command;
    EXPECT_EQ(result.out, "");
    expect_one_error_line(result.err, "interrupted");
  }
}

TEST_F(CliTest, CheckPrintsACertificate) {
  const Result result = diffmj("check " + zoo("joints_ball") + " --key 0");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_EQ(result.err, "");
  for (const char* word : {"joints_ball.xml", "keyframe 0", "10 steps of", "ball", "gradient path",
                           "adjoint", "differences", "error bar", "worst error", "solver residual",
                           "adjoint residual", "nearest kink"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word << " is not in\n" << result.out;
  }
  EXPECT_EQ(lines(result.out)[0],
            "passed: the gradient is right here; 8 of 8 directions agree with differences");
}

TEST_F(CliTest, CheckJsonHoldsTheReport) {
  const Json r = json("check slider.xml --directions 3 --nstep 4 --tolerance 1e-4 --seed 7 --json");
  EXPECT_EQ(r["verdict"], "passed");
  EXPECT_EQ(r["nstep"], 4);
  EXPECT_EQ(r["seed"], 7);
  EXPECT_EQ(r["tolerance"], 1e-4);
  ASSERT_EQ(r["directions"].size(), 3U);
  for (const Json& d : r["directions"]) {
    EXPECT_EQ(d["verdict"], "agrees");
    EXPECT_NEAR(d["adjoint"], d["differences"], 1e-4 * (1 + std::abs(d["adjoint"].get<double>())));
    EXPECT_TRUE(d["error_bar"].is_number());
  }
  EXPECT_LE(r["worst_error"].get<double>(), 1e-4);
  EXPECT_TRUE(r["nearest_kink"].is_null());
  EXPECT_TRUE(r["kinks"].is_array() && r["kinks"].empty());
  for (const char* key : {"features", "advice", "warnings"}) EXPECT_TRUE(r[key].is_array()) << key;
  EXPECT_NE(std::string(r["start"]).find("settled for 0.5 s"), std::string::npos);
}

// a ball that touches: half of each difference is beyond the kink, the other half tells
TEST_F(CliTest, CheckComparesOnOneSideOfAKink) {
  const Result result = diffmj("check touching.xml --settle 0 --nstep 1 --json");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_EQ(result.err, "");
  for (const Json& d : Json::parse(result.out)["directions"]) {
    EXPECT_EQ(d["method"], "one-sided");
    EXPECT_TRUE(d["kink"].is_null());
  }
}

TEST_F(CliTest, CheckIsInconclusiveAtAKink) {
  const Result result = diffmj("check wedged.xml --ctrl 5e-13 --nstep 1 --json");
  EXPECT_EQ(result.exit_code, 3) << result.out;
  EXPECT_EQ(result.err, "");
  const Json r = Json::parse(result.out);
  EXPECT_EQ(r["verdict"], "inconclusive");
  EXPECT_EQ(r["directions"][0]["verdict"], "at a kink");
  EXPECT_NE(std::string(r["reason"]).find("actuator 'wedged'"), std::string::npos) << r["reason"];
  const std::vector<std::string> text =
      lines(diffmj("check wedged.xml --ctrl 5e-13 --nstep 1").out);
  EXPECT_EQ(text[0].rfind("inconclusive: differences cannot tell in ", 0), 0U) << text[0];
  EXPECT_EQ(text[1].rfind("because ", 0), 0U) << text[1];
}

TEST_F(CliTest, CheckListsTheKinksOfConstraints) {
  const std::string command = "check " + zoo("limits") + " --key 0 --nstep 2 --directions 1";
  const Json kinks = json(command + " --json")["kinks"];
  ASSERT_GT(kinks.size(), 5U);
  for (const Json& one : kinks) {
    EXPECT_TRUE(one["constraint"].is_string());
    EXPECT_TRUE(one["zone"].is_object() || one["activation"].is_object()) << one;
    for (const char* key : {"zone", "activation"}) {
      if (one[key].is_null()) continue;
      EXPECT_GE(one[key]["distance"].get<double>(), 0);
      EXPECT_GE(one[key]["step"].get<int>(), 0);
      EXPECT_LT(one[key]["step"].get<int>(), 2);
    }
  }
  const std::string text = diffmj(command).out;
  EXPECT_NE(text.find("by constraint"), std::string::npos) << text;
  EXPECT_NE(text.find(std::string(kinks[0]["constraint"])), std::string::npos) << text;
  EXPECT_NE(text.find("and " + std::to_string(kinks.size() - 5) + " more, which --json lists"),
            std::string::npos)
      << text;
}

// a control at its bound moves inwards, one step at a time
TEST_F(CliTest, CheckComparesControlsAtTheirBoundsFromTheInside) {
  const Result result = diffmj("check clamped.xml --json");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_NE(result.out.find("stepwise"), std::string::npos) << result.out;
  EXPECT_EQ(diffmj("check clamped.xml --ctrl 0.5 --json").out.find("stepwise"), std::string::npos);
}

TEST_F(CliTest, CheckSaysWhyDifferencesServe) {
  const Json r = json("check " + zoo("limits") +
                      " --integrator discrete --key 0 --nstep 2 --directions 1 --json");
  EXPECT_EQ(r["path"], "differences");
  EXPECT_NE(std::string(r["path_reason"]).find("discrete"), std::string::npos);
}

}  // namespace
}  // namespace diffmj::cli
