// Residuals at frames: distances, orientations, velocities.
#include <algorithm>

#include "base/rotation.h"
#include "diffmj/error.h"
#include "plan/reference.h"
#include "plan/residual.h"

namespace diffmj {
namespace {

using Matrix3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

// where a frame's numbers are
struct FrameSource {
  const Observable* position = nullptr;  // null: fixed
  const Observable* rotation = nullptr;  // null: not needed
  int id = 0;
  int body = 0;            // that carries it
  TargetRows pos, quat;    // of the Frame
  bool at_origin = false;  // pos is 0

  template <class Rows>
  static auto* row(const Observable& x, Rows& poses, const Model& model, int i, int id) {
    const auto width = static_cast<size_t>(x.size(model));
    return (poses.*x.values).data() + static_cast<size_t>(i) * width +
           static_cast<size_t>(id * x.width);
  }
  static double time(const Trajectory& t, int i) { return t.time[static_cast<size_t>(i)]; }
  Matrix3 matrix(const Model& model, const Trajectory& t, const Poses& poses, int i) const {
    if (rotation) return Eigen::Map<const Matrix3>(row(*rotation, poses, model, i, id));
    mjtNum at[4];
    Matrix3 out;
    quat.at(time(t, i)).quat(0, at);
    mju_quat2Mat(out.data(), at);
    return out;
  }
  Vector3 offset(const Trajectory& t, int i) const {
    const TargetRows::Row x = pos.at(time(t, i));
    return {x[0], x[1], x[2]};
  }
  Vector3 point(const Model& model, const Trajectory& t, const Poses& poses, int i) const {
    if (!position) return offset(t, i);
    const Vector3 x = Eigen::Map<const Vector3>(row(*position, poses, model, i, id));
    if (at_origin) return x;
    return x + matrix(model, t, poses, i) * offset(t, i);
  }
  // p = x + R pos
  void point_pullback(const Model& model, const Trajectory& t, int i, const Vector3& p_bar,
                      CostBars& bars) const {
    if (!position) return;
    Eigen::Map<Vector3>(row(*position, bars.poses, model, i, id)) += p_bar;
    if (at_origin) return;
    Eigen::Map<Matrix3>(row(*rotation, bars.poses, model, i, id)) +=
        p_bar * offset(t, i).transpose();
  }
  // R turns by w (world axes): R_bar·dR = w_bar·w has  R_bar = ½ [w_bar]× R
  void rotation_pullback(const Model& model, const Trajectory& t, const Poses& poses, int i,
                         const Vector3& w_bar, CostBars& bars) const {
    if (!rotation) return;
    const Matrix3 R = matrix(model, t, poses, i);
    Eigen::Map<Matrix3> R_bar(row(*rotation, bars.poses, model, i, id));
    for (int k = 0; k < 3; k++) R_bar.col(k) += 0.5 * w_bar.cross(Vector3(R.col(k)));
  }
  // adds sign ∂p/∂q to to (3 x nv, row-major)
  void point_jacobian(JacobianPlace& place, double sign, Vec to) const {
    if (!position) return;
    const Vector3 p = point(place.model, place.trajectory, place.poses, place.state());
    const double* J = position->values == &Poses::subtree_com ? place.subtree(id)
                                                              : place.point(body, p.data()).linear;
    for (size_t k = 0; k < to.size(); k++) to[k] += sign * J[k];
  }
  // the same of the angular velocity, in world axes
  void rotation_jacobian(JacobianPlace& place, double sign, Vec to) const {
    if (!rotation) return;
    const Vector3 origin = Vector3::Zero();
    const double* J = place.point(body, origin.data()).angular;
    for (size_t k = 0; k < to.size(); k++) to[k] += sign * J[k];
  }
};

// rows of factor J, where J is 3 x nv in qpos
void add_rows(const Matrix3& factor, CVec J, JacobianRows& out) {
  const auto nv = J.size() / 3;
  for (int k = 0; k < 3; k++) {
    for (size_t c = 0; c < nv; c++) {
      out.add(static_cast<int>(c),
              factor(k, 0) * J[c] + factor(k, 1) * J[nv + c] + factor(k, 2) * J[2 * nv + c]);
    }
    out.end_row();
  }
}

struct KindNames {
  int type;
  const char *position, *rotation;
};
KindNames names_of(Frame::Kind kind) {
  switch (kind) {
    case Frame::Kind::kSite:
      return {mjOBJ_SITE, "site_xpos", "site_xmat"};
    case Frame::Kind::kGeom:
      return {mjOBJ_GEOM, "geom_xpos", "geom_xmat"};
    case Frame::Kind::kSubtree:
      return {mjOBJ_BODY, "subtree_com", nullptr};
    default:
      return {mjOBJ_BODY, "xpos", "xmat"};
  }
}

// given: where it is the default, a reference may replace it
template <size_t N>
TargetRows rows_of(const std::string& who, const char* name, const std::array<double, N>& given,
                   const std::array<double, N>& otherwise, const Reference& over_time) {
  std::vector<double> numbers;
  if (given != otherwise) numbers.assign(given.begin(), given.end());
  return {who, name, numbers, over_time, {otherwise.begin(), otherwise.end()}};
}

// turned: the orientation is needed
FrameSource source(const std::string& who, const Model& model, const Frame& frame, bool turned) {
  FrameSource out;
  out.pos = rows_of(who, "pos", frame.pos, {0, 0, 0}, frame.pos_over_time);
  if (frame.kind == Frame::Kind::kFixed) {
    out.quat = rows_of(who, "quat", frame.quat, {1, 0, 0, 0}, frame.quat_over_time);
    if (!out.quat.normalize(0)) {
      throw InputError(who + ": the quaternion of a fixed frame is zero; give a rotation");
    }
    return out;
  }
  if (!frame.quat_over_time.time.empty()) {
    throw InputError(who + ": '" + frame.name +
                     "' has an orientation of its own; quaternions over time are for fixed frames");
  }
  const auto [type, position, rotation] = names_of(frame.kind);
  out.id = element_id(who, model, type, frame.name);
  out.body = type == mjOBJ_SITE   ? model.mj()->site_bodyid[out.id]
             : type == mjOBJ_GEOM ? model.mj()->geom_bodyid[out.id]
                                  : out.id;
  out.position = &observable(position);
  out.at_origin = frame.pos_over_time.time.empty() && frame.pos == std::array{0.0, 0.0, 0.0};
  if (!turned && out.at_origin) return out;
  if (!rotation) {
    throw InputError(who + ": the centre of mass of '" + frame.name +
                     "' has no orientation; use its body, a site or a geom");
  }
  out.rotation = &observable(rotation);
  return out;
}

void add_sources(const FrameSource& x, bool position, std::vector<const Observable*>& to) {
  if (position && x.position) to.push_back(x.position);
  if (x.rotation) to.push_back(x.rotation);
}

class DistanceResidual : public Residual {
 public:
  DistanceResidual(const std::string& who, const Model& model, const Distance& of)
      : from_(source(who, model, of.from, false)),
        to_(source(who, model, of.to, false)),
        axes_(of.axes.data()) {
    size_ = 3;
    add_sources(from_, true, observables_);
    add_sources(to_, true, observables_);
  }
  void value(const Model& model, const Trajectory& t, const Poses& poses, int i,
             Vec r) const override {
    eigen(r) = axes_.cwiseProduct(from_.point(model, t, poses, i) - to_.point(model, t, poses, i));
  }
  void pullback(const Model& model, const Trajectory& t, const Poses&, int i, CVec, CVec r_bar,
                CostBars& bars) const override {
    const Vector3 bar = axes_.cwiseProduct(Vector3(r_bar.data()));
    from_.point_pullback(model, t, i, bar, bars);
    to_.point_pullback(model, t, i, -bar, bars);
  }
  void jacobian(JacobianPlace& place, CVec, JacobianRows& out) const override {
    place.scratch.assign(3 * static_cast<size_t>(place.model.nv()), 0.0);
    from_.point_jacobian(place, 1, place.scratch);
    to_.point_jacobian(place, -1, place.scratch);
    add_rows(axes_.asDiagonal().toDenseMatrix(), place.scratch, out);
  }

