#include "integrate/tableau.h"

#include <limits>

#include "integrate/order_conditions.h"
#include "integrate/rosenbrock_conditions.h"
#include "integrate/stability_polynomial.h"

namespace diffmj {
namespace {

using exact::ExactTableau;

// Rounded entries, of up to 121, in sums of products. Measured with 64 bits of mantissa: at most
// 6e-17 (dopri8), 2e-17 (tsit5), 1e-18 (others). Where long double is double, 1e-13.
constexpr long double kTolerance = std::numeric_limits<long double>::digits >= 64 ? 1e-15L : 3e-13L;

// Trees with n nodes (the compiler has a budget for one evaluation): conditions up to the order
// hold, and one of the next fails, so that the exponents of the step controller are right.
constexpr bool conditions(const ExactTableau& t, size_t n) {
  const int order = static_cast<int>(n);
  const OrderResidual<long double> r(t, n);
  const long double fails = 1e-6L;
  return (order > t.order || r.b < kTolerance) && (order != t.order + 1 || r.b > fails) &&
         (order > t.embedded_order || r.bhat < kTolerance) &&
         (order != t.embedded_order + 1 || t.embedded_order == 0 || r.bhat > fails) &&
         (order > t.dense_order || r.dense < kTolerance) &&
         (order != t.dense_order + 1 || r.dense > fails);
}

constexpr bool low_order_conditions(const ExactTableau& t) {
  return consistency_residual(t) < kTolerance && conditions(t, 1) && conditions(t, 2) &&
         conditions(t, 3) && conditions(t, 4);
}

static_assert(low_order_conditions(exact::kEuler));
static_assert(low_order_conditions(exact::kHeun));
static_assert(low_order_conditions(exact::kMidpoint));
static_assert(low_order_conditions(exact::kRalston));
static_assert(low_order_conditions(exact::kBosh3));
static_assert(low_order_conditions(exact::kRk4));
static_assert(conditions(exact::kRk4, 5));

static_assert(low_order_conditions(exact::kTsit5));
static_assert(conditions(exact::kTsit5, 5));
static_assert(conditions(exact::kTsit5, 6));

static_assert(low_order_conditions(exact::kDopri5));
static_assert(conditions(exact::kDopri5, 5));
static_assert(conditions(exact::kDopri5, 6));

// 200 trees in all; that those of nine nodes fail is left to the test
static_assert(low_order_conditions(exact::kDopri8));
static_assert(conditions(exact::kDopri8, 5));
static_assert(conditions(exact::kDopri8, 6));
static_assert(conditions(exact::kDopri8, 7));
static_assert(conditions(exact::kDopri8, 8));

// The numbers of rodas4p are given to 16 digits; measured: 1e-14.
constexpr long double kRosenbrockTolerance = 1e-13L;

constexpr bool rosenbrock_conditions(const ExactTableau& t, size_t n) {
  const int order = static_cast<int>(n);
  const RosenbrockResidual<long double> r(t, n);
  const long double fails = 1e-6L;
  return (order > t.order || r.b < kRosenbrockTolerance) &&
         (order != t.order + 1 || r.b > fails) &&
         (order > t.embedded_order || r.bhat < kRosenbrockTolerance) &&
         (order != t.embedded_order + 1 || r.bhat > fails) &&
         (order > t.dense_order || r.dense < kRosenbrockTolerance) &&
         (order != t.dense_order + 1 || r.dense > fails);
}
static_assert(rosenbrock_consistency(exact::kRodas4p) < kRosenbrockTolerance);
static_assert(rosenbrock_conditions(exact::kRodas4p, 1));
static_assert(rosenbrock_conditions(exact::kRodas4p, 2));
static_assert(rosenbrock_conditions(exact::kRodas4p, 3));
static_assert(rosenbrock_conditions(exact::kRodas4p, 4));
static_assert(rosenbrock_conditions(exact::kRodas4p, 5));
// both solutions forget what decays at once
static_assert(larger(larger(0.0L, rosenbrock_limit(exact::kRodas4p, exact::kRodas4p.b)),
                     rosenbrock_limit(exact::kRodas4p, exact::kRodas4p.bhat)) <
              kRosenbrockTolerance);

// Where steps cease to be stable, on the negative real and on the imaginary axis; from the tableau,
// against roots of |R| = 1 + 1e-4 found apart.
constexpr bool limits(const ExactTableau& t, double real, double imaginary) {
  const StabilityPolynomial R(t);
  const double x = R.real_limit() - real, y = R.imaginary_limit() - imaginary;
  return x * x < 1e-8 && y * y < 1e-8;
}
static_assert(limits(exact::kEuler, 2.00010, 0.01414));
static_assert(limits(exact::kHeun, 2.00010, 0.16818));
static_assert(limits(exact::kMidpoint, 2.00010, 0.16818));
static_assert(limits(exact::kRalston, 2.00010, 0.16818));
static_assert(limits(exact::kBosh3, 2.51281, 1.73228));
static_assert(limits(exact::kRk4, 2.78536, 2.82847));
static_assert(limits(exact::kTsit5, 3.50690, 0.97086));
static_assert(limits(exact::kDopri5, 3.30662, 1.10547));
static_assert(limits(exact::kDopri8, 5.16668, 3.71126));

}  // namespace

void dense_weights(const Tableau& tableau, double theta, std::span<double> w) {
  for (size_t i = 0; i < tableau.nk; i++) {
    double sum = 0;
    for (size_t m = kMaxDense; m-- > 0;) sum = (sum + tableau.dense[i][m]) * theta;
    w[i] = sum;
  }
}

void dense_slopes(const Tableau& tableau, double theta, std::span<double> w) {
  for (size_t i = 0; i < tableau.nk; i++) {
    double sum = 0;
    for (size_t m = kMaxDense; m-- > 0;) {
      sum = sum * theta + static_cast<double>(m + 1) * tableau.dense[i][m];
    }
    w[i] = sum;
  }
}

const Tableau* find_tableau(std::string_view name) {
  for (const Tableau* t : kTableaus) {
    if (name == t->name) return t;
  }
  return name == kRodas4p.name ? &kRodas4p : nullptr;
}

}  // namespace diffmj
