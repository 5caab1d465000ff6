// Model: a compiled MuJoCo model, constant and shared by all threads.
#ifndef DIFFMJ_MODEL_H_
#define DIFFMJ_MODEL_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diffmj/adaptive.h"
#include "diffmj/cfd.h"
#include "diffmj/collisions.h"

struct mjModel_;
typedef struct mjModel_ mjModel;

namespace diffmj {

class ModelImpl;

// MuJoCo's time-stepping schemes, kModel keeps what the model says; then explicit Runge-Kutta
// methods, adaptive but for the first.
enum class Integrator {
  kModel,
  kEuler,
  kRk4,
  kImplicit,
  kImplicitFast,
  kDiscrete,
  kExplicitEuler,
  kHeun,
  kMidpoint,
  kRalston,
  kBosh3,
  kTsit5,
  kDopri5,
  kDopri8,
};

// How the derivative of one step is taken (docs/gradients.md).
enum class GradientPath {
  kAnalytic,     // reverse sweeps over the stages, by hand
  kOracle,       // implicit differentiation of the solver, differences of inverse dynamics
  kDifferences,  // differences of mj_step itself: the solution is not a root of inverse dynamics
};

const char* gradient_path_name(GradientPath path);  // "analytic", "oracle", "differences"

struct ModelOptions {
  Integrator integrator = Integrator::kModel;
  // The fastest path the model may take; a slower one is for comparison.
  GradientPath path = GradientPath::kAnalytic;
  // Whether a feature without an analytic pullback sends the model to a slower path; if not, it is
  // an UnsupportedError that names the feature.
  bool fallback = true;
  // Muscles in the backward pass only: their curves are blurred over this width, in units of the
  // muscle's optimal length, of its largest velocity and of activation, so that flat pieces have a
  // slope near their ends (docs/gradients.md). 0: the exact derivative. Needs the analytic path.
  double muscle_smoothing = 0;
  // Smooth colliders in place of MuJoCo's. kSmoothBackward and
  // kSmoothField need the analytic path.
  CollisionOptions collisions = {};
  // Contacts from distance, in the backward pass; none: without them. Needs the analytic path.
  std::optional<Cfd> cfd = {};
  // Of the explicit Runge-Kutta methods; MuJoCo's integrators read none of it.
  AdaptiveOptions adaptive = {};
};

// A copy is cheap: it shares the compiled model, which is never modified.
class Model {
 public:
  // Reads an MJCF, URDF or MJB file. Throws InputError if there is no such file, MujocoError if it
  // does not compile, UnsupportedError if it uses a feature without a derivative.
  static Model from_file(const std::string& path, const ModelOptions& options = {});
  static Model from_xml(const std::string& mjcf, const ModelOptions& options = {});
  // Copies the model: what the caller changes afterwards has no effect here.
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
  const ModelOptions& options() const;  // as they were asked for
  bool is_adaptive() const;             // the integrator is an explicit Runge-Kutta method of ours
  double interval() const;  // [s] between rows of a trajectory: the timestep, unless adaptive
  GradientPath gradient_path() const;
  // Names what forced a slower path than was asked for; empty if nothing did.
  const std::string& gradient_path_reason() const;
  double muscle_smoothing() const;
  // Names the pairs of shapes in the model that have MuJoCo's collider although smooth ones were
  // asked for; empty if there are none.
  const std::string& collisions_notice() const;

  // Body, joint, geom, ... number id as "geom 'floor'", or "geom 3" without a name. type is mjtObj.
  std::string element_name(int type, int id) const;
  // "joint 'knee' (dof 4)"
  std::string dof_name(int dof) const;
  // Number of the keyframe with this name; InputError lists the names there are.
  int keyframe(const std::string& name) const;

  // The same model with other numbers: those of another mjModel of the same structure (InputError
  // names what differs), or of some of the fields in parameter_names(). Cheap: all other arrays and
  // the scratch of rollouts are shared. Of fields that are given alone, masses of subtrees follow;
  // what MuJoCo's compiler derives (body_invweight0, ...) does not.
  Model with_numbers(const mjModel* numbers) const;
  Model with_parameters(const std::map<std::string, std::vector<double>>& fields) const;

  // The same model with the solver run to machine precision and no warm start: what differences of
  // mj_step must be taken on, or they measure the noise of the solver.
  Model tightened() const;

  const ModelImpl& impl() const { return *impl_; }

 private:
  explicit Model(std::shared_ptr<const ModelImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const ModelImpl> impl_;
};

// Fields of mjModel a loss can be differentiated in: "body_mass", "opt.gravity", ...
std::vector<std::string> parameter_names();
// Rows and numbers per row of such a field; InputError lists the names there are.
std::pair<int, int> parameter_shape(const Model& model, const std::string& name);

// "Euler", "RK4", "implicit", "implicitfast", "discrete", "model": MuJoCo's own words; and
// "explicit_euler", "heun", "midpoint", "ralston", "bosh3", "tsit5", "dopri5", "dopri8".
const char* integrator_name(Integrator integrator);
// The inverse; InputError lists the names there are.
Integrator integrator_from_name(const std::string& name);

}  // namespace diffmj

#endif  // DIFFMJ_MODEL_H_
