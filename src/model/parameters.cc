#include "model/parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/names.h"
#include "diffmj/error.h"
#include "mj/call.h"

namespace diffmj {
namespace {

// field of mjModel with its number of rows
#define DIFFMJ_FIELD(id, name, rows, width, kind)                   \
  ParameterField {                                                  \
    Parameter::id, #name, #rows, width, ParameterKind::kind,        \
        [](const mjModel* m) { return static_cast<int>(m->rows); }, \
        [](mjModel* m) -> mjtNum* { return m->name; }               \
  }

// first entry and length of the unit vector an entry of qpos_spring belongs to; length 1: to none
std::pair<int, int> quaternion_of_qpos(const mjModel* m, int entry) {
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int type = m->jnt_type[j];
    if (type != mjJNT_FREE && type != mjJNT_BALL) continue;
    const int begin = m->jnt_qposadr[j] + (type == mjJNT_FREE ? 3 : 0);
    if (entry >= begin && entry < begin + 4) return {begin, 4};
  }
  return {entry, 1};
}

}  // namespace

const std::array<ParameterField, kParameterCount>& parameter_fields() {
  static const std::array<ParameterField, kParameterCount> fields = {{
      DIFFMJ_FIELD(kBodyMass, body_mass, nbody, 1, kFree),
      DIFFMJ_FIELD(kBodyInertia, body_inertia, nbody, 3, kFree),
      DIFFMJ_FIELD(kBodyIpos, body_ipos, nbody, 3, kFree),
      DIFFMJ_FIELD(kBodyIquat, body_iquat, nbody, 4, kUnit),
      DIFFMJ_FIELD(kBodyPos, body_pos, nbody, 3, kFree),
      DIFFMJ_FIELD(kBodyQuat, body_quat, nbody, 4, kUnit),
      DIFFMJ_FIELD(kJntPos, jnt_pos, njnt, 3, kFree),
      DIFFMJ_FIELD(kJntAxis, jnt_axis, njnt, 3, kUnit),
      DIFFMJ_FIELD(kJntStiffness, jnt_stiffness, njnt, 1, kFree),
      DIFFMJ_FIELD(kQposSpring, qpos_spring, nq, 1, kQpos),
      DIFFMJ_FIELD(kDofDamping, dof_damping, nv, 1, kFree),
      DIFFMJ_FIELD(kDofArmature, dof_armature, nv, 1, kFree),
      DIFFMJ_FIELD(kSitePos, site_pos, nsite, 3, kFree),
      DIFFMJ_FIELD(kActuatorGainprm, actuator_gainprm, nactuator, mjNGAIN, kFree),
      DIFFMJ_FIELD(kActuatorBiasprm, actuator_biasprm, nactuator, mjNBIAS, kFree),
      DIFFMJ_FIELD(kActuatorGear, actuator_gear, nout, 6, kFree),
      ParameterField{Parameter::kGravity, "opt.gravity", "1", 3, ParameterKind::kFree,
                     [](const mjModel*) { return 1; },
                     [](mjModel* m) -> mjtNum* { return m->opt.gravity; }},
      DIFFMJ_FIELD(kGeomSize, geom_size, ngeom, 3, kFree),
      DIFFMJ_FIELD(kGeomPos, geom_pos, ngeom, 3, kFree),
      DIFFMJ_FIELD(kGeomQuat, geom_quat, ngeom, 4, kUnit),
      DIFFMJ_FIELD(kGeomFriction, geom_friction, ngeom, 3, kFree),
      DIFFMJ_FIELD(kGeomSolref, geom_solref, ngeom, mjNREF, kFree),
      DIFFMJ_FIELD(kGeomSolimp, geom_solimp, ngeom, mjNIMP, kFree),
      DIFFMJ_FIELD(kGeomMargin, geom_margin, ngeom, 1, kFree),
      DIFFMJ_FIELD(kPairFriction, pair_friction, npair, 5, kFree),
      DIFFMJ_FIELD(kPairSolref, pair_solref, npair, mjNREF, kFree),
      DIFFMJ_FIELD(kPairSolimp, pair_solimp, npair, mjNIMP, kFree),
      DIFFMJ_FIELD(kPairMargin, pair_margin, npair, 1, kFree),
      DIFFMJ_FIELD(kJntRange, jnt_range, njnt, 2, kFree),
      DIFFMJ_FIELD(kJntSolref, jnt_solref, njnt, mjNREF, kFree),
      DIFFMJ_FIELD(kJntSolimp, jnt_solimp, njnt, mjNIMP, kFree),
      DIFFMJ_FIELD(kDofFrictionloss, dof_frictionloss, nv, 1, kFree),
      DIFFMJ_FIELD(kEqData, eq_data, neq, mjNEQDATA, kFree),
      DIFFMJ_FIELD(kEqSolref, eq_solref, neq, mjNREF, kFree),
      DIFFMJ_FIELD(kEqSolimp, eq_solimp, neq, mjNIMP, kFree),
      DIFFMJ_FIELD(kBodyInvweight0, body_invweight0, nbody, 2, kFree),
      DIFFMJ_FIELD(kDofInvweight0, dof_invweight0, nv, 1, kFree),
      DIFFMJ_FIELD(kTendonStiffness, tendon_stiffness, ntendon, 1, kFree),
      DIFFMJ_FIELD(kTendonDamping, tendon_damping, ntendon, 1, kFree),
      DIFFMJ_FIELD(kTendonLengthspring, tendon_lengthspring, ntendon, 2, kFree),
      DIFFMJ_FIELD(kTendonRange, tendon_range, ntendon, 2, kFree),
      DIFFMJ_FIELD(kActuatorDynprm, actuator_dynprm, nactuator, mjNDYN, kFree),
      DIFFMJ_FIELD(kActuatorLengthrange, actuator_lengthrange, nout, 2, kFree),
      DIFFMJ_FIELD(kActuatorAcc0, actuator_acc0, nout, 1, kFree),
  }};
  return fields;
}

