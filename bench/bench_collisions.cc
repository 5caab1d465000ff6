// Smooth colliders in units of MuJoCo's, measured in turn in one run: of each pair of shapes over
// random poses that touch, and mj_collision as a whole, broad phase included, on scenes.
#include <benchmark/benchmark.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "harness/models.h"
#include "mj/call.h"
#include "mj/handle.h"
#include "setup/model_impl.h"
#include "setup/workspace_lease.h"
#include "stages/position/collision/smooth.h"

namespace diffmj {
namespace {

constexpr double kWidth = 1e-3;  // [m], the default
constexpr int kPoses = 64;
constexpr int kRepeat = 10;

const ModelOptions kSmooth{.collisions = {Collisions::kSmooth, kWidth}};

template <class Fn>
double seconds(const Fn& fn) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepeat; i++) fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// counters, of the best run of each: ratio = smooth/MuJoCo's; ns = one call of MuJoCo's
template <class Fn>
void compare(benchmark::State& state, const Model& model, int ncall, const Fn& fn) {
  double mujoco = INFINITY, smooth = INFINITY;
  for (auto _ : state) {
    mj_call("MuJoCo's colliders", [&] { mujoco = std::min(mujoco, seconds(fn)); });
    const ColliderScope scope(model.impl().collider());
    mj_call("smooth colliders", [&] { smooth = std::min(smooth, seconds(fn)); });
  }
  state.counters["ratio"] = smooth / mujoco;
  state.counters["ns"] = 1e9 * mujoco / (kRepeat * ncall);
}

struct Shape {
  const char *name, *geom;
};
constexpr Shape kPlane{"plane", "type='plane' size='3 3 1'"},
    kSphere{"sphere", "type='sphere' size='.11'"},
    kCapsule{"capsule", "type='capsule' size='.07 .12'"},
    kEllipsoid{"ellipsoid", "type='ellipsoid' size='.08 .11 .15'"},
    kCylinder{"cylinder", "type='cylinder' size='.09 .12'"},
    kBox{"box", "type='box' size='.08 .11 .13'"}, kMesh{"mesh", "type='mesh' mesh='ball_100'"};
// the same ball, of ever more vertices
constexpr Shape kBalls[] = {{"mesh_1000", "type='mesh' mesh='ball_1000'"},
                            {"mesh_10000", "type='mesh' mesh='ball_10000'"}};

// vertices spread evenly over a ball
std::string ball_mesh(int count) {
  std::string text = "<mesh name='ball_" + std::to_string(count) + "' vertex='";
  for (int i = 0; i < count; i++) {
    const double z = 1 - (2 * i + 1.0) / count, angle = 2.399963 * i, r = std::sqrt(1 - z * z);
    for (const double x : {.1 * r * std::cos(angle), .1 * r * std::sin(angle), .1 * z}) {
      text += std::to_string(x) + " ";
    }
  }
  return text + "'/>";
}

void bench_pair(benchmark::State& state, const Shape& first, const Shape& second) {
  std::string assets;
  for (const int count : {100, 1000, 10000}) {
    if (std::string(second.geom).find("ball_" + std::to_string(count) + "'") != std::string::npos) {
      assets += ball_mesh(count);
    }
  }
  const Model model = Model::from_xml("<mujoco><asset>" + assets + "</asset><worldbody><geom " +
                                          first.geom + "/><body><freejoint/><geom " + second.geom +
                                          "/></body></worldbody></mujoco>",
                                      kSmooth);
  const mjModel* m = model.mj();
  const MjDataPtr data(mj_makeData(m));
  mjData* d = data.get();
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  struct Pose {
    mjtNum pos[3], mat[9];
  };
  std::vector<Pose> poses;
  mjPreContact contact[mjMAXCONPAIR];
  while (poses.size() < kPoses) {
    for (int k = 0; k < 7; k++) d->qpos[k] = (k < 3 ? 0.15 : 1) * normal(random);
    mj_kinematics(m, d);
    const int n = collide_geoms(m, d, contact, 0, 1, 0);
    if (n == 0 || mj_geomDistance(m, d, 0, 1, 1, nullptr) < -0.005) continue;
    Pose& pose = poses.emplace_back();
    std::copy_n(d->geom_xpos + 3, 3, pose.pos);
    std::copy_n(d->geom_xmat + 9, 9, pose.mat);
  }
  compare(state, model, kPoses, [&] {
    for (const Pose& pose : poses) {
      std::copy_n(pose.pos, 3, d->geom_xpos + 3);
      std::copy_n(pose.mat, 9, d->geom_xmat + 9);
      benchmark::DoNotOptimize(collide_geoms(m, d, contact, 0, 1, 0));
    }
  });
}

// geoms of two kinds in a heap, between a floor and a wall
Scene heap_of(const std::string& name, const ModelOptions& options, const char* even,
              const char* odd) {
  std::string bodies;
  for (int i = 0; i < 27; i++) {
    const std::string at = std::to_string(0.11 * (i % 3) + 0.01 * (i / 9)) + " " +
                           std::to_string(0.11 * (i / 3 % 3)) + " " +
                           std::to_string(0.08 + 0.12 * (i / 9));
    bodies += "<body pos='" + at + "' euler='" + std::to_string(31 * i) + " 70 0'><freejoint/>" +
              (i % 2 == 0 ? even : odd) + "</body>";
  }
  const Model model = Model::from_xml(
      "<mujoco><worldbody><geom type='plane' size='3 3 1'/><geom type='plane' size='3 3 1' "
      "pos='-.1 0 0' euler='0 90 0'/>" +
          bodies + "</worldbody></mujoco>",
      options);
  Scene scene{.name = name, .model = model, .x = default_state(model)};
  scene.x = after(scene, 300);
  return scene;
}

Scene heap(const ModelOptions& options) {
  return heap_of("heap", options, "<geom size='.06'/>", "<geom type='capsule' size='.05 .05'/>");
}
Scene box_pile(const ModelOptions& options) {
  return heap_of("box_pile", options, "<geom type='box' size='.05 .05 .05'/>",
                 "<geom type='box' size='.06 .05 .03'/>");
}
Scene pile_of_cylinders_and_ellipsoids(const ModelOptions& options) {
  return heap_of("pile_of_cylinders_and_ellipsoids", options,
                 "<geom type='cylinder' size='.05 .05'/>",
                 "<geom type='ellipsoid' size='.06 .05 .03'/>");
}

void bench_scene(benchmark::State& state, const Scene& scene) {
  const mjModel* m = scene.model.mj();
  const MjDataPtr data(mj_makeData(m));
  mjData* d = data.get();
  std::copy(scene.x.qpos.begin(), scene.x.qpos.end(), d->qpos);
  mj_fwdPosition(m, d);
  state.counters["contacts"] = d->ncon;
  compare(state, scene.model, 1, [&] { mj_collision(CollidingModel(m), d); });
}

const bool kRegistered = [] {
  const std::pair<Shape, Shape> pairs[] = {
      {kPlane, kSphere},        {kPlane, kCapsule},      {kPlane, kEllipsoid},
      {kPlane, kCylinder},      {kPlane, kBox},          {kSphere, kSphere},
      {kSphere, kCapsule},      {kSphere, kCylinder},    {kSphere, kBox},
      {kCapsule, kCapsule},     {kCapsule, kBox},        {kBox, kBox},
      {kPlane, kMesh},          {kSphere, kEllipsoid},   {kSphere, kMesh},
      {kCapsule, kEllipsoid},   {kCapsule, kCylinder},   {kCapsule, kMesh},
      {kEllipsoid, kEllipsoid}, {kEllipsoid, kCylinder}, {kEllipsoid, kBox},
      {kEllipsoid, kMesh},      {kCylinder, kCylinder},  {kCylinder, kBox},
      {kCylinder, kMesh},       {kBox, kMesh},           {kMesh, kMesh},
      {kBox, kBalls[0]},        {kBox, kBalls[1]},       {kPlane, kBalls[0]},
      {kPlane, kBalls[1]},
  };
  for (const auto& [first, second] : pairs) {
    benchmark::RegisterBenchmark(
        (std::string("pair/") + first.name + "_" + second.name).c_str(),
        [first, second](benchmark::State& state) { bench_pair(state, first, second); });
  }
  for (const auto make : {heap, box_pile, pile_of_cylinders_and_ellipsoids, humanoid_on_floor,
                          box_stack, hand_with_object}) {
    const Scene scene = make(kSmooth);
    benchmark::RegisterBenchmark(("scene/" + scene.name).c_str(),
                                 [scene](benchmark::State& state) { bench_scene(state, scene); });
  }
  return true;
}();

}  // namespace
}  // namespace diffmj
