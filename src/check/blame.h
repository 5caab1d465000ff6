// What a gradient that differs from differences is wrong about: the comparison is repeated for one
// step of models from which all but one constraint, actuator or passive force was removed.
#ifndef DIFFMJ_CHECK_BLAME_H_
#define DIFFMJ_CHECK_BLAME_H_

#include <functional>
#include <string>

#include "check/rollout_function.h"

namespace diffmj {

// In words, after "it comes from": "the contact of geom 'ball' and geom 'floor'". step is one step
// of a rollout of model, with its cotangents. adjoint_of gives the model whose gradient is
// compared, for each model whose steps are; the identity, but in tests.
std::string responsible(const Model& model, const RolloutFunction& step, double tolerance,
                        const std::function<Model(const Model&)>& adjoint_of = {});

// Of a step whose differences do not converge: the constraint whose force scatters most between
// states nearby, in words.
std::string unsteady(const Model& model, const RolloutFunction& step);

}  // namespace diffmj

#endif  // DIFFMJ_CHECK_BLAME_H_
