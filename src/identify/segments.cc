// Segments of recordings.
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/names.h"
#include "base/text.h"
#include "diffmj/error.h"
#include "diffmj/recording.h"
#include "identify/quantities.h"
#include "identify/sources.h"
#include "mj/call.h"
#include "mj/callbacks.h"
#include "mj/collider.h"
#include "mj/handle.h"
#include "record/input.h"
#include "setup/model_impl.h"
#include "setup/workspace_lease.h"

namespace diffmj {
namespace {

// Of equal times: 1e-6 of an interval, and what rounding does to a time far from 0.
constexpr double kSameInterval = 1e-6;
double same_time(double interval, double time) {
  return kSameInterval * interval + 4 * std::numeric_limits<double>::epsilon() * std::abs(time);
}

// How the rows of a recording lie on the grid of the model.
struct Grid {
  int substeps = 1;
  std::vector<bool> joined;  // n - 1: no row is missing in this interval
};

Grid grid_of(const std::string& who, const Model& model, const Recording& recording) {
  const std::vector<double>& time = recording.time;
  Grid out;
  if (time.size() < 2) return out;
  const double median = median_interval(time);
  double sum = 0;
  int count = 0;
  for (size_t i = 0; i + 1 < time.size(); i++) {
    const double interval = time[i + 1] - time[i];
    out.joined.push_back(!is_gap(interval, median));
    if (!out.joined.back()) continue;
    sum += interval;
    count++;
  }
  const double mean = sum / count;
  for (size_t i = 0; i + 1 < time.size(); i++) {
    const double interval = time[i + 1] - time[i];
    if (!out.joined[i] || std::abs(interval - mean) <= same_time(mean, time[i + 1])) continue;
    throw InputError(who + text(": rows %zu and %zu are %.9g s apart, but the mean interval is "
                                "%.9g s; use resample(recording, %.6g) first",
                                i, i + 1, interval, mean, mean));
  }
  const double step = model.interval(), ratio = mean / step, whole = std::round(ratio);
  if (whole < 1 || std::abs(mean - whole * step) > same_time(mean, time.back())) {
    const char* word = model.is_adaptive() ? "interval" : "timestep";
    throw InputError(who + text(": rows are %.9g s apart, which is %.6g times the model's %s of "
                                "%.9g s, expected a whole number; set the %s to %.9g, or use "
                                "resample(recording, %.9g)",
                                mean, ratio, word, step, word, mean / std::ceil(ratio),
                                std::max(1.0, whole) * step));
  }
  out.substeps = static_cast<int>(whole);
  return out;
}

bool all_known(std::span<const double> x) {
  return std::none_of(x.begin(), x.end(), [](double y) { return std::isnan(y); });
}

// Whether residual k of a target's row needs a number that is missing.
bool residual_is_missing(const Model& model, const Target& target, std::span<const double> row,
                         int k) {
  if (target.quaternion) return !all_known(row);
  if (target.observable != "qpos") return std::isnan(row[static_cast<size_t>(k)]);
  const mjModel* m = model.mj();
  const int joint = m->dof_jntid[k], adr = m->jnt_qposadr[joint], dof = k - m->jnt_dofadr[joint];
  switch (m->jnt_type[joint]) {
    case mjJNT_FREE:
      return dof < 3 ? std::isnan(row[static_cast<size_t>(adr + dof)])
                     : !all_known(row.subspan(static_cast<size_t>(adr) + 3, 4));
    case mjJNT_BALL:
      return !all_known(row.subspan(static_cast<size_t>(adr), 4));
    default:
      return std::isnan(row[static_cast<size_t>(adr)]);
  }
}

// Contacts of recorded states, each found once.
class Contacts {
 public:
  Contacts(const Model& model, double margin)
      : model_(model), margin_(margin), workspace_(model.impl()) {
    reset_data(model, {}, {}, *workspace_);
    if (margin <= 0) return;
    mj_call("mj_copyModel", [&] { wide_.reset(mj_copyModel(nullptr, model.mj())); });
    mjModel* m = wide_.get();
    const auto raise = [&](mjtNum* margins, int n) {
      for (int i = 0; i < n; i++) margins[i] = std::max(margins[i], margin);
    };
    raise(m->geom_margin, static_cast<int>(m->ngeom));
    raise(m->pair_margin, static_cast<int>(m->npair));
    if (m->opt.enableflags & mjENBL_OVERRIDE) raise(&m->opt.o_margin, 1);
  }

