// Work that a Python function has done elsewhere, as C++ asks for it.
#ifndef DIFFMJ_PYTHON_ELSEWHERE_H_
#define DIFFMJ_PYTHON_ELSEWHERE_H_

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <tuple>
#include <utility>

#include "bind.h"
#include "diffmj/fit.h"
#include "diffmj/plan.h"

namespace diffmj::python {

// Calls a Python function. What it raises goes through C++, and Ctrl-C as Interrupted, after which
// plans and fits return what they have.
template <class Result>
class Elsewhere {
 public:
  // the function belongs to the last copy, which may go away without the lock
  explicit Elsewhere(const nb::object& function)
      : function_(new nb::object(function), [](nb::object* x) {
          const nb::gil_scoped_acquire lock;
          delete x;
        }) {}

  // With the lock.
  template <class... Args>
  Result operator()(const Args&... args) const {
    try {
      return nb::cast<Result>((*function_)(args...));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
    }
    throw Interrupted("interrupted");
  }

 private:
  std::shared_ptr<nb::object> function_;
};

inline nb::dict start_arrays(const RolloutInput& start) {
  nb::dict out;
  const auto add = [&](const char* name, std::span<const double> x) {
    if (!x.empty()) {
      out[name] = new_array(std::vector<double>(x.begin(), x.end()), {1, x.size()});
    }
  };
  add("qpos", start.qpos);
  add("qvel", start.qvel);
  add("act", start.act);
  add("ctrl", start.ctrl);
  add("qfrc_applied", start.qfrc_applied);
  add("xfrc_applied", start.xfrc_applied);
  add("mocap_pos", start.mocap_pos);
  add("mocap_quat", start.mocap_quat);
  add("time", {&start.time, 1});
  return out;
}

// Of CfdCounts: evaluations, capped.
using CfdPair = std::pair<long, long>;

// ok, costs, terms, gradients, messages, counts: a row, or an entry, per rollout.
using PlanValues = std::tuple<std::vector<bool>, RowArray, RowArray, RowArray,
                              std::vector<std::string>, std::vector<CfdPair>>;

// function takes a dict of the start's arrays, the decision variables (n x size) and whether
// gradients are wanted.
inline PlanEvaluate plan_evaluate(const nb::object& function) {
  return [call = Elsewhere<PlanValues>(function)](const RolloutInput& start,
                                                  std::span<const std::vector<double>> variables,
                                                  bool gradient, std::span<PlanValue> out) {
    const nb::gil_scoped_acquire lock;
    std::vector<double> all;
    for (const std::vector<double>& z : variables) all.insert(all.end(), z.begin(), z.end());
    const size_t n = variables.size(), size = all.size() / n;
    const auto [ok, cost, terms, gradients, message, cfd] =
        call(start_arrays(start), new_array(std::move(all), {n, size}), gradient);
    if (ok.size() != n || message.size() != n || cfd.size() != n || cost.shape(0) != n ||
        cost.shape(1) != 1 || terms.shape(0) != n || gradients.shape(0) != n) {
      throw InputError("plan: the values are not of " + std::to_string(n) + " rollouts");
    }
    for (size_t i = 0; i < n; i++) {
      const auto copy = [i](const RowArray& from, std::vector<double>& to) {
        const double* begin = from.data() + i * from.shape(1);
        to.assign(begin, begin + from.shape(1));
      };
      out[i].ok = ok[i];
      out[i].cost = cost.data()[i];
      out[i].message = message[i];
      out[i].cfd = {.evaluations = cfd[i].first, .capped = cfd[i].second};
      copy(terms, out[i].terms);
      if (gradient) copy(gradients, out[i].gradient);
    }
  };
}

// ok, losses, messages, counts: an entry per segment; gradients by field, a row per segment.
using SegmentValues = std::tuple<std::vector<bool>, std::vector<double>, std::vector<std::string>,
                                 std::vector<CfdPair>, std::map<std::string, RowArray>>;

// function takes a model, numbers of segments, whether gradients are wanted, and in which fields.
inline Objective::Elsewhere segments_elsewhere(const nb::object& function) {
  return [call = Elsewhere<SegmentValues>(function)](const Model& model, std::span<const int> which,
                                                     bool gradient,
                                                     const std::vector<std::string>& fields) {
    const nb::gil_scoped_acquire lock;
    const auto [ok, loss, message, cfd, params] =
        call(model, std::vector<int>(which.begin(), which.end()), gradient, fields);
    const size_t n = which.size();
    bool good = ok.size() == n && loss.size() == n && message.size() == n && cfd.size() == n;
    for (const auto& [name, rows] : params) good = good && rows.shape(0) == n;
    if (!good) {
      throw InputError("Objective: the values are not of " + std::to_string(n) + " segments");
    }
    std::vector<SegmentValue> out(n);
    for (size_t i = 0; i < n; i++) {
      out[i].ok = ok[i];
      out[i].loss = loss[i];
      out[i].message = message[i];
      out[i].cfd = {.evaluations = cfd[i].first, .capped = cfd[i].second};
      if (!ok[i]) continue;
      for (const auto& [name, rows] : params) {
        const double* begin = rows.data() + i * rows.shape(1);
        out[i].params[name].assign(begin, begin + rows.shape(1));
      }
    }
    return out;
  };
}

}  // namespace diffmj::python

#endif  // DIFFMJ_PYTHON_ELSEWHERE_H_
