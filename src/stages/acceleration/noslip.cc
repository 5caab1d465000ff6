#include "stages/acceleration/noslip.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "mj/call.h"
#include "stages/acceleration/constraint_parameters.h"
#include "stages/acceleration/constraint_projection.h"
#include "stages/acceleration/constraint_solve.h"
#include "stages/acceleration/noslip_ellipse.h"

namespace diffmj {
namespace {

using Block = Noslip::Block;
using Case = Noslip::Case;
using Kind = Noslip::Kind;

constexpr double kSmallestDiagonal = 1e-10;  // of A in cones, MuJoCo's
constexpr double kLargestGrowth = 1e-10;     // of the cost; beyond it an update is undone, MuJoCo's

// A_i f
double row_product(const Projection& A, size_t i, const std::vector<double>& f) {
  const int begin = A.begin[i], end = A.begin[i + 1];
  if (static_cast<size_t>(end - begin) == f.size()) {
    return eigen(CVec(A.A).subspan(static_cast<size_t>(begin), f.size())).dot(eigen(CVec(f)));
  }
  double sum = 0;
  for (int e = begin; e < end; e++) {
    const auto entry = static_cast<size_t>(e);
    sum += A.A[entry] * f[static_cast<size_t>(A.column[entry])];
  }
  return sum;
}

// A_i f has the cotangent bar: to A and to f
void row_product_pullback(Projection& A, size_t i, const std::vector<double>& f, double bar,
                          std::vector<double>& f_bar) {
  if (bar == 0) return;
  const int begin = A.begin[i], end = A.begin[i + 1];
  if (static_cast<size_t>(end - begin) == f.size()) {
    const auto at = static_cast<size_t>(begin), n = f.size();
    eigen(Vec(A.A_bar).subspan(at, n)) += bar * eigen(CVec(f));
    eigen(Vec(f_bar)) += bar * eigen(CVec(A.A).subspan(at, n));
    return;
  }
  for (int e = begin; e < end; e++) {
    const auto entry = static_cast<size_t>(e), column = static_cast<size_t>(A.column[entry]);
    A.A_bar[entry] += bar * f[column];
    f_bar[column] += bar * A.A[entry];
  }
}

// One update: what it reads, the forces outside of the block summed up.
struct Local {
  Local(const Projection& A, const Block& block, const std::vector<double>& f,
        const std::vector<double>& b)
      : n(block.n) {
    for (int k = 0; k < n; k++) {
      const auto row = static_cast<size_t>(block.row + k);
      residual[k] = b[row] + row_product(A, row, f);
      old[k] = f[row];
      std::copy_n(A.A.begin() + block.diagonal[static_cast<size_t>(k)], n, matrix + k * n);
      const double least = block.kind == Kind::kFrictionLoss ? mjMINVAL : kSmallestDiagonal;
      raised[k] = matrix[k * (n + 1)] < least;
      if (raised[k]) matrix[k * (n + 1)] = least;
    }
  }

  // b_B + A_BR f_R
  double rest(int k) const {
    double sum = residual[k];
    for (int j = 0; j < n; j++) sum -= matrix[k * n + j] * old[j];
    return sum;
  }
  double cost_change(const double* to) const {
    double linear = 0, quadratic = 0;
    for (int k = 0; k < n; k++) {
      const double step = to[k] - old[k];
      linear += step * residual[k];
      for (int j = 0; j < n; j++) quadratic += step * matrix[k * n + j] * (to[j] - old[j]);
    }
    return 0.5 * quadratic + linear;
  }

  int n;
  double residual[kMaxEllipse] = {}, old[kMaxEllipse] = {};
  double matrix[kMaxEllipse * kMaxEllipse] = {};  // A_BB, its diagonal not below the least
  bool raised[kMaxEllipse] = {};
};

// Cotangents of what it reads.
struct LocalBar {
  double residual[kMaxEllipse] = {}, old[kMaxEllipse] = {};
  double matrix[kMaxEllipse * kMaxEllipse] = {};