  bool at(std::span<const double> qpos) {
    mjData* d = workspace_->data.get();
    std::copy(qpos.begin(), qpos.end(), d->qpos);
    if (collide(model_.mj()) > 0) return true;
    if (!wide_) return false;
    const int n = collide(wide_.get());
    return std::any_of(d->contact, d->contact + n,
                       [&](const mjContact& x) { return x.dist <= margin_; });
  }

 private:
  int collide(const mjModel* m) {
    mjData* d = workspace_->data.get();
    try {
      mj_call("mj_collision", [&] {
        mj_kinematics(m, d);
        mj_comPos(m, d);
        mj_flex(m, d);
        mj_collision(CollidingModel(m), d);
      });
    } catch (const MujocoError&) {
      reset_keeping_mocap(model_.impl(), *workspace_);
      throw;
    }
    return static_cast<int>(d->ncon);
  }

  const Model& model_;
  double margin_;
  WorkspaceLease workspace_;
  MjModelPtr wide_;
};

void require_recorded(const std::string& who, const Model& model, const Recording& recording) {
  const auto require = [&](const char* name, const std::vector<double>& x, int width,
                           const char* remedy) {
    if (width == 0 || !x.empty()) return;
    throw InputError(who + ": " + name +
                     " is not recorded, but a segment starts at a known state "
                     "with known controls; " +
                     remedy);
  };
  require("qpos", recording.qpos, model.nq(), "give the positions");
  require("qvel", recording.qvel, model.nv(), "use estimate_velocities(recording) first");
  require("act", recording.act, model.na(), "give the activations, zeros if they are at rest");
  require("ctrl", recording.ctrl, model.nu(), "give the controls, zeros if there were none");
}

class Cutter {
 public:
  Cutter(const std::string& who, const Model& model, const Recording& recording,
         const SegmentOptions& options)
      : model_(model),
        recording_(recording),
        options_(options),
        grid_(grid_of(who, model, recording)),
        sources_(sources(who, model, recording, options.targets)),
        contact_(recording.time.size()) {}

  bool known_start(int i) const {
    return all_known(row_of(recording_.qpos, i, model_.nq())) &&
           all_known(row_of(recording_.qvel, i, model_.nv())) &&
           (model_.na() == 0 || all_known(row_of(recording_.act, i, model_.na())));
  }
  bool joined(int i) const {
    for (int k = i; k < i + options_.length; k++) {
      if (!grid_.joined[static_cast<size_t>(k)]) return false;
      if (model_.nu() > 0 && !all_known(row_of(recording_.ctrl, k, model_.nu()))) return false;
    }
    return true;
  }
  bool touches(int i, Contacts& contacts) {
    for (int k = i; k <= i + options_.length; k++) {
      const auto qpos = row_of(recording_.qpos, k, model_.nq());
      std::optional<bool>& found = contact_[static_cast<size_t>(k)];
      if (!found) found = all_known(qpos) && contacts.at(qpos);
      if (*found) return true;
    }
    return false;
  }
  double missing_share(int i) const {
    int missing = 0, all = 0;
    for (const Source& x : sources_) {
      for (int k = i + 1; k <= i + options_.length; k++) {
        const auto row = x.values(k);
        for (size_t j = 0; j < row.size(); j++) {
          if (!x.recorded[j]) continue;
          all++;
          missing += std::isnan(row[j]) ? 1 : 0;
        }
      }
    }
    return all > 0 ? static_cast<double>(missing) / all : 1;
  }
  Segment cut(int recording, int i) const {
    Segment out{
        .recording = recording, .first = i, .length = options_.length, .substeps = grid_.substeps};
    const auto copy = [i](const std::vector<double>& rows, int width) {
      const auto row = row_of(rows, i, width);
      return std::vector<double>(row.begin(), row.end());
    };
    out.start = {.time = recording_.time[static_cast<size_t>(i)],
                 .qpos = copy(recording_.qpos, model_.nq()),
                 .qvel = copy(recording_.qvel, model_.nv()),
                 .act = copy(recording_.act, model_.na())};
    for (int k = i; k < i + out.length && model_.nu() > 0; k++) {
      const auto row = row_of(recording_.ctrl, k, model_.nu());
      for (int s = 0; s < out.substeps; s++)
        out.ctrl.insert(out.ctrl.end(), row.begin(), row.end());
    }
    for (const Source& x : sources_) out.targets.push_back(target(x, i));
    return out;
  }

