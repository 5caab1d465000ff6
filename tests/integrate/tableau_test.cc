// label: smoke
#include "integrate/tableau.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "harness/check_pullback.h"
#include "integrate/order_conditions.h"

namespace diffmj {
namespace {

using exact::ExactTableau;

const std::vector<const ExactTableau*> kExact = {
    &exact::kEuler, &exact::kHeun,  &exact::kMidpoint, &exact::kRalston,
    &exact::kBosh3, &exact::kTsit5, &exact::kDopri5,   &exact::kDopri8};

// A planet on an ellipse, seen from a frame that swings: nonlinear, explicit in time, known.
//   x = p(t) + s(t),  p'' = -p/|p|³,  s = (sin t, cos t)
struct Planet {
  static constexpr size_t kSize = 4;
  static constexpr double kEccentricity = 0.3;

  static Vector x(double t) {
    // Kepler's equation  E - e sin E = t
    double anomaly = t;
    for (int i = 0; i < 50; i++) {
      anomaly -= (anomaly - kEccentricity * std::sin(anomaly) - t) /
                 (1 - kEccentricity * std::cos(anomaly));
    }
    const double c = std::cos(anomaly), s = std::sin(anomaly), e = kEccentricity;
    const double w = std::sqrt(1 - e * e), rate = 1 / (1 - e * c);
    return {c - e + std::sin(t), w * s + std::cos(t), -s * rate + std::cos(t),
            w * c * rate - std::sin(t)};
  }
  static Vector f(double t, const Vector& x) {
    const double p0 = x[0] - std::sin(t), p1 = x[1] - std::cos(t);
    const double r3 = std::pow(p0 * p0 + p1 * p1, 1.5);
    return {x[2], x[3], -p0 / r3 - std::sin(t), -p1 / r3 - std::cos(t)};
  }
};

// k_i of one step, nk of them
std::vector<Vector> stages(const Tableau& m, double t, const Vector& x, double h) {
  std::vector<Vector> k;
  for (size_t i = 0; i < m.nk; i++) {
    Vector y = x;
    for (size_t j = 0; j < i; j++) {
      for (size_t d = 0; d < y.size(); d++) y[d] += h * m.A[i][j] * k[j][d];
    }
    k.push_back(Planet::f(t + m.c[i] * h, y));
  }
  return k;
}

Vector combined(const Vector& x, double h, std::span<const double> w,
                const std::vector<Vector>& k) {
  Vector y = x;
  for (size_t i = 0; i < k.size(); i++) {
    for (size_t d = 0; d < y.size(); d++) y[d] += h * w[i] * k[i][d];
  }
  return y;
}

double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t d = 0; d < a.size(); d++) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return std::sqrt(sum);
}

