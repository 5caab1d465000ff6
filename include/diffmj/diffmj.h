// diffmj: gradients through contact for MuJoCo. Everything public, in the order of the data flow.
#ifndef DIFFMJ_DIFFMJ_H_
#define DIFFMJ_DIFFMJ_H_

// clang-format off
#include "diffmj/version.h"
#include "diffmj/error.h"
// models and their options
#include "diffmj/adaptive.h"
#include "diffmj/collisions.h"
#include "diffmj/cfd.h"
#include "diffmj/options.h"
#include "diffmj/model.h"
// rollouts
#include "diffmj/state.h"
#include "diffmj/rollout.h"
#include "diffmj/sensors.h"
#include "diffmj/serialize.h"
#include "diffmj/tape.h"
// derivatives
#include "diffmj/gradient.h"
#include "diffmj/observables.h"
#include "diffmj/linearize.h"
#include "diffmj/check.h"
// identification
#include "diffmj/identify.h"
#include "diffmj/recording.h"
#include "diffmj/fit.h"
#include "diffmj/fit_report.h"
// planning
#include "diffmj/cost.h"
#include "diffmj/plan.h"
#include "diffmj/mpc.h"
#include "diffmj/mpc_report.h"
// clang-format on

#endif  // DIFFMJ_DIFFMJ_H_
