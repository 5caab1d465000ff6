// run_mpc(): plan, execute the first part, then plan again from the state reached.
#ifndef DIFFMJ_MPC_H_
#define DIFFMJ_MPC_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diffmj/plan.h"

namespace diffmj {

// One plan of a run, and how it was executed.
struct MpcPlan {
  int step = 0;     // step of the execution at which planning began
  double time = 0;  // [s] initial time of the plan; with realtime, later than that of the step
  double cost = 0;
  double executed_cost = 0;  // cost of the states until the next plan; NaN: none was executed
  double seconds = 0;        // planning time, including the prediction
  double expected = 0;       // [s] planning time that the prediction assumed
  bool late = false;         // planning took longer, so the first part of the plan was skipped
  std::vector<PlanIteration> history = {};
  long nrollout = 0, ndiverged = 0;
  CfdCounts cfd = {};        // as in Plan
  std::string message = {};  // why the first rollout diverged
};

// The state from which a run can continue: after its last complete plan.
struct MpcMemory {
  struct Controls {
    double from = 0, begin = 0;     // [s] when they take effect; the time of their first row
    std::vector<double> ctrl = {};  // rows x nu, of the planning timestep
  };
  int nstep = 0, nplan = 0;  // steps and plans of the run so far
  PlannerMemory planner = {};
  std::vector<Controls> controls = {};
  std::vector<double> latencies = {};  // [s]
  double expected = 0;                 // [s]
};

struct MpcRun {
  int nstep = 0;                        // steps executed
  std::vector<double> time;             // nstep + 1
  std::vector<double> qpos, qvel, act;  // (nstep + 1) x {nq, nv, na}
  std::vector<double> ctrl;             // nstep x nu, as executed
  std::vector<MpcPlan> plans;
  double seconds = 0;        // planning time of all plans
  double simulated = 0;      // [s] of motion
  bool interrupted = false;  // the run was interrupted; this is the completed part
  bool done = false;         // MpcOptions::done ended the run
  std::string message;  // why the run ended early: the execution or all rollouts of a plan diverged
  MpcMemory memory;
};

struct MpcOptions {
  int nstep = 500;   // steps of the execution model
  int execute = 16;  // steps between two plans; with realtime the minimum
  // The world does not wait: while a plan is computed, the execution continues with the available
  // controls for as long as planning takes. The planner runs these controls to predict the state at
  // which its plan will be ready, and plans from there.
  bool realtime = false;
  // [s] Expected time of the first plan; later plans are expected to take as long as the longest of
  // the last ten, divided by their effort. None: plan_seconds, or PlanOptions::seconds, or 0, times
  // PlanOptions::first_effort. A plan that is ready early begins at the expected time; until then
  // the next plans begin at the same state and continue its search.
  std::optional<double> latency = {};
  // [s] Assumed time of a plan in real time, instead of the clock: results are then reproducible.
  // The first plan takes PlanOptions::first_effort times as long. None: the clock.
  std::optional<double> plan_seconds = {};
  // [s] Timestep of the planner's model while it predicts; it may be finer than that of planning.
  // None: the same.
  std::optional<double> predict_timestep = {};
  // Standard deviation of noise on executed controls, in units of half their range (1 without).
  double ctrl_noise = 0;
  unsigned seed = 0;
  // Forces on bodies in the execution that are unknown to the planner: nstep x 6 nbody; empty:
  // none.
  std::span<const double> disturbance = {};
  // A run to continue, from its memory. The result includes its part, and nstep counts it. Unless
  // the clock decides, the bits are those of one uninterrupted run.
  const MpcRun* resume = nullptr;
  std::function<bool()> interrupted = {};
  std::function<void(const MpcPlan&, const MpcRun&)> progress = {};  // after every plan
  // Ends the run after the states of a plan were executed.
  std::function<bool(const MpcRun&)> done = {};
};

// execution may differ from the planner's model in its numbers and options, but must have the same
// state and controls. The planner keeps its last plan, so that a second run from the last state
// continues it. start is the start of the execution. Its ctrl, if given, initialises the first
// plan; with realtime it is also applied until that plan is ready.
//
// Throws InputError. A diverging execution, a plan whose rollouts all diverge and an interrupt end
// the run; the completed part is returned.
[[nodiscard]] MpcRun run_mpc(Planner& planner, const Model& execution, const RolloutInput& start,
                             const MpcOptions& options = {});

// A run as a file, with all bits, for MpcOptions::resume. Throws InputError.
void save_run(const std::string& path, const MpcRun& run);
[[nodiscard]] MpcRun load_run(const std::string& path);

}  // namespace diffmj

#endif  // DIFFMJ_MPC_H_
