// What the constraint solve keeps in a workspace (stages/acceleration/constraint_solve.h).
#ifndef DIFFMJ_STAGES_ACCELERATION_NEWTON_SCRATCH_H_
#define DIFFMJ_STAGES_ACCELERATION_NEWTON_SCRATCH_H_

#include <cstddef>
#include <vector>

#include "mj/view.h"

namespace diffmj {

enum class Zone : int;  // stages/acceleration/constraint_solve.h

struct NewtonScratch {
  explicit NewtonScratch(size_t nv);

  Matrix H;  // nv x nv: the Newton matrix, after factorize() its Cholesky factor
  std::vector<int> factor_row, factor_column;  // the factor's non-zeros, last row first
  std::vector<double> y;                       // nefc
  std::vector<Zone> zone;                      // nefc, set at the first row of a zone
  // non-zeros of up to 6 rows of J
  std::vector<int> row_column;
  std::vector<double> row_value;
  std::vector<double> H_lambda;  // nv
};

// Cotangents of constraint rows, nefc each.
struct RowsBar {
  std::vector<double> J_lambda, J_a, J_v;  // of a row's products with λ, a and v
  std::vector<double> aref;
  std::vector<double> pos;  // of efc_pos, through aref, the impedance and so R
};

// What aref has for a violation, and its slope in pos.
struct Violation {
  double value = 0, slope = 1;
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_ACCELERATION_NEWTON_SCRATCH_H_
