#include "mj/names.h"

namespace diffmj {

std::string element_name(const mjModel* m, int type, int id) {
  const char* name = mj_id2name(m, type, id);
  const std::string kind = mju_type2Str(type) ? mju_type2Str(type) : "element";
  return name && *name ? kind + " '" + name + "'" : kind + " " + std::to_string(id);
}

}  // namespace diffmj
