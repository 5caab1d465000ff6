#include "diffmj/mpc_report.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/page.h"
#include "base/svg_plot.h"
#include "base/text.h"

namespace diffmj {
namespace {

constexpr const char* kBlue = "#0059a8";
constexpr const char* kRed = "#d1495b";
constexpr const char* kColours[] = {"#0059a8", "#d1495b", "#3a7d44",
                                    "#c77d0a", "#6b4fa0", "#57606a"};

size_t at(int i) { return static_cast<size_t>(i); }

std::string cost_plots(const MpcRun& run) {
  std::vector<double> time, planned, executed, computing, latency;
  double seconds = 0;
  for (const MpcPlan& x : run.plans) {
    seconds += x.seconds;
    time.push_back(x.time);
    planned.push_back(x.cost);
    executed.push_back(x.executed_cost);
    computing.push_back(seconds);
    latency.push_back(x.seconds);
  }
  SvgPlot over_time("Cost", "simulated time [s]", "", true);
  over_time.line(time, planned, kBlue, "planned");
  over_time.line(time, executed, kRed, "executed");
  SvgPlot over_computing("Cost", "computing time [s]", "", true);
  over_computing.line(computing, planned, kBlue, "planned");
  over_computing.line(computing, executed, kRed, "executed");
  SvgPlot each("Planning time [s]", "simulated time [s]");
  each.line(time, latency, kBlue);
  return "<div class=\"plots\">\n" + over_time.svg() + over_computing.svg() + each.svg() +
         "</div>\n";
}

// The first columns of a quantity over time, each step held.
std::string columns_plot(const char* title, const std::vector<double>& time,
                         const std::vector<double>& rows, int width, int count) {
  SvgPlot plot(title, "simulated time [s]");
  const size_t n = rows.size() / std::max<size_t>(1, at(width));
  for (int j = 0; j < std::min(width, count); j++) {
    std::vector<double> y(n);
    for (size_t i = 0; i < n; i++) y[i] = rows[i * at(width) + at(j)];
    plot.line({time.begin(), time.begin() + static_cast<ptrdiff_t>(n)}, y,
              kColours[at(j) % std::size(kColours)], std::to_string(j));
  }
  return plot.svg();
}

}  // namespace

std::string mpc_report(const Planner& planner, const Model& execution, const MpcRun& run,
                       const MpcReport& report) {
  constexpr int kShown = 6;
  long nrollout = 0, ndiverged = 0, late = 0;
  std::string why;
  for (const MpcPlan& x : run.plans) {
    nrollout += x.nrollout;
    ndiverged += x.ndiverged;
    late += x.late ? 1 : 0;
    if (why.empty()) why = x.message;
  }
  const PlanOptions& o = planner.options();
  const double best =
      std::accumulate(run.plans.begin(), run.plans.end(), std::numeric_limits<double>::infinity(),
                      [](double x, const MpcPlan& p) { return std::min(x, p.cost); });
  std::string out = html_paragraph(
      text("%zu plans of %d steps by the %s planner, %d steps executed: %.4g s of motion, %.4g s "
           "of planning (%.3g times as long). %ld rollouts. Cost of the first plan %.4g, of the "
           "last %.4g, smallest %.4g.",
           run.plans.size(), o.horizon, plan_method_name(o.method), run.nstep, run.simulated,
           run.seconds, run.simulated > 0 ? run.seconds / run.simulated : 0.0, nrollout,
           run.plans.empty() ? 0.0 : run.plans.front().cost,
           run.plans.empty() ? 0.0 : run.plans.back().cost, run.plans.empty() ? 0.0 : best));
  if (run.interrupted) out += html_paragraph("It was interrupted.", "note");
  if (!run.message.empty()) out += html_paragraph("It ended early: " + run.message, "note");
  if (ndiverged > 0) {
    out += html_paragraph(
        std::to_string(ndiverged) + " rollouts diverged and were left out; the first: " + why,
        "note");
  }
  if (late > 0) {
    out += html_paragraph(
        std::to_string(late) + " plans were late: their first part was not executed.", "note");
  }
  if (!report.film.empty()) {
    out += "<p><img src=\"" + escaped(report.film) + "\" alt=\"Film of the motion\"></p>\n";
  }
  out += "<h2>Cost</h2>\n" + cost_plots(run);
  out += "<h2>Motion</h2>\n<div class=\"plots\">\n";
  if (execution.nu() > 0)
    out += columns_plot("Controls", run.time, run.ctrl, execution.nu(), kShown);
  out += columns_plot("qpos", run.time, run.qpos, execution.nq(), kShown);
  out += columns_plot("qvel", run.time, run.qvel, execution.nv(), kShown);
  out += "</div>\n";
  if (std::max({execution.nu(), execution.nq(), execution.nv()}) > kShown) {
    out += html_paragraph("The first " + std::to_string(kShown) + " numbers of each are shown.",
                          "quiet");
  }
  return html_page(report.title, out);
}

}  // namespace diffmj
