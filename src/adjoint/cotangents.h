// Cotangents of a loss: are they of the trajectory, and what does each state receive of them?
#ifndef DIFFMJ_ADJOINT_COTANGENTS_H_
#define DIFFMJ_ADJOINT_COTANGENTS_H_

#include <string>
#include <utility>
#include <vector>

#include "diffmj/gradient.h"
#include "mj/view.h"
#include "setup/workspace_lease.h"

namespace diffmj {

// Throws InputError or UnsupportedError that names the cotangent.
void require_cotangents(const std::string& who, const Model& model, const Trajectory& trajectory,
                        const Cotangents& cotangents);

// Adds the cotangents of state i to x_bar (2 nv + na); with poses also those of the poses and
// velocities there, and to params.
void add_state_cotangents(const Model& model, const Trajectory& trajectory,
                          const Cotangents& cotangents, int i, bool poses, Vec x_bar,
                          const ParameterBar& params, Workspace& workspace);

// Those of the poses and velocities at state i, and whether any is not 0.
std::pair<PoseBar, bool> pose_cotangents(const Trajectory& trajectory, const Cotangents& cotangents,
                                         int i);

// Those of the sensors at a state, 0 where a value is beyond its cutoff.
class SensorCotangents {
 public:
  SensorCotangents(const Model& model, const Trajectory& trajectory, const Cotangents& cotangents,
                   Workspace& workspace);
  // Empty: all are 0. Good until the next call.
  CVec at(int i);

 private:
  const Model& model_;
  const Trajectory& trajectory_;
  const Cotangents& cotangents_;
  Workspace& workspace_;
  bool has_cutoff_ = false;
  std::vector<double> row_;
};

}  // namespace diffmj

#endif  // DIFFMJ_ADJOINT_COTANGENTS_H_
