// label: smoke
#include "record/progress.h"

#include <gtest/gtest.h>

namespace diffmj {
namespace {

TEST(Progress, EndsWhatGetsNowhere) {
  Progress progress(1, 2, 1000);
  // 4000 steps to see the pace, and then the rest would take 1e9 of them
  double time = 1;
  long n = 0;
  while (n < 10000 && progress.follow(n, time)) {
    n++;
    time += 1e-9;
  }
  EXPECT_EQ(n, 4000);
  EXPECT_NEAR(progress.needed(), 1e9, 1e5);
}

TEST(Progress, LetsSlowStretchesPass) {
  Progress progress(0, 1, 100000);
  double time = 0;
  for (long n = 1; n < 100000; n++) {
    // very short steps for a while, as where a body lands, and rejected ones
    if (n % 3) time += n < 3000 ? 1e-12 : 2e-5;
    ASSERT_TRUE(progress.follow(n, time)) << n;
  }
}

TEST(Progress, EndsWhatStandsStill) {
  Progress progress(0, 1, 100000);
  long n = 0;
  while (n < 10000 && progress.follow(n, 0.5)) n++;
  // the first window moved to 0.5
  EXPECT_EQ(n, 8000);
}

}  // namespace
}  // namespace diffmj
