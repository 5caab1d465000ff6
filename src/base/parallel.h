// parallel_for(): the one place that starts threads.
#ifndef DIFFMJ_BASE_PARALLEL_H_
#define DIFFMJ_BASE_PARALLEL_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>

namespace diffmj {

// Tells long work to stop. Only the calling thread polls the user's function, at most every 50 ms;
// the others see the flag.
class StopSignal {
 public:
  explicit StopSignal(const std::function<bool()>& interrupted,
                      const std::function<void(double)>& progress = {})
      : interrupted_(interrupted), progress_(progress) {}
  // Polls if it is time to and the calling thread asks; share of the work done, or of the part of
  // it that is under way, is for progress. Any thread may call poll() and stopped().
  bool poll(double share = -1);
  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // While it exists, shares are those of part i of n equal ones. Nests; of the calling thread.
  class Part {
   public:
    Part(StopSignal& stop, int i, int n);
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    StopSignal& stop_;
    const double outer_begin_, outer_size_;
  };

 private:
  const std::function<bool()> interrupted_;
  const std::function<void(double)> progress_;
  double begin_ = 0, size_ = 1;  // of the part that is under way, as shares of the whole
  std::chrono::steady_clock::time_point next_{};
  std::atomic<bool> stopped_{false};
};

// How many threads parallel_for uses at most for n calls. Throws InputError if nthread is less
// than 1.
int thread_count(int n, std::optional<int> nthread);

// Calls fn(i, stop) for i = 0 .. n - 1 on nthread threads (none: one per core), each i once, in
// no order. Throws InputError if nthread is less than 1. With one thread fn runs on the calling
// thread and must poll stop itself, with its share of i alone. After a stop no new i is begun. An
// exception thrown by fn ends the loop and is thrown again here; of several the one with the
// smallest i.
void parallel_for(int n, std::optional<int> nthread, StopSignal& stop,
                  const std::function<void(int i, StopSignal& stop)>& fn);

}  // namespace diffmj

#endif  // DIFFMJ_BASE_PARALLEL_H_
