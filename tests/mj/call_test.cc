// label: smoke
#include "mj/call.h"

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <string>
#include <thread>
#include <vector>

#include "diffmj/diffmj.h"

namespace diffmj {
namespace {

TEST(MjCall, ErrorBecomesException) {
  try {
    mj_call("test", [] { mju_error("number %d", 42); });
    FAIL() << "no exception";
  } catch (const MujocoError& error) {
    EXPECT_NE(std::string(error.what()).find("test: "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("number 42"), std::string::npos) << error.what();
  }
}

TEST(MjCall, NestsAndLongTextsAreCut) {
  const std::string text(5000, 'x');
  EXPECT_THROW(mj_call("outer",
                       [&] {
                         try {
                           mj_call("inner", [&] { mju_error("%s", text.c_str()); });
                         } catch (const MujocoError&) {
                         }
                         mju_error("again");
                       }),
               MujocoError);
}

TEST(MjCall, WarningsAreData) {
  mj_messages_clear();
  mj_call("test", [] {
    mju_warning("careful %d", 1);
    for (int i = 0; i < 20; i++) mju_warning("more");
  });
  EXPECT_EQ(mj_messages().nwarning, 21);
  EXPECT_NE(std::string(mj_messages().warning[0]).find("careful 1"), std::string::npos);
}

// errors of one thread neither end the process nor reach another thread
TEST(MjCall, ThreadsDoNotMix) {
  std::vector<std::thread> threads;
  std::vector<std::string> messages(8);
  for (size_t t = 0; t < messages.size(); t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; i++) {
        try {
          mj_call("thread", [&] { mju_error("of thread %d", static_cast<int>(t)); });
        } catch (const MujocoError& error) {
          messages[t] = error.what();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < messages.size(); t++) {
    EXPECT_NE(messages[t].find("of thread " + std::to_string(t)), std::string::npos) << messages[t];
  }
}

thread_local int user_messages = 0;

// the user's own handler sees what happens outside our calls, and nothing of ours
TEST(MjCall, LeavesTheHandlerOfTheProcessAlone) {
  const mjfLogHandler before = mju_setLogHandler([](const mjLogMessage*) { user_messages++; });
  mju_warning("for the user");
  EXPECT_EQ(user_messages, 1);
  mj_call("test", [] { mju_warning("for us"); });
  EXPECT_EQ(user_messages, 1);
  mju_warning("for the user");
  EXPECT_EQ(user_messages, 2);
  mju_setLogHandler(before);
}

TEST(Version, CompiledIsLoaded) {
  EXPECT_EQ(mujoco_version_compiled(), mujoco_version_loaded());
  EXPECT_EQ(mujoco_version_compiled(), mj_versionString());
  EXPECT_NO_THROW(require_mujoco_version());
}

}  // namespace
}  // namespace diffmj
