// A run of a planner as a page: cost over simulated and over computing time, controls, states.
#ifndef DIFFMJ_MPC_REPORT_H_
#define DIFFMJ_MPC_REPORT_H_

#include <string>

#include "diffmj/mpc.h"

namespace diffmj {

struct MpcReport {
  std::string title = "Plans";
  std::string film = {};  // file name of an animated image in the same folder; empty: none
};
// One HTML file without scripts; plots are embedded.
[[nodiscard]] std::string mpc_report(const Planner& planner, const Model& execution,
                                     const MpcRun& run, const MpcReport& report = {});

}  // namespace diffmj

#endif  // DIFFMJ_MPC_REPORT_H_
