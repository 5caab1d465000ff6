#include "mj/call.h"

#include <mujoco/mujoco.h>

#include <utility>

// Exported by libmujoco and used by MuJoCo's Python bindings for the same purpose: a log handler of
// the calling thread only. mju_setLogHandler is public but belongs to the whole process.
extern "C" MJAPI mjfLogHandler
_mjPRIVATE_setTlsLogHandler(  // NOLINT(bugprone-reserved-identifier,readability-identifier-naming)
    mjfLogHandler handler);

namespace diffmj {
namespace {

thread_local std::jmp_buf* jump_target = nullptr;
thread_local MjMessages messages;

// appends to a text that ends at the end of its buffer; nothing is allocated inside C frames
char* append(char* at, const char* end, const char* text) {
  while (*text && at < end) *at++ = *text++;
  *at = '\0';
  return at;
}

// "func: subject", as MuJoCo prints it
void write_text(const mjLogMessage* message, char* text, size_t size) {
  const char* end = text + size - 1;
  if (message->func) text = append(append(text, end, message->func), end, ": ");
  append(text, end, message->subject);
}

void handle_message(const mjLogMessage* message) {
  if (message->level == mjLOG_ERROR) {
    write_text(message, messages.error, sizeof(messages.error));
    std::longjmp(*jump_target, 1);  // NOLINT(modernize-avoid-setjmp-longjmp,cert-err52-cpp)
  }
  if (message->level == mjLOG_WARNING) {
    if (messages.nwarning < MjMessages::kMax) {
      char* text = messages.warning[messages.nwarning];
      write_text(message, text, sizeof(messages.warning[0]));
    }
    messages.nwarning++;
  }
}

}  // namespace

MjMessages& mj_messages() { return messages; }

namespace internal {

MessageScope::MessageScope(std::jmp_buf* here)
    : outer_jump_(std::exchange(jump_target, here)),
      outer_handler_(reinterpret_cast<void*>(_mjPRIVATE_setTlsLogHandler(handle_message))) {}

MessageScope::~MessageScope() {
  _mjPRIVATE_setTlsLogHandler(reinterpret_cast<mjfLogHandler>(outer_handler_));
  jump_target = outer_jump_;
}

}  // namespace internal
}  // namespace diffmj
