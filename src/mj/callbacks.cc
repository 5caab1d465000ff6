#include "mj/callbacks.h"

#include <mujoco/mujoco.h>

#include <array>
#include <string>
#include <utility>

#include "diffmj/error.h"
#include "mj/evaluation_hook.h"

namespace diffmj {

void require_no_callbacks(const char* who) {
  const std::array<std::pair<bool, const char*>, 6> callbacks = {{
      {mjcb_passive != nullptr, "mjcb_passive"},
      {has_foreign_control_callback(), "mjcb_control"},
      {mjcb_contactfilter != nullptr, "mjcb_contactfilter"},
      {mjcb_act_dyn != nullptr, "mjcb_act_dyn"},
      {mjcb_act_gain != nullptr, "mjcb_act_gain"},
      {mjcb_act_bias != nullptr, "mjcb_act_bias"},
  }};
  for (const auto& [set, name] : callbacks) {
    if (set) {
      throw UnsupportedError(std::string(who) + ": the callback " + name +
                             " is set, whose derivative is not known: set it to null (None), and "
                             "give controls and forces to the rollout instead");
    }
  }
}

}  // namespace diffmj
