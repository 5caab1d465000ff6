// What A = J M⁻¹ Jᵀ and the no-slip pass keep in a workspace.
#ifndef DIFFMJ_STAGES_ACCELERATION_PROJECTION_SCRATCH_H_
#define DIFFMJ_STAGES_ACCELERATION_PROJECTION_SCRATCH_H_

#include <array>
#include <vector>

namespace diffmj {

// A at one state, and cotangents of it (stages/acceleration/constraint_projection.h).
struct Projection {
  std::vector<int> begin, column;  // nefc + 1, and the columns of its non-zeros, row by row
  std::vector<double> A, A_bar;    // one per non-zero
  std::vector<double> Z;           // nefc x nv: rows M⁻¹ J_iᵀ
  std::vector<double> J_bar;       // nefc x nv: cotangents of the rows of J
  std::vector<double> M_bar;       // nv x nv, symmetric: of M
};

// The pass at one state (stages/acceleration/noslip.h).
struct Noslip {
  // Rows that are updated together.
  enum class Kind : int { kFrictionLoss, kPyramid, kEllipse };
  struct Block {
    int island, row, n;
    Kind kind;
    int contact;                       // of a cone
    std::array<int, 5> diagonal = {};  // of each row, its first entry of A within the block
  };
  // Which case an update was.
  enum class Case : int {
    kInside,    // the minimum
    kLow,       // friction loss, pyramid: at the lower bound
    kHigh,      // at the upper one
    kMiddle,    // pyramid that does not move: both edges have the same
    kZero,      // ellipse without normal force, or without a minimum
    kCone,      // ellipse: on its boundary
    kRestored,  // the cost would have grown: the force stays what it was
  };
  struct Update {
    int block;
    Case which;
    int sweep;  // place in sweeps
  };
  struct Sweep {
    int island, number;  // from 0 on within the island
    double improvement;  // of the cost, relative to the island's inertia: small ones end the pass
  };

  std::vector<double> qacc;                         // nv: a of the main solver
  std::vector<double> a_bar;                        // nv: of the pass's solution
  std::vector<double> main_force, force, b;         // nefc: f₀, f, residual where f is 0
  std::vector<Block> blocks;                        // by island
  std::vector<Update> updates;                      // in the order they were made
  std::vector<Sweep> sweeps;                        // "
  std::vector<double> before;                       // their forces before
  std::vector<double> force_bar, main_force_bar;    // nefc: of f, consumed; of f₀
  std::vector<double> y_bar;                        // nefc: of y = J a - aref at the main solution
  std::vector<double> change;                       // nefc: f - f₀
  std::vector<std::array<double, 5>> friction_bar;  // ncon
  std::vector<double> frictionloss_bar;             // nefc
  std::vector<double> replay;                       // nefc: forces, in the backward pass
  double stop_distance = 1;  // of a sweep's improvement to the tolerance, relative to both
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_PROJECTION_SCRATCH_H_
