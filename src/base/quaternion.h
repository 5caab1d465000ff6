// Quaternions over any scalar, w first.
#ifndef DIFFMJ_BASE_QUATERNION_H_
#define DIFFMJ_BASE_QUATERNION_H_

namespace diffmj {

template <class T>
struct Quat {
  T w, x, y, z;
  friend Quat operator*(const Quat& a, const Quat& b) {
    return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
            a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
            a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
            a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
  }
};

}  // namespace diffmj

#endif  // DIFFMJ_BASE_QUATERNION_H_
