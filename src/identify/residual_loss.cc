#include "identify/residual_loss.h"

#include <cmath>
#include <utility>

#include "base/names.h"

namespace diffmj {

namespace {

constexpr std::pair<ResidualLoss::Kind, const char*> kNames[] = {
    {ResidualLoss::Kind::kLinear, "linear"},
    {ResidualLoss::Kind::kSoftL1, "soft_l1"},
    {ResidualLoss::Kind::kHuber, "huber"},
    {ResidualLoss::Kind::kCauchy, "cauchy"}};

}  // namespace

ResidualLoss::Kind residual_loss_from_name(const std::string& name) {
  return value_of("fit: loss", kNames, name);
}

const char* residual_loss_name(ResidualLoss::Kind kind) { return name_of(kNames, kind); }

RobustResidual robust_residual(const ResidualLoss& loss, double r) {
  const double u = (r / loss.scale) * (r / loss.scale);
  double ratio = 1, rate = 1;  // ρ(u)/u, ρ'(u)
  switch (loss.kind) {
    case ResidualLoss::Kind::kLinear:
      return {r, 1};
    case ResidualLoss::Kind::kSoftL1: {
      const double root = std::sqrt(1 + u);
      ratio = 2 / (root + 1);
      rate = 1 / root;
      break;
    }
    case ResidualLoss::Kind::kHuber: {
      if (u <= 1) return {r, 1};
      const double root = std::sqrt(u);
      ratio = (2 * root - 1) / u;
      rate = 1 / root;
      break;
    }
    case ResidualLoss::Kind::kCauchy:
      ratio = u > 0 ? std::log1p(u) / u : 1;
      rate = 1 / (1 + u);
      break;
  }
  return {r * std::sqrt(ratio), rate / std::sqrt(ratio)};
}

}  // namespace diffmj
