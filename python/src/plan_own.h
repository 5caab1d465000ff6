// An own cost in Python, as C++ calls it.
#ifndef DIFFMJ_PYTHON_PLAN_OWN_H_
#define DIFFMJ_PYTHON_PLAN_OWN_H_

#include "bind.h"
#include "diffmj/cost.h"

namespace diffmj::python {

// function takes a dict of arrays, batch x rows x numbers, and whether cotangents are wanted; it
// returns values (batch) and a dict of cotangents, in the same shapes. What it raises goes through
// the planner.
inline std::function<void(const OwnCost::Batch&)> own_function(
    const nb::object& function, const std::vector<std::string>& observables, bool sensors) {
  // the function belongs to the last copy, which may go away without the lock
  const std::shared_ptr<nb::object> kept(new nb::object(function), [](nb::object* x) {
    const nb::gil_scoped_acquire lock;
    delete x;
  });
  return [kept, observables, sensors](const OwnCost::Batch& b) {
    const nb::gil_scoped_acquire lock;
    const size_t n = b.trajectories.size();
    nb::dict arrays;
    const auto stack = [&](const char* name, auto&& values_of) {
      std::vector<double> all;
      for (size_t k = 0; k < n; k++) {
        const std::vector<double>& one = values_of(k);
        all.insert(all.end(), one.begin(), one.end());
      }
      const size_t size = all.size() / n;
      arrays[name] = new_array(std::move(all), {n, size});
    };
    const auto state = [&](const char* name, std::vector<double> Trajectory::*x) {
      stack(name, [&](size_t k) -> const std::vector<double>& { return b.trajectories[k]->*x; });
    };
    state("time", &Trajectory::time);
    state("qpos", &Trajectory::qpos);
    state("qvel", &Trajectory::qvel);
    state("act", &Trajectory::act);
    state("ctrl", &Trajectory::ctrl);
    state("qfrc_applied", &Trajectory::qfrc_applied);
    if (sensors) state("sensordata", &Trajectory::sensordata);
    for (const std::string& name : observables) {
      const Observable& x = observable(name);
      stack(x.name, [&](size_t k) -> const std::vector<double>& { return b.poses[k]->*x.values; });
    }
    const auto [values, bars] = nb::cast<std::pair<RowArray, std::map<std::string, RowArray>>>(
        (*kept)(arrays, b.trajectories[0]->nstep, !b.bars.empty()));
    for (size_t k = 0; k < n; k++) *b.values[k] += values.data()[k];
    for (size_t k = 0; k < b.bars.size(); k++) {
      const auto add = [&](const char* name, std::vector<double>& to) {
        const auto found = bars.find(name);
        if (found == bars.end()) return;
        const std::span<const double> from = row(found->second, k);
        if (from.size() != to.size()) {
          throw InputError(std::string("own cost: the cotangent of ") + name + " has " +
                           std::to_string(from.size()) + " numbers, expected " +
                           std::to_string(to.size()));
        }
        for (size_t i = 0; i < to.size(); i++) to[i] += from[i];
      };
      CostBars& to = *b.bars[k];
      add("qpos", to.qpos);
      add("qpos_tangent", to.qpos_tangent);
      add("qvel", to.qvel);
      add("act", to.act);
      add("ctrl", to.ctrl);
      add("qfrc_applied", to.qfrc_applied);
      add("sensordata", to.sensordata);
      for (const std::string& name : observables) {
        const Observable& x = observable(name);
        add(x.name, to.poses.*x.values);
      }
    }
  };
}

}  // namespace diffmj::python

#endif  // DIFFMJ_PYTHON_PLAN_OWN_H_
