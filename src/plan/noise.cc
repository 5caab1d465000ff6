#include "plan/noise.h"

#include <Eigen/Core>
#include <cmath>
#include <numbers>

namespace diffmj {
namespace {

// splitmix64: a permutation of 64 bits
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

RandomNormal::RandomNormal(std::initializer_list<std::uint64_t> key) {
  for (const std::uint64_t x : key) state_ = mix(state_ ^ x);
}

double RandomNormal::uniform() {
  state_ += 0x9e3779b97f4a7c15U;
  // 53 bits, and half a unit away from 0
  return (static_cast<double>(mix(state_) >> 11) + 0.5) * 0x1p-53;
}

double RandomNormal::next() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2 * std::log(uniform())),
               angle = 2 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
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

void ColoredNoise::add(RandomNormal& random, double scale, int width, double* x) const {
  const size_t n = h_.size();
  const auto stride = static_cast<size_t>(width);
  const double factor = scale * gain_;
  if (color_ == Noise::kWhite) {
    for (size_t i = 0; i < n; i++) x[i * stride] += factor * random.next();
    return;
  }
  if (color_ == Noise::kBrown) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) x[i * stride] += factor * (sum += random.next());
    return;
  }
  Eigen::VectorXd out = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(n));
  const Eigen::Map<const Eigen::VectorXd> h(h_.data(), out.size());
  for (Eigen::Index i = 0; i < out.size(); i++) {
    const Eigen::Index rest = out.size() - i;
    out.tail(rest) += random.next() * h.head(rest);
  }
  for (size_t i = 0; i < n; i++) x[i * stride] += factor * out[static_cast<Eigen::Index>(i)];
}

}  // namespace diffmj
