// Objective::residuals(): the residuals of segments and their derivatives.
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/parallel.h"
#include "base/rotation.h"
#include "diffmj/error.h"
#include "diffmj/fit.h"
#include "diffmj/linearize.h"
#include "identify/residual_loss.h"
#include "identify/segment_loss.h"
#include "linearize/observation.h"
#include "setup/model_impl.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// Which numbers of a segment count: target, row, number in the row.
struct Place {
  int target, row, number;
};

std::vector<Place> places_of(const Segment& segment) {
  std::vector<Place> out;
  for (size_t k = 0; k < segment.targets.size(); k++) {
    const Target& x = segment.targets[k];
    for (int i = 0; i <= segment.length; i++) {
      for (int j = 0; j < x.nweight; j++) {
        if (x.weights[at(i * x.nweight + j)] > 0) out.push_back({static_cast<int>(k), i, j});
      }
    }
  }
  return out;
}

// Steps whose derivatives rollout_pushforward gives in parameters, too.
bool pushes_forward(const Model& model) {
  return !model.is_adaptive() && model.impl().differentiation.of_field;
}

// q ⊕ u as a function of u: what u receives from the tangent at q ⊕ u
void move_pullback(const mjModel* m, const double* u, double* bar) {
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int type = m->jnt_type[j];
    if (type != mjJNT_FREE && type != mjJNT_BALL) continue;
    const int dof = m->jnt_dofadr[j] + (type == mjJNT_FREE ? 3 : 0);
    Eigen::Map<Vector3> to(bar + dof);
    to = right_jacobian_transposed(Vector3(u + dof), Vector3(to));
  }
}

// the same forwards: the tangent at q ⊕ u of a change of u; Jr(u) = Jr(-u)ᵀ
void move_pushforward(const mjModel* m, const double* u, double* tangent) {
  for (int j = 0; j < static_cast<int>(m->njnt); j++) {
    const int type = m->jnt_type[j];
    if (type != mjJNT_FREE && type != mjJNT_BALL) continue;
    const int dof = m->jnt_dofadr[j] + (type == mjJNT_FREE ? 3 : 0);
    Eigen::Map<Vector3> to(tangent + dof);
    to = right_jacobian_transposed(-Vector3(u + dof), Vector3(to));
  }
}

// One segment at one θ: its rollout, its residuals, and their derivatives.
class SegmentResiduals {
 public:
  SegmentResiduals(const Segment& segment, std::span<const double> moves, const ResidualLoss& loss)
      : segment_(segment), moves_(moves), loss_(loss), places_(places_of(segment)) {}

  int size() const { return static_cast<int>(places_.size()); }

  // Returns whether the rollout succeeded; out: size() numbers.
  bool evaluate(const Model& model, double* out) {
    State start = segment_.start;
    if (!moves_.empty()) start = plus(model, start, moves_);
    RolloutInput input = segment_input(segment_);
    input.qpos = start.qpos;
    input.qvel = start.qvel;
    input.act = start.act;
    trajectory_ = rollout(model, input, segment_.length * segment_.substeps,
                          {.nthread = 1, .sensors = reads_sensors(segment_)});
    if (!trajectory_.ok()) return false;
    residuals_ = diffmj::residuals(model, segment_, trajectory_);
    for (size_t k = 0; k < places_.size(); k++) {
      const Place& p = places_[k];
      const Target& x = segment_.targets[at(p.target)];
      const size_t i = at(p.row * x.nweight + p.number);
      out[k] = robust_residual(loss_, std::sqrt(x.weights[i]) * residuals_[at(p.target)][i]).value;
    }
    return true;
  }
  const std::string& message() const { return trajectory_.message; }

  // Of the last evaluation. theta, start: rows of size() x p and of size() x ntangent, or null.
  void derivatives(const Model& model, const ParametricModel::Jacobian* jacobian, int p,
                   double* theta, double* start, StopSignal& stop) const {
    if (pushes_forward(model)) {
      pushforward(model, jacobian, theta ? p : 0, theta, start, stop);
    } else {
      pullback(model, jacobian, p, theta, start, stop);
    }
  }

