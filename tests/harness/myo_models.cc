#include "harness/myo_models.h"

#include <mujoco/mujoco.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace diffmj {
namespace {

using Path = std::filesystem::path;

struct Entry {
  std::string name;
  int nstep;
  std::string file;
};

std::vector<Entry> entries() {
  std::ifstream list(testdata("myo_models.txt"));
  std::vector<Entry> out;
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line[0] == '#') continue;
    Entry entry;
    std::istringstream(line) >> entry.name >> entry.nstep >> entry.file;
    out.push_back(entry);
  }
  return out;
}

std::string path_of(const Entry& entry) {
  if (!has_myo_models()) throw Error("no package myosuite");
  return (Path(DIFFMJ_MYOSUITE_DIR) / entry.file).string();
}

}  // namespace

bool has_myo_models() {
  return *DIFFMJ_MYOSUITE_DIR && std::filesystem::exists(DIFFMJ_MYOSUITE_DIR);
}

std::vector<std::string> myo_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

std::vector<MyoModel> myo_models() {
  std::vector<MyoModel> models;
  for (const Entry& entry : entries()) {
    char error[1000] = "";
    MjModelPtr mj(mj_loadXML(path_of(entry).c_str(), nullptr, error, sizeof error));
    if (!mj) throw Error(entry.name + ": " + error);
    models.push_back({.name = entry.name, .mj = std::move(mj)});
  }
  return models;
}

Scene myo_scene(const std::string& name, const ModelOptions& options) {
  for (const Entry& entry : entries()) {
    if (entry.name != name) continue;
    const Model model = Model::from_file(path_of(entry), options);
    Scene scene{.name = name, .model = model, .x = default_state(model)};
    const auto nu = static_cast<size_t>(model.nu());
    if (model.mj()->nkey > 0) {
      const Keyframe key = load_keyframe(model, 0);
      scene.x = key.state;
      scene.mocap_pos = key.mocap_pos;
      scene.mocap_quat = key.mocap_quat;
    }
    scene.ctrl.assign(nu, 0.1);
    scene.x = after(scene, entry.nstep);
    for (size_t i = 0; i < nu; i++) {
      scene.ctrl[i] = 0.2 + 0.6 * static_cast<double>(i * 7919 % 97) / 97;
    }
    return scene;
  }
  throw Error("no model '" + name + "' in myo_models.txt");
}

}  // namespace diffmj
