// rollout(): MuJoCo's own steps, recorded.
#ifndef DIFFMJ_ROLLOUT_H_
#define DIFFMJ_ROLLOUT_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diffmj/model.h"

namespace diffmj {

// The initial state and the inputs of a rollout. Spans refer to the caller's memory, which must
// live until the call returns. An empty span takes the model's default.
struct RolloutInput {
  std::span<const double> qpos = {};          // nq; default qpos0
  std::span<const double> qvel = {};          // nv; default 0
  std::span<const double> act = {};           // na; default 0
  std::span<const double> ctrl = {};          // nstep x nu, or nu to hold one control; default 0
  std::span<const double> qfrc_applied = {};  // nstep x nv, or nv to hold; default 0
  std::span<const double> xfrc_applied = {};  // nstep x 6 nbody, or 6 nbody to hold; default 0
  std::span<const double> mocap_pos = {};     // 3 nmocap; default from the model
  std::span<const double> mocap_quat = {};    // 4 nmocap; default from the model
  double time = 0;                            // [s]
  // nv: warm start of the constraint solver in the first step, for rollouts that continue from
  // another one's next_warmstart; default 0. Not used by explicit Runge-Kutta methods.
  std::span<const double> qacc_warmstart = {};
};

enum class Outcome {
  kSuccess,
  kNotFinite,    // MuJoCo found a state that is not finite or larger than its limit of 1e10
  kMujocoError,  // MuJoCo raised an error
  kInterrupted,  // RolloutOptions::interrupted returned true
  // Of adaptive steps:
  kBudgetExhausted,  // max_steps were made
  kStepTooSmall,     // the tolerance is not met with the smallest step
};
const char* outcome_name(Outcome outcome);

// The subject of a warning.
enum class WarningKind {
  kMujoco,  // a warning of MuJoCo
  // About the gradient: the constraint solver stopped at its limit of iterations.
  kSolver,
  // Of adaptive steps, about the gradient:
  kGrazing,  // contacts or limits begin or end so slowly that a small change may miss them
  kChatter,  // a contact or limit begins and ends again and again
  kJump,     // a collider exchanges contacts that carry force for others
  kStiff,    // the method's stability limits the steps, or is exceeded by constant ones
};
const char* warning_kind_name(WarningKind kind);

// A warning of MuJoCo or of diffmj, as data.
struct Warning {
  std::string text;
  int first_step = 0;
  int count = 0;
  WarningKind kind = WarningKind::kMujoco;
};

// One step, as MuJoCo reports it.
struct StepRecord {
  int ncon = 0;          // contacts
  int nefc = 0;          // constraint rows
  int solver_niter = 0;  // iterations, over all islands
};

// Limits or contacts that became active together, at the end of a step.
struct Event {
  double time = 0;       // [s]
  int interval = 0;      // row of the trajectory before it
  int step = 0;          // that ends there
  std::string what;      // "contact of geom 'ball' and geom 'floor'", "limit of joint 'elbow'"; the
                         // first of them
  int count = 0;         // contacts and limits that it is about
  bool release = false;  // they cease to be active while they carry force
  double rate = 0;       // [m/s or rad/s] of their violation, the mean; < 0, of a release > 0
  double jump = 0;       // norm of the jump of qacc
  // The rate is so small that the motion may miss the contact after a small change.
  bool grazing = false;
  // The rate is 0 up to rounding: the contact or limit was at rest on its margin. The motion has no
  // derivative there, and the gradient is one-sided, without a term for the event.
  bool at_rest = false;
};

// What an explicit Runge-Kutta method did, over all intervals.
struct IntegratorRecord {
  std::vector<double> time;     // [s] where each step began, and where the last one ended
  std::vector<int> first_step;  // nstep + 1: of each interval; the last is the number of steps
  std::vector<unsigned char> implicit;  // of each step: 1 if it is linearly implicit
  long naccepted = 0, nrejected = 0, nevaluation = 0;
  double smallest_step = 0, largest_step = 0;  // [s], of accepted ones
  std::vector<Event> events;                   // in the order of time
  // [s] of wall time: MuJoCo's stages over all evaluations, and the rollout
  struct Seconds {
    double position = 0, velocity = 0, actuation = 0, acceleration = 0, constraint = 0, total = 0;
  };
  Seconds seconds;
  // Where the rollout ended; of one that failed, beyond the last row of the trajectory.
  double end_time = 0;                              // [s]
  std::vector<double> end_qpos, end_qvel, end_act;  // nq, nv, na
};

// What the backward pass reads of a rollout beside its states; not for users.
struct Tape;

struct Trajectory {
  int nq = 0, nv = 0, na = 0, nu = 0, nbody = 0;
  int nstep = 0;  // steps completed: every array below has nstep or nstep + 1 rows

  std::vector<double> time;             // nstep + 1
  std::vector<double> qpos, qvel, act;  // (nstep + 1) x {nq, nv, na}
  std::vector<double> qacc;             // nstep x nv: as mj_step leaves it; at the start of a step,
                                        // for RK4 at its last stage; at the start of an interval
  std::vector<double> next_warmstart;   // nv: what the solver of a next step would start from
  std::vector<StepRecord> steps;        // nstep
  IntegratorRecord integrator;          // of explicit Runge-Kutta methods; else empty
  // (nstep + 1) x nsensordata, with RolloutOptions::sensors; else empty (sensordata(), sensors.h).
  std::vector<double> sensordata;

