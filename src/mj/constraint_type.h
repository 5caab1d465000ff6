// Kinds of constraint rows, by mjtConstraint.
#ifndef DIFFMJ_MJ_CONSTRAINT_TYPE_H_
#define DIFFMJ_MJ_CONSTRAINT_TYPE_H_

#include <mujoco/mujoco.h>

namespace diffmj {

inline bool is_contact(int type) { return type >= mjCNSTR_CONTACT_FRICTIONLESS; }
inline bool is_limit(int type) {
  return type == mjCNSTR_LIMIT_JOINT || type == mjCNSTR_LIMIT_TENDON;
}

}  // namespace diffmj

#endif  // DIFFMJ_MJ_CONSTRAINT_TYPE_H_
