// Contacts that MuJoCo's colliders place elsewhere from one pose to the next, as where two meshes
// overlap and two ways out of each other are equally short. Forces jump there, without an event.
#ifndef DIFFMJ_RECORD_JUMPING_CONTACT_H_
#define DIFFMJ_RECORD_JUMPING_CONTACT_H_

#include <string>

#include "diffmj/model.h"
#include "integrate/runge_kutta.h"
#include "stages/workspace.h"

namespace diffmj {

// What to say about the contact that jumps most on the way from a state, whose rates are known,
// over this time [s]; empty if none does. Uses the workspace's mjData.
std::string find_jumping_contact(const Model& model, const StepStart& start, double duration,
                                 Workspace& workspace);

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_JUMPING_CONTACT_H_
