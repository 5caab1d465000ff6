// Random numbers of a plan: each sample has its own, whatever thread makes it.
#ifndef DIFFMJ_PLAN_NOISE_H_
#define DIFFMJ_PLAN_NOISE_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "diffmj/plan.h"
#include "mj/view.h"

namespace diffmj {

// Normal numbers from a counter (splitmix64) by the ziggurat method [Marsaglia00], [Doornik05]: the
// standard library's distributions differ between implementations.
class RandomNormal {
 public:
  explicit RandomNormal(std::initializer_list<std::uint64_t> key);
  double next();

 private:
  std::uint64_t bits();
  double uniform();  // in (0, 1)
  double tail();     // of |x| beyond the last layer
  std::uint64_t state_ = 0;
};

// Coloured noise over n times: white noise through the filter 1/(1 - z⁻¹)^(α/2) with α = 0, 1, 2
// [Kasdin95], with a variance of 1 in the mean over the times.
class ColoredNoise {
 public:
  ColoredNoise(Noise color, int n);
  // Adds noise to the n rows of x, which have as many columns as scale; that of a column has a
  // standard deviation of sigma times its scale.
  void add(RandomNormal& random, double sigma, CVec scale, double* x) const;

 private:
  void add_pink(RandomNormal& random, double sigma, CVec scale, double* x) const;

  Noise color_;
  std::vector<double> h_;  // n: impulse response
  double gain_ = 1;
};

}  // namespace diffmj

#endif  // DIFFMJ_PLAN_NOISE_H_
