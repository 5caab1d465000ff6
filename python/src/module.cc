// The extension module diffmj._diffmj: C++ classes and exceptions as Python's.
#include "array_rollout.h"
#include "bind.h"
#include "diffmj/error.h"
#include "diffmj/version.h"

#ifndef DIFFMJ_BUILD_VERSION  // set for wheels
#define DIFFMJ_BUILD_VERSION DIFFMJ_VERSION
#endif

namespace diffmj::python {
namespace {

// diffmj/_errors.py defines the classes; the name in C++ is the name there, with two exceptions.
void set_error(const char* name, const std::exception& error) {
  const nb::object type = nb::module_::import_("diffmj._errors").attr(name);
  PyErr_SetString(type.ptr(), error.what());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const FailedRollout& error) {
    set_error(error.type, error);
  } catch (const InputError& error) {
    set_error("InputError", error);
  } catch (const UnsupportedError& error) {
    set_error("UnsupportedError", error);
  } catch (const MujocoError& error) {
    set_error("MujocoError", error);
  } catch (const RolloutError& error) {
    set_error("RolloutError", error);
  } catch (const MemoryError& error) {
    set_error("OutOfMemoryError", error);
  } catch (const Interrupted& error) {
    PyErr_SetString(PyExc_KeyboardInterrupt, error.what());
  } catch (const Error& error) {
    set_error("Error", error);
  }
}

}  // namespace
}  // namespace diffmj::python

NB_MODULE(_diffmj, m) {
  using namespace diffmj::python;
  m.doc() = "C++ core of diffmj. Use the package diffmj instead: its functions check shapes.";
  m.def(
      "version", [] { return DIFFMJ_BUILD_VERSION; }, "The version of diffmj.");
  m.def("mujoco_version_compiled", &diffmj::mujoco_version_compiled,
        "The MuJoCo version this module was compiled for.");
  m.def("mujoco_version_loaded", &diffmj::mujoco_version_loaded,
        "The MuJoCo version loaded in this process.");
  // Frameworks keep compiled functions, and the objects in them, until the process has ended.
  m.def(
      "set_leak_warnings", [](bool on) { nb::set_leak_warnings(on); }, "on"_a,
      "Whether objects that outlive the interpreter are reported.");
  nb::register_exception_translator(translate);
  bind_model(m);
  bind_rollout(m);
  bind_gradient(m);
  bind_linearize(m);
  bind_check(m);
  bind_recording(m);
  bind_parametric(m);
  bind_fit(m);
  bind_plan(m);
  bind_arrays(m);
}
