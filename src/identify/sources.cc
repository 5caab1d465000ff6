#include "identify/sources.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

#include "diffmj/error.h"

namespace diffmj {
namespace {

Source source(const Recording& recording, const Quantity& quantity, const Layout& row) {
  Source out;
  out.target.name = quantity.name();
  out.target.observable = row.observable;
  out.target.offset = row.offset;
  out.target.width = row.width;
  out.target.nweight = row.nweight;
  out.target.quaternion = quantity.kind != QuantityKind::kQpos && !row.quaternions.empty();
  out.rows = &values(recording, quantity);
  out.columns = row.width;
  const auto weights = recording.weights.find(quantity.name());
  if (weights != recording.weights.end()) {
    out.weights = &weights->second;
    // with one row a single weight is the row's, too
    out.weight_columns = out.weights->size() == 1
                             ? 0
                             : static_cast<int>(out.weights->size() / recording.time.size());
  }
  return out;
}

constexpr const char* kMatrix = "body_mat:";

bool is_matrix(const std::string& name) { return name.starts_with(kMatrix); }

// "body_mat:cube": the recorded quaternions as rotation matrices
Source matrix_source(const std::string& who, const Model& model, const Recording& recording,
                     const std::string& name) {
  const Quantity quaternion{QuantityKind::kBodyQuat, name.substr(std::string(kMatrix).size())};
  Source out = source(recording, quaternion, layout(who, model, quaternion));
  if (out.weight_columns > 1) {
    throw InputError(who + ": the weights of " + quaternion.name() + " have " +
                     std::to_string(out.weight_columns) +
                     " columns, expected one number per row: a matrix has nine");
  }
  const std::vector<double>& from = *out.rows;
  std::vector<double> matrices(from.size() / 4 * 9);
  for (size_t i = 0; i < from.size() / 4; i++) {
    mju_quat2Mat(matrices.data() + 9 * i, from.data() + 4 * i);
  }
  const int body = mj_name2id(model.mj(), mjOBJ_BODY, quaternion.element.c_str());
  out.target = {.name = name,
                .observable = "xmat",
                .offset = 9 * body,
                .width = 9,
                .nweight = 9,
                .values = {},
                .weights = {}};
  out.columns = 9;
  out.computed = std::make_shared<const std::vector<double>>(std::move(matrices));
  out.rows = out.computed.get();
  return out;
}

void require_target(const std::string& who, const Recording& recording, const std::string& name) {
  std::vector<std::string> known;
  for (const Quantity& q : quantities(recording)) {
    if (q.kind != QuantityKind::kCtrl) known.push_back(q.name());
    if (q.kind == QuantityKind::kBodyQuat) known.push_back(kMatrix + q.element);
  }
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw InputError(who + ": target '" + name + "' is not recorded" + similar_names(name, known));
}

}  // namespace

std::vector<Source> sources(const std::string& who, const Model& model, const Recording& recording,
                            const std::vector<std::string>& wanted) {
  const mjModel* m = model.mj();
  std::vector<Source> out;
  const auto add = [&](Source x) {
    x.recorded.assign(static_cast<size_t>(x.target.width), false);
    for (int i = 0; i < recording.nrow(); i++) {
      const auto row = x.values(i);
      for (size_t j = 0; j < row.size(); j++) {
        if (!std::isnan(row[j])) x.recorded[j] = true;
      }
    }
    if (std::find(x.recorded.begin(), x.recorded.end(), true) != x.recorded.end()) {
      out.push_back(std::move(x));
    }
  };
  const auto is_wanted = [&](const std::string& name) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  for (const std::string& name : wanted) require_target(who, recording, name);
  for (const Quantity& quantity : quantities(recording)) {
    if (quantity.kind == QuantityKind::kCtrl || !is_wanted(quantity.name())) continue;
    const Layout row = layout(who, model, quantity);
    Source whole = source(recording, quantity, row);
    if (quantity.kind == QuantityKind::kSensor) {
      const int i = mj_name2id(m, mjOBJ_SENSOR, quantity.element.c_str());
      whole.at_acceleration = m->sensor_needstage[i] == mjSTAGE_ACC;
    }
    if (quantity.kind != QuantityKind::kSensordata) {
      add(std::move(whole));
      continue;
    }
    for (int i = 0; i < static_cast<int>(m->nsensor); i++) {
      Source one = whole;
      const char* name = mj_id2name(m, mjOBJ_SENSOR, i);
      one.target.name =
          name && *name ? "sensor:" + std::string(name) : "sensor:" + std::to_string(i);
      one.target.offset = one.begin = one.weight_begin = m->sensor_adr[i];
      one.target.width = m->sensor_dim[i];
      one.target.quaternion = m->sensor_datatype[i] == mjDATATYPE_QUATERNION;
      one.target.nweight = one.target.quaternion ? 3 : m->sensor_dim[i];
      one.at_acceleration = m->sensor_needstage[i] == mjSTAGE_ACC;
      add(std::move(one));
    }
  }
  for (const std::string& name : wanted) {
    if (is_matrix(name)) add(matrix_source(who, model, recording, name));
  }
  return out;
}

}  // namespace diffmj
