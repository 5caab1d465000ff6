// Recordings: validation, velocities from positions, resampling.
#include "diffmj/recording.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/names.h"
#include "base/require.h"
#include "base/text.h"
#include "diffmj/error.h"
#include "identify/quantities.h"
#include "mj/call.h"
#include "record/tape.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

std::string precise(double x) { return text("%.10g", x); }

std::string entry(const std::string& name, size_t row, size_t column) {
  return name + "[" + std::to_string(row) + ", " + std::to_string(column) + "]";
}

void validate_time(const std::string& who, const std::vector<double>& time) {
  if (time.empty()) throw InputError(who + ": time has no rows; give one time per row");
  for (size_t i = 0; i < time.size(); i++) {
    if (!std::isfinite(time[i])) {
      throw InputError(who + ": time[" + std::to_string(i) + "] is " + precise(time[i]) +
                       "; every row needs a finite time, also where other numbers are missing");
    }
    if (i > 0 && !(time[i] > time[i - 1])) {
      throw InputError(who + ": time[" + std::to_string(i) + "] is " + precise(time[i]) +
                       ", not after time[" + std::to_string(i - 1) + "] = " + precise(time[i - 1]) +
                       "; sort the rows and remove repeated ones");
    }
  }
}

void validate_numbers(const std::string& who, const std::string& name, size_t nrow,
                      const std::vector<double>& x) {
  if (x.size() % nrow != 0) {
    throw InputError(who + ": " + name + " has " + std::to_string(x.size()) +
                     " numbers, expected a multiple of the number of rows, " +
                     std::to_string(nrow));
  }
  const size_t width = x.size() / nrow;
  for (size_t i = 0; i < x.size(); i++) {
    if (std::isnan(x[i]) || std::abs(x[i]) <= kMaxMagnitude) continue;
    throw InputError(who + ": " + entry(name, i / width, i % width) + " is " + precise(x[i]) +
                     "; numbers are at most 1e10 in magnitude, or NaN if they are missing");
  }
}

bool row_is_missing(const Recording& recording, size_t row) {
  const size_t nrow = recording.time.size();
  for (const Quantity& quantity : quantities(recording)) {
    const std::vector<double>& x = values(recording, quantity);
    const auto begin = x.begin() + static_cast<ptrdiff_t>(row * (x.size() / nrow));
    const auto end = begin + static_cast<ptrdiff_t>(x.size() / nrow);
    if (!std::all_of(begin, end, [](double y) { return std::isnan(y); })) return false;
  }
  return true;
}

void validate_ctrl(const std::string& who, const Recording& recording) {
  const size_t nrow = recording.time.size(), width = recording.ctrl.size() / nrow;
  for (size_t i = 0; i + 1 < nrow; i++) {
    for (size_t j = 0; j < width; j++) {
      if (!std::isnan(recording.ctrl[i * width + j]) || row_is_missing(recording, i)) continue;
      throw InputError(who + ": " + entry("ctrl", i, j) +
                       " is missing, but a simulation needs every control; give the value that was "
                       "held, or make everything in this row missing");
    }
  }
}

void validate_weights_of(const std::string& who, const Recording& recording,
                         const std::string& name, const std::vector<double>& weights) {
  const size_t nrow = recording.time.size();
  std::vector<std::string> known;
  for (const Quantity& q : quantities(recording)) {
    if (q.kind != QuantityKind::kCtrl) known.push_back(q.name());
  }
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw InputError(who + ": weights of '" + name +
                     "', which is not a recorded quantity that a fit compares" +
                     similar_names(name, known));
  }
  const std::string label = "weights of " + name;
  if (weights.size() != 1 && (weights.empty() || weights.size() % nrow != 0)) {
    throw InputError(who + ": " + label + " have " + std::to_string(weights.size()) +
                     " numbers, expected 1, one per row (" + std::to_string(nrow) +
                     "), or rows x residuals");
  }
  const auto bad = std::find_if(weights.begin(), weights.end(),
                                [](double x) { return !(x >= 0 && x <= kMaxMagnitude); });
  if (bad == weights.end()) return;
  const size_t width = std::max<size_t>(1, weights.size() / nrow);
  const auto i = static_cast<size_t>(bad - weights.begin());
  throw InputError(who + ": " + entry(label, i / width, i % width) + " is " + precise(*bad) +
                   ", expected 0 to 1e10; 0 leaves a number out");
}

