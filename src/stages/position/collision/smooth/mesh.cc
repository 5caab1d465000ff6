#include "stages/position/collision/smooth/mesh.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/spatial.h"
#include "stages/position/collision/smooth/convex_shape.h"
#include "stages/position/collision/smooth/smoothing.h"

namespace diffmj {
namespace {

// where planes through a vertex meet after they were moved inward: N δ = -r, N's rows the normals,
// given Σ n nᵀ and Σ n
Vector3 drawn_in(const Eigen::Matrix3d& sum_nn, const Vector3& sum_n, double r) {
  const Eigen::SelfAdjointEigenSolver<Eigen::Matrix3d> eigen(sum_nn);
  // faces that are nearly one do not say where along them
  constexpr double kFlat = 0.02;
  Vector3 delta = Vector3::Zero();
  for (int k = 0; k < 3; k++) {
    const double value = eigen.eigenvalues()[k];
    if (value < kFlat * eigen.eigenvalues()[2] || value == 0) continue;
    const Vector3 u = eigen.eigenvectors().col(k);
    delta -= r * u.dot(sum_n) / value * u;
  }
  // a needle's tip would go far
  const double length = delta.norm(), most = 3 * r;
  return length > most ? Vector3(most / length * delta) : delta;
}

// Areas of the hull by their normals: what is flat, and large enough to be meant.
class FaceNormals {
 public:
  void add(const Vector3& n, double area) {
    constexpr double kSame = 1e-3;
    const Eigen::Array3d cell = (n.array() / kSame).round();
    Face& face = faces_[{cell[0], cell[1], cell[2]}];
    face.normal += area * n;
    face.area += area;
    total_ += area;
  }
  // Those that are farther than `apart` from all others.
  std::vector<Vec3<double>> apart(double apart) const {
    constexpr double kShare = 0.03;  // of the hull
    std::vector<Vector3> large;
    for (const auto& [cell, face] : faces_) {
      if (face.area > kShare * total_) large.push_back(face.normal.normalized());
    }
    std::vector<Vec3<double>> out;
    for (const Vector3& n : large) {
      const auto near = std::count_if(large.begin(), large.end(), [&](const Vector3& other) {
        return (other - n).norm() < apart;
      });
      if (near == 1) out.push_back({n[0], n[1], n[2]});
    }
    return out;
  }