 private:
  // The simulation holds the last control; a sensor of forces would measure the next.
  bool control_goes_on(int last) const {
    if (model_.nu() == 0) return true;
    const auto a = row_of(recording_.ctrl, last - 1, model_.nu()),
               b = row_of(recording_.ctrl, last, model_.nu());
    return std::equal(a.begin(), a.end(), b.begin());
  }
  Target target(const Source& source, int first) const {
    Target out = source.target;
    const int last = first + options_.length;
    const bool lost_end = source.at_acceleration && !control_goes_on(last);
    for (int i = first; i <= last; i++) {
      const auto row = source.values(i);
      for (int k = 0; k < out.nweight; k++) {
        const bool left_out = (lost_end && i == last) || residual_is_missing(model_, out, row, k);
        // sensordata has four weights for a quaternion
        const bool shared = out.quaternion && source.weight_columns > out.nweight;
        out.weights.push_back(left_out ? 0 : source.weight(i, shared ? 0 : k));
      }
      const size_t begin = out.values.size();
      for (const double x : row) out.values.push_back(std::isnan(x) ? 0 : x);
      unit_where_missing(out, row, begin);
    }
    return out;
  }
  void unit_where_missing(Target& out, std::span<const double> row, size_t begin) const {
    const auto fill = [&](size_t at) {
      if (std::isnan(row[at])) out.values[begin + at] = 1;
    };
    if (out.quaternion) fill(0);
    if (out.observable != "qpos") return;
    const mjModel* m = model_.mj();
    for (int j = 0; j < static_cast<int>(m->njnt); j++) {
      const auto adr = static_cast<size_t>(m->jnt_qposadr[j]);
      if (m->jnt_type[j] == mjJNT_FREE) fill(adr + 3);
      if (m->jnt_type[j] == mjJNT_BALL) fill(adr);
    }
  }

  const Model& model_;
  const Recording& recording_;
  const SegmentOptions& options_;
  Grid grid_;
  std::vector<Source> sources_;
  std::vector<std::optional<bool>> contact_;  // n, as far as looked at
};

void require_options(const SegmentOptions& options) {
  const auto require = [](bool good, const std::string& what) {
    if (!good) throw InputError("segments: " + what);
  };
  require(options.length >= 1,
          "length is " + std::to_string(options.length) + ", expected at least 1 interval");
  const int stride = options.stride.value_or(1);
  require(stride >= 1, "stride is " + std::to_string(stride) +
                           ", expected at least 1 row; leave it out for segments without overlap");
  require(options.margin >= 0 && std::isfinite(options.margin),
          text("margin is %g, expected a distance of 0 or more [m]", options.margin));
  require(options.max_missing >= 0 && options.max_missing <= 1,
          text("max_missing is %g, expected a share from 0 to 1", options.max_missing));
}

constexpr std::pair<SegmentRule, const char*> kRules[] = {{SegmentRule::kAll, "all"},
                                                          {SegmentRule::kContact, "contact"}};

}  // namespace

const char* segment_rule_name(SegmentRule rule) { return name_of(kRules, rule); }
SegmentRule segment_rule_from_name(const std::string& name) {
  return value_of("segments: rule", kRules, name);
}

RolloutInput segment_input(const Segment& segment) {
  return {.qpos = segment.start.qpos,
          .qvel = segment.start.qvel,
          .act = segment.start.act,
          .ctrl = segment.ctrl,
          .time = segment.start.time};
}

std::vector<Segment> segments(const Model& model, std::span<const Recording> recordings,
                              const SegmentOptions& options) {
  require_options(options);
  require_no_callbacks("segments");
  const int stride = options.stride.value_or(options.length);
  std::optional<Contacts> contacts;
  if (options.rule == SegmentRule::kContact) contacts.emplace(model, options.margin);
  std::vector<Segment> out;
  for (size_t r = 0; r < recordings.size(); r++) {
    const Recording recording = validate(model, recordings[r]);
    const std::string who =
        "segments: " +
        (recording.name.empty() ? "recording " + std::to_string(r) : recording_name(recording));
    require_recorded(who, model, recording);
    Cutter cutter(who, model, recording, options);
    // no sum beyond the number of rows, whatever the options
    for (int i = 0; i < recording.nrow() - options.length;
         i += std::min(stride, recording.nrow())) {
      if (!cutter.known_start(i) || !cutter.joined(i)) continue;
      if (cutter.missing_share(i) > options.max_missing) continue;
      if (contacts && !cutter.touches(i, *contacts)) continue;
      out.push_back(cutter.cut(static_cast<int>(r), i));
    }
  }
  return out;
}

}  // namespace diffmj
