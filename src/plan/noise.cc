#include "plan/noise.h"

#include <Eigen/Core>
#include <array>
#include <cmath>

namespace diffmj {
namespace {

// splitmix64: a permutation of 64 bits
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// 53 bits, and half a unit away from 0
double to_unit(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

// Layers of equal area under exp(-x²/2), x > 0; the first includes the tail beyond kTail.
constexpr size_t kLayers = 256;
constexpr double kTail = 3.6541528853610088, kArea = 0.004928673233974658;

struct Ziggurat {
  Ziggurat() {
    const auto density = [](double at) { return std::exp(-0.5 * at * at); };
    x[0] = kArea / density(kTail);
    x[1] = kTail;
    for (size_t i = 2; i < kLayers; i++) {
      x[i] = std::sqrt(-2 * std::log(kArea / x[i - 1] + density(x[i - 1])));
    }
    x[kLayers] = 0;
    for (size_t i = 0; i < kLayers; i++) inside[i] = x[i + 1] / x[i];
  }
  std::array<double, kLayers + 1> x;   // right ends of the layers, from the widest on
  std::array<double, kLayers> inside;  // the share of a layer that is below the curve for certain
};

const Ziggurat kZiggurat;

}  // namespace

RandomNormal::RandomNormal(std::initializer_list<std::uint64_t> key) {
  for (const std::uint64_t x : key) state_ = mix(state_ ^ x);
}

std::uint64_t RandomNormal::bits() {
  state_ += 0x9e3779b97f4a7c15U;
  return mix(state_);
}

double RandomNormal::uniform() { return to_unit(bits()); }

// nearly all numbers are inside of a layer: one multiplication
double RandomNormal::next() {
  for (;;) {
    const std::uint64_t random = bits();
    const size_t i = random % kLayers;  // bits that u does not have
    const double u = 2 * to_unit(random) - 1, x = u * kZiggurat.x[i];
    if (std::abs(u) < kZiggurat.inside[i]) return x;
    if (i == 0) return u < 0 ? -tail() : tail();
    // in the wedge between the layer and the curve
    const double above = std::exp(-0.5 * (kZiggurat.x[i] * kZiggurat.x[i] - x * x)),
                 below = std::exp(-0.5 * (kZiggurat.x[i + 1] * kZiggurat.x[i + 1] - x * x));
    if (below + uniform() * (above - below) < 1) return x;
  }
}

double RandomNormal::tail() {
  for (;;) {
    const double x = std::log(uniform()) / kTail, y = std::log(uniform());
    if (-2 * y > x * x) return kTail - x;
  }
}

ColoredNoise::ColoredNoise(Noise color, int n) : color_(color), h_(static_cast<size_t>(n)) {
  const double alpha = color == Noise::kWhite ? 0 : color == Noise::kPink ? 1 : 2;
  double sum = 0, variance = 0;
  for (size_t k = 0; k < h_.size(); k++) {
    const auto i = static_cast<double>(k);
    h_[k] = k == 0 ? 1 : h_[k - 1] * (alpha / 2 + i - 1) / i;
    sum += h_[k] * h_[k];
    variance += sum / n;
  }
  gain_ = 1 / std::sqrt(variance);
}

void ColoredNoise::add(RandomNormal& random, double sigma, CVec scale, double* x) const {
  const size_t n = h_.size(), width = scale.size();
  if (color_ == Noise::kPink) {
    add_pink(random, sigma, scale, x);
    return;
  }
  for (size_t j = 0; j < width; j++) {
    const double factor = sigma * scale[j] * gain_;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
      const double white = random.next();
      sum = color_ == Noise::kWhite ? white : sum + white;
      x[i * width + j] += factor * sum;
    }
  }
}

// For all columns at once and in single precision, which is enough for noise: these sums are most
// of what a sample costs beside its rollout.
void ColoredNoise::add_pink(RandomNormal& random, double sigma, CVec scale, double* x) const {
  const size_t n = h_.size(), width = scale.size();
  const auto row = [&](size_t i) { return static_cast<Eigen::Index>(i * width); };
  Eigen::VectorXf white(row(n)), pink = Eigen::VectorXf::Zero(row(n));  // n x width, row-major
  for (size_t j = 0; j < width; j++) {
    for (size_t i = 0; i < n; i++) {
      white[row(i) + static_cast<Eigen::Index>(j)] = static_cast<float>(random.next());
    }
  }
  for (size_t lag = n; lag-- > 0;) {
    pink.tail(row(n - lag)) += static_cast<float>(h_[lag]) * white.head(row(n - lag));
  }
  for (size_t i = 0; i < n * width; i++) {
    x[i] +=
        sigma * scale[i % width] * gain_ * static_cast<double>(pink[static_cast<Eigen::Index>(i)]);
  }
}

}  // namespace diffmj