// "the quaternion of joint 'free'"
std::string quaternion_owner(const Model& model, const Quantity& quantity, int at) {
  const mjModel* m = model.mj();
  if (quantity.kind == QuantityKind::kQpos) {
    for (int j = 0; j < static_cast<int>(m->njnt); j++) {
      const int adr = m->jnt_qposadr[j] + (m->jnt_type[j] == mjJNT_FREE ? 3 : 0);
      if (adr == at) return model.element_name(mjOBJ_JOINT, j);
    }
  }
  if (quantity.kind == QuantityKind::kSensordata) {
    for (int i = 0; i < static_cast<int>(m->nsensor); i++) {
      if (m->sensor_adr[i] == at) return model.element_name(mjOBJ_SENSOR, i);
    }
  }
  return quantity.name();
}

void normalise_quaternions(const std::string& who, const Model& model, const Quantity& quantity,
                           const Layout& row, int nrow, std::vector<double>& x) {
  constexpr double kNearlyUnit = 1e-3;  // what rounding to a few digits leaves
  for (int i = 0; i < nrow; i++) {
    for (const int at : row.quaternions) {
      double* q = row_of(x, i, row.width).data() + at;
      if (std::any_of(q, q + 4, [](double y) { return std::isnan(y); })) {
        std::fill(q, q + 4, kMissing);
        continue;
      }
      const double norm = mju_norm(q, 4);
      if (std::abs(norm - 1) > kNearlyUnit) {
        throw InputError(who + ": " + quantity.name() + "[" + std::to_string(i) + ", " +
                         std::to_string(at) + ":" + std::to_string(at + 4) +
                         "], the quaternion of " + quaternion_owner(model, quantity, at) +
                         ", has length " + precise(norm) +
                         ", expected 1; check the order of the columns (w x y z), or normalise it");
      }
      mju_normalize4(q);
    }
  }
}

// a sensor that is given by name must not be in sensordata, too
void require_once(const std::string& who, const Model& model, const Recording& recording,
                  const std::string& sensor) {
  if (recording.sensordata.empty()) return;
  const Layout at = layout(who, model, {QuantityKind::kSensor, sensor});
  bool twice = false;
  for (int i = 0; i < recording.nrow(); i++) {
    const auto all = row_of(recording.sensordata, i, model.nsensordata())
                         .subspan(static_cast<size_t>(at.offset), static_cast<size_t>(at.width));
    twice |= !std::all_of(all.begin(), all.end(), [](double y) { return std::isnan(y); });
  }
  if (!twice) return;
  throw InputError(who + ": sensor '" + sensor +
                   "' is in sensordata and in sensors; give it once, or make it NaN in sensordata");
}

void require_width(const std::string& who, const std::string& name, const Layout& row, size_t nrow,
                   size_t size) {
  if (size == nrow * static_cast<size_t>(row.width)) return;
  const std::string rows = std::to_string(nrow) + " x ";
  const std::string given =
      size % nrow == 0 ? rows + std::to_string(size / nrow) : std::to_string(size);
  throw InputError(who + ": " + name + " has " + given + " numbers, expected " + rows +
                   std::to_string(row.width) + " (rows x " + row.width_name + ")");
}

void require_weight_width(const std::string& who, const std::string& name, const Layout& row,
                          size_t nrow, size_t size) {
  if (size == 1 || size == nrow || size == nrow * static_cast<size_t>(row.nweight)) return;
  const std::string rows = std::to_string(nrow);
  throw InputError(who + ": weights of " + name + " have " + std::to_string(size) +
                   " numbers, expected 1, " + rows + " (rows) or " + rows + " x " +
                   std::to_string(row.nweight) + " (rows x residuals" +
                   (row.nweight == row.width ? ")" : "; a rotation has 3)"));
}

void require_positions(const std::string& who, const Recording& recording) {
  if (recording.qpos.empty()) {
    throw InputError(who + ": qpos is not recorded, and velocities are differences of it");
  }
}

// which joints' positions are known at row i, as dofs: nv
std::vector<bool> known_dofs(const Model& model, const Recording& recording, int i) {
  const mjModel* m = model.mj();
  const auto qpos = row_of(recording.qpos, i, model.nq());
  std::vector<bool> out(static_cast<size_t>(model.nv()));
  const auto known = [&](int at, int n) {
    const auto part = qpos.subspan(static_cast<size_t>(at), static_cast<size_t>(n));
    return std::none_of(part.begin(), part.end(), [](double x) { return std::isnan(x); });
  };
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int adr = m->jnt_qposadr[j];
    auto dof = out.begin() + m->jnt_dofadr[j];
    switch (m->jnt_type[j]) {
      case mjJNT_FREE:
        for (int k = 0; k < 3; k++) *dof++ = known(adr + k, 1);
        std::fill_n(dof, 3, known(adr + 3, 4));
        break;
      case mjJNT_BALL:
        std::fill_n(dof, 3, known(adr, 4));
        break;
      default:
        *dof = known(adr, 1);
    }
  }
  return out;
}

