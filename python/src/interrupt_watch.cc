#include "interrupt_watch.h"

#include <signal.h>

#include <atomic>
#include <mutex>

#include "bind.h"

namespace diffmj::python {
namespace {

std::atomic<int> count{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait");

std::mutex mutex;  // guards what follows; the handler reads previous, which is set before it runs
int watches = 0;
struct sigaction previous;

void handle(int number, siginfo_t* info, void* context) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(number, info, context);
  } else {
    previous.sa_handler(number);
  }
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == &handle;
}

}  // namespace

InterruptWatch::InterruptWatch() : seen_(count.load(std::memory_order_relaxed)) {
  const std::lock_guard lock(mutex);
  if (watches++ > 0) return;
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) != 0 || is_ours(current)) return;
  // ignored, or the end of the process: nothing to pass on
  const bool is_function = (current.sa_flags & SA_SIGINFO) ||
                           (current.sa_handler != SIG_DFL && current.sa_handler != SIG_IGN);
  if (!is_function) return;
  previous = current;
  current.sa_flags |= SA_SIGINFO;
  current.sa_sigaction = &handle;
  sigaction(SIGINT, &current, nullptr);
}

InterruptWatch::~InterruptWatch() {
  const std::lock_guard lock(mutex);
  if (--watches > 0) return;
  // a handler that was set meanwhile stays
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) == 0 && is_ours(current)) {
    sigaction(SIGINT, &previous, nullptr);
  }
}

bool InterruptWatch::interrupted() {
  const int now = count.load(std::memory_order_relaxed);
  if (stopped_ || now == seen_) return stopped_;
  seen_ = now;
  const nb::gil_scoped_acquire lock;
  try {
    // not the module signal: a function in Python would run the handler, and the interrupt be lost
    const nb::module_ signals = nb::module_::import_("_signal");
    stopped_ = signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler"));
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("diffmj: Ctrl-C");
  }
  return stopped_;
}

}  // namespace diffmj::python
