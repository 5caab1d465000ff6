// The public Model: MJCF, files and mjModels to it, and what it tells of itself.
#include "diffmj/model.h"

#include <mujoco/mujoco.h>

#include <filesystem>
#include <utility>

#include "base/names.h"
#include "base/suggestion.h"
#include "diffmj/error.h"
#include "diffmj/version.h"
#include "mj/call.h"
#include "mj/names.h"
#include "model/parameters.h"
#include "model/variant.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

constexpr int kErrorSize = 2048;

// Names of the models in the folder of a path.
std::vector<std::string> model_files_beside(const std::string& path) {
  std::vector<std::string> out;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code status;
  for (std::filesystem::directory_iterator it(folder.empty() ? "." : folder, status), end;
       !status && it != end; it.increment(status)) {
    const std::filesystem::path extension = it->path().extension();
    if (extension == ".xml" || extension == ".urdf" || extension == ".mjb") {
      out.push_back(it->path().filename().string());
    }
  }
  return out;
}

std::shared_ptr<mjModel> shared(MjModelPtr model) { return {std::move(model)}; }

}  // namespace

Model Model::from_file(const std::string& path, const ModelOptions& options) {
  require_mujoco_version();
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status)) {
    throw InputError(
        "model file '" + path + "' does not exist or is not a file" +
        did_you_mean(std::filesystem::path(path).filename().string(), model_files_beside(path)));
  }
  char error[kErrorSize] = "";
  mjModel* compiled = nullptr;
  const bool binary = std::filesystem::path(path).extension() == ".mjb";
  mj_call("mj_loadXML", [&] {
    compiled = binary ? mj_loadModel(path.c_str(), nullptr)
                      : mj_loadXML(path.c_str(), nullptr, error, kErrorSize);
  });
  if (!compiled) throw MujocoError("model file '" + path + "' does not compile: " + error);
  return Model(std::make_shared<const ModelImpl>(shared(MjModelPtr(compiled)), options));
}

Model Model::from_xml(const std::string& mjcf, const ModelOptions& options) {
  require_mujoco_version();
  char error[kErrorSize] = "";
  mjSpec* parsed = nullptr;
  mj_call("mj_parseXMLString",
          [&] { parsed = mj_parseXMLString(mjcf.c_str(), nullptr, error, kErrorSize); });
  if (!parsed) throw MujocoError(std::string("the MJCF string does not parse: ") + error);
  const MjSpecPtr spec(parsed);
  mjModel* compiled = nullptr;
  mj_call("mj_compile", [&] { compiled = mj_compile(spec.get(), nullptr); });
  if (!compiled) {
    throw MujocoError(std::string("the MJCF string does not compile: ") + mjs_getError(spec.get()));
  }
  return Model(std::make_shared<const ModelImpl>(shared(MjModelPtr(compiled)), options));
}

Model Model::from_mjmodel(const mjModel* model, const ModelOptions& options) {
  require_mujoco_version();
  if (!model) throw InputError("Model::from_mjmodel: the mjModel is null");
  return Model(std::make_shared<const ModelImpl>(shared(copy_model(model)), options));
}

const mjModel* Model::mj() const { return impl_->mj(); }
int Model::nq() const { return impl_->nq; }
int Model::nv() const { return impl_->nv; }
int Model::na() const { return impl_->na; }
int Model::nu() const { return impl_->nu; }
int Model::nbody() const { return impl_->nbody; }
int Model::nmocap() const { return impl_->nmocap; }
int Model::nsite() const { return static_cast<int>(mj()->nsite); }
int Model::nsensordata() const { return static_cast<int>(mj()->nsensordata); }
int Model::ngeom() const { return static_cast<int>(mj()->ngeom); }
double Model::timestep() const { return impl_->mj()->opt.timestep; }
Integrator Model::integrator() const {
  if (impl_->tableau) return impl_->options.integrator;
  return static_cast<Integrator>(impl_->mj()->opt.integrator + 1);
}
const ModelOptions& Model::options() const { return impl_->options; }
bool Model::is_adaptive() const { return impl_->tableau != nullptr; }
double Model::interval() const { return impl_->interval; }

GradientPath Model::gradient_path() const { return impl_->differentiation.path; }
const std::string& Model::gradient_path_reason() const { return impl_->path_reason; }
double Model::muscle_smoothing() const { return impl_->muscle_smoothing; }
const std::string& Model::collisions_notice() const { return impl_->collisions_notice; }

std::string Model::element_name(int type, int id) const {
  return diffmj::element_name(mj(), type, id);
}

std::string Model::dof_name(int dof) const {
  return element_name(mjOBJ_JOINT, mj()->dof_jntid[dof]) + " (dof " + std::to_string(dof) + ")";
}

int Model::keyframe(const std::string& name) const {
  std::vector<std::string> known;
  for (int i = 0; i < static_cast<int>(mj()->nkey); i++) {
    const char* key = mj_id2name(mj(), mjOBJ_KEY, i);
    if (key && name == key) return i;
    known.emplace_back(key && *key ? key : std::to_string(i));
  }
  throw InputError("keyframe '" + name + "' is not in the model; it has " +
                   (known.empty() ? "none" : joined(known)) + did_you_mean(name, known));
}

Model Model::with_numbers(const mjModel* numbers) const {
  if (!numbers) throw InputError("Model::with_numbers: the mjModel is null");
  return Model(std::make_shared<const ModelImpl>(with_numbers_of(impl_->shared_mj(), numbers),
                                                 options(), impl_.get()));
}

Model Model::with_parameters(const std::map<std::string, std::vector<double>>& fields) const {
  return Model(std::make_shared<const ModelImpl>(with_fields(impl_->shared_mj(), fields), options(),
                                                 impl_.get()));
}

Model Model::tightened() const {
  return Model(std::make_shared<const ModelImpl>(shared(copy_model(impl_->tight())), options()));
}

std::vector<std::string> parameter_names() {
  std::vector<std::string> names;
  for (const ParameterField& field : parameter_fields()) names.emplace_back(field.name);
  return names;
}

std::pair<int, int> parameter_shape(const Model& model, const std::string& name) {
  const ParameterField& field = parameter_field(name);
  return {field.nrow(model.mj()), field.width};
}

}  // namespace diffmj
