// Vertices of meshes and of the prisms that a height field is made of, in local axes.
#ifndef DIFFMJ_STAGES_POSITION_COLLISION_VERTICES_H_
#define DIFFMJ_STAGES_POSITION_COLLISION_VERTICES_H_

#include <algorithm>
#include <array>
#include <cmath>

#include "stages/position/collision/pair.h"

namespace diffmj {

inline Vector3 mesh_vertex(const GeomPose& geom, int i) {
  const int id = geom.m->geom_dataid[geom.id];
  const float* v = geom.m->mesh_vert + 3 * (static_cast<ptrdiff_t>(geom.m->mesh_vertadr[id]) + i);
  return {static_cast<double>(v[0]), static_cast<double>(v[1]), static_cast<double>(v[2])};
}

// Those of a mesh's convex hull; all of them if MuJoCo keeps no graph of it.
class HullVertices {
 public:
  explicit HullVertices(const GeomPose& geom) : geom_(geom) {
    const int id = geom.m->geom_dataid[geom.id], graph = geom.m->mesh_graphadr[id];
    count_ = geom.m->mesh_vertnum[id];
    if (graph < 0) return;
    // numbers of vertices and faces, addresses of edges, then which vertices they are
    count_ = geom.m->mesh_graph[graph];
    index_ = geom.m->mesh_graph + graph + 2 + count_;
  }

  int size() const { return count_; }
  Vector3 operator[](int i) const { return mesh_vertex(geom_, index_ ? index_[i] : i); }

 private:
  const GeomPose& geom_;
  int count_ = 0;
  const int* index_ = nullptr;
};

// Calls fn(top, bottom) for the prisms in the cells around a local point, two per cell, until it
// returns true. The corners of the top are counted round as seen from above; its base is at the
// height `bottom`.
template <class F>
bool visit_prisms(const GeomPose& hfield, const Vector3& point, const F& fn) {
  const mjModel* m = hfield.m;
  const int id = m->geom_dataid[hfield.id], nrow = m->hfield_nrow[id], ncol = m->hfield_ncol[id];
  const mjtNum* size = m->hfield_size + 4 * static_cast<ptrdiff_t>(id);
  const float* data = m->hfield_data + m->hfield_adr[id];
  const double dx = 2 * size[0] / (ncol - 1), dy = 2 * size[1] / (nrow - 1);
  const auto vertex = [&](int row, int column) {
    return Vector3(dx * column - size[0], dy * row - size[1],
                   static_cast<double>(data[row * ncol + column]) * size[2]);
  };
  const int row = static_cast<int>(std::floor((point[1] + size[1]) / dy)),
            column = static_cast<int>(std::floor((point[0] + size[0]) / dx));
  for (int r = std::max(0, row - 1); r <= std::min(nrow - 2, row + 1); r++) {
    for (int c = std::max(0, column - 1); c <= std::min(ncol - 2, column + 1); c++) {
      const Vector3 first = vertex(r, c), last = vertex(r + 1, c + 1);
      if (fn(std::array<Vector3, 3>{first, last, vertex(r + 1, c)}, -size[3])) return true;
      if (fn(std::array<Vector3, 3>{first, vertex(r, c + 1), last}, -size[3])) return true;
    }
  }
  return false;
}

}  // namespace diffmj

#endif  // DIFFMJ_STAGES_POSITION_COLLISION_VERTICES_H_
