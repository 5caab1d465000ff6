// Checkpoints as text: words and numbers, numbers as hexadecimal fractions, which keep all their
// bits.
#ifndef DIFFMJ_BASE_EXACT_FILE_H_
#define DIFFMJ_BASE_EXACT_FILE_H_

#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace diffmj {

std::string exact_text(double x);

// Writes beside the file and replaces it in finish(), so that there is a whole file at every
// moment. who is for messages.
class ExactWriter {
 public:
  ExactWriter(std::string who, std::string path, const std::string& title);

  std::ostream& stream() { return out_; }
  void number(const char* name, double x);
  void numbers(const char* name, std::span<const double> x);
  // Throws InputError if the file cannot be written.
  void finish();

 private:
  std::string who_, path_;
  std::ofstream out_;
};

// A word that is missing or of another kind is an InputError.
class ExactReader {
 public:
  // what: what the file should be, for the message if its title differs.
  ExactReader(std::string who, std::string path, const std::string& title, const char* what);

  std::string next();
  void expect(const std::string& word);
  double number();
  double number(const char* name);
  int count();
  int count(const char* name);
  std::vector<double> numbers(const char* name);
  std::string rest_of_line(const char* name);  // after the name and a blank
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string who_, path_;
  std::ifstream in_;
};

}  // namespace diffmj

#endif  // DIFFMJ_BASE_EXACT_FILE_H_
