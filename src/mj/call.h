// mj_call(): MuJoCo's errors become exceptions, its warnings data.
//
// While the call runs, this thread's messages come to us and to nobody else: the handlers the user
// of the process has installed, and those of MuJoCo's own Python bindings, are left alone.
#ifndef DIFFMJ_MJ_CALL_H_
#define DIFFMJ_MJ_CALL_H_

#include <csetjmp>
#include <string>

#include "diffmj/error.h"
#include "mj/collider.h"

namespace diffmj {

// What MuJoCo said on this thread since the last mj_messages_clear(). Fixed size: filled from
// inside C frames, where nothing may throw.
struct MjMessages {
  static constexpr int kMax = 8;
  int nwarning = 0;  // all of them; only the first kMax texts are kept
  char warning[kMax][256];
  char error[1024];
};
MjMessages& mj_messages();
inline void mj_messages_clear() { mj_messages().nwarning = 0; }

namespace internal {
// Routes this thread's messages to us until destroyed; nests.
class MessageScope {
 public:
  explicit MessageScope(std::jmp_buf* here);
  ~MessageScope();
  MessageScope(const MessageScope&) = delete;
  MessageScope& operator=(const MessageScope&) = delete;

 private:
  std::jmp_buf* outer_jump_;
  void* outer_handler_;
  ColliderInEffect collider_;
};
}  // namespace internal

// Makes MuJoCo calls and turns an error into MujocoError. An exception must not cross C frames, so
// the error jumps back here first: fn owns nothing that needs a destructor. After an error the
// mjData it worked on must be reset, for its stack frames were abandoned.
template <class Fn>
void mj_call(const char* who, Fn&& fn) {
  std::jmp_buf here;
  internal::MessageScope scope(&here);
  // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): see above
  if (setjmp(here) == 0) {
    fn();
  } else {
    throw MujocoError(std::string(who) + ": " + mj_messages().error);
  }
}

}  // namespace diffmj

#endif  // DIFFMJ_MJ_CALL_H_
