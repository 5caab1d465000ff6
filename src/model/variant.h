// Models with the structure of another one and numbers of their own: the cheap way to many values
// of parameters.
#ifndef DIFFMJ_MODEL_VARIANT_H_
#define DIFFMJ_MODEL_VARIANT_H_

#include <mujoco/mujoco.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace diffmj {

// An mjModel whose arrays are those of a base model, but for the ones that differ. It keeps the
// base alive. MuJoCo reads it like any other; only mj_deleteModel must not see it.
std::shared_ptr<mjModel> with_numbers_of(const std::shared_ptr<const mjModel>& base,
                                         const mjModel* numbers);

// The base with the values of some parameter fields (model/parameters.h). Numbers that MuJoCo
// derives from them within the dynamics follow: masses of subtrees and dof_M0.
std::shared_ptr<mjModel> with_fields(const std::shared_ptr<const mjModel>& base,
                                     const std::map<std::string, std::vector<double>>& fields);

// An array of numbers in two models. Of numbers in single precision (vertices of meshes, colours)
// copies as mjtNum.
struct ModelArray {
  const char* name;
  const mjtNum *a, *b;
  int size, rows;
  std::shared_ptr<const std::vector<mjtNum>> copies = {};
};
// Those that are not the same, byte by byte.
std::vector<ModelArray> arrays_that_differ(const mjModel* a, const mjModel* b);

}  // namespace diffmj

#endif  // DIFFMJ_MODEL_VARIANT_H_