 private:
  // The residual of a place, as a cotangent of 1 of it.
  void add_place(size_t k, std::vector<double>& r_bar, SegmentCotangents& bars) const {
    const Place& place = places_[k];
    const Target& x = segment_.targets[at(place.target)];
    const size_t row = at(place.row * x.nweight);
    r_bar.assign(at(x.nweight), 0);
    const double* r = residuals_[at(place.target)].data() + row;
    const double root = std::sqrt(x.weights[row + at(place.number)]);
    r_bar[at(place.number)] = root * robust_residual(loss_, root * r[place.number]).slope;
    bars.clear();
    bars.add(x, place.row, r, r_bar.data());
  }

  // Tangents of parameters and of the start, pushed through the rollout once; each residual then
  // reads those of its row.
  void pushforward(const Model& model, const ParametricModel::Jacobian* jacobian, int p,
                   double* theta, double* start, StopSignal& stop) const {
    const int nv = model.nv(), na = model.na(), nx = model.ntangent();
    const int count = p + (start ? nx : 0);
    std::vector<double> qpos(at(count * nv)), qvel(at(count * nv)), act(at(count * na));
    for (int k = 0; k < count - p; k++) {
      const int row = p + k;
      if (k < nv) {
        double* to = qpos.data() + at(row * nv);
        to[k] = 1;
        if (!moves_.empty()) move_pushforward(model.mj(), moves_.data(), to);
      } else if (k < 2 * nv) {
        qvel[at(row * nv + k - nv)] = 1;
      } else {
        act[at(row * na + k - 2 * nv)] = 1;
      }
    }
    Tangents tangents{.count = count, .qpos_tangent = qpos, .qvel = qvel, .act = act};
    std::map<std::string, std::vector<double>> fields;
    const std::vector<std::string> names =
        jacobian ? jacobian->fields() : std::vector<std::string>();
    for (const std::string& name : names) {
      fields[name] = jacobian->tangents(model, name);
      fields[name].resize(fields[name].size() / at(p) * at(count), 0.0);
      tangents.params[name] = fields[name];
    }
    const TrajectoryTangents pushed =
        rollout_pushforward(model, trajectory_, tangents, {.nthread = 1});
    const auto rows = at(trajectory_.nstep + 1);
    SegmentCotangents bars(model, segment_);
    ObservationPullback observation(model, trajectory_);
    std::vector<double> r_bar, x_bar(at(nx));
    for (size_t k = 0; k < places_.size(); k++) {
      if (stop.poll()) return;
      add_place(k, r_bar, bars);
      const int i = places_[k].row * segment_.substeps;
      std::fill(x_bar.begin(), x_bar.end(), 0.0);
      const Gradient direct = observation.run(bars.view(names), i, x_bar);
      for (int c = 0; c < count; c++) {
        const auto at_row = [&](const std::vector<double>& x, int width) {
          return x.data() + (at(c) * rows + at(i)) * at(width);
        };
        double sum = 0;
        for (int j = 0; j < nv; j++) {
          sum += x_bar[at(j)] * at_row(pushed.qpos_tangent, nv)[j] +
                 x_bar[at(nv + j)] * at_row(pushed.qvel, nv)[j];
        }
        for (int j = 0; j < na; j++) sum += x_bar[at(2 * nv + j)] * at_row(pushed.act, na)[j];
        (c < p ? theta[k * at(p) + at(c)] : start[k * at(nx) + at(c - p)]) = sum;
      }
      if (p == 0 || direct.params.empty()) continue;
      const std::vector<double> numbers = jacobian->pullback(direct);
      for (size_t c = 0; c < at(p); c++) theta[k * at(p) + c] += numbers[c];
    }
  }

