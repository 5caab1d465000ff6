// The gradient paths: what each of them does (stages/differentiation.h).
#ifndef DIFFMJ_SETUP_DIFFERENTIATION_H_
#define DIFFMJ_SETUP_DIFFERENTIATION_H_

#include "stages/differentiation.h"

namespace diffmj {

Differentiation differentiation_by(GradientPath path, const mjModel* m);

}  // namespace diffmj

#endif  // DIFFMJ_SETUP_DIFFERENTIATION_H_