// slope of log error over log h, by least squares; h = first, first/1.5, ... while the error is
// above rounding
double measured_order(double first, const std::function<double(double h)>& error) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, h = first;
  for (int i = 0; i < 7; i++, h /= 1.5) {
    const double e = error(h);
    if (e < 1e-13) break;
    const double x = std::log(h), y = std::log(e);
    n++, sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  EXPECT_GE(n, 4) << "too few steps above rounding";
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

TEST(Tableau, ConditionsHoldInLongDoubleAndDouble) {
  for (size_t i = 0; i < kExact.size(); i++) {
    const ExactTableau& t = *kExact[i];
    const Tableau& r = *kTableaus[i];
    SCOPED_TRACE(t.name);
    EXPECT_STREQ(t.name, r.name);
    EXPECT_EQ(find_tableau(r.name), &r);
    long double worst = consistency_residual(t);
    double rounded = consistency_residual(r);
    for (int n = 1; n <= t.order; n++) {
      const OrderResidual<long double> e(t, static_cast<size_t>(n));
      const OrderResidual<double> d(r, static_cast<size_t>(n));
      worst = std::max(worst, e.b);
      rounded = std::max(rounded, d.b);
      if (n <= t.embedded_order) worst = std::max(worst, e.bhat);
      if (n <= t.embedded_order) rounded = std::max(rounded, d.bhat);
      if (n <= t.dense_order) worst = std::max(worst, e.dense);
      if (n <= t.dense_order) rounded = std::max(rounded, d.dense);
    }
    // measured: 6e-17, and 1e-13 in double (dopri8, whose dense coefficients go up to 121)
    EXPECT_LT(worst, std::numeric_limits<long double>::digits >= 64 ? 1e-15 : 3e-13);
    EXPECT_LT(rounded, 3e-13);
  }
  EXPECT_EQ(find_tableau("rk4"), nullptr);
}

// every nonzero number, one at a time: the conditions see a change of it
TEST(Tableau, ConditionsSeeEveryNumber) {
  for (const ExactTableau* exact : kExact) {
    SCOPED_TRACE(exact->name);
    const auto residual = [](const ExactTableau& t) {
      long double worst = consistency_residual(t);
      for (int n = 1; n <= t.order; n++) {
        const OrderResidual<long double> r(t, static_cast<size_t>(n));
        worst = std::max(worst, r.b);
        if (n <= t.embedded_order) worst = std::max(worst, r.bhat);
        if (n <= t.dense_order) worst = std::max(worst, r.dense);
      }
      return worst;
    };
    EXPECT_LT(residual(*exact), 3e-13);
    const long double change = 1e-6;
    int changed = 0;
    const auto expect_seen = [&](long double& x, ExactTableau& t, const std::string& what) {
      if (x == 0) return;
      const long double before = x;
      x += change;
      EXPECT_GT(residual(t), 1e-9) << what;
      x = before;
      changed++;
    };
    ExactTableau t = *exact;
    for (size_t i = 0; i < t.nk; i++) {
      const std::string at = "[" + std::to_string(i) + "]";
      for (size_t j = 0; j < i; j++) expect_seen(t.A[i][j], t, "A" + at);
      expect_seen(t.b[i], t, "b" + at);
      if (t.embedded_order > 0) expect_seen(t.bhat[i], t, "bhat" + at);
      if (i > 0) expect_seen(t.c[i], t, "c" + at);
      for (size_t m = 0; m < kMaxDense; m++) expect_seen(t.dense[i][m], t, "dense" + at);
    }
    EXPECT_GT(changed, 5);
  }
}

TEST(Tableau, TreesAreCounted) {
  const std::vector<int> expected = {1, 1, 2, 4, 9, 20, 48, 115, 286};
  for (size_t n = 1; n <= expected.size(); n++) {
    int count = 1;
    for (RootedTree tree(n); tree.next();) count++;
    EXPECT_EQ(count, expected[n - 1]);
  }
  // the order 8 of dopri8 is not more
  EXPECT_GT(OrderResidual<long double>(exact::kDopri8, 9).b, 1e-6);
}

TEST(Tableau, OrderOfTheSolution) {
  for (const Tableau* m : kTableaus) {
    SCOPED_TRACE(m->name);
    const double first = m->order == 8 ? 0.2 : m->order == 1 ? 0.02 : 0.05;
    // the largest error on the way: at one time it may happen to cross zero
    const double order = measured_order(first, [&](double h) {
      const int nstep = static_cast<int>(std::ceil(2 / h));
      const double step = 2.0 / nstep;
      Vector x = Planet::x(0);
      double worst = 0;
      for (int i = 0; i < nstep; i++) {
        x = combined(x, step, m->b, stages(*m, i * step, x, step));
        worst = std::max(worst, distance(x, Planet::x((i + 1) * step)));
      }
      return worst;
    });
    EXPECT_NEAR(order, m->order, 0.3);  // dopri5 5.24, dopri8 8.23, others nearer
  }
}

TEST(Tableau, OrderOfTheErrorEstimate) {
  for (const Tableau* m : kTableaus) {
    SCOPED_TRACE(m->name);
    const Vector x = Planet::x(0.7), zero(Planet::kSize);
    const auto estimate = [&](double h) {
      return distance(combined(zero, h, m->error, stages(*m, 0.7, x, h)), zero);
    };
    if (m->embedded_order == 0) {
      EXPECT_EQ(estimate(0.1), 0);
      continue;
    }
    const double order = measured_order(m->order == 8 ? 0.3 : 0.05, estimate);
    EXPECT_NEAR(order, m->embedded_order + 1, 0.1);
  }
}

TEST(Tableau, OrderOfDenseOutput) {
  for (const Tableau* m : kTableaus) {
    SCOPED_TRACE(m->name);
    const double t = 0.7;
    const Vector x = Planet::x(t);
    const double order = measured_order(0.1, [&](double h) {
      const std::vector<Vector> k = stages(*m, t, x, h);
      double worst = 0;
      Vector w(m->nk);
      for (double theta = 0.05; theta < 1; theta += 0.1) {
        dense_weights(*m, theta, w);
        worst = std::max(worst, distance(combined(x, h, w, k), Planet::x(t + theta * h)));
      }
      return worst;
    });
    EXPECT_NEAR(order, m->dense_order + 1, 0.1);
  }
}

TEST(Tableau, DenseOutputMeetsTheEnds) {
  for (const Tableau* m : kTableaus) {
    SCOPED_TRACE(m->name);
    Vector w(m->nk), slope(m->nk);
    for (const double theta : {0.0, 1.0}) {
      dense_weights(*m, theta, w);
      dense_slopes(*m, theta, slope);
      for (size_t i = 0; i < m->nk; i++) {
        EXPECT_NEAR(w[i], theta * m->b[i], 1e-13);
        EXPECT_NEAR(slope[i], i == (theta == 0 ? 0 : m->nk - 1) ? 1 : 0, 1e-12);
      }
    }
  }
}

TEST(Tableau, DenseSlopesAreTheDerivative) {
  for (const Tableau* m : kTableaus) {
    const Operation op = {
        .forward =
            [&](const Vector& theta) {
              Vector w(m->nk);
              dense_weights(*m, theta[0], w);
              return w;
            },
        .pullback =
            [&](const Vector& theta, const Vector& w_bar, Vector& theta_bar) {
              std::array<double, kMaxStage> slope;
              dense_slopes(*m, theta[0], slope);
              for (size_t i = 0; i < m->nk; i++) theta_bar[0] += slope[i] * w_bar[i];
            },
    };
    EXPECT_TRUE(check_pullback(op, {0.37}, 1, {.tolerance = 1e-9})) << m->name;
  }
}

TEST(Tableau, FirstSameAsLast) {
  for (const Tableau* m : kTableaus) {
    SCOPED_TRACE(m->name);
    for (size_t j = 0; j < kMaxStage; j++) EXPECT_EQ(m->A[m->nk - 1][j], m->b[j]);
    EXPECT_EQ(m->c[m->nk - 1], 1);
    EXPECT_EQ(m->nk, m->fsal ? m->nstage : m->nstage + 1);
  }
  EXPECT_TRUE(kDopri8.last_stage_can_wait());
  EXPECT_FALSE(kTsit5.last_stage_can_wait());
  EXPECT_FALSE(kHeun.last_stage_can_wait());
}

}  // namespace
}  // namespace diffmj
