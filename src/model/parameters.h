// The fields of mjModel a loss can be differentiated in, by MuJoCo's own names.
#ifndef DIFFMJ_MODEL_PARAMETERS_H_
#define DIFFMJ_MODEL_PARAMETERS_H_

#include <mujoco/mujoco.h>

#include <array>
#include <string>
#include <vector>

#include "mj/handle.h"
#include "mj/view.h"

namespace diffmj {

enum class Parameter : int {
  kBodyMass,
  kBodyInertia,
  kBodyIpos,
  kBodyIquat,
  kBodyPos,
  kBodyQuat,
  kJntPos,
  kJntAxis,
  kJntStiffness,
  kQposSpring,
  kDofDamping,
  kDofArmature,
  kSitePos,
  kActuatorGainprm,
  kActuatorBiasprm,
  kActuatorGear,
  kGravity,
  // of constraints
  kGeomSize,
  kGeomPos,
  kGeomQuat,
  kGeomFriction,
  kGeomSolref,
  kGeomSolimp,
  kGeomMargin,
  kPairFriction,
  kPairSolref,
  kPairSolimp,
  kPairMargin,
  kJntRange,
  kJntSolref,
  kJntSolimp,
  kDofFrictionloss,
  kEqData,
  kEqSolref,
  kEqSolimp,
  kBodyInvweight0,
  kDofInvweight0,
  // of tendons
  kTendonStiffness,
  kTendonDamping,
  kTendonLengthspring,
  kTendonRange,
  // of activations and muscles
  kActuatorDynprm,
  kActuatorLengthrange,
  kActuatorAcc0,
};
inline constexpr int kParameterCount = 44;

// Whose entries are free, and whose rows are unit vectors: the gradient of those is that of the
// function extended by normalising, as of quaternions in qpos.
enum class ParameterKind { kFree, kUnit, kQpos };

struct ParameterField {
  Parameter id;
  const char* name;  // "body_mass", "opt.gravity"
  const char* rows;  // "nbody"
  int width;         // numbers per row
  ParameterKind kind;
  int (*nrow)(const mjModel*);
  mjtNum* (*data)(mjModel*);

  int size(const mjModel* m) const { return nrow(m) * width; }
};

// All of them, in the order of Parameter.
const std::array<ParameterField, kParameterCount>& parameter_fields();
// By name; InputError lists the names there are.
const ParameterField& parameter_field(const std::string& name);

// Where cotangents of parameters are added to; an empty span is not wanted.
struct ParameterBar {
  std::array<Vec, kParameterCount> field = {};

  Vec operator[](Parameter p) const { return field[static_cast<size_t>(p)]; }
  bool wants(Parameter p) const { return !(*this)[p].empty(); }
  bool any() const {
    for (const Vec& x : field) {
      if (!x.empty()) return true;
    }
    return false;
  }
};

// The fields of mjModel that are columns of a Jacobian, one after the other.
class ParameterColumns {
 public:
  ParameterColumns() : ParameterColumns(nullptr, {}) {}
  ParameterColumns(const mjModel* m, std::vector<const ParameterField*> fields);

  int size() const { return size_; }
  const std::vector<const ParameterField*>& fields() const { return fields_; }
  // Spans into row, which has size() numbers.
  ParameterBar bar(double* row) const;
  // First column of a field; -1 if it is not among them.
  int first(Parameter p) const { return first_[static_cast<size_t>(p)]; }

 private:
  const mjModel* m_ = nullptr;
  std::vector<const ParameterField*> fields_;
  std::array<int, kParameterCount> first_ = {};
  int size_ = 0;
};

// A copy of a model in which parameters may be moved: MuJoCo's shortcuts for frames that coincide
// are off. (Those for bodies with a diagonal inertia, body_simple, are part of the sparsity of M
// and stay.)
MjModelPtr movable_copy(const mjModel* m);

// Moves one entry of a field and puts it back. Rows that are unit vectors are normalised, masses of
// subtrees follow the masses of their bodies.
class ParameterProbe {
 public:
  ParameterProbe(mjModel* m, const ParameterField& field, int entry);
  ~ParameterProbe() { move(0); }
  ParameterProbe(const ParameterProbe&) = delete;
  ParameterProbe& operator=(const ParameterProbe&) = delete;

  // From where it was made; 0 puts it back.
  void move(double h);
  // The size a difference step is a small part of.
  double scale() const { return scale_; }

 private:
  static constexpr int kMaxRow = 4;
  mjModel* m_;
  const ParameterField& field_;
  int entry_, begin_, size_;  // the numbers that move together
  double original_[kMaxRow], scale_;
};

}  // namespace diffmj

#endif  // DIFFMJ_MODEL_PARAMETERS_H_
