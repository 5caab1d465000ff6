#include "loss.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>

#include "cli.h"

namespace diffmj::cli {
namespace {

// The coordinates and dofs of a joint.
struct JointRange {
  std::string label;  // "joint 'knee'", or "joint 3" without a name
  int qpos = 0, nq = 0;
  int qvel = 0, nv = 0;
};

// A joint has 1, 3 or 6 dofs (hinge or slide, ball, free) and 1, 4 or 7 coordinates, in the order
// of the dofs; which joint a dof belongs to is in its name.
std::vector<JointRange> joint_ranges(const Model& model) {
  std::vector<JointRange> joints;
  for (int dof = 0; dof < model.nv(); dof++) {
    const std::string name = model.dof_name(dof);
    const std::string label = name.substr(0, name.rfind(" (dof "));
    if (joints.empty() || joints.back().label != label) {
      joints.push_back({.label = label, .qvel = dof});
    }
    joints.back().nv++;
  }
  int qpos = 0;
  for (JointRange& joint : joints) {
    joint.qpos = qpos;
    joint.nq = joint.nv == 1 ? 1 : joint.nv + 1;
    qpos += joint.nq;
  }
  return joints;
}

std::string list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// The names in labels such as "joint 'knee'"; an element without a name has none.
std::vector<std::string> names_in(const std::vector<std::string>& labels) {
  std::vector<std::string> out;
  for (const std::string& label : labels) {
    const size_t quote = label.find('\'');
    if (quote != std::string::npos)
      out.push_back(label.substr(quote + 1, label.size() - quote - 2));
  }
  return out;
}

class LossParser {
 public:
  LossParser(const Model& model, const std::string& text) : model_(model), text_(text) {
    loss_.qpos.resize(static_cast<size_t>(model.nq()));
    loss_.qvel.resize(static_cast<size_t>(model.nv()));
    loss_.act.resize(static_cast<size_t>(model.na()));
  }

  Loss parse() {
    double sign = take('-') ? -1 : 1;
    while (true) {
      parse_term(sign);
      if (skip_blanks(); at_ == text_.size()) return loss_;
      if (take('+')) {
        sign = 1;
      } else if (take('-')) {
        sign = -1;
      } else {
        fail("expected + or - before '" + rest() + "'");
      }
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError("--loss '" + text_ + "': " + what);
  }
  std::string rest() const { return text_.substr(at_); }
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') at_++;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    at_++;
    return true;
  }

  void parse_term(double sign) {
    const double weight = sign * parse_weight();
    skip_blanks();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalpha(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      at_++;
    }
    const std::string field = text_.substr(begin, at_ - begin);
    if (field == "sum") {
      for (auto* weights : {&loss_.qpos, &loss_.qvel, &loss_.act}) add_all(weight, *weights);
    } else if (field == "qpos") {
      parse_entry(field, weight, loss_.qpos);
    } else if (field == "qvel") {
      parse_entry(field, weight, loss_.qvel);
    } else if (field == "act") {
      parse_entry(field, weight, loss_.act);
    } else if (field == "sensor") {
      parse_sensor(weight);
    } else {
      std::vector<std::string> known = {"qpos", "qvel", "act", "sum", "sensor"};
      for (const Observable& x : observables()) {
        if (field == x.name) return parse_observable(x, weight);
        known.emplace_back(x.name);
      }
      at_ = begin;
      fail("expected one of " + list(known) + " at '" + rest() + "'" + did_you_mean(field, known));
    }
  }

  // a number and *, or nothing
  double parse_weight() {
    skip_blanks();
    const char* first = text_.data() + at_;
    const char* last = text_.data() + text_.size();
    if (first == last || (!std::isdigit(static_cast<unsigned char>(*first)) && *first != '.')) {
      return 1;
    }
    double weight = 0;
    const auto [stop, status] = std::from_chars(first, last, weight);
    if (status != std::errc()) fail("'" + rest() + "' does not begin with a number");
    at_ += static_cast<size_t>(stop - first);
    if (!take('*')) fail("expected * between a weight and '" + rest() + "'");
    return weight;
  }

  // what is between brackets, the first of which was taken
  std::string parse_brackets() {
    const size_t end = text_.find(']', at_);
    if (end == std::string::npos) fail("expected ] after '" + rest() + "'");
    std::string index = text_.substr(at_, end - at_);
    at_ = end + 1;
    return index;
  }

  void parse_entry(const std::string& field, double weight, std::vector<double>& weights) {
    if (!take('[')) return add_all(weight, weights);
    const std::string index = parse_brackets();
    int begin = 0;
    int count = static_cast<int>(weights.size());
    std::string number = index;
    std::string what = field;
    if (!is_number(index)) {
      if (field == "act") fail("act[" + index + "]: expected a number");
      const size_t comma = index.rfind(',');
      const std::string name = index.substr(0, comma);
      const JointRange joint = find_joint(name);
      begin = field == "qpos" ? joint.qpos : joint.qvel;
      count = field == "qpos" ? joint.nq : joint.nv;
      what += " of " + joint.label;
      if (comma == std::string::npos && count > 1) {
        fail(what + " has " + std::to_string(count) + " entries; choose one, for instance " +
             field + "[" + name + ",0]");
      }
      number = comma == std::string::npos ? "0" : index.substr(comma + 1);
    }
    const int entry = begin + parse_index(number, what, count);
    weights[static_cast<size_t>(entry)] += weight;
  }

