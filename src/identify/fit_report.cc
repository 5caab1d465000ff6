#include "diffmj/fit_report.h"

#include <algorithm>
#include <cmath>

#include "base/page.h"
#include "base/svg_plot.h"
#include "base/text.h"
#include "identify/comparison.h"

namespace diffmj {
namespace {

constexpr const char* kBefore = "#b8bec6";
constexpr const char* kAfter = "#0059a8";
constexpr const char* kRecorded = "#d1495b";

std::string bounds_text(const FitBounds& x) {
  if (std::isinf(x.low) && std::isinf(x.high)) return "none";
  if (std::isinf(x.high)) return "from " + short_number(x.low);
  if (std::isinf(x.low)) return "to " + short_number(x.high);
  return short_number(x.low) + " to " + short_number(x.high);
}

// Has the fit run into a bound?
bool is_at_bound(double x, double start, const FitBounds& bounds) {
  constexpr double kNear = 1e-3;
  const double low = x - bounds.low, high = bounds.high - x;
  return low < kNear * (start - bounds.low) || high < kNear * (bounds.high - start);
}

std::string values_table(const ParametricModel& family, std::span<const double> start,
                         std::span<const FitBounds> bounds, const FitResult& result,
                         const Uncertainty& uncertainty) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th>parameter</th><th>start</th><th>fitted</th>"
      "<th>standard error</th><th>bounds</th><th></th></tr>\n";
  for (size_t i = 0; i < start.size(); i++) {
    const bool unknown = std::isinf(uncertainty.error[i]);
    const FitBounds limits = bounds.empty() ? FitBounds() : bounds[i];
    const std::string remark = unknown ? "the data do not determine it"
                               : is_at_bound(result.theta[i], start[i], limits)
                                   ? "at its bound: the data want more"
                                   : "";
    const std::string name =
        i < family.names().size() ? family.names()[i] : "parameter " + std::to_string(i);
    out += "<tr><td>" + escaped(name) + "</td>" + html_number(start[i]) +
           html_number(result.theta[i]) +
           html_number(unknown ? "unknown" : short_number(uncertainty.error[i])) +
           html_number(bounds_text(limits)) + "<td>" + remark + "</td></tr>\n";
  }
  return out + "</table></div>\n";
}

// Red where two estimates move together, blue where they move against each other.
std::string correlation_table(const ParametricModel& family, const Uncertainty& uncertainty) {
  const size_t n = uncertainty.error.size();
  std::string out = "<div class=\"scroll\"><table class=\"matrix\"><tr><th></th>";
  for (size_t j = 0; j < n; j++) out += "<th>" + std::to_string(j + 1) + "</th>";
  out += "</tr>\n";
  for (size_t i = 0; i < n; i++) {
    out += "<tr><th style=\"text-align: left\">" + std::to_string(i + 1) + " " +
           escaped(family.names()[i]) + "</th>";
    for (size_t j = 0; j < n; j++) {
      const double x = uncertainty.correlation[i * n + j];
      out += text("<td style=\"background: rgba(%s, %.2f)\">%.2f</td>",
                  x > 0 ? "209, 73, 91" : "0, 89, 168", 0.7 * std::min(1.0, std::abs(x)), x);
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string errors_table(const Objective& objective, std::span<const double> before,
                         std::span<const double> after, const RolloutOptions& options) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th>quantity</th><th>numbers</th><th>before</th>"
      "<th>after</th><th>after / before</th></tr>\n";
  for (const TargetError& x : target_errors(objective, before, after, options)) {
    out += "<tr><td>" + escaped(x.target) + "</td>" + html_number(std::to_string(x.count)) +
           html_number(x.before) + html_number(x.after) +
           html_number(x.before > 0 ? short_number(x.after / x.before) : "") + "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string history_plots(const ParametricModel& family, const FitResult& result) {
  constexpr size_t kShown = 12;
  std::vector<double> iteration, loss;
  for (const FitStep& x : result.history) {
    iteration.push_back(x.iteration);
    loss.push_back(x.loss);
  }
  SvgPlot plot("Loss", "iteration", "", true);
  plot.line(iteration, loss, kAfter);
  std::string out = "<div class=\"plots\">\n" + plot.svg();
  for (size_t i = 0; i < std::min(kShown, result.theta.size()); i++) {
    std::vector<double> values;
    for (const FitStep& x : result.history) values.push_back(x.theta[i]);
    SvgPlot one(family.names()[i], "iteration");
    one.line(iteration, values, kAfter);
    out += one.svg(300, 200);
  }
  out += "</div>\n";
  if (result.theta.size() > kShown) {
    out += "<p class=\"quiet\">The first " + std::to_string(kShown) + " of " +
           std::to_string(result.theta.size()) + " parameters are shown.</p>\n";
  }
  return out;
}

std::string series_plots(const Objective& objective, std::span<const double> before,
                         std::span<const double> after) {
  constexpr size_t kShown = 6;
  std::string out = "<div class=\"plots\">\n";
  for (const Series& x : worst_series(objective, before, after, kShown)) {
    SvgPlot plot(x.name, "time [s]");
    plot.line(x.simulated_time, x.before, kBefore, "before");
    plot.line(x.simulated_time, x.after, kAfter, "after");
    plot.dots(x.time, x.recorded, kRecorded, "recorded");
    out += plot.svg();
  }
  return out + "</div>\n";
}

std::string ending(const FitResult& result) {
  const std::string count =
      std::to_string(result.history.empty() ? 0 : result.history.back().iteration);
  const std::string seconds =
      text("%.3g s", result.history.empty() ? 0.0 : result.history.back().seconds);
  const std::string after = " after " + count + " iterations and " + seconds;
  if (!result.message.empty()) return "It ended with an error" + after + ": " + result.message;
  if (result.interrupted) return "It was interrupted" + after + ".";
  return (result.converged ? "It converged" : "It ended") + after + "." +
         (result.warning.empty() ? "" : " Warning: " + result.warning + ".");
}

std::string loss_text(const ResidualLoss& loss) {
  if (loss.kind == ResidualLoss::Kind::kLinear) return "";
  return ", of which those beyond " + short_number(loss.scale) + " count less: loss " +
         residual_loss_name(loss.kind);
}

}  // namespace

std::string fit_report(const Objective& training, const Objective* held_out,
                       std::span<const double> start, std::span<const FitBounds> bounds,
                       const FitResult& result, const Uncertainty& uncertainty,
                       const FitReport& report, const RolloutOptions& options) {
  const ParametricModel& family = training.family();
  const Objective& shown = held_out ? *held_out : training;
  std::string out;
  if (!report.summary.empty()) out += html_paragraph(report.summary);
  out += html_paragraph(ending(result) + " The loss went from " +
                        short_number(result.history[0].loss) + " to " + short_number(result.loss) +
                        " (mean over " + std::to_string(training.nsegment()) +
                        " segments of half the weighted sum of squared residuals" +
                        loss_text(training.loss()) + ").");
  for (const std::string& note : report.notes) out += html_paragraph(note, "note");

  out += "<h2>Values</h2>\n" + values_table(family, start, bounds, result, uncertainty);
  out += html_paragraph(
      "Standard errors are those of the noise that the residuals show. They do not know of a bias: "
      "a "
      "model that cannot be right, or noise of the states that segments start from.",
      "quiet");
  if (start.size() > 1) {
    out += "<h2>Correlations of the estimates</h2>\n" + correlation_table(family, uncertainty);
    out += html_paragraph(
        "Near 1 or -1, two parameters explain the same data: their combination is known better "
        "than each.",
        "quiet");
  }
  out += "<h2>Errors before and after</h2>\n";
  out += html_paragraph(
      "Root mean squares of simulated minus recorded, at all rows after the start of a segment.",
      "quiet");
  out += "<h3>Recordings of the fit</h3>\n" + errors_table(training, start, result.theta, options);
  if (held_out) {
    out += "<h3>Recordings held out</h3>\n" + errors_table(*held_out, start, result.theta, options);
  } else {
    out += html_paragraph(
        "Nothing was held out: errors on data that the fit did not see are not known.", "quiet");
  }
  out += "<h2>Recorded and simulated</h2>\n";
  out += html_paragraph(
      std::string("One recording ") + (held_out ? "that was held out" : "of the fit") +
          ": the numbers that were furthest off before. Each segment starts anew at a "
          "recorded state.",
      "quiet");
  out += series_plots(shown, start, result.theta);
  out += "<h2>The way there</h2>\n" + history_plots(family, result);
  if (!report.mjcf.empty()) {
    out += "<h2>The fitted model</h2>\n<details><summary>MJCF</summary><pre>" +
           escaped(report.mjcf) + "</pre></details>\n";
  }
  return html_page(report.title, out);
}

}  // namespace diffmj
