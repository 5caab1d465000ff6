// Names of the choices a planner has.
#include "base/names.h"

#include "diffmj/plan.h"

namespace diffmj {
namespace {

constexpr std::pair<PlanMethod, const char*> kMethods[] = {{PlanMethod::kGradient, "gradient"},
                                                           {PlanMethod::kSampling, "sampling"},
                                                           {PlanMethod::kHybrid, "hybrid"},
                                                           {PlanMethod::kIlqr, "ilqr"}};
constexpr std::pair<Interpolation, const char*> kInterpolations[] = {
    {Interpolation::kZero, "zero"},
    {Interpolation::kLinear, "linear"},
    {Interpolation::kCubic, "cubic"}};
constexpr std::pair<Noise, const char*> kNoises[] = {
    {Noise::kWhite, "white"}, {Noise::kPink, "pink"}, {Noise::kBrown, "brown"}};

}  // namespace

const char* plan_method_name(PlanMethod x) { return name_of(kMethods, x); }
PlanMethod plan_method_from_name(const std::string& x) { return value_of("method", kMethods, x); }
const char* interpolation_name(Interpolation x) { return name_of(kInterpolations, x); }
Interpolation interpolation_from_name(const std::string& x) {
  return value_of("interpolation", kInterpolations, x);
}
const char* noise_name(Noise x) { return name_of(kNoises, x); }
Noise noise_from_name(const std::string& x) { return value_of("noise", kNoises, x); }

}  // namespace diffmj
