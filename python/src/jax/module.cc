// The extension module diffmj._diffmj_jax: diffmj's calls on arrays as targets of jax.ffi.
// Compiled with the headers of jaxlib; it links neither jaxlib nor diffmj.
#include <nanobind/nanobind.h>
#include <xla/ffi/api/ffi.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "../array_calls.h"

namespace nb = nanobind;
namespace ffi = xla::ffi;

namespace diffmj::python {
namespace {

const ArrayCalls* calls = nullptr;  // of _diffmj, set once before a target is registered

std::optional<ArrayType> type_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return ArrayType::kFloat32;
    case ffi::DataType::F64:
      return ArrayType::kFloat64;
    case ffi::DataType::U32:
      return ArrayType::kUint32;
    case ffi::DataType::PRED:
      return ArrayType::kBool;
    default:
      return std::nullopt;
  }
}

// false: its type is none that diffmj takes
bool add(const ffi::AnyBuffer& buffer, std::vector<Array>& arrays) {
  const std::optional<ArrayType> type = type_of(buffer.element_type());
  const ffi::AnyBuffer::Dimensions shape = buffer.dimensions();
  if (!type || shape.size() == 0) return false;
  arrays.push_back({buffer.untyped_data(), *type, shape.begin(), shape.size()});
  return true;
}

using Call = decltype(ArrayCalls::rollout);

ffi::Error call(Call function, int64_t handle, int64_t nstep, ffi::RemainingArgs args,
                ffi::RemainingRets rets) {
  const ffi::Error wrong =
      ffi::Error::InvalidArgument("diffmj.Error: an array of a type that diffmj does not take");
  std::vector<Array> in, out;
  for (size_t i = 0; i < args.size(); i++) {
    const auto buffer = args.get<ffi::AnyBuffer>(i);
    if (buffer.has_error() || !add(*buffer, in)) return wrong;
  }
  for (size_t i = 0; i < rets.size(); i++) {
    auto buffer = rets.get<ffi::AnyBuffer>(i);
    if (buffer.has_error() || !add(**buffer, out)) return wrong;
  }
  ArrayMessage message;
  if (function(handle, nstep, in.data(), in.size(), out.data(), out.size(), &message)) {
    return ffi::Error::Success();
  }
  return ffi::Error::InvalidArgument(message.text);
}

ffi::Error rollout(int64_t handle, int64_t nstep, ffi::RemainingArgs args,
                   ffi::RemainingRets rets) {
  return call(calls->rollout, handle, nstep, args, rets);
}

ffi::Error pullback(int64_t handle, int64_t nstep, ffi::RemainingArgs args,
                    ffi::RemainingRets rets) {
  return call(calls->pullback, handle, nstep, args, rets);
}

XLA_FFI_DEFINE_HANDLER(kRollout, rollout,
                       ffi::Ffi::Bind()
                           .Attr<int64_t>("handle")
                           .Attr<int64_t>("nstep")
                           .RemainingArgs()
                           .RemainingRets());
XLA_FFI_DEFINE_HANDLER(kPullback, pullback,
                       ffi::Ffi::Bind()
                           .Attr<int64_t>("handle")
                           .Attr<int64_t>("nstep")
                           .RemainingArgs()
                           .RemainingRets());

}  // namespace
}  // namespace diffmj::python

NB_MODULE(_diffmj_jax, m) {
  using namespace diffmj::python;
  m.doc() = "Targets of jax.ffi. Use diffmj.jax instead.";
  m.def(
      "targets",
      [](const nb::capsule& table) {
        calls = static_cast<const ArrayCalls*>(table.data(kArrayCallsName));
        nb::dict out;
        out["diffmj_rollout"] = nb::capsule(reinterpret_cast<void*>(kRollout));
        out["diffmj_rollout_pullback"] = nb::capsule(reinterpret_cast<void*>(kPullback));
        return out;
      },
      nb::arg("table"), "By name; table: what _diffmj.array_calls() returns.");
}
