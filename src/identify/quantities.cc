#include "identify/quantities.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "diffmj/error.h"

namespace diffmj {
namespace {

struct Prefix {
  QuantityKind kind;
  const char* text;
};
constexpr Prefix kWhole[] = {{QuantityKind::kQpos, "qpos"},
                             {QuantityKind::kQvel, "qvel"},
                             {QuantityKind::kAct, "act"},
                             {QuantityKind::kCtrl, "ctrl"},
                             {QuantityKind::kSensordata, "sensordata"}};
constexpr Prefix kNamed[] = {{QuantityKind::kSensor, "sensor:"},
                             {QuantityKind::kSite, "site:"},
                             {QuantityKind::kBodyPos, "body_pos:"},
                             {QuantityKind::kBodyQuat, "body_quat:"}};

// Levenshtein's distance: how many letters to insert, delete or replace
size_t edits(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (size_t i = 1; i <= a.size(); i++) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); j++) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string quoted(const std::vector<std::string>& names, const char* last) {
  std::string out;
  for (size_t i = 0; i < names.size(); i++) {
    if (i > 0) out += i + 1 == names.size() ? last : ", ";
    out += "'" + names[i] + "'";
  }
  return out;
}

int find_element(const std::string& who, const Model& model, int type, const char* what,
                 const std::string& name) {
  const int id = mj_name2id(model.mj(), type, name.c_str());
  if (id >= 0) return id;
  const std::vector<std::string> known = element_names(model, type);
  throw InputError(
      who + ": the model has no " + what + " '" + name + "'" +
      (known.empty() ? "; it has no named " + std::string(what) : similar_names(name, known)));
}

}  // namespace

std::string Quantity::name() const {
  for (const Prefix& x : kWhole) {
    if (x.kind == kind) return x.text;
  }
  for (const Prefix& x : kNamed) {
    if (x.kind == kind) return x.text + element;
  }
  return {};
}

bool quantity_from_name(const std::string& name, Quantity& out) {
  for (const Prefix& x : kWhole) {
    if (name == x.text) {
      out = {x.kind};
      return true;
    }
  }
  for (const Prefix& x : kNamed) {
    const std::string prefix = x.text;
    if (name.size() > prefix.size() && name.compare(0, prefix.size(), prefix) == 0) {
      out = {x.kind, name.substr(prefix.size())};
      return true;
    }
  }
  return false;
}

const std::vector<double>& values(const Recording& recording, const Quantity& quantity) {
  switch (quantity.kind) {
    case QuantityKind::kQpos:
      return recording.qpos;
    case QuantityKind::kQvel:
      return recording.qvel;
    case QuantityKind::kAct:
      return recording.act;
    case QuantityKind::kCtrl:
      return recording.ctrl;
    case QuantityKind::kSensordata:
      return recording.sensordata;
    case QuantityKind::kSensor:
      return recording.sensors.at(quantity.element);
    case QuantityKind::kSite:
      return recording.sites.at(quantity.element);
    case QuantityKind::kBodyPos:
      return recording.body_pos.at(quantity.element);
    case QuantityKind::kBodyQuat:
      break;
  }
  return recording.body_quat.at(quantity.element);
}

std::vector<double>& values(Recording& recording, const Quantity& quantity) {
  switch (quantity.kind) {
    case QuantityKind::kSensor:
      return recording.sensors[quantity.element];
    case QuantityKind::kSite:
      return recording.sites[quantity.element];
    case QuantityKind::kBodyPos:
      return recording.body_pos[quantity.element];
    case QuantityKind::kBodyQuat:
      return recording.body_quat[quantity.element];
    default:
      return const_cast<std::vector<double>&>(values(std::as_const(recording), quantity));
  }
}

std::vector<Quantity> quantities(const Recording& recording) {
  std::vector<Quantity> out;
  for (const Prefix& x : kWhole) {
    if (!values(recording, Quantity{x.kind}).empty()) out.push_back({x.kind});
  }
  const std::pair<QuantityKind, const std::map<std::string, std::vector<double>>*> maps[] = {
      {QuantityKind::kSensor, &recording.sensors},
      {QuantityKind::kSite, &recording.sites},
      {QuantityKind::kBodyPos, &recording.body_pos},
      {QuantityKind::kBodyQuat, &recording.body_quat}};
  for (const auto& [kind, map] : maps) {
    for (const auto& entry : *map) out.push_back({kind, entry.first});
  }
  return out;
}