  // of b_B + A_BR f_R
  void add_rest(const Local& in, int k, double bar) {
    residual[k] += bar;
    for (int j = 0; j < in.n; j++) {
      matrix[k * in.n + j] -= bar * in.old[j];
      old[j] -= bar * in.matrix[k * in.n + j];
    }
  }
};

// f_j = mid + y, f_j+1 = mid - y with the least cost: y = -K0/K1
struct Pyramid {
  explicit Pyramid(const Local& in)
      : mid(0.5 * (in.old[0] + in.old[1])),
        K0(mid * (in.matrix[0] - in.matrix[3]) + in.rest(0) - in.rest(1)),
        K1(in.matrix[0] + in.matrix[3] - in.matrix[1] - in.matrix[2]) {}
  double mid, K0, K1;
};

Ellipse ellipse_of(const mjContact& contact, const Local& in, double normal) {
  Ellipse out{.n = in.n, .A = {}, .b = {}, .friction = {}, .normal = normal};
  std::copy_n(in.matrix, in.n * in.n, out.A.begin());
  for (int k = 0; k < in.n; k++) {
    out.b[static_cast<size_t>(k)] = in.rest(k);
    out.friction[static_cast<size_t>(k)] = contact.friction[k];
  }
  return out;
}

Case update(const mjData* d, const Block& block, const Local& in, const std::vector<double>& f,
            double* to) {
  switch (block.kind) {
    case Kind::kFrictionLoss: {
      const double bound = d->efc_frictionloss[block.row];
      *to = in.old[0] - in.residual[0] / in.matrix[0];
      if (*to < -bound) {
        *to = -bound;
        return Case::kLow;
      }
      if (*to > bound) {
        *to = bound;
        return Case::kHigh;
      }
      return Case::kInside;
    }
    case Kind::kPyramid: {
      const Pyramid p(in);
      to[0] = to[1] = p.mid;
      if (p.K1 < mjMINVAL) return Case::kMiddle;
      const double y = -p.K0 / p.K1;
      if (y < -p.mid) {
        to[0] = 0;
        to[1] = 2 * p.mid;
        return Case::kLow;
      }
      if (y > p.mid) {
        to[0] = 2 * p.mid;
        to[1] = 0;
        return Case::kHigh;
      }
      to[0] += y;
      to[1] -= y;
      return Case::kInside;
    }
    case Kind::kEllipse: {
      const double normal = f[static_cast<size_t>(block.row - 1)];
      std::fill(to, to + in.n, 0.0);
      if (normal < mjMINVAL) return Case::kZero;
      switch (ellipse_minimum(ellipse_of(d->contact[block.contact], in, normal), to)) {
        case EllipseCase::kInside:
          return Case::kInside;
        case EllipseCase::kCone:
          return Case::kCone;
        case EllipseCase::kSingular:
          return Case::kZero;
      }
    }
  }
  return Case::kZero;
}

// to_bar: of the block's new forces
void update_pullback(const mjData* d, const Block& block, Case which, const Local& in,
                     const double* to_bar, LocalBar& bar, Noslip& pass) {
  if (which == Case::kRestored) {
    std::copy_n(to_bar, in.n, bar.old);
    return;
  }
  const auto row = static_cast<size_t>(block.row);
  switch (block.kind) {
    case Kind::kFrictionLoss:
      if (which != Case::kInside) {
        pass.frictionloss_bar[row] += which == Case::kLow ? -*to_bar : *to_bar;
        return;
      }
      bar.old[0] += *to_bar;
      bar.residual[0] -= *to_bar / in.matrix[0];
      bar.matrix[0] += *to_bar * in.residual[0] / (in.matrix[0] * in.matrix[0]);
      return;
    case Kind::kPyramid: {
      // one edge has both forces, or each half of them
      const double sum_bar = which == Case::kLow    ? to_bar[1]
                             : which == Case::kHigh ? to_bar[0]
                                                    : 0.5 * (to_bar[0] + to_bar[1]);
      bar.old[0] += sum_bar;
      bar.old[1] += sum_bar;
      if (which != Case::kInside) return;
      const Pyramid p(in);
      const double y_bar = to_bar[0] - to_bar[1];
      const double K0_bar = -y_bar / p.K1, K1_bar = y_bar * p.K0 / (p.K1 * p.K1);
      bar.matrix[0] += K1_bar + p.mid * K0_bar;
      bar.matrix[3] += K1_bar - p.mid * K0_bar;
      bar.matrix[1] -= K1_bar;
      bar.matrix[2] -= K1_bar;
      bar.old[0] += 0.5 * K0_bar * (in.matrix[0] - in.matrix[3]);
      bar.old[1] += 0.5 * K0_bar * (in.matrix[0] - in.matrix[3]);
      bar.add_rest(in, 0, K0_bar);
      bar.add_rest(in, 1, -K0_bar);
      return;
    }
    case Kind::kEllipse: {
      if (which == Case::kZero) return;
      Ellipse ellipse_bar{.n = in.n, .A = {}, .b = {}, .friction = {}};
      ellipse_pullback(ellipse_of(d->contact[block.contact], in, pass.replay[row - 1]), to_bar,
                       ellipse_bar);
      for (int k = 0; k < in.n * in.n; k++) {
        bar.matrix[k] += ellipse_bar.A[static_cast<size_t>(k)];
      }
      for (int k = 0; k < in.n; k++) {
        bar.add_rest(in, k, ellipse_bar.b[static_cast<size_t>(k)]);
        pass.friction_bar[static_cast<size_t>(block.contact)][static_cast<size_t>(k)] +=
            ellipse_bar.friction[static_cast<size_t>(k)];
      }
      pass.force_bar[row - 1] += ellipse_bar.normal;
      return;
    }
  }
}

double relative(double a, double b) {
  const double scale = std::abs(a) + std::abs(b);
  return scale > 0 ? std::min(1.0, std::abs(a - b) / scale) : 0;
}

// size of the minimum without bounds, and the bound
struct Reach {
  double size, bound;
};
std::optional<Reach> reach_of(const mjData* d, const Block& block, const Local& in, double normal) {
  switch (block.kind) {
    case Kind::kFrictionLoss:
      return Reach{std::abs(in.old[0] - in.residual[0] / in.matrix[0]),
                   d->efc_frictionloss[block.row]};
    case Kind::kPyramid: {
      const Pyramid p(in);
      if (p.K1 < mjMINVAL || p.mid == 0) return {};
      return Reach{std::abs(p.K0 / p.K1), p.mid};
    }
    case Kind::kEllipse: {
      if (normal < mjMINVAL) return {};
      const double radius = ellipse_radius(ellipse_of(d->contact[block.contact], in, normal));
      if (!std::isfinite(radius)) return {};
      return Reach{radius, normal};
    }
  }
  return {};
}

// the updates, last one first: visit(i, reach)
template <class Visit>
void for_each_update(const mjData* d, Workspace& workspace, Visit&& visit) {
  Noslip& pass = workspace.noslip;
  pass.replay = pass.force;
  size_t before = pass.before.size();
  for (size_t i = pass.updates.size(); i-- > 0;) {
    const Block& block = pass.blocks[static_cast<size_t>(pass.updates[i].block)];
    before -= static_cast<size_t>(block.n);
    std::copy_n(pass.before.begin() + static_cast<ptrdiff_t>(before), block.n,
                pass.replay.begin() + block.row);
    const Local in(workspace.projection, block, pass.replay, pass.b);
    const double normal =
        block.kind == Kind::kEllipse ? pass.replay[static_cast<size_t>(block.row - 1)] : 0;
    visit(i, reach_of(d, block, in, normal));
  }
}

// the blocks, island by island, in the order of their rows
void find_blocks(const mjModel* m, const mjData* d, const Projection& A,
                 std::vector<Block>& blocks) {
  const bool islands = !(m->opt.disableflags & mjDSBL_ISLAND) && d->nisland > 0;
  blocks.clear();
  for (int i = 0, n = 1; i < d->nefc; i += n) {
    n = 1;
    const int type = d->efc_type[i], id = d->efc_id[i], island = islands ? d->efc_island[i] : -1;
    if (type == mjCNSTR_FRICTION_DOF || type == mjCNSTR_FRICTION_TENDON) {
      blocks.push_back({island, i, 1, Kind::kFrictionLoss, -1, {}});
    } else if (type == mjCNSTR_CONTACT_PYRAMIDAL) {
      n = 2 * (d->contact[id].dim - 1);
      for (int k = i; k < i + n; k += 2) blocks.push_back({island, k, 2, Kind::kPyramid, id, {}});
    } else if (type == mjCNSTR_CONTACT_ELLIPTIC) {
      n = d->contact[id].dim;
      blocks.push_back({island, i + 1, n - 1, Kind::kEllipse, id, {}});
    }
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return a.island != b.island ? a.island < b.island : a.row < b.row;
  });
  // rows of a block have the same columns, neighbours among them
  for (Block& block : blocks) {
    for (int k = 0; k < block.n; k++) {
      const auto row = static_cast<size_t>(block.row + k);
      const auto first = A.column.begin() + A.begin[row],
                 last = A.column.begin() + A.begin[row + 1];
      block.diagonal[static_cast<size_t>(k)] =
          static_cast<int>(std::find(first, last, block.row) - A.column.begin());
    }
  }
}

// trace of M, of an island's dofs or of all
double inertia_trace(const mjModel* m, const mjData* d, int island) {
  double sum = 0;
  for (int i = 0; i < static_cast<int>(m->nv); i++) {
    if (island < 0 || d->dof_island[i] == island) sum += d->M[m->M_rowadr[i] + m->M_rownnz[i] - 1];
  }
  return sum;
}

// ½ Σ R f²: the pass has no R, so that the cost drops by it at first
double regularizer(const mjData* d, int island, const std::vector<double>& f) {
  double sum = 0;
  for (int i = 0; i < d->nefc; i++) {
    const double fi = f[static_cast<size_t>(i)];
    if (island < 0 || d->efc_island[i] == island) sum += 0.5 * fi * fi * d->efc_R[i];
  }
  return sum;
}

}  // namespace

