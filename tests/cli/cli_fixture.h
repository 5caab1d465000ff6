// Runs the command line as a user does, in a directory of its own with a few small models.
#ifndef DIFFMJ_TESTS_CLI_CLI_FIXTURE_H_
#define DIFFMJ_TESTS_CLI_CLI_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace diffmj::cli {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// One slider of mass 2 without gravity, one motor: q and v after n steps are known.
inline constexpr const char* kSlider = R"(
<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body>
  </worldbody>
  <actuator><motor joint="x"/></actuator>
  <keyframe><key name="moving" qpos="0.5" qvel="3"/></keyframe>
</mujoco>)";

// A negative spring: from "off" the state grows hundredfold in every step.
inline constexpr const char* kDiverging = R"(
<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <actuator><general joint="x" biastype="affine" biasprm="0 1e6 0" gainprm="0"/></actuator>
  <keyframe><key name="off" qpos="1"/></keyframe>
</mujoco>)";

// a ball that just touches the floor: any perturbation opens or closes the contact
constexpr const char* kTouching = R"(<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body pos="0 0 0.1"><joint type="slide" axis="0 0 1"/><geom name="ball" size="0.1"/></body>
  </worldbody>
</mujoco>)";

// At control 0, the border of its range, one side pushes and the other does not.
inline constexpr const char* kClamped = R"(
<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <actuator><motor joint="x" ctrlrange="0 1" gear="100"/></actuator>
</mujoco>)";

// a control that is clamped whichever way it moves
inline const char* const kWedged =
    "<mujoco><worldbody><body><joint name='x' type='slide'/><geom size='.1'/></body></worldbody>"
    "<actuator><motor name='wedged' joint='x' ctrllimited='true' ctrlrange='0 1e-12'/></actuator>"
    "</mujoco>";

struct Result {
  int exit_code = -1;  // 128 + signal if it was killed
  std::string out, err;
};

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

inline std::string zoo(const std::string& name) {
  return std::string(DIFFMJ_TESTDATA_DIR) + "/zoo/" + name + ".xml";
}

class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(::testing::TempDir()) /
           ("diffmj_cli_" + std::string(test->name()) + std::to_string(getpid()));
    fs::create_directories(dir_);
    write_text(dir_ / "slider.xml", kSlider);
    write_text(dir_ / "diverging.xml", kDiverging);
    write_text(dir_ / "clamped.xml", kClamped);
    write_text(dir_ / "wedged.xml", kWedged);
    write_text(dir_ / "touching.xml", kTouching);
    write_text(dir_ / "empty.xml", "<mujoco/>");
    write_text(dir_ / "malformed.xml", "<mujoco>\n  <nonsense/>\n</mujoco>");
    write_text(dir_ / "not_xml.xml", "hello");
  }
  ~CliTest() override { fs::remove_all(dir_); }

  // Runs a shell command in the directory of the models; "diffmj" is the binary.
  Result shell(const std::string& command) const {
    const std::string all = "cd '" + dir_.string() +
                            "' && diffmj() { '" DIFFMJ_CLI "' \"$@\"; }; (" + command +
                            ") 2> stderr.txt";
    Result result;
    std::FILE* pipe = popen(all.c_str(), "r");
    if (!pipe) return result;
    char buffer[4096];
    for (size_t n = 0; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
      result.out.append(buffer, n);
    }
    const int status = pclose(pipe);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.err = read_text(dir_ / "stderr.txt");
    return result;
  }
  Result diffmj(const std::string& arguments) const { return shell("diffmj " + arguments); }

  // Runs a command that must succeed in silence, and reads its JSON.
  Json json(const std::string& arguments) const {
    const Result result = diffmj(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments;
    EXPECT_EQ(result.err, "") << arguments;
    return Json::parse(result.out);
  }

  // Fails with this code, no output, and one line on stderr that holds the text.
  void expect_error(const std::string& arguments, int exit_code, const std::string& text) const {
    const Result result = diffmj(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    expect_one_error_line(result.err, text);
  }
  static void expect_one_error_line(const std::string& err, const std::string& text) {
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    EXPECT_EQ(err.rfind("diffmj: error: ", 0), 0U) << err;
    EXPECT_NE(err.find(text), std::string::npos) << err << "lacks: " << text;
  }

  fs::path dir_;
};

}  // namespace diffmj::cli

#endif  // DIFFMJ_TESTS_CLI_CLI_FIXTURE_H_
