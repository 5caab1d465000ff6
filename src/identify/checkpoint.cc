// Checkpoints of fits: words and numbers, one array per line, numbers as hexadecimal fractions,
// which keep all their bits.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "diffmj/error.h"
#include "identify/fit_run.h"

namespace diffmj {
namespace {

constexpr const char* kTitle = "diffmj fit 1";

std::string exact(double x) { return text("%a", x); }

void write(std::ostream& out, const char* name, std::span<const double> x) {
  out << name << " " << x.size();
  for (const double y : x) out << " " << exact(y);
  out << "\n";
}

// Words of a checkpoint; a word that is missing or of another kind is an error.
class Reader {
 public:
  Reader(std::string path, std::istream& in) : path_(std::move(path)), in_(in) {}

  void expect(const std::string& word) {
    if (next() != word) fail("has no " + word);
  }
  double number() {
    const std::string word = next();
    char* end = nullptr;
    const double out = std::strtod(word.c_str(), &end);
    if (word.empty() || *end) fail("has '" + word + "' in place of a number");
    return out;
  }
  int count() {
    const double out = number();
    if (!(out >= 0 && out <= 1e9)) fail("has a wrong count");
    return static_cast<int>(out);
  }
  std::vector<double> numbers(const char* name) {
    expect(name);
    std::vector<double> out(static_cast<size_t>(count()));
    for (double& x : out) x = number();
    return out;
  }
  std::string next() {
    std::string out;
    in_ >> out;
    return out;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError("fit: checkpoint '" + path_ + "' " + what +
                     "; remove the file, or name another one");
  }

 private:
  std::string path_;
  std::istream& in_;
};

}  // namespace

void write_checkpoint(const std::string& path, const std::string& problem, const FitState& state) {
  // a whole file at every moment
  const std::string fresh = path + ".new";
  std::ofstream out(fresh);
  out << kTitle << "\nproblem " << problem << "\niteration " << state.iteration << "\n";
  out << "loss " << exact(state.loss) << "\n";
  write(out, "z", state.z);
  write(out, "m", state.m);
  write(out, "v", state.v);
  write(out, "moves", state.moves);
  write(out, "theta", state.theta);
  out << "history " << state.history.size() << "\n";
  for (const FitStep& x : state.history) {
    out << x.iteration << " " << exact(x.loss) << " " << exact(x.seconds) << " " << x.nfailed
        << "\n";
    write(out, "theta", x.theta);
    write(out, "gradient", x.gradient);
  }
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(fresh, path, error);
  if (!out || error) throw InputError("fit: checkpoint '" + path + "' cannot be written");
}

FitState read_checkpoint(const std::string& path, const std::string& problem) {
  std::ifstream file(path);
  std::string title;
  std::getline(file, title);
  Reader in(path, file);
  if (title != kTitle) in.fail("is not one of a fit");
  in.expect("problem");
  if (in.next() != problem) {
    in.fail("is of another problem: start, bounds, method, data or seed differ");
  }
  FitState out;
  in.expect("iteration");
  out.iteration = in.count();
  in.expect("loss");
  out.loss = in.number();
  out.z = in.numbers("z");
  out.m = in.numbers("m");
  out.v = in.numbers("v");
  out.moves = in.numbers("moves");
  out.theta = in.numbers("theta");
  in.expect("history");
  const int n = in.count();
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
