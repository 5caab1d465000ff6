// Three numbers of any scalar type, for small templates that are evaluated with double and with
// Dual. (Eigen's own types are for double.)
#ifndef DIFFMJ_BASE_VEC3_H_
#define DIFFMJ_BASE_VEC3_H_

#include <cmath>

namespace diffmj {

template <class T>
struct Vec3 {
  T x, y, z;

  friend Vec3 operator-(const Vec3& a) { return {-a.x, -a.y, -a.z}; }
  friend Vec3 operator+(const Vec3& a, const Vec3& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  friend Vec3 operator-(const Vec3& a, const Vec3& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
  friend Vec3 operator*(const T& s, const Vec3& a) { return {s * a.x, s * a.y, s * a.z}; }
};

template <class T>
T dot(const Vec3<T>& a, const Vec3<T>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

template <class T>
Vec3<T> cross(const Vec3<T>& a, const Vec3<T>& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

template <class T>
T norm(const Vec3<T>& a) {
  using std::sqrt;
  return sqrt(dot(a, a));
}

}  // namespace diffmj

#endif  // DIFFMJ_BASE_VEC3_H_
