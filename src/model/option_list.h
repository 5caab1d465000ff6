// The rules of options that more than one layer applies.
#ifndef DIFFMJ_MODEL_OPTION_LIST_H_
#define DIFFMJ_MODEL_OPTION_LIST_H_

#include <string>

#include "diffmj/cfd.h"

namespace diffmj {

// Throws InputError that names the number, its value and its range; who tells whose law it is: that
// of the options, or of a custom numeric in the model.
void require_law(const std::string& who, const CfdLaw& law);

}  // namespace diffmj

#endif  // DIFFMJ_MODEL_OPTION_LIST_H_
