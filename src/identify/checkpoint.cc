// Checkpoints of fits.
#include "base/exact_file.h"
#include "identify/fit_run.h"

namespace diffmj {
namespace {

constexpr const char* kTitle = "diffmj fit 1";

}  // namespace

void write_checkpoint(const std::string& path, const std::string& problem, const FitState& state) {
  ExactWriter file("fit", path, kTitle);
  std::ostream& out = file.stream();
  out << "problem " << problem << "\niteration " << state.iteration << "\n";
  file.number("loss", state.loss);
  file.numbers("z", state.z);
  file.numbers("m", state.m);
  file.numbers("v", state.v);
  file.numbers("moves", state.moves);
  file.numbers("theta", state.theta);
  out << "history " << state.history.size() << "\n";
  for (const FitStep& x : state.history) {
    out << x.iteration << " " << exact_text(x.loss) << " " << exact_text(x.seconds) << " "
        << x.nfailed << "\n";
    file.numbers("theta", x.theta);
    file.numbers("gradient", x.gradient);
  }
  file.finish();
}

FitState read_checkpoint(const std::string& path, const std::string& problem) {
  ExactReader in("fit", path, kTitle, "a fit");
  in.expect("problem");
  if (in.next() != problem) {
    in.fail("belongs to another problem: start, bounds, method, data or seed differ");
  }
  FitState out;
  out.iteration = in.count("iteration");
  out.loss = in.number("loss");
  out.z = in.numbers("z");
  out.m = in.numbers("m");
  out.v = in.numbers("v");
  out.moves = in.numbers("moves");
  out.theta = in.numbers("theta");
  const int n = in.count("history");
  for (int i = 0; i < n; i++) {
    FitStep step;
    step.iteration = in.count();
    step.loss = in.number();
    step.seconds = in.number();
    step.nfailed = in.count();
    step.theta = in.numbers("theta");
    step.gradient = in.numbers("gradient");
    out.history.push_back(std::move(step));
  }
  return out;
}

}  // namespace diffmj
