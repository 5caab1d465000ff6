// Where the derivative may jump: how far a rollout stays from a change of its active set.
#ifndef DIFFMJ_CHECK_KINKS_H_
#define DIFFMJ_CHECK_KINKS_H_

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "diffmj/check.h"
#include "mj/view.h"
#include "setup/workspace_lease.h"

namespace diffmj {

// Gathers, state by state, how near a rollout comes to a change of a constraint's activity or zone.
// Constraints that are not rows yet are seen for limits, and for contacts within margin and gap.
class KinkSurvey {
 public:
  explicit KinkSurvey(const Model& model) : model_(model) {}

  // The state in the workspace's mjData, whose stages must have been evaluated and the solution
  // factorised (solution_factorize).
  void look(int step, Workspace& workspace);

  // Of all constraints, controls and activations.
  Kink nearest() const;
  // One entry per constraint that was seen, nearest first.
  std::vector<ConstraintKinks> constraints() const;
  // In a sentence, the controls that are at a bound of their range, which nearest() does not count;
  // empty if there are none.
  std::string controls_at_bounds() const;

 private:
  // A kink with a number that compares lengths, angles and forces: below 1 it is close.
  struct Ranked {
    Kink kink;
    double rank = 0;
  };
  struct Found {
    std::string constraint;
    Ranked zone, activation;
  };
  enum class Kind {
    kFrictionDof,
    kFrictionTendon,
    kLimitJoint,
    kLimitTendon,
    kGeoms,
    kGeomAndFlex,
    kFlexes,
  };
  using Key = std::tuple<Kind, int, int>;  // with the element's id, or those of two

  template <class What>
  static void offer(double rank, double distance, const char* unit, int step, What&& what,
                    Ranked& to);
  Found& find(Kind kind, int first, int second = -1);
  Found& find(const mjContact& contact);
  Found& find_row(const mjData* d, int i);
  void look_at_rows(int step, const Workspace& workspace);
  void look_at_noslip(int step, Workspace& workspace);
  void look_at_contacts(int step, const mjData* d);
  void look_at_limits(int step, const mjData* d);
  void look_at_controls(int step, const mjData* d);

  const Model& model_;
  std::map<Key, Found> found_;
  Ranked control_;  // the nearest one of controls and activations
  Ranked sweeps_;   // of the no-slip pass
  struct AtBound {
    int actuator, control, step;
  };
  std::vector<AtBound> at_bound_;  // each control once, with the first step
  std::vector<double> share_;
};

}  // namespace diffmj

#endif  // DIFFMJ_CHECK_KINKS_H_
