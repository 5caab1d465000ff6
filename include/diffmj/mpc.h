// run_mpc(): plan, execute the first part, then plan again from the state reached.
#ifndef DIFFMJ_MPC_H_
#define DIFFMJ_MPC_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "diffmj/plan.h"

namespace diffmj {

struct MpcPlan {  // one plan of a run, and what came of it
  int step = 0;   // of the execution at which planning began
  double time =
      0;  // [s] of the execution from which it was planned: with realtime, later than that
  double cost = 0;
  double executed_cost = 0;  // of the states from here to the next plan; NaN: none was executed
  double seconds = 0;        // of planning, prediction included
  double expected = 0;       // [s]: what the prediction took it to be
  bool late = false;         // it took longer: the first part of the plan was not executed
  std::vector<PlanIteration> history = {};
  long nrollout = 0, ndiverged = 0;
  std::string message = {};  // of what diverged
};

// The state from which a run can continue: after its last complete plan.
struct MpcMemory {
  struct Controls {
    double from = 0, begin = 0;     // [s] when they take over, and what their first row is for
    std::vector<double> ctrl = {};  // rows x nu, of the planning timestep
  };
  int nstep = 0, nplan = 0;  // of the run until there
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
  double seconds = 0;        // of planning, all plans
  double simulated = 0;      // [s] of motion
  bool interrupted = false;  // what was done until then
  bool done = false;         // MpcOptions::done said so
  std::string message;  // why it ended early, if the execution or all rollouts of a plan diverged
  MpcMemory memory;
};

struct MpcOptions {
  int nstep = 500;   // of the execution model
  int execute = 16;  // of them from plan to plan; with realtime at least
  // The world does not wait: while a plan is computed, the execution continues with the available
  // controls for as long as planning takes. The planner runs these controls to predict the state at
  // which its plan will be ready, and plans from there.
  bool realtime = false;
  // [s] Expected time of the first plan; later plans are expected to take as long as the longest of
  // the last three, divided by their effort. 0: PlanOptions::seconds, times first_effort.
  double latency = 0;
  // [s] Assumed time of a plan in real time, instead of the clock: results are then reproducible.
  // The first plan takes PlanOptions::first_effort times as long. 0: the clock.
  double plan_seconds = 0;
  // [s] of the planner's model while it predicts: a coarse one of planning need not count there.
  // 0: as it plans.
  double predict_timestep = 0;
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