// a row between rows a and b, at a share s of the way
void interpolate(const Layout& row, std::span<const double> a, std::span<const double> b, double s,
                 std::span<double> out) {
  for (size_t j = 0; j < out.size(); j++) out[j] = a[j] + s * (b[j] - a[j]);
  for (const int at : row.quaternions) {
    const auto j = static_cast<size_t>(at);
    if (std::isnan(out[j])) continue;  // of a quaternion all are missing, or none
    double rotation[3];
    mju_subQuat(rotation, &b[j], &a[j]);
    std::copy_n(&a[j], 4, &out[j]);
    mju_quatIntegrate(&out[j], rotation, s);
  }
}

}  // namespace

void validate(const Recording& recording) {
  const std::string who = recording_name(recording);
  validate_time(who, recording.time);
  for (const Quantity& quantity : quantities(recording)) {
    validate_numbers(who, quantity.name(), recording.time.size(), values(recording, quantity));
  }
  validate_ctrl(who, recording);
  for (const auto& [name, weights] : recording.weights) {
    validate_weights_of(who, recording, name, weights);
  }
}

Recording validate(const Model& model, Recording recording) {
  const std::string who = recording_name(recording);
  // widths first: they say more than what follows from them
  validate_time(who, recording.time);
  const int nrow = recording.nrow();
  for (const Quantity& quantity : quantities(recording)) {
    const Layout row = layout(who, model, quantity);
    std::vector<double>& x = values(recording, quantity);
    require_width(who, quantity.name(), row, recording.time.size(), x.size());
    validate_numbers(who, quantity.name(), recording.time.size(), x);
    normalise_quaternions(who, model, quantity, row, nrow, x);
  }
  validate(recording);
  for (const auto& sensor : recording.sensors) require_once(who, model, recording, sensor.first);
  for (const auto& [name, weights] : recording.weights) {
    Quantity quantity;
    quantity_from_name(name, quantity);
    const Layout row = layout(who, model, quantity);
    require_weight_width(who, name, row, recording.time.size(), weights.size());
  }
  return recording;
}

Recording record(const Model& model, const Trajectory& t, int every) {
  if (!is_made_with(model, t)) {
    throw InputError("record: the trajectory was made with another model");
  }
  if (every < 1) {
    throw InputError("record: every is " + std::to_string(every) + ", expected at least 1");
  }
  const size_t nu = static_cast<size_t>(t.nu), ns = static_cast<size_t>(model.nsensordata());
  const auto ctrl = [&](int step) {  // one row is held
    const bool rows = t.ctrl.size() > nu;
    return row_of(t.ctrl, rows ? step : 0, t.nu);
  };
  Recording out;
  const auto append = [](std::vector<double>& to, std::span<const double> row) {
    to.insert(to.end(), row.begin(), row.end());
  };
  for (int i = 0; i <= t.nstep; i += every) {
    out.time.push_back(t.time[static_cast<size_t>(i)]);
    append(out.qpos, row_of(t.qpos, i, t.nq));
    append(out.qvel, row_of(t.qvel, i, t.nv));
    append(out.act, row_of(t.act, i, t.na));
    if (ns > 0 && !t.sensordata.empty()) {
      append(out.sensordata, row_of(t.sensordata, i, model.nsensordata()));
    }
    if (nu == 0) continue;
    if (i + every > t.nstep) {
      out.ctrl.insert(out.ctrl.end(), nu, kMissing);
    } else if (t.ctrl.empty()) {
      out.ctrl.insert(out.ctrl.end(), nu, 0.0);
    } else {
      const auto held = ctrl(i);
      for (int k = i + 1; k < i + every; k++) {
        const auto other = ctrl(k);
        if (std::equal(held.begin(), held.end(), other.begin())) continue;
        throw InputError("record: ctrl changes between steps " + std::to_string(i) + " and " +
                         std::to_string(k) + ", but it is held for every = " +
                         std::to_string(every) + " steps in a recording; take a smaller number");
      }
      append(out.ctrl, held);
    }
  }
  return out;
}

Difference difference_from_name(const std::string& name) {
  constexpr std::pair<Difference, const char*> kNames[] = {{Difference::kBackward, "backward"},
                                                           {Difference::kCentral, "central"}};
  return value_of("difference", kNames, name);
}

