// What a model uses, and what would make its gradients better.
#ifndef DIFFMJ_CHECK_SURVEY_H_
#define DIFFMJ_CHECK_SURVEY_H_

#include <string>
#include <vector>

#include "diffmj/model.h"

namespace diffmj {

std::vector<std::string> model_features(const Model& model);
std::vector<std::string> model_advice(const Model& model);

}  // namespace diffmj

#endif  // DIFFMJ_CHECK_SURVEY_H_
