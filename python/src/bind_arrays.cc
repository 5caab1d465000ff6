// array_rollout.h: what the modules of JAX and PyTorch share
#include <memory>

#include "array_rollout.h"
#include "bind.h"

namespace diffmj::python {

void bind_arrays(nb::module_& m) {
  nb::class_<ArrayHandle>(m, "ArrayRollout",
                          "A rollout and its pullback on plain arrays; compiled functions find it "
                          "by its handle while it exists.")
      .def(
          "__init__",
          [](ArrayHandle* self, const Model& model, std::vector<std::string> outputs,
             std::vector<std::string> params, bool last, bool raises, int nthread) {
            new (self) ArrayHandle(std::make_shared<const ArrayRollout>(
                model, ArrayRolloutOptions{.outputs = std::move(outputs),
                                           .params = std::move(params),
                                           .last = last,
                                           .raises = raises,
                                           .nthread = nthread}));
          },
          "model"_a, nb::kw_only(), "outputs"_a, "params"_a, "last"_a, "raises"_a, "nthread"_a)
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
      .def_static("count", &ArrayHandle::count, "How many there are in this process.");
  m.def(
      "array_calls", [] { return nb::capsule(&array_calls(), kArrayCallsName); },
      "The table of C functions that the module of a framework calls.");
  std::vector<std::string> inputs(std::begin(kArrayInputs), std::end(kArrayInputs));
  m.attr("ARRAY_INPUTS") = nb::tuple(nb::cast(inputs));
}

}  // namespace diffmj::python
