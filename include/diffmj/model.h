// Model: a compiled MuJoCo model, constant and shared by all threads.
#ifndef DIFFMJ_MODEL_H_
#define DIFFMJ_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "diffmj/options.h"

struct mjModel_;
typedef struct mjModel_ mjModel;

namespace diffmj {

class ModelImpl;

// A copy is cheap: it shares the compiled model, which is never modified.
class Model {
 public:
  // Reads an MJCF, URDF or MJB file. Throws InputError if there is no such file, MujocoError if it
  // does not compile, UnsupportedError if it uses a feature without a derivative.
  static Model from_file(const std::string& path, const ModelOptions& options = {});
  static Model from_xml(const std::string& mjcf, const ModelOptions& options = {});
  // Copies the model: later changes by the caller have no effect.
  static Model from_mjmodel(const mjModel* model, const ModelOptions& options = {});

  // Our copy: autoreset and sensors are disabled in its options.
  const mjModel* mj() const;

  int nq() const;
  int nv() const;
  int na() const;
  int nu() const;
  int nbody() const;
  int nmocap() const;
  int nsite() const;
  int nsensordata() const;
  int ngeom() const;
  int ntangent() const { return 2 * nv() + na(); }  // size of a state's tangent
  double timestep() const;                          // [s]

  Integrator integrator() const;        // never kModel
  const ModelOptions& options() const;  // as requested
  bool is_adaptive() const;             // the integrator is an explicit Runge-Kutta method of ours
  double interval() const;  // [s] between rows of a trajectory: the timestep, unless adaptive
  GradientPath gradient_path() const;
  // Names the feature that requires a slower path than requested; empty if there is none.
  const std::string& gradient_path_reason() const;
  double muscle_smoothing() const;
  // Names the pairs of shapes in the model that keep MuJoCo's collider although smooth ones were
  // requested; empty if there are none.
  const std::string& collisions_notice() const;

  // Body, joint, geom, ... number id as "geom 'floor'", or "geom 3" without a name. type is mjtObj.
  std::string element_name(int type, int id) const;
  // "joint 'knee' (dof 4)"
  std::string dof_name(int dof) const;
  // Number of the keyframe with this name; an InputError lists the valid names.
  int keyframe(const std::string& name) const;

  // The same model with other numbers: those of another mjModel with the same structure (an
  // InputError names the difference), or of some of the fields in parameter_names(). This is cheap:
  // all other arrays and the scratch memory of rollouts are shared. If single fields are given, the
  // masses of subtrees follow; other values that MuJoCo's compiler derives (body_invweight0, ...)
  // do not.
  Model with_numbers(const mjModel* numbers) const;
  Model with_parameters(const std::map<std::string, std::vector<double>>& fields) const;

  // The same model with the constraint solver run to machine precision and no warm start. Use it
  // for differences of mj_step; otherwise they measure the noise of the solver.
  Model tightened() const;

  const ModelImpl& impl() const { return *impl_; }

 private:
  explicit Model(std::shared_ptr<const ModelImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const ModelImpl> impl_;
};

// Fields of mjModel that have a gradient: "body_mass", "opt.gravity", ...
std::vector<std::string> parameter_names();
// Rows and numbers per row of such a field; an InputError lists the valid names.
std::pair<int, int> parameter_shape(const Model& model, const std::string& name);

}  // namespace diffmj

#endif  // DIFFMJ_MODEL_H_
