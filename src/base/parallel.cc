#include "base/parallel.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "diffmj/error.h"

namespace diffmj {

namespace {
constexpr std::chrono::milliseconds kPollInterval{50};
thread_local bool is_worker = false;
}  // namespace

bool StopSignal::poll(double share) {
  if (is_worker || stopped() || (!interrupted_ && !progress_)) return stopped();
  const auto now = std::chrono::steady_clock::now();
  if (now >= next_) {
    next_ = now + kPollInterval;
    if (progress_ && share >= 0) progress_(begin_ + size_ * share);
    if (interrupted_ && interrupted_()) stop();
  }
  return stopped();
}

StopSignal::Part::Part(StopSignal& stop, int i, int n)
    : stop_(stop), outer_begin_(stop.begin_), outer_size_(stop.size_) {
  stop_.begin_ += stop_.size_ * i / n;
  stop_.size_ /= n;
}

StopSignal::Part::~Part() {
  stop_.begin_ = outer_begin_;
  stop_.size_ = outer_size_;
}

int thread_count(int n, std::optional<int> given) {
  if (given && *given < 1) {
    throw InputError("nthread is " + std::to_string(*given) +
                     ", expected a number ≥ 1; leave it out for one thread per core");
  }
  // asked once: the system reads a file to tell, which takes as long as a few steps of a small
  // model
  static const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::min(given.value_or(cores), n);
}

void parallel_for(int n, std::optional<int> given, StopSignal& stop,
                  const std::function<void(int i, StopSignal& stop)>& fn) {
  const int nthread = thread_count(n, given);
  if (nthread <= 1) {
    for (int i = 0; i < n && !stop.poll(); i++) {
      const StopSignal::Part part(stop, i, n);
      fn(i, stop);
    }
    return;
  }

  std::atomic<int> next{0};
  std::mutex mutex;
  std::condition_variable done;
  int running = nthread;
  int failed_at = n;
  std::exception_ptr failure;

  const auto work = [&] {
    is_worker = true;
    for (int i = next++; i < n && !stop.stopped(); i = next++) {
      try {
        fn(i, stop);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
        next = n;
      }
    }
    const std::lock_guard lock(mutex);
    running--;
    done.notify_one();
  };

  // joins whatever happens: a thread that is destroyed while it runs ends the process
  struct Threads {
    std::vector<std::thread> list;
    ~Threads() {
      for (std::thread& thread : list) thread.join();
    }
  };
  {
    Threads threads;
    threads.list.reserve(static_cast<size_t>(nthread));
    for (int t = 0; t < nthread; t++) {
      try {
        threads.list.emplace_back(work);
      } catch (const std::system_error&) {
        // the system has no more: those that started do the work
        const std::lock_guard lock(mutex);
        running -= nthread - t;
        break;
      }
    }
    if (threads.list.empty()) {
      for (int i = next++; i < n && !stop.poll(); i = next++) {
        const StopSignal::Part part(stop, i, n);
        fn(i, stop);
      }
      return;
    }
    try {
      std::unique_lock lock(mutex);
      while (!done.wait_for(lock, kPollInterval, [&] { return running == 0; })) {
        lock.unlock();
        stop.poll(std::min(1.0, static_cast<double>(next) / n));
        lock.lock();
      }
    } catch (...) {
      stop.stop();
      throw;
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace diffmj
