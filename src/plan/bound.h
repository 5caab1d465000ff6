// The terms of a cost with indices for names.
#ifndef DIFFMJ_PLAN_BOUND_H_
#define DIFFMJ_PLAN_BOUND_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "diffmj/cost.h"
#include "plan/residual.h"

namespace diffmj {

struct Cost::Bound {
  struct Term {
    CostTerm term;
    std::unique_ptr<Residual> residual;
  };
  std::vector<Term> terms;
  std::vector<OwnCost> own;
  std::vector<std::string> names;  // of observables
  std::vector<const Observable*> observables;
  bool sensors = false;
  int largest = 0;                                    // residual
  std::vector<std::vector<double> CostBars::*> bars;  // of states and controls, that terms add to

  void need(const Observable& x) {
    if (std::find(observables.begin(), observables.end(), &x) != observables.end()) return;
    observables.push_back(&x);
    names.emplace_back(x.name);
  }
  void require_poses(const Poses& poses, const Model& model, int nstep) const;
  void prepare(const Model& model, const Trajectory& t, Evaluation& out) const;
  void evaluate(const Model& model, const Trajectory& t, const Poses& poses, bool gradient,
                Evaluation& out) const;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_BOUND_H_
