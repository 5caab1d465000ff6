// All names of the options that are a choice, in the order of their enumerations.
#ifndef DIFFMJ_MODEL_OPTION_CHOICES_H_
#define DIFFMJ_MODEL_OPTION_CHOICES_H_

#include <string>
#include <vector>

namespace diffmj {

std::vector<std::string> integrator_names();
std::vector<std::string> runge_kutta_names();  // those of explicit Runge-Kutta methods
std::vector<std::string> gradient_path_names();
std::vector<std::string> control_names();
std::vector<std::string> adjoint_names();
std::vector<std::string> collisions_names();

}  // namespace diffmj

#endif  // DIFFMJ_MODEL_OPTION_CHOICES_H_