  void parse_observable(const Observable& x, double weight) {
    std::vector<double>& weights = loss_.observables[x.name];
    weights.resize(static_cast<size_t>(x.size(model_)));
    if (!take('[')) return add_all(weight, weights);
    const std::string index = parse_brackets(), field = x.name;
    const size_t comma = index.rfind(',');
    const std::string name = index.substr(0, comma);
    const int element =
        is_number(name) ? parse_index(name, field, x.count(model_)) : find_element(x, name);
    const std::string what = field + " of " + model_.element_name(x.element, element);
    if (comma == std::string::npos) {
      fail(what + " has " + std::to_string(x.width) + " entries; choose one, for instance " +
           field + "[" + name + ",0]");
    }
    const int entry = x.width * element + parse_index(index.substr(comma + 1), what, x.width);
    weights[static_cast<size_t>(entry)] += weight;
  }

  void parse_sensor(double weight) {
    char quote = 0;
    if (take('(')) {
      skip_blanks();
      quote = at_ < text_.size() ? text_[at_] : ' ';
    }
    const size_t end =
        quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string::npos;
    if (end == std::string::npos) {
      fail("expected the name of a sensor in quotes, for instance sensor('imu')[0], at '" + rest() +
           "'");
    }
    const std::string name = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (!take(')')) fail("expected ) after the name of a sensor, before '" + rest() + "'");
    SensorRange range;
    try {
      range = sensor_range(model_, name);
    } catch (const InputError& error) {
      fail(error.what());
    }
    int begin = range.adr, n = range.dim;
    if (take('[')) {
      begin += parse_index(parse_brackets(), "sensor '" + name + "'", range.dim);
      n = 1;
    }
    loss_.sensordata.resize(static_cast<size_t>(model_.nsensordata()));
    for (int i = begin; i < begin + n; i++) loss_.sensordata[static_cast<size_t>(i)] += weight;
  }

  static bool is_number(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  }

  int parse_index(const std::string& text, const std::string& what, int count) const {
    int index = -1;
    // an index too large for an int leaves it at -1
    if (is_number(text)) std::from_chars(text.data(), text.data() + text.size(), index);
    if (index < 0 || index >= count) {
      fail("'" + text + "' is not an index of " + what + ", which has " + std::to_string(count) +
           " entries");
    }
    return index;
  }

  JointRange find_joint(const std::string& name) const {
    std::vector<std::string> labels;
    for (const JointRange& joint : joint_ranges(model_)) {
      if (joint.label == "joint '" + name + "'") return joint;
      labels.push_back(joint.label);
    }
    fail("joint '" + name + "' is not in the model; it has " + list(labels) +
         did_you_mean(name, names_in(labels)));
  }

  int find_element(const Observable& x, const std::string& name) const {
    std::vector<std::string> labels;
    for (int i = 0; i < x.count(model_); i++) {
      labels.push_back(model_.element_name(x.element, i));
      if (labels.back().ends_with(" '" + name + "'")) return i;
    }
    fail(std::string(x.name) + "[" + name + "]: '" + name + "' is not in the model; it has " +
         (labels.empty() ? "none" : list(labels)) + did_you_mean(name, names_in(labels)));
  }

  static void add_all(double weight, std::vector<double>& weights) {
    for (double& w : weights) w += weight;
  }

  const Model& model_;
  const std::string& text_;
  size_t at_ = 0;
  Loss loss_;
};

}  // namespace

Loss parse_loss(const Model& model, const std::string& text) {
  return LossParser(model, text).parse();
}

Cotangents LossValue::cotangents() const {
  Cotangents out{.qpos = qpos_bar, .qvel = qvel_bar, .act = act_bar, .final_row = final_row};
  for (const auto& [name, bar] : observable_bars) out.*observable(name).cotangent = bar;
  out.sensordata = sensordata_bar;
  return out;
}

LossValue evaluate_loss(const Model& model, const Loss& loss, const Trajectory& trajectory,
                        bool every_step) {
  LossValue out;
  out.final_row = !every_step;
  const auto add = [&](const std::vector<double>& weights, const std::vector<double>& x,
                       std::vector<double>& x_bar) {
    if (weights.empty()) return;
    const size_t first = every_step ? 0 : x.size() - weights.size();
    x_bar.resize(x.size() - first);
    for (size_t i = first; i < x.size(); i++) {
      // loss = Σ w x
      x_bar[i - first] = weights[i % weights.size()];
      out.value += x_bar[i - first] * x[i];
    }
  };
  add(loss.qpos, trajectory.qpos, out.qpos_bar);
  add(loss.qvel, trajectory.qvel, out.qvel_bar);
  add(loss.act, trajectory.act, out.act_bar);
  std::vector<std::string> names;
  for (const auto& [name, weights] : loss.observables) names.push_back(name);
  const Poses observed = poses(model, trajectory, names);
  for (const auto& [name, weights] : loss.observables) {
    add(weights, observed.*observable(name).values, out.observable_bars[name]);
  }
  if (!loss.sensordata.empty()) {
    add(loss.sensordata, sensordata(model, trajectory), out.sensordata_bar);
  }
  return out;
}

}  // namespace diffmj::cli
