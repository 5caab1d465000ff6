#include "base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "diffmj/error.h"

namespace diffmj {
namespace {

TEST(ParallelFor, VisitsEveryIndexOnce) {
  for (const std::optional<int> nthread : {std::optional<int>(), {1}, {2}, {8}}) {
    std::vector<std::atomic<int>> visits(100);
    const std::function<bool()> never;
    StopSignal stop(never);
    parallel_for(100, nthread, stop, [&](int i, StopSignal&) { visits[static_cast<size_t>(i)]++; });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
  }
}

TEST(ParallelFor, RefusesNoThreads) {
  StopSignal stop({});
  for (const int nthread : {0, -1}) {
    EXPECT_THROW(parallel_for(1, nthread, stop, [](int, StopSignal&) {}), InputError);
  }
}

TEST(ParallelFor, ThrowsAgainWhatFails) {
  for (int nthread : {1, 3}) {
    const std::function<bool()> never;
    StopSignal stop(never);
    EXPECT_THROW(parallel_for(20, nthread, stop,
                              [](int i, StopSignal&) {
                                if (i == 7) throw std::runtime_error("seven");
                              }),
                 std::runtime_error);
  }
}

// a poll that throws stops the work and is thrown again; no thread is left running
TEST(ParallelFor, PollThatThrows) {
  const std::function<bool()> broken = []() -> bool { throw std::runtime_error("poll"); };
  StopSignal stop(broken);
  EXPECT_THROW(parallel_for(50, 2, stop,
                            [](int, StopSignal& s) {
                              while (!s.stopped()) {
                                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                              }
                            }),
               std::runtime_error);
}

// with one thread, too, progress is of all of the work
TEST(ParallelFor, ProgressIsOfTheWhole) {
  for (int nthread : {1, 2}) {
    std::vector<double> shares;
    const std::function<bool()> never;
    StopSignal stop(never, [&](double share) { shares.push_back(share); });
    parallel_for(4, nthread, stop, [](int, StopSignal& s) {
      for (int k = 0; k < 6; k++) {
        s.poll(k / 6.0);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    ASSERT_GE(shares.size(), 3U);
    EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
    EXPECT_LE(shares.back(), 1);
    EXPECT_GT(shares.back(), 0.5);
  }
}

TEST(ParallelFor, StopsWhenInterrupted) {
  for (int nthread : {1, 2}) {
    const auto caller = std::this_thread::get_id();
    std::atomic<int> polls_elsewhere{0}, begun{0};
    const std::function<bool()> always = [&] {
      if (std::this_thread::get_id() != caller) polls_elsewhere++;
      return true;
    };
    StopSignal stop(always);
    parallel_for(1000, nthread, stop, [&](int, StopSignal& s) {
      begun++;
      for (int k = 0; k < 200 && !s.poll(); k++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    EXPECT_TRUE(stop.stopped());
    EXPECT_LT(begun, 1000);
    EXPECT_EQ(polls_elsewhere, 0);  // Python's signals may be asked for on the calling thread only
  }
}

}  // namespace
}  // namespace diffmj
