// How a model is differentiated: what its gradient path does, and what it offers. There is one of
// these for each path; setup/differentiation.cc makes the model's, and nothing below the surface
// asks for the path's name.
#ifndef DIFFMJ_STAGES_DIFFERENTIATION_H_
#define DIFFMJ_STAGES_DIFFERENTIATION_H_

#include "diffmj/options.h"
#include "mj/view.h"
#include "stages/multipliers.h"
#include "stages/step_input.h"

namespace diffmj {

class StageModel;
class StepModel;
class Workspace;
struct FieldPoint;      // integrate/field_pullback.h
struct StepBar;         // integrate/step.h
struct VectorFieldBar;  // stages/vector_field.h

struct Differentiation {
  GradientPath path = GradientPath::kAnalytic;  // its name, for reports
  // The vector field has a pullback. Otherwise whole steps are differenced, and constraint forces,
  // parameters and tangents have no derivatives.
  bool of_field = false;
  // Every stage has a pullback of its own: many cotangents cost little more than one, Jacobians
  // come as matrices, and what the rollout kept of contacts and tendons is read.
  bool of_stages = false;

  // Evaluates what the pullback of the field reads; see vector_field_evaluate().
  void (*evaluate)(const StageModel& impl, const StepInput& in, bool constrained,
                   Workspace& workspace) = nullptr;
  // field_pullback() and step_pullback() do this.
  void (*field_pullback)(const StepModel& impl, const FieldPoint& at, Matrix& a_bar,
                         const Multipliers& multipliers, const VectorFieldBar& bar,
                         Workspace& workspace) = nullptr;
  void (*step_pullback)(const StepModel& impl, const StepInput& in, CVec qacc, StepBar& bar,
                        Workspace& workspace) = nullptr;
};

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_DIFFERENTIATION_H_
