#include "adaptive.h"

#include <cmath>

namespace diffmj::cli {
Json json_adaptive(const Model& model) {
  const AdaptiveOptions& o = model.options().adaptive;
  Json out = Json::object();
  if (o.step) {
    out["step"] = *o.step;
  } else {
    out["rtol"] = o.stepping.rtol;
    out["atol"] = o.stepping.atol;
    out["max_steps"] = o.stepping.max_steps;
    out["min_step"] = o.stepping.min_step;
    if (std::isfinite(o.stepping.max_step)) out["max_step"] = o.stepping.max_step;
    out["pid"] = {o.stepping.p, o.stepping.i, o.stepping.d};
    out["safety"] = o.stepping.safety;
    out["step_ratio"] = {o.stepping.shrink, o.stepping.grow};
  }
  out["interval"] = model.interval();
  out["control"] = control_name(o.control);
  out["events"] = o.events;
  out["adjoint"] = adjoint_name(model.options().adjoint());
  if (o.checkpoints) out["checkpoints"] = *o.checkpoints;
  if (model.options().adjoint() != Adjoint::kDiscrete && !o.step) {
    out["adjoint_rtol"] = o.adjoint_rtol.value_or(o.stepping.rtol);
    out["adjoint_atol"] = o.adjoint_atol.value_or(o.stepping.atol);
  }
  return out;
}

Json json_integrator(const Trajectory& t) {
  const IntegratorRecord& s = t.integrator;
  Json out = {{"accepted", s.naccepted},        {"rejected", s.nrejected},
              {"evaluations", s.nevaluation},   {"smallest_step", s.smallest_step},
              {"largest_step", s.largest_step}, {"end_time", s.end_time}};
  out["events"] = Json::array();
  for (const Event& e : s.events) {
    out["events"].push_back({{"time", e.time},
                             {"what", e.what},
                             {"count", e.count},
                             {"release", e.release},
                             {"rate", e.rate},
                             {"jump", e.jump},
                             {"grazing", e.grazing},
                             {"at_rest", e.at_rest}});
  }
  if (!t.ok()) {
    out["end_qpos"] = s.end_qpos;
    out["end_qvel"] = s.end_qvel;
    out["end_act"] = s.end_act;
  }
  return out;
}

Json json_adjoint(const Model& model, const Gradient& gradient) {
  const Adjoint adjoint = model.options().adjoint();
  Json out = {{"name", adjoint_name(adjoint)}, {"recomputed", gradient.nrecomputed}};
  if (adjoint != Adjoint::kDiscrete) {
    out["accepted"] = gradient.naccepted;
    out["rejected"] = gradient.nrejected;
    out["evaluations"] = gradient.nevaluation;
  }
  return out;
}

void write_steps(const Trajectory& t, Output& output) {
  const IntegratorRecord& s = t.integrator;
  output.write(csv_row({"interval", "time", "size"}));
  size_t interval = 0;
  for (size_t n = 0; n + 1 < s.time.size(); n++) {
    while (interval + 1 < s.first_step.size() &&
           static_cast<size_t>(s.first_step[interval + 1]) <= n) {
      interval++;
    }
    output.write(csv_row({std::to_string(interval), number_text(s.time[n]),
                          number_text(s.time[n + 1] - s.time[n])}));
  }
}

}  // namespace diffmj::cli
