#include "model/variant.h"

#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/spatial.h"
#include "diffmj/error.h"
#include "mj/call.h"
#include "mj/handle.h"
#include "mj/names.h"
#include "model/parameters.h"

// MuJoCo's macros narrow sizes
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-variable"

namespace diffmj {
namespace {

// A copy of the pointers, and the arrays that are not the base's.
struct Variant {
  explicit Variant(const std::shared_ptr<const mjModel>& from) : model(*from), base(from) {}

  template <class T>
  T* own(T*& array, size_t size) {
    std::vector<char>& bytes = arrays.emplace_back(size * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), array, bytes.size());
    array = reinterpret_cast<T*>(bytes.data());
    return array;
  }

  mjModel model;
  std::vector<std::vector<char>> arrays;
  std::shared_ptr<const mjModel> base;
};

std::shared_ptr<mjModel> pointer(std::shared_ptr<Variant> variant) {
  mjModel* model = &variant->model;
  return {std::move(variant), model};
}

// Arrays of whole numbers that follow from the numbers: shortcuts, and trees of bounding boxes.
bool follows_from_numbers(std::string_view name) {
  return name.starts_with("bvh_") || name.starts_with("oct_") || name.ends_with("sameframe");
}

void require_same_sizes(const mjModel* base, const mjModel* numbers) {
#define X(name)                                                                                   \
  if (base->name != numbers->name) {                                                              \
    throw InputError("the two models have different structures: " #name " is " +                  \
                     std::to_string(numbers->name) + ", expected " + std::to_string(base->name) + \
                     "; parameters may change numbers alone");                                    \
  }
  MJMODEL_SIZES
#undef X
}

// M at qpos0 for dofs whose row of M is a constant of the model, but for what actuators add: S ·
// I_c S + armature, I_c of all behind
std::vector<double> simple_masses(const mjModel* m) {
  const auto nv = static_cast<size_t>(m->nv);
  mjData* made = nullptr;
  mj_call("mj_makeData", [&] { made = mj_makeData(m); });
  if (!made) throw MemoryError("mj_makeData: MuJoCo could not allocate the data of this model");
  const MjDataPtr d(made);
  mj_call("mj_comPos", [&] {
    mj_kinematics(m, d.get());
    mj_comPos(m, d.get());
  });
  std::vector<Matrix6> behind(static_cast<size_t>(m->nbody), Matrix6::Zero());
  for (int body = static_cast<int>(m->nbody) - 1; body > 0; body--) {
    const auto b = static_cast<size_t>(body);
    behind[b] += SpatialInertia(d->cinert + 10 * static_cast<ptrdiff_t>(body)).matrix();
    behind[static_cast<size_t>(m->body_parentid[body])] += behind[b];
  }
  std::vector<double> out(nv);
  for (size_t dof = 0; dof < nv; dof++) {
    const Eigen::Map<const Vector6> S(d->cdof + 6 * dof);
    out[dof] = S.dot(behind[static_cast<size_t>(m->dof_bodyid[dof])] * S) + m->dof_armature[dof];
  }
  return out;
}

// Bodies whose rows of M MuJoCo takes for diagonal stay so only if their inertial frames stay.
void require_simple_frames(const mjModel* base, const mjModel* m) {
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    if (m->body_simple[body] == 0) continue;
    const auto moved = [&](const mjtNum* a, const mjtNum* b, int width) {
      return !std::equal(a + width * body, a + width * (body + 1), b + width * body);
    };
    const bool pos = moved(base->body_ipos, m->body_ipos, 3);
    if (!pos && !moved(base->body_iquat, m->body_iquat, 4)) continue;
    throw InputError(std::string("with_parameters: ") + (pos ? "body_ipos" : "body_iquat") +
                     " of " + element_name(m, mjOBJ_BODY, body) +
                     " cannot change: MuJoCo takes its mass matrix for diagonal (body_simple); "
                     "compile the model with the new frame instead");
  }
}

void update_simple_masses(Variant& variant) {
  mjModel* m = &variant.model;
  if (std::all_of(m->dof_simplenum, m->dof_simplenum + m->nv, [](int n) { return n == 0; })) return;
  const std::vector<double> before = simple_masses(variant.base.get()), now = simple_masses(m);
  mjtNum* M0 = variant.own(m->dof_M0, static_cast<size_t>(m->nv));
  for (size_t dof = 0; dof < now.size(); dof++) {
    if (m->dof_simplenum[dof] > 0) M0[dof] += now[dof] - before[dof];
  }
}

}  // namespace

