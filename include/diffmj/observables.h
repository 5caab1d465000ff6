// The observables of poses() as a table, for code that takes them by name.
#ifndef DIFFMJ_OBSERVABLES_H_
#define DIFFMJ_OBSERVABLES_H_

#include <span>
#include <string>
#include <vector>

#include "diffmj/gradient.h"
#include "diffmj/model.h"
#include "diffmj/rollout.h"

namespace diffmj {

// Has one row per state, with width numbers for each element (body, site or geom) of the model.
struct Observable {
  const char* name;  // "site_xpos"
  int element;       // mjtObj: mjOBJ_BODY, mjOBJ_SITE or mjOBJ_GEOM
  int width;         // numbers per element: 3, 4 or 9
  std::vector<double> Poses::*values;
  std::span<const double> Cotangents::*cotangent;

  int count(const Model& model) const;                                 // elements
  int size(const Model& model) const { return width * count(model); }  // numbers per state
};

// All of them.
std::span<const Observable> observables();
// By name; an InputError lists the valid names.
const Observable& observable(const std::string& name);

}  // namespace diffmj

#endif  // DIFFMJ_OBSERVABLES_H_