 private:
  FrameSource from_, to_;
  Vector3 axes_;
};

// R_toᵀ R_from = exp(r)
class OrientationResidual : public Residual {
 public:
  OrientationResidual(const std::string& who, const Model& model, const Orientation& of)
      : from_(source(who, model, of.from, true)), to_(source(who, model, of.to, true)) {
    size_ = 3;
    add_sources(from_, false, observables_);
    add_sources(to_, false, observables_);
  }
  void value(const Model& model, const Trajectory& t, const Poses& poses, int i,
             Vec r) const override {
    const Matrix3 R = to_.matrix(model, t, poses, i).transpose() * from_.matrix(model, t, poses, i);
    mjtNum quat[4];
    mju_mat2Quat(quat, R.data());
    mju_quat2Vel(r.data(), quat, 1);
  }
  void pullback(const Model& model, const Trajectory& t, const Poses& poses, int i, CVec r,
                CVec r_bar, CostBars& bars) const override {
    // `from` turning by w in its own axes: dr = Jr(r)⁻¹ w, and Jr(r)⁻ᵀ = Jr(-r)⁻¹
    const Vector3 own = dexpinv(-Vector3(r.data()), Vector3(r_bar.data()));
    const Vector3 world = from_.matrix(model, t, poses, i) * own;
    from_.rotation_pullback(model, t, poses, i, world, bars);
    to_.rotation_pullback(model, t, poses, i, -world, bars);
  }
  void jacobian(JacobianPlace& place, CVec r, JacobianRows& out) const override {
    place.scratch.assign(3 * static_cast<size_t>(place.model.nv()), 0.0);
    from_.rotation_jacobian(place, 1, place.scratch);
    to_.rotation_jacobian(place, -1, place.scratch);
    // dr = Jr(r)⁻¹ R_fromᵀ (w_from - w_to)
    const Matrix3 R = from_.matrix(place.model, place.trajectory, place.poses, place.state());
    Matrix3 factor;
    for (int k = 0; k < 3; k++) factor.col(k) = dexpinv(Vector3(r.data()), Vector3(R.row(k)));
    add_rows(factor, place.scratch, out);
  }