#undef DIFFMJ_FIELD

const ParameterField& parameter_field(const std::string& name) {
  std::vector<std::string> known;
  for (const ParameterField& field : parameter_fields()) {
    if (name == field.name) return field;
    known.emplace_back(field.name);
  }
  throw InputError(unknown_name("parameter", name, known));
}

MjModelPtr movable_copy(const mjModel* m) {
  mjModel* made = nullptr;
  mj_call("mj_copyModel", [&] { made = mj_copyModel(nullptr, m); });
  if (!made) throw MemoryError("mj_copyModel: MuJoCo could not allocate a copy of the model");
  MjModelPtr copy(made);
  std::fill_n(copy->body_sameframe, copy->nbody, mjtByte{mjSAMEFRAME_NONE});
  std::fill_n(copy->geom_sameframe, copy->ngeom, mjtByte{mjSAMEFRAME_NONE});
  std::fill_n(copy->site_sameframe, copy->nsite, mjtByte{mjSAMEFRAME_NONE});
  return copy;
}

ParameterProbe::ParameterProbe(mjModel* m, const ParameterField& field, int entry)
    : m_(m), field_(field), entry_(entry), begin_(entry), size_(1) {
  if (field.kind == ParameterKind::kUnit) {
    begin_ = entry - entry % field.width;
    size_ = field.width;
  } else if (field.kind == ParameterKind::kQpos) {
    std::tie(begin_, size_) = quaternion_of_qpos(m, entry);
  }
  const mjtNum* data = field.data(m);
  std::copy_n(data + begin_, size_, original_);
  // entries that are zero are as large as a hundredth of the largest of their field
  double largest = 0;
  for (int i = 0; i < field.size(m); i++) largest = std::max(largest, std::abs(data[i]));
  scale_ = largest == 0 ? 1 : std::max(std::abs(data[entry]), 0.01 * largest);
  // parameters of an actuator have units of their own
  const bool mixed = field.id == Parameter::kActuatorGainprm ||
                     field.id == Parameter::kActuatorBiasprm ||
                     field.id == Parameter::kActuatorDynprm;
  if (mixed) scale_ = data[entry] == 0 ? 1 : std::abs(data[entry]);
  // places of geoms are often 0, or nearly so: they are lengths like the smallest of their sizes
  if (field.id == Parameter::kGeomPos) {
    double size = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3 * static_cast<int>(m->ngeom); i++) {
      const bool plane = m->geom_type[i / 3] == mjGEOM_PLANE;
      if (!plane && m->geom_size[i] > 0) size = std::min(size, m->geom_size[i]);
    }
    if (std::isfinite(size)) scale_ = std::max(std::abs(data[entry]), size);
  }
  // armature adds to an inertia
  if (field.id == Parameter::kDofArmature && largest == 0) {
    scale_ = *std::min_element(m->dof_M0, m->dof_M0 + m->nv);
  }
}

void ParameterProbe::move(double h) {
  mjtNum* data = field_.data(m_);
  const double before = data[entry_];
  std::copy_n(original_, size_, data + begin_);
  data[entry_] += h;
  if (size_ > 1 && h != 0) mju_normalize(data + begin_, size_);
  if (field_.id != Parameter::kBodyMass) return;
  const double change = data[entry_] - before;
  for (int body = entry_;; body = m_->body_parentid[body]) {
    // the very same number, if the body is alone
    if (m_->body_subtreemass[body] == before) {
      m_->body_subtreemass[body] = data[entry_];
    } else {
      m_->body_subtreemass[body] += change;
    }
    if (body == 0) break;
  }
}

ParameterColumns::ParameterColumns(const mjModel* m, std::vector<const ParameterField*> fields)
    : m_(m), fields_(std::move(fields)) {
  first_.fill(-1);
  for (const ParameterField* field : fields_) {
    first_[static_cast<size_t>(field->id)] = size_;
    size_ += field->size(m);
  }
}

ParameterBar ParameterColumns::bar(double* row) const {
  ParameterBar out;
  for (const ParameterField* field : fields_) {
    const auto i = static_cast<size_t>(field->id);
    out.field[i] = {row + first_[i], static_cast<size_t>(field->size(m_))};
  }
  return out;
}

}  // namespace diffmj
