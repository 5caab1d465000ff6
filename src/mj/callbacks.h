// MuJoCo's callbacks, which belong to the whole process.
#ifndef DIFFMJ_MJ_CALLBACKS_H_
#define DIFFMJ_MJ_CALLBACKS_H_

namespace diffmj {

// User callbacks would run on our threads, without Python's lock: refused by name.
void require_no_callbacks(const char* who);

}  // namespace diffmj

#endif  // DIFFMJ_MJ_CALLBACKS_H_
