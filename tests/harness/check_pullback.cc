#include "harness/check_pullback.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <random>

#include "base/ridders.h"

namespace {
thread_local size_t allocation_count = 0;

void* counted_allocation(size_t size, size_t alignment) {
  allocation_count++;
  void* const memory =
      alignment > alignof(std::max_align_t)
          ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
          : std::malloc(size > 0 ? size : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(size_t size) { return counted_allocation(size, 1); }
void* operator new[](size_t size) { return counted_allocation(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return counted_allocation(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return counted_allocation(size, static_cast<size_t>(alignment));
}
// std::stable_sort asks this way
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  allocation_count++;
  return std::malloc(size > 0 ? size : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace diffmj {
namespace {

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += a[i] * b[i];
  return sum;
}

Vector random_vector(size_t n, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Vector x(n);
  for (double& value : x) value = normal(random);
  return x;
}

Vector minus(const Operation& op, const Vector& y, const Vector& y0) {
  if (op.minus) return op.minus(y, y0);
  Vector d(y.size());
  for (size_t i = 0; i < y.size(); i++) d[i] = y[i] - y0[i];
  return d;
}

// x_bar from a pullback that starts from noise, minus the noise
Vector pulled(const Operation& op, const Vector& x, const Vector& y_bar, const Vector& noise) {
  Vector x_bar = noise;
  op.pullback(x, y_bar, x_bar);
  for (size_t i = 0; i < x_bar.size(); i++) x_bar[i] -= noise[i];
  return x_bar;
}

double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

}  // namespace

size_t allocations() { return allocation_count; }

::testing::AssertionResult check_pullback(const Operation& op, const Vector& x, size_t ntangent,
                                          CheckPullbackOptions options) {
  std::mt19937 random(options.seed);
  const Vector y0 = op.forward(x);
  const size_t ny = minus(op, y0, y0).size();
  const Vector zero(ntangent, 0.0);
  const auto failure = [&] {
    return ::testing::AssertionFailure() << "seed " << options.seed << ": ";
  };

  // adds, is linear, touches no input, gives the same twice
  const Vector y1 = random_vector(ny, random), y2 = random_vector(ny, random);
  Vector sum(ny);
  for (size_t i = 0; i < ny; i++) sum[i] = 2 * y1[i] - 3 * y2[i];
  const Vector noise = random_vector(ntangent, random);
  const Vector a = pulled(op, x, y1, zero), b = pulled(op, x, y2, zero);
  Vector combined(ntangent);
  for (size_t i = 0; i < ntangent; i++) combined[i] = 2 * a[i] - 3 * b[i];
  const double size = 1 + std::sqrt(dot(a, a)) + std::sqrt(dot(b, b));
  constexpr double kRounding = 1e-9;  // of sums of numbers up to size
  if (!(distance(pulled(op, x, y1, noise), a) <= kRounding * size)) {
    return failure() << "the pullback overwrites instead of adding";
  }
  if (!(distance(pulled(op, x, sum, zero), combined) <= kRounding * size)) {
    return failure() << "the pullback is not linear in y_bar";
  }
  Vector x_used = x, y_used = y1, x_bar = zero;
  op.pullback(x_used, y_used, x_bar);
  if (x_used != x || y_used != y1) return failure() << "the pullback changes its inputs";
  if (x_bar != a) return failure() << "the pullback gives another result the second time";

  for (int k = 0; k < options.directions; k++) {
    const Vector y_bar = random_vector(ny, random);
    Vector u = random_vector(ntangent, random);
    const double length = std::sqrt(dot(u, u));
    for (double& value : u) value /= length;
    const Vector pullback = pulled(op, x, y_bar, zero);
    const double adjoint = dot(pullback, u);
    // y - y0 has the rounding of y0
    double noise = 0;
    for (size_t i = 0; !op.minus && i < ny; i++) {
      noise += std::numeric_limits<double>::epsilon() * std::abs(y_bar[i] * y0[i]);
    }
    const RiddersResult numeric = ridders(
        [&](double h) {
          Vector dx = u;
          for (double& value : dx) value *= h;
          Vector moved = dx;
          if (op.plus) {
            moved = op.plus(x, dx);
          } else {
            for (size_t i = 0; i < moved.size(); i++) moved[i] += x[i];
          }
          return dot(y_bar, minus(op, op.forward(moved), y0));
        },
        {.step = options.step, .levels = options.levels, .noise = noise});

    const double typical =
        std::sqrt(dot(pullback, pullback) / static_cast<double>(std::max<size_t>(ntangent, 1)));
    const double scale =
        std::max({std::abs(adjoint), std::abs(numeric.derivative), typical, options.smallest});
    const double bar = std::max(numeric.error_bar, numeric.corner);
    const auto numbers = [&](::testing::AssertionResult result) {
      return result << " in direction " << k << ": adjoint " << adjoint << ", differences "
                    << numeric.derivative << ", their error bar " << bar << ", error "
                    << std::abs(adjoint - numeric.derivative) / scale << " relative";
    };
    if (!(bar <= options.tolerance * scale)) return numbers(failure() << "inconclusive");
    if (!(std::abs(adjoint - numeric.derivative) <= options.tolerance * scale)) {
      return numbers(failure() << "the pullback is wrong");
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace diffmj
