// Models and trajectories as bytes, for use in another process.
//
// Bytes can be read only by the releases of diffmj and MuJoCo that wrote them, on the same kind of
// machine; others are refused by name. This is not an archive format.
#ifndef DIFFMJ_SERIALIZE_H_
#define DIFFMJ_SERIALIZE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

// The compiled model, in MuJoCo's MJB format. Options are not included and must be given again.
[[nodiscard]] std::string to_bytes(const Model& model);
// Throws InputError if the bytes are not those of a model, and the errors of Model::from_mjmodel.
[[nodiscard]] Model model_from_bytes(std::string_view bytes, const ModelOptions& options = {});

// Trajectories of this model, with everything that rollout_pullback() reads. Throws InputError if
// one belongs to another model.
[[nodiscard]] std::string to_bytes(const Model& model, std::span<const Trajectory> trajectories);
// Throws InputError if the bytes are not complete, were written by another release of diffmj or
// MuJoCo, or belong to a model that differs in any number or in its integrator.
[[nodiscard]] std::vector<Trajectory> trajectories_from_bytes(const Model& model,
                                                              std::string_view bytes);

}  // namespace diffmj

#endif  // DIFFMJ_SERIALIZE_H_