 private:
  FrameSource from_, to_;
};

class FrameVelocityResidual : public Residual {
 public:
  FrameVelocityResidual(const std::string& who, const Model& model, const FrameVelocity& of)
      : target_(rows_of(who, "target", of.target, {0, 0, 0}, of.reference)) {
    const bool site = of.frame.kind == Frame::Kind::kSite;
    if (!site && of.frame.kind != Frame::Kind::kBody) {
      throw InputError(who + ": only sites and bodies have a velocity; use one of them");
    }
    if (of.frame.pos != std::array<double, 3>{0, 0, 0}) {
      throw InputError(who +
                       ": a velocity is that of the frame itself, so pos must be 0; put a "
                       "site at the point");
    }
    size_ = 3;
    id_ = element_id(who, model, site ? mjOBJ_SITE : mjOBJ_BODY, of.frame.name);
    observables_ = {&observable(site ? (of.angular ? "site_angvel" : "site_linvel")
                                     : (of.angular ? "body_angvel" : "body_linvel"))};
  }
  void value(const Model& model, const Trajectory& t, const Poses& poses, int i,
             Vec r) const override {
    const double* v = FrameSource::row(*observables_[0], poses, model, i, id_);
    const TargetRows::Row target = target_.at(FrameSource::time(t, i));
    for (size_t k = 0; k < 3; k++) r[k] = v[k] - target[k];
  }
  void pullback(const Model& model, const Trajectory&, const Poses&, int i, CVec, CVec r_bar,
                CostBars& bars) const override {
    Eigen::Map<Vector3>(FrameSource::row(*observables_[0], bars.poses, model, i, id_)) +=
        Vector3(r_bar.data());
  }
  void jacobian(JacobianPlace& place, CVec, JacobianRows& out) const override {
    const Observable& of = *observables_[0];
    place.scratch.assign(static_cast<size_t>(of.size(place.model)), 0.0);
    PoseBar bar;
    for (const auto& [values, to] : {std::pair{&Poses::body_linvel, &PoseBar::body_linvel},
                                     {&Poses::body_angvel, &PoseBar::body_angvel},
                                     {&Poses::site_linvel, &PoseBar::site_linvel},
                                     {&Poses::site_angvel, &PoseBar::site_angvel}}) {
      if (of.values == values) bar.*to = place.scratch;
    }
    for (int k = 0; k < 3; k++) {
      double& unit = place.scratch[static_cast<size_t>(3 * id_ + k)];
      unit = 1;
      const CVec row = place.pose_row(bar);
      unit = 0;
      for (size_t c = 0; c < row.size(); c++) out.add(static_cast<int>(c), row[c]);
      out.end_row();
    }
  }

 private:
  int id_ = 0;
  TargetRows target_;
};

}  // namespace

std::unique_ptr<Residual> make_distance(const std::string& who, const Model& model,
                                        const Distance& of) {
  return std::make_unique<DistanceResidual>(who, model, of);
}
std::unique_ptr<Residual> make_orientation(const std::string& who, const Model& model,
                                           const Orientation& of) {
  return std::make_unique<OrientationResidual>(who, model, of);
}
std::unique_ptr<Residual> make_frame_velocity(const std::string& who, const Model& model,
                                              const FrameVelocity& of) {
  return std::make_unique<FrameVelocityResidual>(who, model, of);
}

}  // namespace diffmj