void noslip_sweeps(const mjModel* m, const mjData* d, Workspace& workspace) {
  Noslip& pass = workspace.noslip;
  find_blocks(m, d, workspace.projection, pass.blocks);
  pass.force = pass.main_force;
  pass.updates.clear();
  pass.sweeps.clear();
  pass.stop_distance = 1;
  pass.before.clear();
  const auto nblock = static_cast<int>(pass.blocks.size());
  for (int first = 0, end = 0; first < nblock; first = end) {
    const int island = pass.blocks[static_cast<size_t>(first)].island;
    while (end < nblock && pass.blocks[static_cast<size_t>(end)].island == island) end++;
    const double trace = inertia_trace(m, d, island);
    for (int sweep = 0; sweep < m->opt.noslip_iterations; sweep++) {
      double improvement = sweep == 0 ? regularizer(d, island, pass.force) : 0;
      for (int k = first; k < end; k++) {
        const Block& block = pass.blocks[static_cast<size_t>(k)];
        const Local in(workspace.projection, block, pass.force, pass.b);
        double to[kMaxEllipse];
        Case which = update(d, block, in, pass.force, to);
        double change = in.cost_change(to);
        if (block.kind != Kind::kFrictionLoss && change > kLargestGrowth) {
          which = Case::kRestored;
          std::copy_n(in.old, in.n, to);
          change = 0;
        }
        improvement -= change;
        pass.updates.push_back({k, which, static_cast<int>(pass.sweeps.size())});
        pass.before.insert(pass.before.end(), in.old, in.old + in.n);
        std::copy_n(to, in.n, pass.force.begin() + block.row);
      }
      improvement /= trace;
      pass.sweeps.push_back({island, sweep, improvement});
      if (m->opt.noslip_tolerance > 0 && sweep + 1 < m->opt.noslip_iterations) {
        pass.stop_distance =
            std::min(pass.stop_distance, relative(improvement, m->opt.noslip_tolerance));
      }
      if (improvement < m->opt.noslip_tolerance) break;
    }
  }
}

