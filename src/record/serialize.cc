#include "diffmj/serialize.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "diffmj/error.h"
#include "diffmj/version.h"
#include "mj/call.h"
#include "mj/handle.h"
#include "record/tape.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

// what the bytes of trajectories begin with; the number is that of the format
std::string header() {
  return std::string("diffmj " DIFFMJ_VERSION " trajectories 2, MuJoCo ") + mj_versionString() +
         "\n";
}

template <class T>
constexpr bool kPlain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// Writer and Reader take the same list of fields, so that one function per type serves both.
class Writer {
 public:
  template <class... T>
  void operator()(const T&... fields) {
    (add(fields), ...);
  }
  std::string out;

 private:
  template <class T>
  void add(const T& x);
  void bytes(const void* from, size_t n) { out.append(static_cast<const char*>(from), n); }
};

class Reader {
 public:
  // The trajectories become those of this model.
  Reader(std::string_view bytes, int model_id) : left_(bytes), model_id_(model_id) {}
  template <class... T>
  void operator()(T&... fields) {
    (read(fields), ...);
  }
  bool at_end() const { return left_.empty(); }

 private:
  template <class T>
  void read(T& x);
  void bytes(void* to, size_t n) {
    require(n);
    if (n > 0) std::memcpy(to, left_.data(), n);
    left_.remove_prefix(n);
  }
  // n numbers of this size are there
  void require(size_t n, size_t size = 1) const {
    if (n > left_.size() / size) {
      throw InputError("the bytes of the trajectories end too early: they are not complete");
    }
  }
  std::string_view left_;
  int model_id_;
};

// All members of a struct: one that is not in the list does not compile.
template <class Archive, class T>
void fields(Archive& a, T& x) {
  using Type = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Type, StepRecord>) {
    auto& [ncon, nefc, solver_niter] = x;
    a(ncon, nefc, solver_niter);
  } else if constexpr (std::is_same_v<Type, Warning>) {
    auto& [text, first_step, count, kind] = x;
    a(text, first_step, count, kind);
  } else if constexpr (std::is_same_v<Type, EventConstraint>) {
    auto& [type, id, geom, flex, row, nrow, rate] = x;
    a(type, id, geom[0], geom[1], flex[0], flex[1], row, nrow, rate);
  } else if constexpr (std::is_same_v<Type, Event>) {
    auto& [time, interval, step, what, count, release, rate, jump, grazing, at_rest] = x;
    a(time, interval, step, what, count, release, rate, jump, grazing, at_rest);
  } else if constexpr (std::is_same_v<Type, EventRecord>) {
    auto& [event, constraints, qpos, qvel, act, qacc_before, qacc_after] = x;
    a(event, constraints, qpos, qvel, act, qacc_before, qacc_after);
  } else if constexpr (std::is_same_v<Type, RowList::Contact>) {
    auto& [geom, flex, elem, vert, pos, row] = x;
    a(geom[0], geom[1], flex[0], flex[1], elem[0], elem[1], vert[0], vert[1], pos[0], pos[1],
      pos[2], row);
  } else if constexpr (std::is_same_v<Type, RowList>) {
    auto& [nother, type, id, contacts] = x;
    a(nother, type, id, contacts);
  } else if constexpr (std::is_same_v<Type, RowBase>) {
    auto& [time, rows, inactive, released, nactive] = x;
    a(time, rows, inactive, released, nactive);
  } else if constexpr (std::is_same_v<Type, SuppressedStep>) {
    auto& [step, base, at_end] = x;
    a(step, base, at_end);
  } else if constexpr (std::is_same_v<Type, IntegratorRecord::Seconds>) {
    auto& [position, velocity, actuation, acceleration, constraint, total] = x;
    a(position, velocity, actuation, acceleration, constraint, total);
  } else if constexpr (std::is_same_v<Type, IntegratorRecord>) {
    auto& [time, first_step, implicit, naccepted, nrejected, nevaluation, smallest_step,
           largest_step, events, seconds, end_time, end_qpos, end_qvel, end_act] = x;
    a(time, first_step, implicit, naccepted, nrejected, nevaluation, smallest_step, largest_step,
      events, seconds, end_time, end_qpos, end_qvel, end_act);
  } else if constexpr (std::is_same_v<Type, StageRecords>) {
    auto& [qacc, act_dot, nefc, tendon_numbers, tendon_objects, contacts, contact_begin] = x;
    a(qacc, act_dot, nefc, tendon_numbers, tendon_objects, contacts, contact_begin);
  } else if constexpr (std::is_same_v<Type, Tape>) {
    // but for model_id, which is another one in another process
    auto& [model_id, qacc_warmstart, tendon_numbers, tendon_objects, contacts, contact_begin, rk4,
           kept, kept_nefc, kept_step, events, suppressed, nonsmooth_step] = x;
    (void)model_id;
    a(qacc_warmstart, tendon_numbers, tendon_objects, contacts, contact_begin, rk4, kept, kept_nefc,
      kept_step, events, suppressed, nonsmooth_step);
  } else {
    static_assert(std::is_same_v<Type, Trajectory>);
    auto& [nq, nv, na, nu, nbody, nstep, time, qpos, qvel, act, qacc, next_warmstart, steps,
           integrator, sensordata, ctrl, qfrc_applied, xfrc_applied, mocap_pos, mocap_quat,
           nstep_asked, outcome, message, failed_dof, warnings, tape] = x;
    a(nq, nv, na, nu, nbody, nstep, time, qpos, qvel, act, qacc, next_warmstart, steps, integrator,
      sensordata, ctrl, qfrc_applied, xfrc_applied, mocap_pos, mocap_quat, nstep_asked, outcome,
      message, failed_dof, warnings, tape);
  }
}

