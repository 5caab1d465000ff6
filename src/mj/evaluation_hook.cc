#include "mj/evaluation_hook.h"

#include <atomic>
#include <mutex>

namespace diffmj {
namespace {

thread_local EvaluationHook::Look look_of_thread = nullptr;
thread_local void* self_of_thread = nullptr;

void on_control(const mjModel* /*m*/, mjData* d) {
  if (look_of_thread) look_of_thread(self_of_thread, d);
}

std::atomic_ref<mjfGeneric> callback() { return std::atomic_ref(mjcb_control); }

std::mutex mutex;
int nlooking = 0;  // threads

}  // namespace

EvaluationHook::EvaluationHook(Look look, void* self) {
  look_of_thread = look;
  self_of_thread = self;
  const std::lock_guard lock(mutex);
  nlooking++;
  mjfGeneric none = nullptr;
  callback().compare_exchange_strong(none, on_control);
}

EvaluationHook::~EvaluationHook() {
  look_of_thread = nullptr;
  const std::lock_guard lock(mutex);
  if (--nlooking > 0) return;
  mjfGeneric ours = on_control;
  callback().compare_exchange_strong(ours, nullptr);
}

bool has_foreign_control_callback() {
  const mjfGeneric set = callback().load();
  return set && set != on_control;
}

}  // namespace diffmj