void noslip_sweeps_pullback(const mjModel*, const mjData* d, Vec b_bar, Workspace& workspace) {
  Noslip& pass = workspace.noslip;
  Projection& A = workspace.projection;
  const auto nefc = static_cast<size_t>(d->nefc);
  std::fill(b_bar.begin(), b_bar.end(), 0.0);
  pass.friction_bar.assign(static_cast<size_t>(d->ncon), {});
  pass.frictionloss_bar.assign(nefc, 0.0);
  pass.replay = pass.force;
  size_t before = pass.before.size();
  for (size_t i = pass.updates.size(); i-- > 0;) {
    const Block& block = pass.blocks[static_cast<size_t>(pass.updates[i].block)];
    const auto row = static_cast<size_t>(block.row), n = static_cast<size_t>(block.n);
    before -= n;
    double to_bar[kMaxEllipse];
    bool any = false;
    for (size_t k = 0; k < n; k++) {
      to_bar[k] = pass.force_bar[row + k];
      any = any || to_bar[k] != 0;
      pass.force_bar[row + k] = 0;
      pass.replay[row + k] = pass.before[before + k];
    }
    if (!any) continue;
    const Local in(A, block, pass.replay, pass.b);
    LocalBar bar;
    update_pullback(d, block, pass.updates[i].which, in, to_bar, bar, pass);
    for (int k = 0; k < block.n; k++) {
      const auto at = row + static_cast<size_t>(k);
      pass.force_bar[at] += bar.old[k];
      b_bar[at] += bar.residual[k];
      for (int j = 0; j < block.n; j++) {
        if (j == k && in.raised[k]) continue;
        A.A_bar[static_cast<size_t>(block.diagonal[static_cast<size_t>(k)] + j)] +=
            bar.matrix[k * block.n + j];
      }
      row_product_pullback(A, at, pass.replay, bar.residual[k], pass.force_bar);
    }
  }
  pass.main_force_bar = pass.force_bar;
}

void noslip_case_distances(const mjData* d, std::vector<double>& share, Workspace& workspace) {
  const Noslip& pass = workspace.noslip;
  share.assign(pass.blocks.size(), 1.0);
  for_each_update(d, workspace, [&](size_t i, const std::optional<Reach>& reach) {
    double& nearest = share[static_cast<size_t>(pass.updates[i].block)];
    if (reach) nearest = std::min(nearest, relative(reach->size, reach->bound));
  });
}

