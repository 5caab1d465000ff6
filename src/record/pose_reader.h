// Poses and velocities at the states of a rollout, read from mjData.
#ifndef DIFFMJ_RECORD_POSE_READER_H_
#define DIFFMJ_RECORD_POSE_READER_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "diffmj/rollout.h"

namespace diffmj {

class PoseReader {
 public:
  // Resizes those of out that are named to nstep + 1 rows; InputError if a name is unknown.
  PoseReader(const Model& model, const std::vector<std::string>& names, int nstep, Poses& out);

  bool empty() const { return asked_.empty(); }
  // Has MuJoCo compute what is read; qpos and qvel of the data are those of the state.
  void evaluate(mjData* d) const;
  // Row i from data in which it was computed.
  void read(const mjData* d, int i) const;

 private:
  // what MuJoCo must compute before it can be read
  enum class Stage { kKinematics, kCom, kVelocity };
  struct Asked {
    Stage stage;
    mjtNum* mjData::*field;  // where it is; null: mj_objectVelocity
    int object;              // mjtObj of a velocity
    int half;                // 0: angular, 1: linear
    std::vector<double>* to;
    int count;     // elements
    size_t width;  // numbers per state
  };
  static Asked source(const struct Observable& x);

  const mjModel* m_;
  std::vector<Asked> asked_;
  Stage last_ = Stage::kKinematics;
};

// Whether mj_step leaves poses and velocities of the state it began with.
bool steps_leave_poses(const Model& model);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_POSE_READER_H_
