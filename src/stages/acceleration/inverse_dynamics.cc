#include "stages/acceleration/inverse_dynamics.h"

#include <algorithm>

namespace diffmj {
namespace {

SpatialInertia body_inertia(const mjModel* m, const mjData* d, int body) {
  const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(d->ximat + 9 * body);
  return {.mass = m->body_mass[body],
          .com = Vector3(d->xipos + 3 * body),
          .inertia = R * Vector3(m->body_inertia + 3 * body).asDiagonal() * R.transpose()};
}

// Calls fn(frame, inertia) for every body that moves.
template <class Fn>
void for_each_body(const mjModel* m, const mjData* d, const JointFrames& frames, Fn&& fn) {
  for (int body = 1; body < static_cast<int>(m->nbody); body++) {
    const int frame = frames.body_frame[static_cast<size_t>(body)];
    if (frame >= 0) fn(static_cast<size_t>(frame), body_inertia(m, d, body));
  }
}

}  // namespace

InverseDynamicsScratch::InverseDynamicsScratch(const mjModel* m) {
  for (auto* x : {&L, &V, &A, &L_bar, &V_bar, &A_bar}) {
    x->resize(static_cast<size_t>(m->njnt), Vector6::Zero());
  }
}

double inverse_dynamics(const mjModel* m, const mjData* d, const JointFrames& frames,
                        const InverseDynamicsIn& in, InverseDynamicsScratch& s) {
  // frames, from the root
  Vector6 world;
  world << Vector3::Zero(), -in.gravity;
  for (size_t j = 0; j < frames.parent.size(); j++) {
    const int parent = frames.parent[j];
    const auto p = static_cast<size_t>(parent);
    s.L[j] = parent >= 0 ? s.L[p] : Vector6::Zero();
    s.V[j] = parent >= 0 ? s.V[p] : Vector6::Zero();
    s.A[j] = parent >= 0 ? s.A[p] : world;
    const auto begin = static_cast<size_t>(m->jnt_dofadr[j]);
    const size_t end = begin + static_cast<size_t>(dof_count(m->jnt_type[j]));
    for (size_t k = begin; k < end; k++) {
      s.L[j] += frames.S[k] * in.lambda[k];
      s.V[j] += frames.S[k] * in.qvel[k];
      s.A[j] += frames.S[k] * in.qacc[k];
    }
    for (size_t k = begin; k < end; k++) {
      if (frames.carried[k]) s.A[j] += cross_motion(s.V[j], frames.S[k]) * in.qvel[k];
    }
  }

  double phi = 0;
  for_each_body(m, d, frames, [&](size_t j, const SpatialInertia& I) {
    phi += s.L[j].dot(I * s.A[j] + cross_force(s.V[j], I * s.V[j]));
  });
  for (size_t k = 0; k < in.lambda.size(); k++) {
    phi += m->dof_armature[k] * in.lambda[k] * in.qacc[k];
  }
  return phi;
}

void inverse_dynamics_pullback(const mjModel* m, const mjData* d, const JointFrames& frames,
                               const InverseDynamicsIn& in, double phi_bar,
                               InverseDynamicsScratch& s, std::vector<Vector6>& W, Vec qvel_bar,
                               Vec lambda_bar) {
  for (auto* x : {&s.L_bar, &s.V_bar, &s.A_bar}) std::fill(x->begin(), x->end(), Vector6::Zero());

  // bodies: φ in the frame of the body, in which I is constant
  for_each_body(m, d, frames, [&](size_t j, const SpatialInertia& I) {
    const Vector6 &L = s.L[j], &V = s.V[j], &A = s.A[j];
    const Vector6 h = I * V;
    const Vector6 L_bar = phi_bar * (I * A + cross_force(V, h));
    const Vector6 A_bar = phi_bar * (I * L);
    const Vector6 V_bar = phi_bar * (I * cross_motion(L, V) - cross_force(L, h));
    s.L_bar[j] += L_bar;
    s.A_bar[j] += A_bar;
    s.V_bar[j] += V_bar;
    // δ in the body's frame is δX - ξ × X
    W[j] -= cross_force(L, L_bar) + cross_force(V, V_bar) + cross_force(A, A_bar);
  });

  // frames, from the leaves; the sums over all frames behind a joint are complete when it is
  // reached
  for (size_t j = frames.parent.size(); j-- > 0;) {
    const auto begin = static_cast<size_t>(m->jnt_dofadr[j]);
    const size_t end = begin + static_cast<size_t>(dof_count(m->jnt_type[j]));

    // A += (V × S) v: this frame's V
    for (size_t k = begin; k < end; k++) {
      if (frames.carried[k]) s.V_bar[j] += in.qvel[k] * cross_force(frames.S[k], s.A_bar[j]);
    }
    const Vector6 turning = cross_force(s.V[j], s.A_bar[j]);
    for (size_t k = begin; k < end; k++) {
      const Vector6& S = frames.S[k];
      // V += S v,  A += (V × S) v
      qvel_bar[k] += S.dot(s.V_bar[j]);
      if (frames.carried[k]) {
        qvel_bar[k] -= S.dot(turning);
        // δS = ξ × S of this frame
        const Vector6 S_bar = in.lambda[k] * s.L_bar[j] + in.qacc[k] * s.A_bar[j] +
                              in.qvel[k] * (s.V_bar[j] - turning);
        W[j] += cross_force(S, S_bar);
      }
      if (!lambda_bar.empty()) {
        lambda_bar[k] += S.dot(s.L_bar[j]) + phi_bar * m->dof_armature[k] * in.qacc[k];
      }
    }

    const int parent = frames.parent[j];
    if (parent < 0) continue;
    const auto p = static_cast<size_t>(parent);
    s.L_bar[p] += s.L_bar[j];
    s.V_bar[p] += s.V_bar[j];
    s.A_bar[p] += s.A_bar[j];
  }
}

}  // namespace diffmj
