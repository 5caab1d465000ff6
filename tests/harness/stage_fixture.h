// What the tests of analytic stages share: a state and parameters as one vector, moved in a copy of
// the model.
#ifndef DIFFMJ_TESTS_HARNESS_STAGE_FIXTURE_H_
#define DIFFMJ_TESTS_HARNESS_STAGE_FIXTURE_H_

#include <functional>
#include <vector>

#include "harness/models.h"
#include "model/parameters.h"
#include "setup/workspace_lease.h"
#include "stages/step_input.h"

namespace diffmj {

// Numbers that are neither small nor alike.
Vector wave(size_t n, double offset);

// A joint or body of its own making for closed forms and corner cases, at x ⊕ wave.
Scene scene_from_xml(const std::string& mjcf, const ModelOptions& options = {});

// Models of the zoo that take the analytic path once their constraints are off, with Euler.
std::vector<std::string> analytic_zoo_names();
Scene analytic_zoo(const std::string& name);

// z = (tangent of q, v, act, ctrl, entries of parameters), relative to a scene.
class Stage {
 public:
  explicit Stage(const Scene& from, const std::vector<Parameter>& parameters = {});

  size_t size() const { return size_; }
  // Moves state and parameters to z and runs mj_kinematics and mj_comPos. Rows that are unit
  // vectors are normalised, masses of subtrees follow those of bodies.
  void set(const Vector& z);
  StepInput input() const;
  // Computes V and A of the sweep, with all its cotangents zero.
  void begin_sweep();

  Scene scene;
  MjModelPtr model;  // in which parameters move
  Workspace workspace;
  mjModel* m;
  mjData* d;
  Sweep& sweep;
  Vector qacc;  // nv: fixed
  State x;
  Vector ctrl;

 private:
  friend struct StageBar;
  struct Moved {
    const ParameterField* field;
    size_t begin;     // in z
    Vector original;  // what the scene has
  };
  std::vector<Moved> moved_;
  size_t size_;
};

// Parts of a cotangent of z.
struct StageBar {
  StageBar(const Stage& stage, Vec z_bar);
  Vec qpos, qvel, act, ctrl;
  ParameterBar params;
};

// y of MuJoCo's own making at a stage that is set; and the pullback, which leaves the sweep for
// kinematics_pullback.
using StageForward = std::function<Vector(Stage&)>;
using StagePullback = std::function<void(Stage&, CVec y_bar, const StageBar& bar)>;

struct CheckStageOptions {
  std::vector<Parameter> parameters = {};
  double tolerance = -1;  // < 0: tolerances().smooth
  int directions = 4;
  double step = 1e-3;  // of check_pullback
  int levels = 14;
  unsigned seed = 1;
};

// check_pullback of a stage with its share of kinematics; it must not allocate either.
::testing::AssertionResult check_stage(const Scene& scene, const StageForward& forward,
                                       const StagePullback& pullback,
                                       const CheckStageOptions& options = {});
// The same at the scene's state in a stage that may be used again (options.parameters are its own).
::testing::AssertionResult check_stage(Stage& stage, const StageForward& forward,
                                       const StagePullback& pullback,
                                       const CheckStageOptions& options = {});

}  // namespace diffmj

#endif  // DIFFMJ_TESTS_HARNESS_STAGE_FIXTURE_H_