using TapePtr = std::shared_ptr<const Tape>;

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
void Writer::add(const T& x) {
  if constexpr (kPlain<T>) {
    bytes(&x, sizeof(T));
  } else if constexpr (std::is_same_v<T, std::string> || IsVector<T>::value) {
    const uint64_t n = x.size();
    bytes(&n, sizeof(n));
    if constexpr (kPlain<typename T::value_type>) {
      bytes(x.data(), x.size() * sizeof(typename T::value_type));
    } else {
      for (const auto& item : x) add(item);
    }
  } else if constexpr (std::is_same_v<T, TapePtr>) {
    fields(*this, *x);
  } else {
    fields(*this, x);
  }
}

template <class T>
void Reader::read(T& x) {
  if constexpr (kPlain<T>) {
    bytes(&x, sizeof(T));
  } else if constexpr (std::is_same_v<T, std::string> || IsVector<T>::value) {
    using Item = typename T::value_type;
    uint64_t n = 0;
    bytes(&n, sizeof(n));
    // a number that is wrong must not ask for memory; an item takes a byte at least
    require(n, kPlain<Item> ? sizeof(Item) : 1);
    x.resize(n);
    if constexpr (kPlain<Item>) {
      bytes(x.data(), n * sizeof(Item));
    } else {
      for (auto& item : x) read(item);
    }
  } else if constexpr (std::is_same_v<T, TapePtr>) {
    const auto tape = std::make_shared<Tape>();
    tape->model_id = model_id_;
    fields(*this, *tape);
    x = tape;
  } else {
    fields(*this, x);
  }
}

// FNV-1a of the compiled model and its integrator
uint64_t fingerprint(const Model& model) {
  uint64_t hash = 14695981039346656037ULL;
  const auto add = [&](const char* data, size_t n) {
    for (size_t i = 0; i < n; i++) {
      hash = (hash ^ static_cast<unsigned char>(data[i])) * 1099511628211ULL;
    }
  };
  const std::string bytes = to_bytes(model);
  add(bytes.data(), bytes.size());
  const std::string integrator = integrator_name(model.integrator());
  add(integrator.data(), integrator.size());
  return hash;
}

}  // namespace

std::string to_bytes(const Model& model) {
  std::string out;
  out.resize(static_cast<size_t>(mj_sizeModel(model.mj())));
  mj_call("mj_saveModel",
          [&] { mj_saveModel(model.mj(), nullptr, out.data(), static_cast<mjtSize>(out.size())); });
  return out;
}

Model model_from_bytes(std::string_view bytes, const ModelOptions& options) {
  mjModel* read = nullptr;
  std::string reason;
  try {
    mj_call("mj_loadModelBuffer",
            [&] { read = mj_loadModelBuffer(bytes.data(), static_cast<mjtSize>(bytes.size())); });
  } catch (const MujocoError& error) {
    reason = std::string(": ") + error.what();
  }
  if (!read) {
    throw InputError("these " + std::to_string(bytes.size()) +
                     " bytes are not a model that MuJoCo " + mj_versionString() + " has saved" +
                     reason);
  }
  const MjModelPtr owner(read);
  return Model::from_mjmodel(owner.get(), options);
}

std::string to_bytes(const Model& model, std::span<const Trajectory> trajectories) {
  Writer writer;
  writer.out = header();
  writer(fingerprint(model), static_cast<uint64_t>(trajectories.size()));
  for (const Trajectory& trajectory : trajectories) {
    if (!is_made_with(model, trajectory)) {
      throw InputError("to_bytes: a trajectory was made with another model");
    }
    writer(trajectory);
  }
  return std::move(writer.out);
}

std::vector<Trajectory> trajectories_from_bytes(const Model& model, std::string_view bytes) {
  const std::string expected = header();
  if (!bytes.starts_with(expected)) {
    const std::string_view found = bytes.substr(0, bytes.find('\n'));
    throw InputError(found.starts_with("diffmj ") && found.size() < 200
                         ? "the bytes were written by \"" + std::string(found) + "\", this is \"" +
                               expected.substr(0, expected.size() - 1) + "\"; roll out again"
                         : "these bytes are not trajectories of diffmj");
  }
  Reader reader(bytes.substr(expected.size()), model.impl().id);
  uint64_t hash = 0, n = 0;
  reader(hash, n);
  if (hash != fingerprint(model)) {
    throw InputError("the bytes are trajectories of another model, or of another integrator");
  }
  std::vector<Trajectory> out;
  for (uint64_t i = 0; i < n; i++) reader(out.emplace_back());
  if (!reader.at_end()) throw InputError("there are bytes behind the last trajectory");
  return out;
}

}  // namespace diffmj
