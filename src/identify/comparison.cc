#include "identify/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/parallel.h"
#include "diffmj/error.h"
#include "diffmj/fit_report.h"
#include "diffmj/observables.h"
#include "diffmj/sensors.h"
#include "identify/quantities.h"
#include "identify/segment_loss.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

Trajectory simulate(const Model& model, const Segment& segment) {
  return rollout(model, segment_input(segment), segment.length * segment.substeps,
                 {.nthread = 1, .sensors = reads_sensors(segment)});
}

// Sums of squares and counts by target.
struct Sums {
  std::map<std::string, std::pair<double, long>> all;
};

void add(const Model& model, const Segment& segment, Sums& sums) {
  const Trajectory t = simulate(model, segment);
  if (!t.ok()) return;
  const std::vector<std::vector<double>> r = residuals(model, segment, t);
  for (size_t k = 0; k < r.size(); k++) {
    const Target& target = segment.targets[k];
    auto& [sum, count] = sums.all[target.name];
    // the first row is where the simulation starts
    for (size_t i = at(target.nweight); i < r[k].size(); i++) {
      if (target.weights[i] == 0) continue;
      sum += r[k][i] * r[k][i];
      count++;
    }
  }
}

// What is simulated at the rows of a target, width numbers each; empty: the rollout failed.
std::vector<double> simulated_rows(const Model& model, const Segment& segment, const Trajectory& t,
                                   const Target& target) {
  if (!t.ok()) return {};
  const std::string& name = target.observable;
  const std::vector<double> rows = name == "qpos"   ? t.qpos
                                   : name == "qvel" ? t.qvel
                                   : name == "act"  ? t.act
                                   : name == "sensordata"
                                       ? sensordata(model, t)
                                       : poses(model, t, {name}).*observable(name).values;
  const int columns = static_cast<int>(rows.size()) / (t.nstep + 1);
  std::vector<double> out;
  for (int i = 0; i <= segment.length; i++) {
    const auto row =
        row_of(rows, i * segment.substeps, columns).subspan(at(target.offset), at(target.width));
    const auto recorded = row_of(target.values, i, target.width);
    double sign = 1;
    if (target.quaternion) {
      double dot = 0;
      for (size_t k = 0; k < row.size(); k++) dot += row[k] * recorded[k];
      sign = dot < 0 ? -1 : 1;
    }
    for (const double x : row) out.push_back(sign * x);
  }
  return out;
}

bool is_known(const Target& target, int row, int number) {
  // of positions and quaternions weights are those of the tangent
  const int k = target.nweight == target.width ? number : 0;
  return target.weights[at(row * target.nweight + k)] > 0;
}

}  // namespace

std::vector<TargetError> target_errors(const Objective& objective, std::span<const double> before,
                                       std::span<const double> after,
                                       const RolloutOptions& options) {
  const Model models[] = {objective.family().at(before), objective.family().at(after)};
  std::vector<Sums> parts(2 * at(objective.nsegment()));
  StopSignal stop(options.interrupted, options.progress);
  parallel_for(objective.nsegment(), options.nthread, stop, [&](int i, StopSignal& s) {
    for (size_t k = 0; k < 2 && !s.poll(); k++) {
      add(models[k], objective.segments()[at(i)], parts[2 * at(i) + k]);
    }
  });
  if (stop.stopped()) throw Interrupted("target_errors: interrupted");
  Sums sums[2];
  for (size_t i = 0; i < parts.size(); i++) {
    for (const auto& [name, part] : parts[i].all) {
      auto& [sum, count] = sums[i % 2].all[name];
      sum += part.first;
      count += part.second;
    }
  }
  const auto root = [](const std::pair<double, long>& x) {
    return x.second > 0 ? std::sqrt(x.first / static_cast<double>(x.second)) : kMissing;
  };
  std::vector<TargetError> out;
  for (const auto& [name, sum] : sums[1].all) {
    if (sum.second == 0) continue;
    out.push_back({name, sum.second, root(sums[0].all[name]), root(sum)});
  }
  return out;
}

std::vector<Series> worst_series(const Objective& objective, std::span<const double> before,
                                 std::span<const double> after, size_t count) {
  const Model models[] = {objective.family().at(before), objective.family().at(after)};
  const std::vector<Segment>& all = objective.segments();
  std::map<std::pair<std::string, int>, Series> found;
  int last = -1;  // row that the segment before ends at: those that overlap are not shown
  for (const Segment& segment : all) {
    if (segment.recording != all[0].recording || segment.first < last) continue;
    last = segment.first + segment.length;
    const Trajectory t[] = {simulate(models[0], segment), simulate(models[1], segment)};
    const double dt = models[0].interval() * segment.substeps;
    for (const Target& target : segment.targets) {
      const std::vector<double> rows[] = {simulated_rows(models[0], segment, t[0], target),
                                          simulated_rows(models[1], segment, t[1], target)};
      for (int j = 0; j < target.width; j++) {
        Series& to = found[{target.name, j}];
        to.name = target.width == 1 ? target.name : target.name + "[" + std::to_string(j) + "]";
        for (int i = 0; i <= segment.length; i++) {
          const double time = segment.start.time + i * dt;
          const size_t k = at(i * target.width + j);
          to.simulated_time.push_back(time);
          to.before.push_back(rows[0].empty() ? kMissing : rows[0][k]);
          to.after.push_back(rows[1].empty() ? kMissing : rows[1][k]);
          if (!is_known(target, i, j)) continue;
          to.time.push_back(time);
          to.recorded.push_back(target.values[k]);
          const double r = to.before.back() - target.values[k];
          if (std::isfinite(r)) to.misfit += r * r;
        }
        to.simulated_time.push_back(kMissing);
        to.before.push_back(kMissing);
        to.after.push_back(kMissing);
      }
    }
  }
  std::vector<Series> out;
  for (auto& [key, x] : found) {
    if (x.recorded.empty()) continue;
    double mean = 0, spread = 0;
    for (const double y : x.recorded) mean += y / static_cast<double>(x.recorded.size());
    for (const double y : x.recorded) spread += (y - mean) * (y - mean);
    x.misfit = spread > 0 ? std::sqrt(x.misfit / spread) : 0;
    out.push_back(std::move(x));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Series& a, const Series& b) { return a.misfit > b.misfit; });
  // what was right before is not shown
  constexpr double kRight = 1e-6;
  while (out.size() > 1 && (out.size() > count || out.back().misfit < kRight)) out.pop_back();
  return out;
}

}  // namespace diffmj
