// One term of every kind, for the scenes of cost_test.cc and ilqr_test.cc: both have these joints,
// sites, bodies, actuators and sensors.
#ifndef DIFFMJ_TESTS_PLAN_COST_TERMS_H_
#define DIFFMJ_TESTS_PLAN_COST_TERMS_H_

#include <array>
#include <vector>

#include "diffmj/cost.h"

namespace diffmj {

inline Frame site(const char* name, std::array<double, 3> pos = {0, 0, 0}) {
  return {.kind = Frame::Kind::kSite, .name = name, .pos = pos};
}
inline Frame body(const char* name, std::array<double, 3> pos = {0, 0, 0}) {
  return {.kind = Frame::Kind::kBody, .name = name, .pos = pos};
}
inline Frame geom(const char* name) { return {.kind = Frame::Kind::kGeom, .name = name}; }
inline Frame subtree(const char* name) { return {.kind = Frame::Kind::kSubtree, .name = name}; }
inline Frame fixed(std::array<double, 3> pos, std::array<double, 4> quat = {1, 0, 0, 0}) {
  return {.pos = pos, .quat = quat};
}

// Targets over time: rows at 0.01, 0.03 and 0.05 s of a rollout of 0.06 s.
inline Reference over_time(std::vector<double> values) {
  return {.time = {0.01, 0.03, 0.05}, .values = std::move(values)};
}
inline Frame moving_in(Frame frame) {
  frame.pos_over_time = over_time({0.1, 0.2, 0.3, -0.1, 0.2, 0.4, 0.3, 0, 0.2});
  return frame;
}

inline std::vector<CostTerm> terms_of_every_kind() {
  Frame turning;  // the second quaternion has the other sign
  turning.quat_over_time =
      over_time({0.9, 0.1, -0.3, 0.2, -0.8, 0, 0.3, -0.3, 0.7, 0.2, -0.3, 0.3});
  return {
      {.of = Distance{site("tip"), site("goal")}},
      {.of = Distance{site("tip", {0.1, 0.2, 0.3}), body("box", {0.05, 0, 0.1}), {1, 0.5, 2}}},
      {.of = Distance{geom("bob"), fixed({0.3, 0.2, 1})}},
      {.of = Distance{geom("bob"), moving_in({})}},
      {.of = Distance{site("tip"), moving_in(body("box"))}},
      {.of = Distance{subtree("upper"), subtree("box")}},
      {.of = Orientation{site("tip"), site("goal")}},
      {.of = Orientation{body("box"), body("lower")}},
      {.of = Orientation{geom("bob"), fixed({0, 0, 0}, {0.9, 0.1, -0.3, 0.2})}},
      {.of = Orientation{geom("bob"), turning}},
      {.of = JointPosition{{"hinge"}, {0.2}}},
      {.of = JointPosition{{"wrist", "free"}, {0.9, 0.3, 0, 0.1, 1, 0.2, 0.3, 0.8, 0.1, 0.4, 0}}},
      {.of = JointPosition{{"hinge", "wrist"},
                           {},
                           over_time({0.2, 0.9, 0.3, 0, 0.1, 0.3, -0.9, -0.2, 0, -0.1,  //
                                      0.1, 0.8, 0.3, 0.1, 0})}},
      {.of = JointPosition{}},
      {.of = JointVelocity{{"wrist"}, {0.1, 0.2, 0.3}}},
      {.of = JointVelocity{{"hinge"}, {}, over_time({0.1, 0.5, -0.2})}},
      {.of = JointVelocity{}},
      {.of = FrameVelocity{site("tip"), false, {0.1, 0.2, 0.3}}},
      {.of = FrameVelocity{site("tip"), true}},
      {.of = FrameVelocity{body("lower"), false}},
      {.of = FrameVelocity{body("box"),
                           true,
                           {0, 0, 0},
                           over_time({0.1, 0.2, 0.3, -0.1, 0.2, 0.4, 0.3, 0, 0.2})}},
      {.of = ControlEffort{{"motor"}, {0.5}}},
      {.of = ControlEffort{{"motor"}, {}, over_time({0.5, 0.1, 0.3})}},
      {.of = ControlEffort{}},
      {.of = ControlRate{}},
      {.of = ForceEffort{}},
      {.of = SensorValue{"touch", {2}}},
      {.of = SensorValue{"touch", {}, over_time({2, 3, 1})}},
      {.of = SensorValue{"gyro"}},
  };
}

}  // namespace diffmj

#endif  // DIFFMJ_TESTS_PLAN_COST_TERMS_H_