Recording estimate_velocities(const Model& model, Recording recording, Difference difference) {
  recording = validate(model, std::move(recording));
  const std::string who = "estimate_velocities: " + recording_name(recording);
  require_positions(who, recording);
  const int n = recording.nrow(), nv = model.nv();
  if (recording.qvel.empty()) {
    recording.qvel.assign(recording.time.size() * static_cast<size_t>(nv), kMissing);
  }
  const double median = median_interval(recording.time);
  const auto time = [&](int i) { return recording.time[static_cast<size_t>(i)]; };
  const auto joined = [&](int i) { return !is_gap(time(i + 1) - time(i), median); };
  std::vector<double> velocity(static_cast<size_t>(nv));
  const bool central = difference == Difference::kCentral;
  for (int i = 1; i < (central ? n - 1 : n); i++) {
    const int before = i - 1, after = central ? i + 1 : i;
    if (!joined(before) || (central && !joined(i))) continue;
    const std::vector<bool> known_before = known_dofs(model, recording, before),
                            known_after = known_dofs(model, recording, after);
    mj_call("mj_differentiatePos", [&] {
      mj_differentiatePos(model.mj(), velocity.data(), time(after) - time(before),
                          row_of(recording.qpos, before, model.nq()).data(),
                          row_of(recording.qpos, after, model.nq()).data());
    });
    const auto row = row_of(recording.qvel, i, nv);
    for (size_t j = 0; j < row.size(); j++) {
      if (std::isnan(row[j]) && known_before[j] && known_after[j]) row[j] = velocity[j];
    }
  }
  return recording;
}

Recording resample(const Model& model, const Recording& given, double dt) {
  if (!(dt > 0) || !std::isfinite(dt)) {
    throw InputError("resample: dt is " + precise(dt) + ", expected a time > 0 [s]");
  }
  const Recording from = validate(model, given);
  const double begin = from.time.front(), end = from.time.back();
  const double median = median_interval(from.time);
  // what rounding does to times, so that the last row is not lost to it
  const double rounding = 1e-9 * dt + 4 * std::numeric_limits<double>::epsilon() *
                                          std::max(std::abs(begin), std::abs(end));
  const double count = std::floor((end - begin + rounding) / dt) + 1;
  double width = 1;
  for (const Quantity& q : quantities(from)) width += layout({}, model, q).width;
  require_memory("resample", count * width * sizeof(double));
  if (count >= std::numeric_limits<int>::max()) {
    throw InputError("resample: dt is " + precise(dt) + ", which makes " + precise(count) +
                     " rows; take a larger one");
  }
  const int n = static_cast<int>(count);

  Recording out{.name = from.name};
  // of each new row: the row before or at it, and the share of the way to the next
  std::vector<int> before(static_cast<size_t>(n));
  std::vector<double> share(static_cast<size_t>(n));
  std::vector<bool> lost(static_cast<size_t>(n));
  int at = 0;
  for (size_t k = 0; k < before.size(); k++) {
    const double t = begin + static_cast<double>(k) * dt;
    out.time.push_back(t);
    while (at + 1 < from.nrow() && from.time[static_cast<size_t>(at) + 1] <= t + rounding) at++;
    before[k] = at;
    const double t0 = from.time[static_cast<size_t>(at)];
    if (t - t0 <= rounding || at + 1 == from.nrow()) continue;
    const double interval = from.time[static_cast<size_t>(at) + 1] - t0;
    share[k] = (t - t0) / interval;
    lost[k] = is_gap(interval, median) && interval > 1.5 * dt;
  }
  for (const Quantity& quantity : quantities(from)) {
    const Layout row = layout({}, model, quantity);
    const std::vector<double>& x = values(from, quantity);
    std::vector<double>& y = values(out, quantity);
    y.resize(before.size() * static_cast<size_t>(row.width));
    for (int k = 0; k < n; k++) {
      const auto i = static_cast<size_t>(k);
      const auto to = row_of(y, k, row.width);
      const auto a = row_of(x, before[i], row.width);
      if (lost[i]) {
        std::fill(to.begin(), to.end(), kMissing);
      } else if (share[i] == 0 || quantity.kind == QuantityKind::kCtrl) {
        std::copy(a.begin(), a.end(), to.begin());
      } else {
        interpolate(row, a, row_of(x, before[i] + 1, row.width), share[i], to);
      }
    }
  }
  for (const auto& [name, weights] : from.weights) {
    if (weights.size() == 1) {
      out.weights[name] = weights;
      continue;
    }
    const auto columns = static_cast<int>(weights.size() / from.time.size());
    std::vector<double>& y = out.weights[name];
    y.resize(before.size() * static_cast<size_t>(columns));
    for (int k = 0; k < n; k++) {
      const auto i = static_cast<size_t>(k);
      const auto a = row_of(weights, before[i], columns);
      const auto b = share[i] == 0 ? a : row_of(weights, before[i] + 1, columns);
      interpolate({}, a, b, share[i], row_of(y, k, columns));
    }
  }
  return out;
}

}  // namespace diffmj