 private:
  struct Face {
    Vector3 normal = Vector3::Zero();
    double area = 0;
  };
  std::map<std::array<double, 3>, Face> faces_;
  double total_ = 0;
};

}  // namespace

SmoothMesh::SmoothMesh(const mjModel* m, int mesh, double width) {
  // numbers of vertices and faces, addresses of edges, which vertices they are, edges, faces
  const int* graph = m->mesh_graph + m->mesh_graphadr[mesh];
  const int nvert = graph[0], nface = graph[1];
  const int *edge_address = graph + 2, *global = edge_address + nvert, *edge = global + nvert,
            *face = edge + nvert + 3 * nface;
  const auto vertex = [&](int id) {
    const float* v = m->mesh_vert + 3 * (static_cast<ptrdiff_t>(m->mesh_vertadr[mesh]) + id);
    return Vector3(static_cast<double>(v[0]), static_cast<double>(v[1]), static_cast<double>(v[2]));
  };
  Vector3 low = Vector3::Constant(INFINITY), high = -low, centre = Vector3::Zero();
  std::vector<int> local(static_cast<size_t>(m->mesh_vertnum[mesh]), -1);
  for (int i = 0; i < nvert; i++) {
    const Vector3 v = vertex(global[i]);
    low = low.cwiseMin(v);
    high = high.cwiseMax(v);
    centre += v / nvert;
    local[static_cast<size_t>(global[i])] = i;
  }
  const Vector3 half = 0.5 * (high - low);
  width_ = shape_width(width, half[0], half[1], half[2]);
  rounding_ = kRounding * width_;
  extent_ = half.minCoeff();

  std::vector<Eigen::Matrix3d> sum_nn(static_cast<size_t>(nvert), Eigen::Matrix3d::Zero());
  std::vector<Vector3> sum_n(static_cast<size_t>(nvert), Vector3::Zero());
  struct Facet {
    Vector3 normal, middle;
  };
  std::map<std::pair<int, int>, Facet> first_of_edge;
  FaceNormals faces;
  for (int f = 0; f < nface; f++) {
    const Vector3 a = vertex(face[3 * f]), b = vertex(face[3 * f + 1]), c = vertex(face[3 * f + 2]);
    Vector3 n = (b - a).cross(c - a);
    const double area = n.norm() / 2;
    if (!(area > 0)) continue;
    n.normalize();
    if (n.dot(a - centre) < 0) n = -n;
    for (int k = 0; k < 3; k++) {
      const auto i = static_cast<size_t>(local[static_cast<size_t>(face[3 * f + k])]);
      sum_nn[i] += n * n.transpose();
      sum_n[i] += n;
    }
    faces.add(n, area);
    const Facet facet{n, (a + b + c) / 3};
    for (int k = 0; k < 3; k++) {
      const auto edge_of = std::minmax(face[3 * f + k], face[3 * f + (k + 1) % 3]);
      const auto [other, is_new] = first_of_edge.try_emplace(edge_of, facet);
      if (is_new) continue;
      // facets that are one, and edges that are meant, say nothing
      const double angle = std::acos(std::clamp(n.dot(other->second.normal), -1.0, 1.0));
      if (angle < 1e-3 || angle > 0.5) continue;
      roundness_ = std::max(roundness_, (facet.middle - other->second.middle).norm() / angle);
    }
  }
  roundness_ = std::min(roundness_, half.maxCoeff());
  faces_ = faces.apart(4 * eps());
  first_.assign(1, 0);
  for (int i = 0; i < nvert; i++) {
    const auto k = static_cast<size_t>(i);
    const Vector3 v = vertex(global[i]) + drawn_in(sum_nn[k], sum_n[k], rounding_);
    core_.push_back({v[0], v[1], v[2]});
    for (int e = edge_address[i]; edge[e] >= 0; e++) next_.push_back(edge[e]);
    first_.push_back(static_cast<int>(next_.size()));
  }
  // neighbours are near each other in the list, so that many can be left out at once
  Eigen::Index longest = 0;
  half.maxCoeff(&longest);
  std::vector<Vector3> sorted;
  for (const Vec3<double>& v : core_) sorted.emplace_back(v.x, v.y, v.z);
  std::sort(sorted.begin(), sorted.end(),
            [=](const Vector3& a, const Vector3& b) { return a[longest] < b[longest]; });
  vertices_.resize(nvert, 3);
  for (int i = 0; i < nvert; i++) vertices_.row(i) = sorted[static_cast<size_t>(i)];
}

void SmoothMesh::near(const Vec3<double>& v, double tilt, double reach,
                      std::vector<Vec3<double>>& out) const {
  struct Scratch {
    std::vector<int> todo;
    std::vector<unsigned> seen;
    unsigned stamp = 0;
  };
  static thread_local Scratch scratch;
  auto& [todo, seen, stamp] = scratch;
  // climb
  size_t top = 0;
  double height = dot(v, core_[0]);
  for (bool climbs = true; climbs;) {
    climbs = false;
    for (int e = first_[top]; e < first_[top + 1]; e++) {
      const auto next = static_cast<size_t>(next_[static_cast<size_t>(e)]);
      const double h = dot(v, core_[next]);
      if (h <= height) continue;
      height = h;
      top = next;
      climbs = true;
      break;
    }
  }
  // and go on to what is near
  if (seen.size() < core_.size()) seen.resize(core_.size(), stamp);
  if (++stamp == 0) {
    std::fill(seen.begin(), seen.end(), 0);
    stamp = 1;
  }
  out.clear();
  todo.assign(1, static_cast<int>(top));
  seen[top] = stamp;
  while (!todo.empty()) {
    const auto i = static_cast<size_t>(todo.back());
    todo.pop_back();
    out.push_back(core_[i]);
    for (int e = first_[i]; e < first_[i + 1]; e++) {
      const auto next = static_cast<size_t>(next_[static_cast<size_t>(e)]);
      if (seen[next] == stamp) continue;
      const Vec3<double> way = core_[next] - core_[top];
      if (-dot(v, way) > reach + tilt * norm(way)) continue;
      seen[next] = stamp;
      todo.push_back(static_cast<int>(next));
    }
  }
}

SmoothMeshes::SmoothMeshes(const mjModel* m, double width) : mesh_(static_cast<size_t>(m->nmesh)) {
  for (int g = 0; g < static_cast<int>(m->ngeom); g++) {
    const int id = m->geom_dataid[g];
    if (m->geom_type[g] != mjGEOM_MESH || id < 0 || m->mesh_graphadr[id] < 0) continue;
    SmoothMesh& mesh = mesh_[static_cast<size_t>(id)];
    if (mesh.is_empty()) mesh = SmoothMesh(m, id, width);
  }
}

}  // namespace diffmj
