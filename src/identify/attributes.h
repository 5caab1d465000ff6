// Models as functions of attributes of an MJCF's elements.
//
//   attribute = element "/" name [ "[" number "]" ]
//   element   = elbow            the body, joint, geom, site, tendon, actuator, equality or pair
//             | geom:cube        if several kinds have that name
//             | default.geom     the main default, and the geoms that have its value
//             | default(toe).geom   that of a class
//             | option
//
// Names and units are those of mjSpec, which are nearly always those of MJCF. Without a number an
// attribute of several stands for those of them that are not 0.
#ifndef DIFFMJ_IDENTIFY_ATTRIBUTES_H_
#define DIFFMJ_IDENTIFY_ATTRIBUTES_H_

#include <span>
#include <string>
#include <vector>

#include "mj/handle.h"

namespace diffmj {

class AttributeModel {
 public:
  // mjcf: a file's path or an MJCF string. Throws MujocoError if it does not parse, InputError if
  // an attribute is not in it; it names those that are.
  AttributeModel(const std::string& mjcf, std::span<const std::string> attributes);

  const std::vector<std::string>& names() const { return names_; }  // with their numbers
  const std::vector<double>& start() const { return start_; }
  // The largest number of the attribute that each belongs to: a zero in a quaternion is one of 1.
  const std::vector<double>& scales() const { return scales_; }

  // The compiled model; the caller owns it. Threads may call it.
  mjModel* build(std::span<const double> values) const;
  // As MuJoCo writes it, numbers with six digits; files of meshes and textures are looked for where
  // they were.
  std::string mjcf(std::span<const double> values) const;

 private:
  MjSpecPtr edited(std::span<const double> values) const;

  MjSpecPtr spec_;
  std::vector<std::string> names_;
  std::vector<double> start_, scales_;
};

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_ATTRIBUTES_H_
