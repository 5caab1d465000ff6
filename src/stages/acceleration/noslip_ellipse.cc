#include "stages/acceleration/noslip_ellipse.h"

#include <mujoco/mujoco.h>

#include <Eigen/Core>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <limits>

namespace diffmj {
namespace {

constexpr int kMaxSteps = 20;
constexpr double kSmallest = 1e-10;  // MuJoCo's: of determinants or pivots, |v|² - r² and steps

// A contact with N friction forces.
template <int N>
struct Of {
  using SquareMatrix = Eigen::Matrix<double, N, N>;
  using Column = Eigen::Matrix<double, N, 1>;

  // A and b where the ellipse is a ball of radius r
  struct Scaled {
    explicit Scaled(const Ellipse& in) {
      for (int i = 0; i < N; i++) {
        const auto k = static_cast<size_t>(i);
        b[i] = in.b[k] * in.friction[k];
        for (int j = 0; j < N; j++) {
          A(i, j) = in.A[static_cast<size_t>(i * N + j)] * in.friction[k] *
                    in.friction[static_cast<size_t>(j)];
        }
      }
    }

    // P = (A + s)⁻¹; false if MuJoCo takes A + s for singular
    bool invert(double s, SquareMatrix& P) const {
      SquareMatrix shifted = A;
      shifted.diagonal().array() += s;
      if constexpr (N <= 3) {
        // by cofactors: the determinant decides
        if (shifted.determinant() < kSmallest) return false;
        P = shifted.inverse();
      } else {
        // by Cholesky: the pivots decide
        SquareMatrix L = SquareMatrix::Zero();
        for (int j = 0; j < N; j++) {
          double pivot = shifted(j, j);
          for (int k = 0; k < j; k++) pivot -= L(j, k) * L(j, k);
          if (pivot < kSmallest) return false;
          L(j, j) = std::sqrt(pivot);
          for (int i = j + 1; i < N; i++) {
            double rest = shifted(i, j);
            for (int k = 0; k < j; k++) rest -= L(i, k) * L(j, k);
            L(i, j) = rest / L(j, j);
          }
        }
        const SquareMatrix inverse =
            L.template triangularView<Eigen::Lower>().solve(SquareMatrix::Identity());
        P = inverse.transpose() * inverse;
      }
      return true;
    }

    SquareMatrix A;
    Column b;
  };

  // The steps of s, and the state at the last one that v was computed for.
  struct Steps {
    std::array<double, kMaxSteps> s = {};  // s before each evaluation
    int n = 0;                             // evaluations
    bool moved = false;                    // s is not 0
    bool singular = false;
    SquareMatrix P;
    Column v;
  };

  static Steps find(const Scaled& in, double r) {
    Steps out;
    double s = 0;
    while (out.n < kMaxSteps) {
      if (!in.invert(s, out.P)) {
        out.singular = true;
        return out;
      }
      out.s[static_cast<size_t>(out.n++)] = s;
      out.v = -(out.P * in.b);
      const double excess = out.v.squaredNorm() - r * r;
      if (excess < kSmallest) break;
      const double step = excess / (2 * out.v.dot(out.P * out.v));
      if (step < kSmallest) break;
      s += step;
    }
    out.moved = s != 0;
    return out;
  }

  static EllipseCase minimum(const Ellipse& in, double* x) {
    const Steps steps = find(Scaled(in), in.normal);
    std::fill(x, x + N, 0.0);
    if (steps.singular) return EllipseCase::kSingular;
    const double scale =
        steps.moved ? std::sqrt(in.normal * in.normal / std::max(mjMINVAL, steps.v.squaredNorm()))
                    : 1;
    for (int i = 0; i < N; i++) x[i] = scale * steps.v[i] * in.friction[static_cast<size_t>(i)];
    return steps.moved ? EllipseCase::kCone : EllipseCase::kInside;
  }

  static double radius(const Ellipse& in) {
    const Scaled scaled(in);
    SquareMatrix P;
    if (!scaled.invert(0, P)) return std::numeric_limits<double>::infinity();
    return (P * scaled.b).norm();
  }

  static void pullback(const Ellipse& in, const double* x_bar, Ellipse& bar) {
    const double r = in.normal;
    const Scaled scaled(in);
    Steps steps = find(scaled, r);
    if (steps.singular) return;

    // x_i = μ_i v_i, on the boundary μ_i v_i r/|v|
    Column v_bar;
    const double length = steps.v.norm(), scale = steps.moved ? r / length : 1;
    for (int i = 0; i < N; i++) {
      const auto k = static_cast<size_t>(i);
      v_bar[i] = in.friction[k] * x_bar[i];
      bar.friction[k] += scale * steps.v[i] * x_bar[i];
    }
    if (steps.moved) {
      const double along = steps.v.dot(v_bar) / length;
      bar.normal += along;
      v_bar = scale * (v_bar - along / length * steps.v);
    }

    // v = -P b, δv = -P (δb + (δA + δs) v)
    const Column t = steps.P * v_bar;
    Column b_bar = -t;
    SquareMatrix A_bar = -t * steps.v.transpose();
    double s_bar = -t.dot(steps.v);

    // s += e/(2 q), e = |v|² - r², q = v·w, w = P v; with u = P w
    //   δe = -2 w·(δb + (δA + δs) v) - 2 r δr
    //   δq = -2 u·(δb + (δA + δs) v) - w·(δA + δs) w
    for (int k = steps.n - 2; k >= 0; k--) {
      scaled.invert(steps.s[static_cast<size_t>(k)], steps.P);
      const Column v = -(steps.P * scaled.b), w = steps.P * v, u = steps.P * w;
      const double q = v.dot(w), e = v.squaredNorm() - r * r;
      const double e_bar = s_bar / (2 * q), q_bar = -s_bar * e / (2 * q * q);
      const Column m = -2 * (e_bar * w + q_bar * u);
      b_bar += m;
      A_bar += m * v.transpose() - q_bar * w * w.transpose();
      bar.normal -= 2 * r * e_bar;
      s_bar += m.dot(v) - q_bar * w.squaredNorm();
    }

    for (int i = 0; i < N; i++) {
      const auto k = static_cast<size_t>(i);
      bar.b[k] += in.friction[k] * b_bar[i];
      bar.friction[k] += in.b[k] * b_bar[i];
      for (int j = 0; j < N; j++) {
        const auto l = static_cast<size_t>(j), at = static_cast<size_t>(i * N + j);
        bar.A[at] += in.friction[k] * in.friction[l] * A_bar(i, j);
        bar.friction[k] += in.A[at] * in.friction[l] * A_bar(i, j);
        bar.friction[l] += in.A[at] * in.friction[k] * A_bar(i, j);
      }
    }
  }
};

}  // namespace

EllipseCase ellipse_minimum(const Ellipse& in, double* x) {
  return in.n == 2   ? Of<2>::minimum(in, x)
         : in.n == 3 ? Of<3>::minimum(in, x)
                     : Of<5>::minimum(in, x);
}

double ellipse_radius(const Ellipse& in) {
  return in.n == 2 ? Of<2>::radius(in) : in.n == 3 ? Of<3>::radius(in) : Of<5>::radius(in);
}

void ellipse_pullback(const Ellipse& in, const double* x_bar, Ellipse& bar) {
  if (in.n == 2) {
    Of<2>::pullback(in, x_bar, bar);
  } else if (in.n == 3) {
    Of<3>::pullback(in, x_bar, bar);
  } else {
    Of<5>::pullback(in, x_bar, bar);
  }
}

}  // namespace diffmj