  // The inputs, as used: nstep_asked rows, or one row that was held, or nothing.
  std::vector<double> ctrl, qfrc_applied, xfrc_applied;
  std::vector<double> mocap_pos, mocap_quat;
  int nstep_asked = 0;

  Outcome outcome = Outcome::kSuccess;
  std::string message;  // of a failure: what, at which step, time and dof, and the remedy
  int failed_dof = -1;  // of kNotFinite
  std::vector<Warning> warnings;

  // Shared by copies. It belongs to the model that the trajectory was made with, and its copies:
  // functions that take a trajectory throw InputError with another one, or without a tape.
  std::shared_ptr<const Tape> tape;

  bool ok() const { return outcome == Outcome::kSuccess; }
};

struct Poses;  // below

struct RolloutOptions {
  // Threads of a batch; none: one per core. Results do not depend on it.
  std::optional<int> nthread = {};
  // Polled from the calling thread, at most every 50 ms; true stops the call. Empty: never.
  std::function<bool()> interrupted = {};
  // Called at the same times with the share of the work that is done, from 0 to 1.
  std::function<void(double)> progress = {};
  // With explicit Runge-Kutta methods: take the steps of this trajectory instead of choosing new
  // ones, so that the result is a smooth function of the input. It must have as many rows.
  const Trajectory* steps_of = nullptr;
  // Record what the sensors measure at every state.
  bool sensors = false;
  // The named poses and velocities at every state, as poses() gives them, are written to one entry
  // per rollout, whose memory is reused. With MuJoCo's integrators other than RK4 they are read
  // from the steps themselves.
  std::vector<std::string> observables = {};
  std::span<Poses> poses = {};
  // Keep contacts and tendon paths, so that a backward pass need not recompute them.
  bool keep_stages = true;
};

// nstep calls of mj_step, bit for bit; with an explicit Runge-Kutta method nstep intervals, each
// with as many steps as its tolerance requires. Throws InputError on a wrong size or a number that
// is not finite, MemoryError if the record does not fit. A rollout that fails is returned with its
// outcome and the completed steps.
[[nodiscard]] Trajectory rollout(const Model& model, const RolloutInput& input, int nstep,
                                 const RolloutOptions& options = {});

// One rollout per input, on a pool of threads. A rollout that fails does not affect the others.
// Input errors name the rollout.
[[nodiscard]] std::vector<Trajectory> rollout_batch(const Model& model,
                                                    std::span<const RolloutInput> inputs, int nstep,
                                                    const RolloutOptions& options = {});
// The same with a separate model for every rollout; all are variants of one model
// (Model::with_parameters, with_numbers): many values of parameters at once.
[[nodiscard]] std::vector<Trajectory> rollout_batch(std::span<const Model> models,
                                                    std::span<const RolloutInput> inputs, int nstep,
                                                    const RolloutOptions& options = {});

// Poses and velocities at every state of a trajectory: what a loss may use beside the states
// (observables.h lists them). Poses are as mj_kinematics and mj_comPos give them, rotation matrices
// row-major. Velocities are in world axes, as mj_objectVelocity gives them for mjOBJ_XBODY and
// mjOBJ_SITE: those of a body are of the point xpos.
struct Poses {
  std::vector<double> xpos, xquat, xmat;         // (nstep + 1) x {3, 4, 9} nbody
  std::vector<double> site_xpos, site_xmat;      // (nstep + 1) x {3, 9} nsite
  std::vector<double> geom_xpos, geom_xmat;      // (nstep + 1) x {3, 9} ngeom
  std::vector<double> subtree_com;               // (nstep + 1) x 3 nbody
  std::vector<double> body_linvel, body_angvel;  // (nstep + 1) x 3 nbody [m/s, rad/s]
  std::vector<double> site_linvel, site_angvel;  // (nstep + 1) x 3 nsite [m/s, rad/s]
};
// Computes the named ones; the others stay empty. Throws InputError if the trajectory belongs to
// another model, or if a name is unknown.
[[nodiscard]] Poses poses(const Model& model, const Trajectory& trajectory,
                          const std::vector<std::string>& names = {"xpos", "xquat", "site_xpos",
                                                                   "subtree_com"});

// A contact of a step, in MuJoCo's terms.
struct ContactRecord {
  int geom[2];      // the normal points from the first to the second
  double pos[3];    // [m]
  double frame[9];  // rows: normal and two tangents
  int row;          // first of its rows, -1: it has none
  int dim;          // 1, 3, 4 or 6
  double force[6];  // on the second geom, in the frame: normal, tangents, then torques [N, Nm]
};
// Constraint forces at the start of a step: f of the rows at the recorded acceleration.
struct ConstraintForces {
  std::vector<double> force;  // nefc: efc_force
  std::vector<int> type,
      id;  // nefc: mjtConstraint, and the equality, dof, joint, tendon or contact
  std::vector<ContactRecord> contacts;
};
// Throws InputError if the trajectory belongs to another model or has no such step.
[[nodiscard]] ConstraintForces constraint_forces(const Model& model, const Trajectory& trajectory,
                                                 int step);

}  // namespace diffmj

#endif  // DIFFMJ_ROLLOUT_H_
