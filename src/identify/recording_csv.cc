// Recordings as comma-separated values.
#include <mujoco/mujoco.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>
#include <utility>

#include "diffmj/error.h"
#include "diffmj/recording.h"
#include "identify/quantities.h"

namespace diffmj {
namespace {

// Cells of a line. A cell may stand in double quotes, inside which "" is a quote.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); i++) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        out.back() += line[++i];
      else
        quoted = !quoted;
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  for (std::string& cell : out) {
    const char* blank = " \t\r";
    cell.erase(0, cell.find_first_not_of(blank));
    cell.erase(cell.find_last_not_of(blank) + 1);
  }
  return out;
}

bool read_line(std::ifstream& file, std::string& line) {
  if (!std::getline(file, line)) return false;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

// What a column is: a number in a row of time, a quantity or its weights.
struct Column {
  enum class Of { kTime, kQuantity, kRowWeight, kWeight } of = Of::kTime;
  Quantity quantity = {};
  int index = 0;
};

// "name[3]" is name and 3; without brackets the index is -1.
std::pair<std::string, int> indexed(const std::string& text) {
  const size_t open = text.rfind('[');
  if (open == std::string::npos || open == 0 || text.back() != ']') return {text, -1};
  int index = 0;
  const char *begin = text.data() + open + 1, *end = text.data() + text.size() - 1;
  const auto [stop, error] = std::from_chars(begin, end, index);
  if (error != std::errc() || stop != end || index < 0) return {text, -1};
  return {text.substr(0, open), index};
}

class Columns {
 public:
  Columns(std::string where, const Model& model) : where_(std::move(where)), model_(model) {}

  Column find(const std::string& text) const {
    if (text == "time") return {};
    const std::string weight = "weight:";
    if (text.compare(0, weight.size(), weight) == 0) return find_weight(text, weight.size());
    Column out{.of = Column::Of::kQuantity};
    if (find_quantity(text, text, out) || find_joint(text, out) || find_actuator(text, out)) {
      return out;
    }
    throw InputError(where(text) +
                     ": this is not a known quantity; use time, qpos[0], qpos_JOINT, qvel[0], "
                     "qvel_JOINT, act[0], act_ACTUATOR, ctrl[0], ctrl_ACTUATOR, sensordata[0], "
                     "sensor:NAME[0], site:NAME[0], body_pos:NAME[0], body_quat:NAME[0] or "
                     "weight:QUANTITY, or remove the column");
  }

  std::string where(const std::string& column) const {
    return where_ + ", column '" + column + "'";
  }

 private:
  int checked(const std::string& column, int index, int width, const std::string& what) const {
    if (index < 0 && width == 1) return 0;
    if (index >= 0 && index < width) return index;
    const std::string range =
        width == 0   ? "has none"
        : width == 1 ? "has 1, index 0"
                     : "has " + std::to_string(width) + ", index 0 to " + std::to_string(width - 1);
    throw InputError(where(column) +
                     (index < 0 ? ": the index is missing" : ": the index is wrong") + "; " + what +
                     " " + range);
  }

  bool find_quantity(const std::string& column, const std::string& text, Column& out) const {
    // a name that itself ends in brackets comes first
    auto [name, index] = indexed(text);
    Quantity whole;
    if (index >= 0 && quantity_from_name(text, whole) && exists(whole)) {
      name = text;
      index = -1;
    }
    if (!quantity_from_name(name, out.quantity)) return false;
    const Layout row = layout(where(column), model_, out.quantity);
    out.index = checked(column, index, row.width, name);
    return true;
  }
  bool exists(const Quantity& quantity) const {
    try {
      layout({}, model_, quantity);
      return !quantity.element.empty();
    } catch (const InputError&) {
      return false;
    }
  }

  Column find_weight(const std::string& text, size_t prefix) const {
    auto [name, index] = indexed(text.substr(prefix));
    Column out;
    if (!quantity_from_name(name, out.quantity)) {
      throw InputError(
          where(text) + ": quantity '" + name +
          "' is not known; write for instance weight:qpos, weight:site:NAME or weight:qpos[0]");
    }
    const Layout row = layout(where(text), model_, out.quantity);
    out.of = index < 0 ? Column::Of::kRowWeight : Column::Of::kWeight;
    if (index >= 0) out.index = checked(text, index, row.nweight, "weight:" + name);
    return out;
  }

  // prefix_NAME or prefix_NAME[3] of an object that has num numbers from adr
  template <class Range>
  bool find_named(const std::string& text, const char* start, QuantityKind kind, int type,
                  const char* what, Range range, Column& out) const {
    const std::string prefix = start;
    if (text.compare(0, prefix.size(), prefix) != 0) return false;
    const std::string whole = text.substr(prefix.size());
    auto [name, index] = indexed(whole);
    int id = mj_name2id(model_.mj(), type, whole.c_str());
    if (id >= 0) {
      index = -1;
    } else {
      id = mj_name2id(model_.mj(), type, name.c_str());
    }
    if (id < 0) {
      throw InputError(where(text) + ": the model has no " + what + " '" + name + "'" +
                       similar_names(name, element_names(model_, type)));
    }
    const auto [adr, num] = range(id);
    out.quantity = {kind};
    out.index = adr + checked(text, index, num, prefix + name);
    return true;
  }
  bool find_joint(const std::string& text, Column& out) const {
    const mjModel* m = model_.mj();
    const auto of_joint = [m](const int* adr, bool positions) {
      return [m, adr, positions](int id) {
        const int type = m->jnt_type[id];
        const int rotation = positions ? 4 : 3;
        return std::pair(adr[id], type == mjJNT_FREE   ? 3 + rotation
                                  : type == mjJNT_BALL ? rotation
                                                       : 1);
      };
    };
    return find_named(text, "qpos_", QuantityKind::kQpos, mjOBJ_JOINT, "joint",
                      of_joint(m->jnt_qposadr, true), out) ||
           find_named(text, "qvel_", QuantityKind::kQvel, mjOBJ_JOINT, "joint",
                      of_joint(m->jnt_dofadr, false), out);
  }
  bool find_actuator(const std::string& text, Column& out) const {
    const mjModel* m = model_.mj();
    return find_named(
               text, "ctrl_", QuantityKind::kCtrl, mjOBJ_ACTUATOR, "actuator",
               [m](int i) { return std::pair(m->actuator_ctrladr[i], m->actuator_ctrlnum[i]); },
               out) ||
           find_named(
               text, "act_", QuantityKind::kAct, mjOBJ_ACTUATOR, "actuator",
               [m](int i) { return std::pair(m->actuator_actadr[i], m->actuator_actnum[i]); }, out);
  }

  std::string where_;
  const Model& model_;
};

double to_number(const std::string& where, const std::string& cell) {
  if (cell.empty()) return kMissing;
  double x = 0;
  const char* begin = cell.data() + (cell[0] == '+' ? 1 : 0);
  const char* end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(begin, end, x);
  if (error != std::errc() || stop != end) {
    throw InputError(where + ": '" + cell +
                     "' is not a number; write for instance 1.5e-3, or leave the cell empty if it "
                     "is missing");
  }
  return x;
}

std::string stem(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

struct Header {
  std::vector<std::string> names;
  std::vector<Column> columns;
};

// controls are all there, or none is
void require_all_controls(const Model& model, const std::string& path,
                          const std::vector<Column>& columns) {
  const auto is_control = [](const Column& x) {
    return x.of == Column::Of::kQuantity && x.quantity.kind == QuantityKind::kCtrl;
  };
  if (std::none_of(columns.begin(), columns.end(), is_control)) return;
  for (int j = 0; j < model.nu(); j++) {
    if (std::any_of(columns.begin(), columns.end(),
                    [&](const Column& x) { return is_control(x) && x.index == j; })) {
      continue;
    }
    throw InputError(path + ", line 1: column 'ctrl[" + std::to_string(j) +
                     "]' is missing, but other controls have a column; give all of them");
  }
}

Header read_header(const Model& model, const std::string& path, std::ifstream& file) {
  std::string line;
  if (!read_line(file, line)) throw InputError(path + ": the file is empty");
  if (line.compare(0, 3, "\xef\xbb\xbf") == 0) line.erase(0, 3);  // UTF-8's mark
  Header out{.names = cells(line), .columns = {}};
  const Columns known(path + ", line 1", model);
  std::set<std::pair<std::string, int>> seen;
  for (const std::string& text : out.names) {
    Column column = known.find(text);
    const std::string what = std::to_string(static_cast<int>(column.of)) +
                             (column.of == Column::Of::kTime ? "" : column.quantity.name());
    if (!seen.emplace(what, column.index).second) {
      throw InputError(known.where(text) + ": the column appears twice; remove one");
    }
    out.columns.push_back(std::move(column));
  }
  if (std::none_of(out.columns.begin(), out.columns.end(),
                   [](const Column& x) { return x.of == Column::Of::kTime; })) {
    throw InputError(path + ", line 1: column 'time' is missing");
  }
  require_all_controls(model, path, out.columns);
  return out;
}

// all lines after the header
std::vector<std::vector<double>> read_rows(const std::string& path, const Header& header,
                                           std::ifstream& file) {
  const std::vector<Column>& columns = header.columns;
  std::vector<std::vector<double>> rows;
  std::string line;
  for (int number = 2; read_line(file, line); number++) {
    const std::string at = path + ", line " + std::to_string(number);
    const std::vector<std::string> row = cells(line);
    if (row.size() == 1 && row[0].empty() && columns.size() > 1) continue;
    if (row.size() != columns.size()) {
      throw InputError(at + ": it has " + std::to_string(row.size()) + " cells, but line 1 names " +
                       std::to_string(columns.size()) + " columns");
    }
    rows.emplace_back();
    for (size_t j = 0; j < row.size(); j++) {
      const std::string where = at + ", column '" + header.names[j] + "'";
      rows.back().push_back(to_number(where, row[j]));
      const double x = rows.back().back();
      if (std::isinf(x)) {
        throw InputError(where + ": '" + row[j] +
                         "' is infinite; leave the cell empty if it is "
                         "missing");
      }
      if (columns[j].of != Column::Of::kQuantity && std::isnan(x)) {
        throw InputError(where + ": the cell is empty or nan, expected a number");
      }
    }
  }
  if (rows.empty()) throw InputError(path + ": the file has no rows after the header");
  return rows;
}

// column j, to where a recording has it
void fill_column(const Model& model, const std::string& path, const Header& header,
                 const std::vector<std::vector<double>>& rows, size_t j, Recording& out) {
  const Column& column = header.columns[j];
  std::vector<double>* to = &out.time;
  int width = 1;
  double fill = kMissing;
  if (column.of != Column::Of::kTime) {
    const Layout row = layout(path, model, column.quantity);
    const bool weight = column.of != Column::Of::kQuantity;
    to = weight ? &out.weights[column.quantity.name()] : &values(out, column.quantity);
    if (!weight) width = row.width;
    if (column.of == Column::Of::kWeight) width = row.nweight;
    if (weight) fill = 1;
  }
  const size_t size = rows.size() * static_cast<size_t>(width);
  if (to->empty()) to->assign(size, fill);
  if (to->size() != size) {
    throw InputError(Columns(path + ", line 1", model).where(header.names[j]) +
                     ": weights of rows and of single residuals exclude each other; keep one");
  }
  for (size_t i = 0; i < rows.size(); i++) {
    row_of(*to, static_cast<int>(i), width)[static_cast<size_t>(column.index)] = rows[i][j];
  }
}

}  // namespace

Recording read_csv(const Model& model, const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(path + ": the file does not exist or cannot be read");
  const Header header = read_header(model, path, file);
  const std::vector<std::vector<double>> rows = read_rows(path, header, file);
  Recording out{.name = stem(path)};
  for (size_t j = 0; j < header.columns.size(); j++) {
    fill_column(model, path, header, rows, j, out);
  }
  try {
    return validate(model, std::move(out));
  } catch (const InputError& error) {
    throw InputError(path + ": " + error.what());
  }
}

void write_csv(const Recording& recording, const std::string& path) {
  validate(recording);
  struct Source {
    std::string name;
    const std::vector<double>* rows;
  };
  std::vector<Source> sources;
  for (const Quantity& q : quantities(recording)) {
    sources.push_back({q.name(), &values(recording, q)});
  }
  for (const auto& [name, weights] : recording.weights) {
    sources.push_back({"weight:" + name, &weights});
  }
  const auto quoted = [](std::string name) {
    if (name.find_first_of(",\"") == std::string::npos) return name;
    for (size_t i = 0; (i = name.find('"', i)) != std::string::npos; i += 2) name.insert(i, "\"");
    return "\"" + name + "\"";
  };
  const size_t n = recording.time.size();
  // a weight for everything is written in every row
  const auto width = [n](const Source& x) { return std::max<size_t>(1, x.rows->size() / n); };
  std::ofstream file(path);
  file << "time";
  for (const Source& x : sources) {
    const bool rows_only = x.name.compare(0, 7, "weight:") == 0 && width(x) == 1;
    for (size_t j = 0; j < width(x); j++) {
      file << ',' << quoted(rows_only ? x.name : x.name + "[" + std::to_string(j) + "]");
    }
  }
  file << '\n';
  const auto write = [&file](double x) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.17g", x);
    file << (std::isnan(x) ? "" : text);
  };
  for (size_t i = 0; i < n; i++) {
    write(recording.time[i]);
    for (const Source& x : sources) {
      for (size_t j = 0; j < width(x); j++) {
        file << ',';
        write(x.rows->size() == 1 ? x.rows->front() : (*x.rows)[i * width(x) + j]);
      }
    }
    file << '\n';
  }
  file.flush();
  if (!file) throw InputError(path + ": the file cannot be written");
}

}  // namespace diffmj
