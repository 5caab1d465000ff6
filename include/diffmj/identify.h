// ParametricModel: gradients with respect to attributes of an MJCF.
//
// Parameters θ are numbers that a model is built from: attributes of elements of an MJCF, or the
// arguments of any function that builds a model. With the fields p of mjModel,
//
//   dL/dθ = Σ_p dL/dp · dp/dθ
//
// rollout_pullback() gives the first factor. The second comes from central differences of MuJoCo's
// compiler, so it includes everything that the compiler derives: masses, inertias, frames,
// invweight0, acc0. Completeness is checked: if a field changes with θ and acts on the motion but
// has no derivative, an error names it.
#ifndef DIFFMJ_IDENTIFY_H_
#define DIFFMJ_IDENTIFY_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diffmj/gradient.h"
#include "diffmj/model.h"

namespace diffmj {

class AttributeModel;

// Builds the model for given parameters; the caller owns it (mj_deleteModel). It is called by the
// thread that calls at() or jacobian(). All models must have the same structure: numbers may
// differ, sizes and types may not.
using BuildModel = std::function<mjModel*(std::span<const double> theta)>;

class ParametricModel {
 public:
  // names: of the parameters, for messages; empty: "parameter 0", ... Throws InputError or
  // MujocoError if the model cannot be built at start.
  ParametricModel(BuildModel build, std::span<const double> start,
                  std::vector<std::string> names = {}, const ModelOptions& options = {});
  // Attributes of elements of an MJCF, given as a path or a string; start has the values of the
  // MJCF:
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

  // Builds the model for θ. It shares everything except numbers with the model at the start.
  [[nodiscard]] Model at(std::span<const double> theta) const;

  // The MJCF with the values θ, as MuJoCo writes it, with six digits; meshes and textures keep
  // their paths. Throws InputError if the models come from a function.
  [[nodiscard]] std::string mjcf(std::span<const double> theta) const;

  // dp/dθ at θ.
  class Jacobian {
   public:
    // Fields of mjModel that depend on θ; Cotangents::params must contain them.
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
  // The first call takes two compilations per parameter, on threads; with a function it takes four,
  // all on this thread. Later calls take two in all, as long as the model's numbers are affine in
  // θ, apart from those that mj_setConst derives. This is checked, and where it does not hold every
  // parameter is compiled again. Throws UnsupportedError, which names the parameter and the field,
  // if a field acts on the motion and has no derivative; InputError if a function is not smooth in
  // a parameter, or does not depend on it (unless allow_idle is true), or if a parameter is a
  // friction loss of 0.
  [[nodiscard]] Jacobian jacobian(std::span<const double> theta, std::optional<int> nthread = {},
                                  bool allow_idle = false) const;

 private:
  struct Impl;
  ParametricModel(BuildModel build, std::span<const double> start, std::vector<std::string> names,
                  const ModelOptions& options, std::shared_ptr<const AttributeModel> attributes);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_H_
