// A model as its steps see it: stages, and the method that makes steps of them.
#ifndef DIFFMJ_INTEGRATE_STEP_MODEL_H_
#define DIFFMJ_INTEGRATE_STEP_MODEL_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "stages/stage_model.h"

namespace diffmj {

template <class Real>
struct TableauOf;  // integrate/tableau.h
using Tableau = TableauOf<double>;

struct StepMethod {
  const Tableau* tableau = nullptr;  // of a Runge-Kutta method; null: MuJoCo integrates
  // The method that takes over where that one's stability limits steps; null: none.
  const Tableau* stiff_tableau = nullptr;
  double interval = 0;               // [s] between rows of a trajectory
};

// Where Mhat of the implicit integrators is not zero below its diagonal: where D is, of a lone free
// body of implicitfast everywhere, of a dof whose row of M is its diagonal nowhere.
struct MetricPattern {
  explicit MetricPattern(const mjModel* m);
  std::span<const int> row(int i) const {
    const auto k = static_cast<size_t>(i);
    return std::span(column).subspan(begin[k], begin[k + 1] - begin[k]);
  }

  std::vector<size_t> begin;     // nv + 1
  std::vector<int> column;       // ascending in each row
  std::vector<int> free_bodies;  // those that implicitfast treats alone
};

class StepModel : public StageModel {
 public:
  const Tableau *tableau, *stiff_tableau;  // as in StepMethod
  double interval;         // [s]
  const MetricPattern metric_pattern;
  // The places that a workspace has for Runge-Kutta stages, and for the state after them.
  size_t nplace() const;

 protected:
  StepModel(std::shared_ptr<mjModel> compiled, const StepMethod& method,
            const ModelOptions& options);
};

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_STEP_MODEL_H_
