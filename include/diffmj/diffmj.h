// diffmj: gradients through contact for MuJoCo. Everything public, in the order of the data flow.
#ifndef DIFFMJ_DIFFMJ_H_
#define DIFFMJ_DIFFMJ_H_

#include "diffmj/adaptive.h"
#include "diffmj/check.h"
#include "diffmj/collisions.h"
#include "diffmj/cost.h"
#include "diffmj/error.h"
#include "diffmj/fit.h"
#include "diffmj/fit_report.h"
#include "diffmj/gradient.h"
#include "diffmj/identify.h"
#include "diffmj/linearize.h"
#include "diffmj/model.h"
#include "diffmj/mpc.h"
#include "diffmj/mpc_report.h"
#include "diffmj/observables.h"
#include "diffmj/plan.h"
#include "diffmj/recording.h"
#include "diffmj/rollout.h"
#include "diffmj/sensors.h"
#include "diffmj/serialize.h"
#include "diffmj/state.h"
#include "diffmj/tape.h"
#include "diffmj/version.h"

#endif  // DIFFMJ_DIFFMJ_H_