void noslip_case_margins(const mjData* d, std::vector<double>& margin, Workspace& workspace) {
  margin.assign(workspace.noslip.updates.size(), std::numeric_limits<double>::quiet_NaN());
  for_each_update(d, workspace, [&](size_t i, const std::optional<Reach>& reach) {
    if (reach) margin[i] = reach->bound - reach->size;
  });
}

void noslip_solve(const StageModel& impl, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  Noslip& pass = workspace.noslip;
  try {
    mj_call("mj_fwdConstraint", [&] { mj_fwdConstraint(impl.main_solver(), d); });
  } catch (const MujocoError&) {
    reset_keeping_mocap(impl, workspace);
    throw;
  }
  pass.qacc.assign(d->qacc, d->qacc + impl.nv);
  newton_factorize(m, d, pass.qacc, workspace);
  pass.main_force.assign(d->efc_force, d->efc_force + d->nefc);
  pass.b.assign(d->efc_b, d->efc_b + d->nefc);
  projection_read(m, d, workspace);
  projection_solve(m, d, workspace);
  noslip_sweeps(m, d, workspace);
  pass.change.resize(pass.force.size());
  eigen(Vec(pass.change)) = eigen(CVec(pass.force)) - eigen(CVec(pass.main_force));
}

void noslip_pullback(const StageModel& impl, CVec mu, CVec force_bar, Vec a_bar,
                     Workspace& workspace) {
  const mjModel* m = impl.mj();
  const mjData* d = workspace.data.get();
  Noslip& pass = workspace.noslip;
  Projection& A = workspace.projection;
  const auto nefc = static_cast<size_t>(d->nefc);
  A.A_bar.assign(A.A.size(), 0.0);
  pass.y_bar.resize(nefc);
  pass.force_bar.resize(nefc);
  std::vector<double>& J_mu = workspace.constraint.J_lambda;
  J_mu.resize(nefc);
  if (nefc == 0) return;
  mj_call("mj_mulJacVec", [&] { mj_mulJacVec(m, d, J_mu.data(), mu.data()); });
  pass.force_bar.assign(J_mu.begin(), J_mu.end());
  if (!force_bar.empty()) eigen(Vec(pass.force_bar)) += eigen(force_bar);
  noslip_sweeps_pullback(m, d, pass.y_bar, workspace);

  // f - f₀ has f₀ too, and so has b = y - A f₀
  eigen(Vec(pass.main_force_bar)) -= eigen(CVec(J_mu));
  for (size_t i = 0; i < nefc; i++) {
    row_product_pullback(A, i, pass.main_force, -pass.y_bar[i], pass.main_force_bar);
  }

  // a₀ through y and through f₀
  mj_call("mj_mulJacTVec",
          [&] { mj_mulJacTVec(m, d, workspace.newton.H_lambda.data(), pass.y_bar.data()); });
  eigen(a_bar) += eigen(CVec(workspace.newton.H_lambda));
  constraint_force_to_acceleration(m, d, pass.main_force_bar, a_bar, workspace);
}

void noslip_jacobian_pullback(const mjData* d, CVec mu, Workspace& workspace) {
  Projection& p = workspace.projection;
  for (size_t i = 0; i < static_cast<size_t>(d->nefc); i++) {
    eigen(Vec(p.J_bar).subspan(i * mu.size(), mu.size())) += workspace.noslip.change[i] * eigen(mu);
  }
}

void noslip_parameters_pullback(const mjModel* m, const mjData* d, const ParameterBar& params,
                                Workspace& workspace) {
  const Noslip& pass = workspace.noslip;
  if (const Vec bar = params[Parameter::kDofFrictionloss]; !bar.empty()) {
    for (int i = 0; i < d->nefc; i++) {
      if (d->efc_type[i] != mjCNSTR_FRICTION_DOF) continue;
      bar[static_cast<size_t>(d->efc_id[i])] += pass.frictionloss_bar[static_cast<size_t>(i)];
    }
  }
  if (!params.wants(Parameter::kGeomFriction) && !params.wants(Parameter::kPairFriction)) return;
  for (int c = 0; c < d->ncon; c++) {
    for (int k = 0; k < 5; k++) {
      const double bar = pass.friction_bar[static_cast<size_t>(c)][static_cast<size_t>(k)];
      if (bar != 0) contact_friction_pullback(m, d->contact[c], k, bar, params, workspace);
    }
  }
}

}  // namespace diffmj
