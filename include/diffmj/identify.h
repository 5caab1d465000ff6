// ParametricModel: gradients in anything that MJCF can say.
//
// Parameters θ are numbers that a model is built from: attributes of elements of an MJCF, or the
// arguments of any function that makes a model. With the fields p of mjModel,
//
//   dL/dθ = Σ_p dL/dp · dp/dθ
//
// the first factor is rollout_pullback()'s, the second comes from central differences of MuJoCo's
// compiler, which moves everything it derives: masses, inertias, frames, invweight0, acc0.
// Completeness is checked: a field that changes with θ, acts on the motion and has no derivative is
// an error that names it.
#ifndef DIFFMJ_IDENTIFY_H_
#define DIFFMJ_IDENTIFY_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "diffmj/gradient.h"
#include "diffmj/model.h"

namespace diffmj {

class AttributeModel;

// Makes the model of some parameters; the caller owns it (mj_deleteModel). It is called by the
// thread that calls at() or jacobian(). All of them must have
// the same structure: numbers may differ, sizes and types may not.
using BuildModel = std::function<mjModel*(std::span<const double> theta)>;

class ParametricModel {
 public:
  // names: of the parameters, for messages; empty: "parameter 0", ... Throws InputError or
  // MujocoError if the model cannot be built at start.
  ParametricModel(BuildModel build, std::span<const double> start,
                  std::vector<std::string> names = {}, const ModelOptions& options = {});
  // Attributes of elements of an MJCF, a file's path or a string; start is what it has:
  //   "elbow/damping", "cube/size[0]"    of the element with that name; without a number all that
  //                                      are not 0
  //   "geom:cube/size[0]"                where several kinds of elements have that name
  //   "default.geom/solref[0]"           of the main default, for all geoms that have its value
  //   "default(toe).geom/friction[0]", "option/gravity[2]"
  // Names and units are those of mjSpec.
  static ParametricModel from_attributes(const std::string& mjcf,
                                         std::span<const std::string> attributes,
                                         const ModelOptions& options = {});

  int size() const;
  const std::vector<std::string>& names() const;
  const std::vector<double>& start() const;

  // The model of θ: builds it, and shares all but its numbers with the model at the start.
  [[nodiscard]] Model at(std::span<const double> theta) const;

  // The MJCF of attributes as MuJoCo writes it, with six digits; meshes and textures are looked for
  // where they were. Throws InputError if the models come from a function.
  [[nodiscard]] std::string mjcf(std::span<const double> theta) const;

  // dp/dθ at θ.
  class Jacobian {
   public:
    // Fields of mjModel that depend on θ: what Cotangents::params must have.
    const std::vector<std::string>& fields() const { return fields_; }
    // dL/dθ of a gradient that has those fields.
    [[nodiscard]] std::vector<double> pullback(const Gradient& gradient) const;
    // d(field)/dθ of one of the fields: a row of its numbers per parameter, for Tangents::params.
    [[nodiscard]] std::vector<double> tangents(const Model& model, const std::string& field) const;

   private:
    friend class ParametricModel;
    struct Entry {
      int parameter, field, entry;
      double slope;
    };
    std::vector<std::string> fields_;
    std::vector<Entry> entries_;
    int size_ = 0;
  };
  // Two compilations per parameter, on threads, or four of a function, which is called by this
  // thread alone; that the first time. Afterwards two in all, as long as the model's numbers are
  // affine in θ but for those that mj_setConst derives; that is checked, and where it does not hold
  // every parameter is compiled again. Throws UnsupportedError naming the parameter and the field
  // if one acts on the motion and has no derivative, InputError if a function is not smooth in a
  // parameter, or does not depend on it (unless allow_idle is true), or if a parameter is a
  // friction loss of 0.
  [[nodiscard]] Jacobian jacobian(std::span<const double> theta, int nthread = 0,
                                  bool allow_idle = false) const;

 private:
  struct Impl;
  ParametricModel(BuildModel build, std::span<const double> start, std::vector<std::string> names,
                  const ModelOptions& options, std::shared_ptr<const AttributeModel> attributes);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_H_