Layout layout(const std::string& who, const Model& model, const Quantity& quantity) {
  const mjModel* m = model.mj();
  switch (quantity.kind) {
    case QuantityKind::kQpos: {
      Layout out{
          .width_name = "nq", .width = model.nq(), .nweight = model.nv(), .observable = "qpos"};
      for (int j = 0; j < static_cast<int>(m->njnt); j++) {
        if (m->jnt_type[j] == mjJNT_FREE) out.quaternions.push_back(m->jnt_qposadr[j] + 3);
        if (m->jnt_type[j] == mjJNT_BALL) out.quaternions.push_back(m->jnt_qposadr[j]);
      }
      return out;
    }
    case QuantityKind::kQvel:
      return {.width_name = "nv", .width = model.nv(), .nweight = model.nv(), .observable = "qvel"};
    case QuantityKind::kAct:
      return {.width_name = "na", .width = model.na(), .nweight = model.na(), .observable = "act"};
    case QuantityKind::kCtrl:
      return {.width_name = "nu", .width = model.nu(), .nweight = model.nu()};
    case QuantityKind::kSensordata: {
      Layout out{.width_name = "nsensordata",
                 .width = model.nsensordata(),
                 .nweight = model.nsensordata(),
                 .observable = "sensordata"};
      for (int i = 0; i < static_cast<int>(m->nsensor); i++) {
        if (m->sensor_datatype[i] == mjDATATYPE_QUATERNION) {
          out.quaternions.push_back(m->sensor_adr[i]);
        }
      }
      return out;
    }
    case QuantityKind::kSensor: {
      const int i = find_element(who, model, mjOBJ_SENSOR, "sensor", quantity.element);
      const bool rotation = m->sensor_datatype[i] == mjDATATYPE_QUATERNION;
      return {.width_name = "dim of the sensor",
              .width = m->sensor_dim[i],
              .nweight = rotation ? 3 : m->sensor_dim[i],
              .observable = "sensordata",
              .offset = m->sensor_adr[i],
              .quaternions = rotation ? std::vector<int>{0} : std::vector<int>{}};
    }
    case QuantityKind::kSite:
      return {.width_name = "3",
              .width = 3,
              .nweight = 3,
              .observable = "site_xpos",
              .offset = 3 * find_element(who, model, mjOBJ_SITE, "site", quantity.element)};
    case QuantityKind::kBodyPos:
      return {.width_name = "3",
              .width = 3,
              .nweight = 3,
              .observable = "xpos",
              .offset = 3 * find_element(who, model, mjOBJ_BODY, "body", quantity.element)};
    case QuantityKind::kBodyQuat:
      break;
  }
  return {.width_name = "4",
          .width = 4,
          .nweight = 3,
          .observable = "xquat",
          .offset = 4 * find_element(who, model, mjOBJ_BODY, "body", quantity.element),
          .quaternions = {0}};
}

std::string recording_name(const Recording& recording) {
  return recording.name.empty() ? "recording" : "recording '" + recording.name + "'";
}

std::vector<std::string> element_names(const Model& model, int type) {
  const mjModel* m = model.mj();
  const int n = static_cast<int>(type == mjOBJ_SENSOR     ? m->nsensor
                                 : type == mjOBJ_SITE     ? m->nsite
                                 : type == mjOBJ_JOINT    ? m->njnt
                                 : type == mjOBJ_ACTUATOR ? m->nactuator
                                                          : m->nbody);
  std::vector<std::string> out;
  for (int i = 0; i < n; i++) {
    const char* name = mj_id2name(m, type, i);
    if (name && *name) out.emplace_back(name);
  }
  return out;
}

std::string similar_names(const std::string& name, const std::vector<std::string>& known) {
  constexpr size_t kFew = 6, kShown = 3;
  if (known.empty()) return {};
  if (known.size() <= kFew) return "; it has " + quoted(known, " and ");
  std::vector<std::string> sorted = known;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const std::string& a, const std::string& b) {
    return edits(name, a) < edits(name, b);
  });
  sorted.resize(kShown);
  return "; did you mean " + quoted(sorted, " or ") + "?";
}

double median_interval(std::span<const double> time) {
  if (time.size() < 2) return 0;
  std::vector<double> intervals(time.size() - 1);
  for (size_t i = 0; i + 1 < time.size(); i++) intervals[i] = time[i + 1] - time[i];
  const auto middle = intervals.begin() + static_cast<ptrdiff_t>(intervals.size() / 2);
  std::nth_element(intervals.begin(), middle, intervals.end());
  return *middle;
}

}  // namespace diffmj
