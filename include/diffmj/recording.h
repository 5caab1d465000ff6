// Recordings of a real or simulated system, and the short segments that a fit compares with
// simulations.
//
// A quantity of a recording has a name, which weights, CSV columns and error messages use:
//   qpos  qvel  act  ctrl  sensordata  sensor:NAME  site:NAME  body_pos:NAME  body_quat:NAME
#ifndef DIFFMJ_RECORDING_H_
#define DIFFMJ_RECORDING_H_

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diffmj/model.h"
#include "diffmj/rollout.h"
#include "diffmj/state.h"

namespace diffmj {

// Arrays are row-major with one row per time. An empty array was not recorded. NaN marks a missing
// number; of a quaternion, one missing number makes the quaternion missing.
struct Recording {
  std::string name = {};          // for messages
  std::vector<double> time = {};  // n, strictly increasing [s]; intervals may differ
  std::vector<double> qpos = {}, qvel = {}, act = {};  // n x {nq, nv, na}
  // n x nu. Row i is held from time i to time i + 1. It must be known, except in the last row and
  // in rows in which everything is missing.
  std::vector<double> ctrl = {};
  // n x nsensordata, or single sensors by name (n x dim); a sensor may not be in both.
  std::vector<double> sensordata = {};
  std::map<std::string, std::vector<double>> sensors = {};
  std::map<std::string, std::vector<double>> sites = {};      // n x 3 each: site_xpos [m]
  std::map<std::string, std::vector<double>> body_pos = {};   // n x 3 each: xpos [m]
  std::map<std::string, std::vector<double>> body_quat = {};  // n x 4 each: xquat
  // Weights of squared residuals, at least 0, by quantity; default 1. One number for all, n for the
  // rows, or n x nweight. nweight is the number of residuals in a row: nv for qpos, 3 for a
  // quaternion, else the width. Of sensordata it is nsensordata, and a quaternion takes the first
  // of its four weights.
  std::map<std::string, std::vector<double>> weights = {};