  // One pullback per residual.
  void pullback(const Model& model, const ParametricModel::Jacobian* jacobian, int p, double* theta,
                double* start, StopSignal& stop) const {
    const int nv = model.nv(), na = model.na(), nx = model.ntangent();
    SegmentCotangents bars(model, segment_);
    std::vector<double> r_bar;
    const std::vector<std::string> fields =
        jacobian ? jacobian->fields() : std::vector<std::string>();
    for (size_t k = 0; k < places_.size(); k++) {
      if (stop.poll()) return;
      add_place(k, r_bar, bars);
      const Gradient g = rollout_pullback(model, trajectory_, bars.view(fields));
      if (theta) {
        const std::vector<double> numbers = jacobian->pullback(g);
        std::copy(numbers.begin(), numbers.end(), theta + k * at(p));
      }
      if (start) {
        double* to = start + k * at(nx);
        std::copy_n(g.qpos_tangent.data(), nv, to);
        std::copy_n(g.qvel.data(), nv, to + nv);
        std::copy_n(g.act.data(), na, to + 2 * nv);
        if (!moves_.empty()) move_pullback(model.mj(), moves_.data(), to);
      }
    }
  }

  const Segment& segment_;
  std::span<const double> moves_;
  ResidualLoss loss_;
  std::vector<Place> places_;
  Trajectory trajectory_;
  std::vector<std::vector<double>> residuals_;
};

}  // namespace

Objective::Residuals Objective::residuals(std::span<const double> theta,
                                          const ResidualOptions& what,
                                          const RolloutOptions& options) const {
  const Model model = family_->at(theta);
  const size_t p = theta.size(), nx = at(model.ntangent());
  if (!what.moves.empty() && what.moves.size() != segments_->size() * nx) {
    throw InputError(
        "Objective: moves has " + std::to_string(what.moves.size()) +
        " numbers, expected nsegment x ntangent = " + std::to_string(segments_->size() * nx));
  }
  Residuals out;
  out.first.push_back(0);
  std::vector<SegmentResiduals> all;
  for (size_t i = 0; i < segments_->size(); i++) {
    all.emplace_back((*segments_)[i],
                     what.moves.empty() ? what.moves : what.moves.subspan(i * nx, nx), loss_);
    out.first.push_back(out.first.back() + all.back().size());
  }
  const size_t n = at(out.first.back());
  out.values.resize(n);
  if (what.theta) out.theta.resize(n * p);
  if (what.start) out.start.resize(n * nx);

  ParametricModel::Jacobian jacobian;
  if (what.theta) jacobian = family_->jacobian(theta, options.nthread);

  std::vector<char> failed(all.size());
  StopSignal stop(options.interrupted, options.progress);
  parallel_for(nsegment(), options.nthread, stop, [&](int i, StopSignal& s) {
    if (s.poll(0)) return;
    SegmentResiduals& segment = all[at(i)];
    const size_t begin = at(out.first[at(i)]), size = at(segment.size());
    double* values = out.values.data() + begin;
    double* columns = what.theta ? out.theta.data() + begin * p : nullptr;
    const auto fail = [&] {
      failed[at(i)] = 1;
      std::fill_n(values, size, std::numeric_limits<double>::quiet_NaN());
      if (what.theta) std::fill_n(columns, size * p, 0.0);
      if (what.start) std::fill_n(out.start.data() + begin * nx, size * nx, 0.0);
    };
    if (!segment.evaluate(model, values)) return fail();
    if (!what.theta && !what.start) return;
    segment.derivatives(model, what.theta ? &jacobian : nullptr, static_cast<int>(p), columns,
                        what.start ? out.start.data() + begin * nx : nullptr, s);
  });
  if (stop.stopped()) throw Interrupted("Objective: interrupted");
  for (size_t i = 0; i < all.size(); i++) {
    if (!failed[i]) continue;
    if (out.nfailed++ == 0) out.message = all[i].message();
  }
  if (out.nfailed == nsegment()) {
    throw RolloutError("Objective: the rollouts of all segments failed; the first: " + out.message);
  }
  return out;
}

}  // namespace diffmj
