// label: smoke
#include "record/progress.h"

#include <gtest/gtest.h>

namespace diffmj {
namespace {

constexpr double kTimestep = 0.002;

// n steps of six evaluations
Effort effort(long nstep, double step_work = 0) {
  return {nstep, 6 * nstep, static_cast<double>(nstep) * step_work};
}

TEST(Progress, EndsWhatGetsNowhere) {
  Progress progress(1, 2, kTimestep, 1000);
  // 4000 steps to see the pace, and then the rest would take 1e9 of them
  double time = 1;
  long n = 0;
  while (n < 10000 && progress.follow(effort(n), time)) {
    n++;
    time += 1e-9;
  }
  EXPECT_EQ(n, 4000);
  EXPECT_NEAR(progress.needed_steps(), 1e9, 1e5);
  // 6 evaluations for each nanosecond
  EXPECT_NEAR(progress.needed_ratio(), 6 * kTimestep / 1e-9, 1e3);
}

TEST(Progress, LetsSlowStretchesPass) {
  Progress progress(0, 1, kTimestep, 100000);
  double time = 0;
  for (long n = 1; n < 100000; n++) {
    // very short steps for a while, as where a body lands, and rejected ones
    if (n % 3) time += n < 3000 ? 1e-12 : 2e-5;
    ASSERT_TRUE(progress.follow(effort(n), time)) << n;
  }
}

TEST(Progress, EndsWhatStandsStill) {
  Progress progress(0, 1, kTimestep, 100000);
  long n = 0;
  while (n < 10000 && progress.follow(effort(n), 0.5)) n++;
  // the first window moved to 0.5
  EXPECT_EQ(n, 8000);
}

// 70 000 steps are within the budget of steps, but not at 6 ms each
TEST(Progress, EndsWhatCostsTooMuchForWhereItGets) {
  Progress progress(0, 0.5, kTimestep, 100000);
  double time = 0;
  long n = 0;
  while (n < 10000 && progress.follow(effort(n, 6e6), time)) {
    n++;
    time += 7e-6;
  }
  EXPECT_EQ(n, 1000);
  EXPECT_NEAR(progress.needed_ratio(), 6 * kTimestep / 7e-6, 1);
}

// the same steps where they are cheap, or as expensive ones that get on
TEST(Progress, LetsEitherAlonePass) {
  for (const bool cheap : {false, true}) {
    Progress progress(0, 0.5, kTimestep, 100000);
    double time = 0;
    for (long n = 0; time < 0.5; n++) {
      ASSERT_TRUE(progress.follow(effort(n, cheap ? 1e5 : 6e6), time)) << n;
      time += cheap ? 7e-6 : 5e-5;
    }
  }
}

TEST(Progress, MoreStepsAreMorePatience) {
  Progress progress(0, 0.5, kTimestep, 1000000);
  double time = 0;
  for (long n = 0; time < 0.5; n++) {
    ASSERT_TRUE(progress.follow(effort(n, 6e6), time)) << n;
    time += 7e-6;
  }
}

}  // namespace
}  // namespace diffmj