std::shared_ptr<mjModel> with_numbers_of(const std::shared_ptr<const mjModel>& base,
                                         const mjModel* numbers) {
  require_same_sizes(base.get(), numbers);
  auto variant = std::make_shared<Variant>(base);
  mjModel* m = &variant->model;
  m->opt = numbers->opt;
  m->stat = numbers->stat;
  MJMODEL_POINTERS_PREAMBLE(m)
  const auto copy = [&](const char* name, auto*& to, const auto* from, size_t size) {
    using T = std::remove_reference_t<decltype(*to)>;
    if (size == 0 || std::memcmp(to, from, size * sizeof(T)) == 0) return;
    if (!std::is_floating_point_v<T> && !follows_from_numbers(name)) {
      throw InputError(std::string("the two models have different structures: ") + name +
                       " differs; parameters may change numbers alone");
    }
    std::memcpy(variant->own(to, size), from, size * sizeof(T));
  };
#define X(type, name, nr, nc) \
  copy(#name, m->name, numbers->name, static_cast<size_t>(m->nr) * static_cast<size_t>(nc));
  MJMODEL_POINTERS
#undef X
  return pointer(std::move(variant));
}

std::shared_ptr<mjModel> with_fields(const std::shared_ptr<const mjModel>& base,
                                     const std::map<std::string, std::vector<double>>& fields) {
  auto variant = std::make_shared<Variant>(base);
  mjModel* m = &variant->model;
  for (const auto& [name, values] : fields) {
    const ParameterField& field = parameter_field(name);
    const auto size = static_cast<size_t>(field.size(m));
    if (values.size() != size) {
      throw InputError("with_parameters: " + name + " has " + std::to_string(values.size()) +
                       " numbers, expected " + std::to_string(size) + " (" + field.rows + " x " +
                       std::to_string(field.width) + ")");
    }
    for (size_t i = 0; i < size; i++) {
      if (std::isfinite(values[i])) continue;
      throw InputError("with_parameters: " + name + " is not finite at entry " + std::to_string(i));
    }
  }
  const auto given = [&](const char* name) { return fields.find(name) != fields.end(); };
  MJMODEL_POINTERS_PREAMBLE(m)
#define X(type, name, nr, nc)                                                    \
  if (given(#name)) {                                                            \
    variant->own(m->name, static_cast<size_t>(m->nr) * static_cast<size_t>(nc)); \
  }
  MJMODEL_POINTERS
#undef X
  for (const auto& [name, values] : fields) {
    std::copy(values.begin(), values.end(), parameter_field(name).data(m));
  }

  // frames that MuJoCo takes for the same may not be any more
  const auto nbody = static_cast<size_t>(m->nbody);
  std::fill_n(variant->own(m->body_sameframe, nbody), nbody, mjtByte{mjSAMEFRAME_NONE});
  std::fill_n(variant->own(m->geom_sameframe, static_cast<size_t>(m->ngeom)),
              static_cast<size_t>(m->ngeom), mjtByte{mjSAMEFRAME_NONE});
  std::fill_n(variant->own(m->site_sameframe, static_cast<size_t>(m->nsite)),
              static_cast<size_t>(m->nsite), mjtByte{mjSAMEFRAME_NONE});
  if (given("body_mass")) {
    mjtNum* mass = variant->own(m->body_subtreemass, nbody);
    std::copy_n(m->body_mass, nbody, mass);
    for (int body = static_cast<int>(m->nbody) - 1; body > 0; body--) {
      mass[m->body_parentid[body]] += mass[body];
    }
  }
  for (const char* name : {"body_mass", "body_inertia", "body_ipos", "body_iquat", "body_pos",
                           "body_quat", "jnt_pos", "jnt_axis", "dof_armature"}) {
    if (!given(name)) continue;
    require_simple_frames(base.get(), m);
    update_simple_masses(*variant);
    break;
  }
  return pointer(std::move(variant));
}

std::vector<ModelArray> arrays_that_differ(const mjModel* a, const mjModel* b) {
  std::vector<ModelArray> out;
  const mjModel* m = a;
  MJMODEL_POINTERS_PREAMBLE(m)
  const auto compare = [&](const char* name, const auto* x, const auto* y, int rows, int width) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(x)>>;
    if constexpr (std::is_floating_point_v<T>) {
      const auto size = static_cast<size_t>(rows) * static_cast<size_t>(width);
      if (size == 0 || std::memcmp(x, y, size * sizeof(T)) == 0) return;
      if constexpr (std::is_same_v<T, mjtNum>) {
        out.push_back({name, x, y, rows * width, rows});
      } else {
        const auto copies = std::make_shared<std::vector<mjtNum>>(x, x + size);
        copies->insert(copies->end(), y, y + size);
        out.push_back({name, copies->data(), copies->data() + size, rows * width, rows, copies});
      }
    }
  };
#define X(type, name, nr, nc) \
  compare(#name, a->name, b->name, static_cast<int>(m->nr), static_cast<int>(nc));
  MJMODEL_POINTERS
#undef X
  return out;
}

}  // namespace diffmj
