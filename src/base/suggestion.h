// The end of an error about a name that does not exist.
#ifndef DIFFMJ_BASE_SUGGESTION_H_
#define DIFFMJ_BASE_SUGGESTION_H_

#include <span>
#include <string>

#include "diffmj/options.h"

namespace diffmj {

// "; did you mean 'tsit5'?", or nothing if no known name is similar.
inline std::string did_you_mean(const std::string& name, std::span<const std::string> known) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace diffmj

#endif  // DIFFMJ_BASE_SUGGESTION_H_
