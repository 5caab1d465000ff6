// Contacts that MuJoCo's colliders place elsewhere from one pose to the next, as where two meshes
// overlap and two ways out of each other are equally short. Forces jump there, without an event.
#ifndef DIFFMJ_RECORD_JUMPING_CONTACT_H_
#define DIFFMJ_RECORD_JUMPING_CONTACT_H_

#include <optional>
#include <string>
#include <vector>

#include "diffmj/model.h"
#include "diffmj/rollout.h"
#include "integrate/runge_kutta.h"
#include "stages/workspace.h"

namespace diffmj {

// What to say about the contact that jumps most on the way from a state, whose rates are known,
// over this time [s]; empty if none does. Uses the workspace's mjData.
std::string find_jumping_contact(const Model& model, const StepStart& start, double duration,
                                 Workspace& workspace);

// Follows the steps of a rollout, to say afterwards whether a contact jumped where they were
// rejected.
class JumpingContact {
 public:
  // An attempt of size h [s] in that interval was rejected, whose rates at the start are known.
  void rejected(const StepStart& start, double h, int interval);
  void accepted();

  // Of a rollout that rejected many steps, in a row where a contact jumps. Uses the workspace's
  // mjData.
  std::optional<Warning> warning(const Model& model, Workspace& workspace) const;
  // What it says; empty: none.
  std::string what(const Model& model, Workspace& workspace) const;

 private:
  long naccepted_ = 0, nrejected_ = 0;
  int run_ = 0;          // rejected in a row
  double duration_ = 0;  // [s] of the first of them
  // where most were
  int most_ = 0, interval_ = 0;
  double most_duration_ = 0, time_ = 0;  // [s]
  std::vector<double> qpos_, qvel_, act_, qacc_;
};

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_JUMPING_CONTACT_H_