  int nrow() const { return static_cast<int>(time.size()); }
};

// Checks everything that needs no model: times, numbers of rows, infinite numbers, weights. Throws
// an InputError that names the recording, the quantity, the value and the remedy.
void validate(const Recording& recording);
// Also compares it with the model: widths, names of sensors, sites and bodies, quaternions. Returns
// the recording with unit quaternions: those with a length within 1e-3 of 1 are normalised, others
// are an error.
[[nodiscard]] Recording validate(const Model& model, Recording recording);

// Every `every`-th state of a trajectory, with the controls held between them (NaN in the last
// row), and with sensordata if the rollout recorded it. Throws InputError if a control changes
// within an interval.
[[nodiscard]] Recording record(const Model& model, const Trajectory& trajectory, int every = 1);

enum class Difference {
  kBackward,  // from the row before
  kCentral,   // from the row before to the row after
};
// "backward", "central"; an InputError lists the valid names.
Difference difference_from_name(const std::string& name);

// Fills in the velocities that are missing, by differences of qpos (mj_differentiatePos). Recorded
// velocities stay. A velocity remains missing where a position that it needs is missing, at the
// first row, with kCentral at the last row, and across intervals longer than 1.5 times the median.
[[nodiscard]] Recording estimate_velocities(const Model& model, Recording recording,
                                            Difference difference = Difference::kBackward);

// The recording at times time[0] + k dt: linear interpolation, along the shortest rotation for
// quaternions (mju_subQuat, mju_quatIntegrate), and ctrl held. A number is missing if one of the
// two rows that it needs is missing. Everything is missing inside intervals that are longer than
// both 1.5 times the median interval and 1.5 dt: segments do not cross them.
[[nodiscard]] Recording resample(const Model& model, const Recording& recording, double dt);

// The recording with body_pos and body_quat of some bodies, computed from the recorded qpos: for
// losses on poses. Bodies that have them already keep them. Throws InputError if qpos is not
// recorded, or if there is no such body.
[[nodiscard]] Recording with_bodies(const Model& model, Recording recording,
                                    std::span<const std::string> bodies);

// Numbers that a fit compares with a simulation. Residuals are simulated - recorded; of qpos as
// mj_differentiatePos gives them, of quaternions as mju_subQuat does. The loss of a segment is
// ½ Σ weight residual².
struct Target {
  std::string name;        // of the quantity; sensors of sensordata one by one: "sensor:imu"
  std::string observable;  // where the simulated numbers are: "qpos", "qvel", "act", "sensordata",
                           // "site_xpos", "xpos", "xquat" or "xmat"
  int offset = 0;          // of the first of them in a row of the observable
  int width = 0;           // numbers in a row
  int nweight = 0;         // residuals in a row: nv for qpos, 3 for a quaternion, else width
  bool quaternion = false;
  std::vector<double> values;   // (length + 1) x width; 0 where missing, of quaternions 1 0 0 0
  std::vector<double> weights;  // (length + 1) x nweight; 0 where missing
};

// A short piece of a recording. Row i of its targets is row i * substeps of
// rollout(model, segment_input(segment), segment.length * segment.substeps).
struct Segment {
  int recording = 0;              // index
  int first = 0;                  // row that it starts at
  int length = 0;                 // N: recorded intervals
  int substeps = 1;               // rows of a trajectory per recorded interval
  State start = {};               // as recorded
  std::vector<double> ctrl = {};  // (length * substeps) x nu
  std::vector<Target> targets = {};
};
RolloutInput segment_input(const Segment& segment);  // looks into the segment

// simulated - recorded of each target, (length + 1) x nweight; 0 where the weight is 0. Throws
// InputError if the trajectory is of another model or has another number of steps.
[[nodiscard]] std::vector<std::vector<double>> residuals(const Model& model, const Segment& segment,
                                                         const Trajectory& trajectory);

enum class SegmentRule {
  kAll,
  // Segments with a contact in at least one recorded state, found by MuJoCo's collision detection
  // in the model as it is.
  kContact,
};
const char* segment_rule_name(SegmentRule rule);  // "all", "contact"
// The inverse; an InputError lists the valid names.
SegmentRule segment_rule_from_name(const std::string& name);

struct SegmentOptions {
  int length = 1;  // recorded intervals of a segment
  // Rows between the starts of two segments; none: length, so that segments do not overlap.
  std::optional<int> stride = {};
  SegmentRule rule = SegmentRule::kAll;
  double margin = 0;         // [m] kContact: distance of geoms up to which it is a contact
  double max_missing = 0.5;  // share of the target numbers after the start that may be missing
  // Names of quantities, or "body_mat:NAME": body_quat compared as rotation matrices, 9 numbers
  // with the weight of its row. Empty: all that are recorded but ctrl.
  std::vector<std::string> targets = {};
};

// Segments in the order of recordings and rows. Rows 0, stride, 2 stride, ... start one if their
// state is known, and if the next rows follow at equal intervals with known controls; targets that
// no simulation of the segment determines have weight 0 (sensors of accelerations and forces in the
// last row, if its control is unknown or differs from the one before).
//
// The recorded interval must be a whole number of timesteps of the model (of adaptive methods: of
// its `interval`), to 1e-6 of it. Throws InputError otherwise, or if no state can be known because
// qpos, qvel, act or ctrl is not recorded.
[[nodiscard]] std::vector<Segment> segments(const Model& model,
                                            std::span<const Recording> recordings,
                                            const SegmentOptions& options = {});

// Indices of recordings to fit and to test on, each in increasing order. The same for the same
// arguments on every machine.
struct Split {
  std::vector<int> training, held_out;
};
// Holds out round(share * n) of n recordings, but at least one if share > 0 and at most n - 1.
[[nodiscard]] Split split(int n, double share, unsigned seed = 0);

// Comma-separated values; the first line names the columns:
//   time                                 required
//   qpos[0]  qvel[2]  act[0]  ctrl[1]    by index
//   qpos_JOINT  qpos_JOINT[3]  qvel_...  by joint; the index where the joint has several numbers
//   ctrl_ACTUATOR  act_ACTUATOR          by actuator
//   sensordata[0]  sensor:NAME[2]  site:NAME[0]  body_pos:NAME[0]  body_quat:NAME[3]
//   weight:QUANTITY  weight:QUANTITY[0]  weights of rows, of single residuals
// A single number needs no index. An empty cell or nan is missing, and so is what has no column.
// The name of the recording is that of the file, without folder and extension. Throws InputError
// that names file, line and column.
[[nodiscard]] Recording read_csv(const Model& model, const std::string& path);
// Columns by index, 17 digits. Throws InputError if the file cannot be written.
void write_csv(const Recording& recording, const std::string& path);

}  // namespace diffmj

#endif  // DIFFMJ_RECORDING_H_
