#include "output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "adaptive.h"
#include "cfd.h"

namespace diffmj::cli {
namespace {

namespace fs = std::filesystem;

void append_json(const Json& value, const std::string& indent, std::string& text) {
  const auto is_structured = [](const Json& member) { return member.is_structured(); };
  if (!value.is_structured() || std::none_of(value.begin(), value.end(), is_structured)) {
    // a file name need not be valid UTF-8
    text += value.dump(-1, ' ', false, Json::error_handler_t::replace);
    return;
  }
  const std::string inner = indent + "  ";
  const char* separator = "\n";
  text += value.is_object() ? "{" : "[";
  for (const auto& item : value.items()) {
    text += separator + inner;
    if (value.is_object()) text += Json(item.key()).dump() + ": ";
    append_json(item.value(), inner, text);
    separator = ",\n";
  }
  text += "\n" + indent + (value.is_object() ? "}" : "]");
}

}  // namespace

Output::Output(const std::string& path) : file_(stdout) {
  if (path.empty()) return;
  path_ = path;
  std::error_code status;
  const bool exists = fs::exists(path, status);
  // rename would replace a link or a device instead of writing to it
  if (exists) path_ = fs::canonical(path, status).string();
  if (!exists || fs::is_regular_file(path_, status)) {
    temporary_ = path_ + ".tmp" + std::to_string(getpid());
  }
  file_ = std::fopen((temporary_.empty() ? path_ : temporary_).c_str(), "w");
  if (!file_) fail();
}

Output::~Output() {
  if (!file_ || path_.empty()) return;
  std::fclose(file_);
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

void Output::write(const std::string& text) {
  if (interrupted()) throw Interrupted("interrupted while writing");
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
}

void Output::finish() {
  if (std::fflush(file_) != 0) fail();
  if (path_.empty()) return;
  const bool closed = std::fclose(file_) == 0;
  file_ = nullptr;
  if (closed && (temporary_.empty() || std::rename(temporary_.c_str(), path_.c_str()) == 0)) return;
  const int error = errno;
  if (!temporary_.empty()) std::remove(temporary_.c_str());
  errno = error;
  fail();
}

void Output::fail() const {
  const std::string reason = std::strerror(errno);
  throw Error("cannot write " + (path_.empty() ? "standard output" : "'" + path_ + "'") + ": " +
              reason);
}

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

std::string csv_row(std::initializer_list<std::string> cells) {
  std::string row;
  for (const std::string& cell : cells) row += (row.empty() ? "" : ",") + cell;
  return row + "\n";
}

std::string json_text(const Json& value) {
  std::string text;
  append_json(value, "", text);
  return text + "\n";
}

Json json_rows(std::span<const double> values, size_t rows, int width) {
  const auto w = static_cast<size_t>(width);
  Json out = Json::array();
  for (size_t i = 0; i < rows; i++) out.push_back(values.subspan(i * w, w));
  return out;
}

Json json_header(const Setup& setup) {
  const Model& model = setup.model;
  Json out = {{"model",
               {{"file", setup.model_file},
                {"nq", model.nq()},
                {"nv", model.nv()},
                {"na", model.na()},
                {"nu", model.nu()},
                {"timestep", model.timestep()},
                {"integrator", integrator_name(model.integrator())}}},
              {"start", setup.start},
              {"nstep", setup.nstep},
              {"path", gradient_path_name(model.gradient_path())},
              {"path_reason", model.gradient_path_reason()}};
  if (model.is_adaptive()) out["adaptive"] = json_adaptive(model);
  if (model.options().cfd) out["cfd"] = json_cfd(*model.options().cfd);
  return out;
}

Json json_warnings(const std::vector<Warning>& warnings) {
  Json out = Json::array();
  for (const Warning& w : warnings) {
    out.push_back({{"kind", warning_kind_name(w.kind)},
                   {"text", w.text},
                   {"first_step", w.first_step},
                   {"count", w.count}});
  }
  return out;
}

}  // namespace diffmj::cli
