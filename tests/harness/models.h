// Models to test on: the zoo of tests/testdata/zoo, seeded random models, models to benchmark.
// MyoSuite's are in myo_models.h.
#ifndef DIFFMJ_TESTS_HARNESS_MODELS_H_
#define DIFFMJ_TESTS_HARNESS_MODELS_H_

#include <string>
#include <vector>

#include "diffmj/diffmj.h"
#include "harness/check_pullback.h"

namespace diffmj {

// A model with a state away from kinks and the controls that go with it.
struct Scene {
  std::string name;
  Model model;
  State x = {};
  Vector ctrl = {};                        // nu
  Vector mocap_pos = {}, mocap_quat = {};  // empty: the model's

  RolloutInput input() const;
};

// The state after nstep steps.
State after(const Scene& scene, int nstep);

// Every model of the zoo at its keyframe "test", except those that are refused.
std::vector<std::string> zoo_names();
Scene zoo(const std::string& name, const ModelOptions& options = {});
std::string testdata(const std::string& name);

// A tree of bodies with random joints, limits, springs, contacts and actuators, made through
// mjSpec. The state is one its contacts and limits are active at.
Scene random_scene(unsigned seed);

// A tree of 3 to 8 bodies without constraints, with what smooth dynamics have: joints of every type
// in any order and number, offset anchors, springs and dampers with polynomials, gravity
// compensation, fluids, sites and actuators of every transmission. Integrators take turns.
Scene random_tree(unsigned seed, const ModelOptions& options = {});

// The same scene with constraints disabled, or with other options.
Scene without_constraints(const Scene& scene, const ModelOptions& options = {});
Scene with_options(const Scene& scene, const ModelOptions& options);
// And with a no-slip pass; its name says so.
Scene with_noslip(const Scene& scene, int iterations);

// What is benchmarked where no constraint acts: an arm of 7 hinges with position servos, the zoo's
// humanoid two metres up (27 dofs), a tree of 50 hinges with springs, dampers and motors.
Scene bench_arm(const ModelOptions& options = {});
Scene humanoid_in_air(const ModelOptions& options = {});
Scene tree_50(const ModelOptions& options = {});

// What is benchmarked with contacts: the zoo's humanoid lying on the floor and lifting its arms,
// six boxes stacked, a hand of five fingers with four hinges each around a box.
Scene humanoid_on_floor(const ModelOptions& options = {});
Scene box_stack(const ModelOptions& options = {});
Scene hand_with_object(const ModelOptions& options = {});

// The zoo's humanoid, standing, with accelerometer and gyro at its torso, touch sensors at its
// soles
// ("left", "right"), position and velocity of every hinge.
Scene humanoid_with_sensors(const ModelOptions& options = {});

// One evaluation or rollout as an Operation on z = (tangent of x, rows of ctrl, rows of
// qfrc_applied); y are all states of the rollout, as tangents from the unperturbed one.
Operation rollout_operation(const Scene& scene, int nstep);
size_t rollout_ntangent(const Scene& scene, int nstep);

}  // namespace diffmj

#endif  // DIFFMJ_TESTS_HARNESS_MODELS_H_
