#include "stages/cfd/law.h"

#include <algorithm>
#include <cmath>

namespace diffmj {
namespace {

// of the width: far enough to be felt before contact, and small beside it
constexpr double kSoftplusShare = 1.0 / 100;
constexpr double kLeastImpedance = 1e-10;
// forces from distance that are not small beside those of contact drive the adjoint off
constexpr double kMostBegins = 0.01;

double clamped(double d) { return std::clamp(d, mjMINIMP, mjMAXIMP); }

// y(x) of solimp: from 0 to 1, with a bend at the midpoint
CfdValue spline(double midpoint, double power, double x) {
  if (x <= 0) return {0, 0};
  x = std::min(x, 1.0);
  const bool below = x <= midpoint;
  const double z = below ? x : 1 - x, c = below ? midpoint : 1 - midpoint;
  const double bend = std::pow(z / c, power - 1);
  return {below ? z * bend : 1 - z * bend, power * bend};
}

}  // namespace

double impedance_at_zero(const mjtNum* solimp) {
  const double d0 = clamped(solimp[0]);
  return solimp[2] > mjMINVAL ? d0 : 0.5 * (d0 + clamped(solimp[1]));
}

double impedance_where_it_begins(const CfdLaw& law, const mjtNum* solimp) {
  return law.d_0.value_or(std::min(impedance_at_zero(solimp), kMostBegins));
}

CfdValue cfd_impedance(const CfdLaw& law, const mjtNum* solimp, double r) {
  const double d_0 = impedance_where_it_begins(law, solimp);
  const CfdValue y = spline(law.midpoint, law.power, 1 - r / law.width);
  const double d = law.d_c + y.value * (d_0 - law.d_c);
  if (d <= kLeastImpedance) return {kLeastImpedance, 0};
  if (d >= mjMAXIMP) return {mjMAXIMP, 0};
  return {d, -y.slope * (d_0 - law.d_c) / law.width};
}

void cfd_impedance_pullback(const CfdLaw& law, const mjtNum* solimp, double r, double d_bar,
                            double* solimp_bar) {
  if (law.d_0 || impedance_at_zero(solimp) > kMostBegins) return;
  if (cfd_impedance(law, solimp, r).value <= kLeastImpedance) return;
  const double d_0_bar = d_bar * spline(law.midpoint, law.power, 1 - r / law.width).value;
  const bool mean = !(solimp[2] > mjMINVAL);
  for (int k = 0; k < (mean ? 2 : 1); k++) {
    if (clamped(solimp[k]) == solimp[k]) solimp_bar[k] += (mean ? 0.5 : 1) * d_0_bar;
  }
}

CfdValue cfd_violation(const CfdLaw& law, double r) {
  const double s = law.softplus.value_or(kSoftplusShare * law.width);
  if (s == 0) return r < 0 ? CfdValue{r, 1} : CfdValue{0, 0};
  // of both signs without overflow
  const double z = r / s, small = std::exp(-std::abs(z));
  return {std::min(r, 0.0) - s * std::log1p(small), (z > 0 ? small : 1) / (1 + small)};
}

}  // namespace diffmj
