// Which of two methods makes the next step: the explicit one, or where its stability and not the
// tolerance limits steps, the linearly implicit one (docs/derivations/stiff.md).
//
// gradient: the choice is not differentiated, as step sizes are not.
#ifndef DIFFMJ_RECORD_METHOD_CHOICE_H_
#define DIFFMJ_RECORD_METHOD_CHOICE_H_

#include "integrate/runge_kutta.h"

namespace diffmj {

class MethodChoice {
 public:
  // The method, which begins with impl.tableau, must outlive this.
  MethodChoice(const StepModel& impl, RungeKutta& method);

  bool implicit() const { return method_.tableau().implicit(); }
  // Before a step, with the one that the tolerance allows [s], no longer than an interval, and the
  // limit of stability [s]. True if the other method takes over.
  bool look(double wish, double limit);
  // After a step of this size [s].
  void follow(double h);

 private:
  void use(const Tableau& tableau);

  const StepModel& impl_;
  RungeKutta& method_;
  const double worth_;  // an implicit step costs as much as so many explicit ones
  int count_ = 0;       // steps in a row that speak for the other one
  double limit_ = 0;    // [s] of the explicit method, where the implicit one took over
  double radius_ = 0;   // the same times |λ|
  int nimplicit_ = 0;   // steps since
  double time_ = 0;     // [s] in them
  int wait_ = 0;        // explicit steps until the implicit method is tried again
  int patience_;        // the next wait
};

}  // namespace diffmj

#endif  // DIFFMJ_RECORD_METHOD_CHOICE_H_
