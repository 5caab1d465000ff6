#include "base/exact_file.h"

#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "diffmj/error.h"

namespace diffmj {

std::string exact_text(double x) { return text("%a", x); }

ExactWriter::ExactWriter(std::string who, std::string path, const std::string& title)
    : who_(std::move(who)), path_(std::move(path)), out_(path_ + ".new") {
  out_ << title << "\n";
}

void ExactWriter::number(const char* name, double x) {
  out_ << name << " " << exact_text(x) << "\n";
}

void ExactWriter::numbers(const char* name, std::span<const double> x) {
  out_ << name << " " << x.size();
  for (const double y : x) out_ << " " << exact_text(y);
  out_ << "\n";
}

void ExactWriter::finish() {
  out_.close();
  std::error_code error;
  if (out_) std::filesystem::rename(path_ + ".new", path_, error);
  if (!out_ || error) {
    throw InputError(who_ + ": checkpoint '" + path_ + "' cannot be written");
  }
}

ExactReader::ExactReader(std::string who, std::string path, const std::string& title,
                         const char* what)
    : who_(std::move(who)), path_(std::move(path)), in_(path_) {
  if (!in_) throw InputError(who_ + ": checkpoint '" + path_ + "' cannot be read");
  std::string line;
  std::getline(in_, line);
  if (line != title) fail(std::string("is not one of ") + what);
}

std::string ExactReader::next() {
  std::string out;
  in_ >> out;
  return out;
}

void ExactReader::expect(const std::string& word) {
  if (next() != word) fail("has no " + word);
}

double ExactReader::number() {
  const std::string word = next();
  char* end = nullptr;
  const double out = std::strtod(word.c_str(), &end);
  if (word.empty() || *end) fail("has '" + word + "' in place of a number");
  return out;
}
double ExactReader::number(const char* name) {
  expect(name);
  return number();
}

int ExactReader::count() {
  const double out = number();
  if (!(out >= 0 && out <= 1e9)) fail("has a wrong count");
  return static_cast<int>(out);
}
int ExactReader::count(const char* name) {
  expect(name);
  return count();
}

std::vector<double> ExactReader::numbers(const char* name) {
  expect(name);
  std::vector<double> out;
  const int n = count();
  // a wrong count ends at the end of the file, not of memory
  for (int i = 0; i < n; i++) out.push_back(number());
  return out;
}

std::string ExactReader::rest_of_line(const char* name) {
  expect(name);
  std::string out;
  std::getline(in_, out);
  return out.empty() ? out : out.substr(1);
}

void ExactReader::fail(const std::string& what) const {
  throw InputError(who_ + ": checkpoint '" + path_ + "' " + what +
                   "; remove the file, or name another one");
}

}  // namespace diffmj
