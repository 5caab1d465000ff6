// array_rollout.h: what the modules of JAX and PyTorch share
#include <memory>
#include <utility>

#include "array_rollout.h"
#include "bind.h"

namespace diffmj::python {
namespace {

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using AnyOutput = nb::ndarray<nb::c_contig, nb::device::cpu>;

// The arrays of a call, looked at in place; None has no numbers.
template <class Kind>
class Arrays {
 public:
  explicit Arrays(const nb::list& list) {
    shapes_.reserve(nb::len(list));
    kept_.reserve(nb::len(list));
    for (const nb::handle item : list) {
      std::vector<int64_t>& shape = shapes_.emplace_back();
      if (item.is_none()) {
        shape.push_back(0);
        arrays_.push_back({nullptr, ArrayType::kFloat64, shape.data(), 1});
        continue;
      }
      const Kind& x = kept_.emplace_back(nb::cast<Kind>(item));
      if (x.ndim() == 0) throw InputError("ArrayRollout: an array without dimensions");
      for (size_t k = 0; k < x.ndim(); k++) shape.push_back(static_cast<int64_t>(x.shape(k)));
      arrays_.push_back(
          {const_cast<void*>(x.data()), type_of(x.dtype()), shape.data(), shape.size()});
    }
  }
  std::span<const Array> get() const { return arrays_; }

 private:
  static ArrayType type_of(nb::dlpack::dtype type) {
    if (type == nb::dtype<double>()) return ArrayType::kFloat64;
    if (type == nb::dtype<float>()) return ArrayType::kFloat32;
    if (type == nb::dtype<int32_t>()) return ArrayType::kUint32;  // the tape: any 32 bits
    if (type == nb::dtype<bool>()) return ArrayType::kBool;
    throw InputError("ArrayRollout: an array of a type that diffmj does not take");
  }

  std::vector<Kind> kept_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<Array> arrays_;
};

// Looks at the arrays of a call and makes it: fn(inputs, outputs, interrupted).
template <class Fn>
void call_on_arrays(const nb::list& in, const nb::list& out, Fn&& fn) {
  const Arrays<AnyArray> given(in);
  const Arrays<AnyOutput> taken(out);
  Signals signals;
  signals.run([&] {
    fn(given.get(), taken.get(), [&] { return signals.raised(); });
    return true;
  });
}

// KeptRollouts, or None
nb::object rollout_on_arrays(const ArrayHandle& self, int nstep, const nb::list& in,
                             const nb::list& out, bool keep) {
  KeptRollouts kept;
  call_on_arrays(in, out, [&](auto given, auto taken, const auto& interrupted) {
    self.rollout().rollout(nstep, given, taken, interrupted, keep ? &kept : nullptr);
  });
  return keep ? nb::cast(std::move(kept)) : nb::none();
}

void pullback_on_arrays(const ArrayHandle& self, int nstep, const nb::list& in, const nb::list& out,
                        const KeptRollouts* kept) {
  call_on_arrays(in, out, [&](auto given, auto taken, const auto& interrupted) {
    self.rollout().pullback(nstep, given, taken, interrupted, kept);
  });
}

}  // namespace

void bind_arrays(nb::module_& m) {
  nb::class_<KeptRollouts>(m, "KeptRollouts",
                           "The trajectories of a call of ArrayRollout.rollout.");
  nb::class_<ArrayHandle>(m, "ArrayRollout",
                          "A rollout and its pullback on plain arrays; compiled functions find it "
                          "by its handle while it exists.")
      .def(
          "__init__",
          [](ArrayHandle* self, const Model& model, std::vector<std::string> outputs,
             std::vector<std::string> params, bool last, bool raises, std::optional<int> nthread) {
            new (self) ArrayHandle(std::make_shared<const ArrayRollout>(
                model, ArrayRolloutOptions{.outputs = std::move(outputs),
                                           .params = std::move(params),
                                           .last = last,
                                           .raises = raises,
                                           .nthread = nthread}));
          },
          "model"_a, nb::kw_only(), "outputs"_a, "params"_a, "last"_a, "raises"_a,
          "nthread"_a.none())
      .def_prop_ro("handle", &ArrayHandle::id)
      .def(
          "output_size",
          [](const ArrayHandle& self, const std::string& name, int nstep) {
            return self.rollout().output_size(name, nstep);
          },
          "name"_a, "nstep"_a, "Numbers of an output of one rollout.")
      .def(
          "tape_size",
          [](const ArrayHandle& self, int nstep) { return self.rollout().tape_size(nstep); },
          "nstep"_a, "Numbers (uint32) that the pullback of one rollout needs.")
      .def("rollout", &rollout_on_arrays, "nstep"_a, "inputs"_a, "outputs"_a, "keep"_a = false,
           "inputs: ARRAY_INPUTS, params. outputs: outputs, ok (bool), tape (int32, or nothing). "
           "The last dimension of each is one rollout's, the others are the batch. keep: returns "
           "the trajectories, for the pullback.")
      .def("pullback", &pullback_on_arrays, "nstep"_a, "inputs"_a, "outputs"_a,
           "kept"_a.none() = nb::none(),
           "inputs: ARRAY_INPUTS, params, tape, cotangents of the outputs. outputs: gradients of "
           "the inputs, of the params. kept: what the rollout kept, instead of a tape.")
      .def_static("count", &ArrayHandle::count, "How many there are in this process.");
  m.def(
      "array_calls", [] { return nb::capsule(&array_calls(), kArrayCallsName); },
      "The table of C functions that the module of a framework calls.");
  std::vector<std::string> inputs(std::begin(kArrayInputs), std::end(kArrayInputs));
  m.attr("ARRAY_INPUTS") = nb::tuple(nb::cast(inputs));
  m.attr("ARRAY_GRADIENT_COUNT") = kArrayGradientCount;
}

}  // namespace diffmj::python
