// Objective::residuals(): the residuals of segments and their derivatives.
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/rotation.h"
#include "diffmj/error.h"
#include "diffmj/fit.h"
#include "identify/residual_loss.h"
#include "identify/segment_loss.h"

namespace diffmj {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

constexpr double kStep = 1e-5;  // of differences, relative to the parameter

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

// Are differences of rollouts what the pullback gives? Not where the backward pass is another one
// on purpose, nor with steps whose number changes with the parameters.
bool differences_agree(const Model& model) {
  const ModelOptions& x = model.options();
  return !model.is_adaptive() && !x.cfd && x.muscle_smoothing == 0 &&
         (x.collisions.mode == Collisions::kMujoco || x.collisions.mode == Collisions::kSmooth);
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
      out[k] = bend(loss_, std::sqrt(x.weights[i]) * residuals_[at(p.target)][i]).value;
    }
    return true;
  }
  const std::string& message() const { return trajectory_.message; }

  // Of the last evaluation, one pullback per residual. theta, start: rows of size() x p and of
  // size() x ntangent, or null.
  void pullback(const Model& model, const ParametricModel::Jacobian* jacobian, int p, double* theta,
                double* start, StopSignal& stop) const {
    const int nv = model.nv(), na = model.na(), nx = model.ntangent();
    SegmentCotangents bars(model, segment_);
    std::vector<double> r_bar;
    const std::vector<std::string> fields =
        jacobian ? jacobian->fields() : std::vector<std::string>();
    for (size_t k = 0; k < places_.size(); k++) {
      if (stop.poll()) return;
      const Place& place = places_[k];
      const Target& x = segment_.targets[at(place.target)];
      const size_t row = at(place.row * x.nweight);
      r_bar.assign(at(x.nweight), 0);
      const double* r = residuals_[at(place.target)].data() + row;
      const double root = std::sqrt(x.weights[row + at(place.number)]);
      r_bar[at(place.number)] = root * bend(loss_, root * r[place.number]).slope;
      bars.clear();
      bars.add(x, place.row, r, r_bar.data());
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

 private:
  const Segment& segment_;
  std::span<const double> moves_;
  ResidualLoss loss_;
  std::vector<Place> places_;
  Trajectory trajectory_;
  std::vector<std::vector<double>> residuals_;
};

// Models at θ and on both sides of it in each parameter, with the solver run to its end: its noise
// over a small step is not small.
struct Neighbours {
  std::vector<Model> middle, plus, minus;
  std::vector<double> step;
};

Neighbours neighbours_of(const ParametricModel& family, std::span<const double> theta) {
  Neighbours out;
  out.middle.push_back(family.at(theta).tightened());
  std::vector<double> moved(theta.begin(), theta.end());
  for (size_t i = 0; i < theta.size(); i++) {
    const double size = theta[i] != 0 ? std::abs(theta[i]) : std::abs(family.start()[i]);
    const double h = kStep * (size != 0 ? size : 1);
    out.step.push_back(h);
    moved[i] = theta[i] + h;
    out.plus.push_back(family.at(moved).tightened());
    moved[i] = theta[i] - h;
    out.minus.push_back(family.at(moved).tightened());
    moved[i] = theta[i];
  }
  return out;
}

// From residuals r at θ and on both sides of it. A kink lies on one side only; there the change is
// larger, and not that of the other side with its sign reversed.
void difference(std::span<const double> r, std::span<const double> plus,
                std::span<const double> minus, double h, double* out, size_t stride) {
  constexpr double kKink = 0.1;
  double up = 0, down = 0, bend = 0, size = 0;
  for (size_t k = 0; k < r.size(); k++) {
    const double a = plus[k] - r[k], b = r[k] - minus[k];
    up += a * a;
    down += b * b;
    bend += (a - b) * (a - b);
    size += r[k] * r[k];
  }
  constexpr double kRounding = 1e-20;  // squared, of residuals
  const bool kink = bend > kKink * kKink * (up + down) && bend > kRounding * size;
  for (size_t k = 0; k < r.size(); k++) {
    out[k * stride] = !kink       ? (plus[k] - minus[k]) / (2 * h)
                      : up < down ? (plus[k] - r[k]) / h
                                  : (r[k] - minus[k]) / h;
  }
}

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

  // two rollouts per parameter, or one pullback per residual, of half the segment's length
  const bool by_differences =
      what.theta && !what.start && differences_agree(model) && 4 * p * all.size() <= n;
  Neighbours neighbours;
  ParametricModel::Jacobian jacobian;
  if (by_differences) {
    neighbours = neighbours_of(*family_, theta);
  } else if (what.theta) {
    jacobian = family_->jacobian(theta, options.nthread);
  }

  std::vector<char> failed(all.size());
  StopSignal stop(options.interrupted, options.progress);
  parallel_for(nsegment(), options.nthread, stop, [&](int i, StopSignal& s) {
    if (s.poll(static_cast<double>(i) / nsegment())) return;
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
    if (!by_differences && (what.theta || what.start)) {
      segment.pullback(model, what.theta ? &jacobian : nullptr, static_cast<int>(p), columns,
                       what.start ? out.start.data() + begin * nx : nullptr, s);
      return;
    }
    if (!by_differences) return;
    std::vector<double> r(size), plus(size), minus(size);
    if (!segment.evaluate(neighbours.middle[0], r.data())) return fail();
    for (size_t k = 0; k < p; k++) {
      if (s.poll()) return;
      const bool up = segment.evaluate(neighbours.plus[k], plus.data()),
                 down = segment.evaluate(neighbours.minus[k], minus.data());
      if (!up && !down) continue;  // the column is 0
      // without one side the other counts
      if (!up) {
        for (size_t j = 0; j < size; j++) plus[j] = 2 * r[j] - minus[j];
      }
      if (!down) {
        for (size_t j = 0; j < size; j++) minus[j] = 2 * r[j] - plus[j];
      }
      difference(r, plus, minus, neighbours.step[k], columns + k, p);
    }
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
