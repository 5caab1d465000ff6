// Which piece of its laws everything in a step is on: constraints and their zones, the number of
// sweeps of the no-slip pass and the case of each of its updates, clamps of controls, activations
// and forces, time constants of muscles, tendons.
//
// The map of a step is smooth as long as none of that changes, and the adjoint is the derivative of
// the piece the step is on. Differences may be compared with it if all their samples are on that
// piece; where they are not, the numbers here say which constraint or clamp lies between, and how
// far away its switch is.
#ifndef DIFFMJ_CHECK_PIECES_H_
#define DIFFMJ_CHECK_PIECES_H_

#include <mujoco/mujoco.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "diffmj/model.h"
#include "mj/view.h"
#include "setup/workspace_lease.h"
#include "stages/acceleration/constraint_solve.h"

namespace diffmj {

// A row of a limit, a friction loss or a contact; of an elliptic contact all its rows.
struct PieceRow {
  int type = 0;          // mjtConstraint
  int first = 0;         // joint, dof or tendon; of a contact its first geom, or -2 - flex
  int second = 0;        // of a contact its second one; of a limit the side
  int index = 0;         // among the rows of the contact
  double pos[3] = {};    // [m] of a contact
  int zone = 0;          // 0: no force; else its zone, of friction with the sign
  double value[2] = {};  // switches between zones where one of them is 0
  double violation = 0;  // pos - margin: there is such a row where it is < 0
  int sweep = -1;        // of the no-slip pass, whose update of the row this is; -1: main solver
};

// The type of a row that is a sweep of the no-slip pass, of the island `first`. Its violation is
// noslip_tolerance minus the improvement of the sweep before it.
inline constexpr int kSweep = -1;

// A clamp or a law with cases. Its place in the list says which.
struct PieceLaw {
  int piece = 0;
  // of either side: an exact corner, whose gradient is that of each input alone
  static constexpr int kCorner = std::numeric_limits<int>::min();
  // switches where it is 0; NaN: not known
  double value = std::numeric_limits<double>::quiet_NaN();
};

struct Pieces {
  std::vector<PieceRow> rows;    // of the main solver
  std::vector<PieceRow> noslip;  // updates, and each sweep as a row with the type kSweep
  std::vector<PieceLaw> laws;
};

// A number that is 0 where a piece ends, and the side of it on which the base is.
struct Switch {
  int law = -1;       // place among the laws, or -1
  PieceRow row = {};  // else the row,
  // and which number of it; of a place that jumps there is none
  enum { kZone, kOtherZone, kViolation, kPlace } of = kZone;
  double side = 1;        // > 0 or < 0
  bool at_base = true;    // defined at the base; else at the other state
  size_t evaluation = 0;  // of those that a function makes (RolloutFunction::pieces)

  bool operator==(const Switch& other) const;
  // At a state nearby; NaN if it is not defined there.
  double value(const Pieces& pieces) const;
};

class PieceSurvey {
 public:
  explicit PieceSurvey(const Model& model);

  // Reads the stages of an evaluation in the workspace's mjData, and the activations and controls
  // they were evaluated at. act_next: activations after the step; empty: not known. With a no-slip
  // pass qacc and the forces in mjData become those of the main solver alone.
  Pieces look(Workspace& workspace, CVec act, CVec act_next) const;

  // What of the base is not the same at another state, which is a distance h away in its
  // coordinates.
  std::vector<Switch> changes(const Pieces& base, const Pieces& other, double h) const;

  // Inputs that the switch of a law is linear in: pairs of a place in (q, v, act, ctrl) and a
  // slope; empty for others.
  std::vector<std::pair<int, double>> slope(const Switch& at) const;
  // Muscles at an exact corner: the places of activation and control, of which one may move inwards
  // at a time, and the sign that is inwards.
  struct Corner {
    int act, ctrl;
    double inwards;
  };
  std::vector<Corner> corners(const Pieces& base, CVec act) const;

  // "contact of geom 'ball' and geom 'floor' closes or opens"
  std::string name(const Switch& at) const;

 private:
  enum class LawKind {
    kControl,         // control of an actuator, clamped to its range
    kMuscleControl,   // to [0, 1]
    kActivation,      // clamped to its range
    kMuscleLevel,     // to [0, 1], where a muscle's time constants read it
    kTimeConstant,    // of a muscle, activation or deactivation
    kMuscleVelocity,  // sign, in the metric of implicit integrators
    kForce,           // of an actuator, clamped
    kJointForce,      // of all actuators on a joint, clamped
    kTendonSpring,    // dead band
  };
  struct Law {
    LawKind kind;
    int id;    // actuator, joint or tendon
    int item;  // number of the control or activation
  };
  void look_at_rows(const mjData* d, CVec qacc, std::vector<PieceRow>& rows) const;
  void look_at_noslip(Workspace& workspace, std::vector<PieceRow>& rows) const;
  PieceRow describe(const mjData* d, int row) const;
  PieceLaw look_at(const Law& law, const mjData* d, CVec act, CVec act_next) const;

  const Model& model_;
  std::vector<Law> laws_;
};

// Whether MuJoCo finds the contact by iteration, to a tolerance (ccd_tolerance).
bool is_iterated(const mjModel* m, const PieceRow& row);

}  // namespace diffmj

#endif  // DIFFMJ_CHECK_PIECES_H_
