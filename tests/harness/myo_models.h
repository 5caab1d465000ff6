// MyoSuite's musculoskeletal models (tests/testdata/myo_models.txt), from the package in the
// virtual environment that `make setup` makes. Its code is not used, its models are not altered.
#ifndef DIFFMJ_TESTS_HARNESS_MYO_MODELS_H_
#define DIFFMJ_TESTS_HARNESS_MYO_MODELS_H_

#include <cstdlib>
#include <string>
#include <vector>

#include "harness/models.h"
#include "mj/handle.h"

namespace diffmj {

// Whether the package is there: it is not for who builds without our set-up.
bool has_myo_models();
// In a test that needs it: skipped where it is not, failed under `make test`, which installs it.
#define DIFFMJ_NEED_MYO_MODELS()                                     \
  if (!has_myo_models()) {                                           \
    ASSERT_EQ(std::getenv("DIFFMJ_REQUIRE_MYOSUITE"), nullptr)       \
        << "no package myosuite although our set-up ran";            \
    GTEST_SKIP() << "no package myosuite: `make setup` installs it"; \
  }

std::vector<std::string> myo_names();

struct MyoModel {
  std::string name;
  MjModelPtr mj;
};
// All of them, as MuJoCo compiles them.
std::vector<MyoModel> myo_models();

// One of them after some steps from its first keyframe, or qpos0: muscles a tenth active, limits
// and contacts closed where there are any; and controls away from its activations, where the time
// constant of muscles changes.
Scene myo_scene(const std::string& name, const ModelOptions& options = {});

}  // namespace diffmj

#endif  // DIFFMJ_TESTS_HARNESS_MYO_MODELS_H_
