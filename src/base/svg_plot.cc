#include "base/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"

namespace diffmj {
namespace {

// One axis: from numbers to pixels.
class Axis {
 public:
  Axis(bool is_log, double begin, double end) : is_log_(is_log), begin_(begin), end_(end) {}

  bool takes(double x) const { return std::isfinite(x) && (!is_log_ || x > 0); }
  void add(double x) {
    if (!takes(x)) return;
    low_ = std::min(low_, scaled(x));
    high_ = std::max(high_, scaled(x));
  }
  // a range around a single number, and a little more than the numbers need
  void finish() {
    if (!(low_ <= high_)) low_ = high_ = 0;
    if (high_ - low_ < 1e-12 * std::max(1.0, std::abs(high_))) {
      const double half = high_ == 0 ? 1 : 0.1 * std::abs(high_);
      low_ -= half;
      high_ += half;
    }
    const double more = 0.04 * (high_ - low_);
    low_ -= more;
    high_ += more;
  }
  double pixel(double x) const {
    return begin_ + (end_ - begin_) * (scaled(x) - low_) / (high_ - low_);
  }
  // 3 to 8 round numbers; of a logarithmic axis powers of ten where there are two, else 1, 2, 5
  std::vector<double> ticks() const {
    std::vector<double> out;
    if (is_log_) {
      const bool many = high_ - low_ > 2;
      const double every = std::max(1.0, std::ceil((high_ - low_) / 6));
      for (double k = std::floor(low_); k <= high_; k += every) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          const double x = factor * std::pow(10, k);
          if (scaled(x) >= low_ && scaled(x) <= high_) out.push_back(x);
          if (many) break;
        }
      }
      if (out.size() >= 2) return out;
      return {std::pow(10, low_ + 0.1 * (high_ - low_)),
              std::pow(10, high_ - 0.1 * (high_ - low_))};
    }
    const double rough = (high_ - low_) / 5, power = std::pow(10, std::floor(std::log10(rough)));
    double step = power;
    for (const double factor : {2.0, 5.0, 10.0}) {
      if (step < rough) step = factor * power;
    }
    for (double k = std::ceil(low_ / step); k * step <= high_; k++) out.push_back(k * step);
    return out;
  }

 private:
  double scaled(double x) const { return is_log_ ? std::log10(x) : x; }

  bool is_log_;
  double begin_, end_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

std::string label(double x, double y, const char* anchor, const std::string& words,
                  const char* more = "") {
  return text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>", x, y, anchor, more) +
         escaped(words) + "</text>\n";
}

}  // namespace

std::string escaped(const std::string& words) {
  std::string out;
  for (const char c : words) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string short_number(double x) { return text("%.4g", x == 0 ? 0.0 : x); }  // no -0

void SvgPlot::line(std::vector<double> x, std::vector<double> y, std::string colour,
                   std::string label) {
  curves_.push_back({std::move(x), std::move(y), std::move(colour), std::move(label), false});
}

void SvgPlot::dots(std::vector<double> x, std::vector<double> y, std::string colour,
                   std::string label) {
  curves_.push_back({std::move(x), std::move(y), std::move(colour), std::move(label), true});
}

std::string SvgPlot::svg(int width, int height) const {
  constexpr double kLeft = 62, kRight = 12, kTop = 28, kBottom = 42;
  const double right = width - kRight, bottom = height - kBottom;
  Axis x_axis(false, kLeft, right), y_axis(log_y_, bottom, kTop);
  for (const Curve& c : curves_) {
    for (size_t i = 0; i < c.x.size(); i++) {
      if (!x_axis.takes(c.x[i]) || !y_axis.takes(c.y[i])) continue;
      x_axis.add(c.x[i]);
      y_axis.add(c.y[i]);
    }
  }
  x_axis.finish();
  y_axis.finish();

  std::string out =
      text("<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" ", width, height, width, height) +
      "role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
      "fill=\"#1b1f24\">\n<title>" +
      escaped(title_) + "</title>\n";
  for (const double tick : x_axis.ticks()) {
    const double x = x_axis.pixel(tick);
    out += text("<path d=\"M%.1f %.1fV%.1f\" stroke=\"#e4e8ec\"/>\n", x, kTop, bottom);
    out += label(x, bottom + 16, "middle", short_number(tick));
  }
  for (const double tick : y_axis.ticks()) {
    const double y = y_axis.pixel(tick);
    out += text("<path d=\"M%.1f %.1fH%.1f\" stroke=\"#e4e8ec\"/>\n", kLeft, y, right);
    out += label(kLeft - 6, y + 4, "end", short_number(tick));
  }
  out += text("<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#57606a\"/>\n", kLeft, kTop,
              bottom, right);
  out += label(kLeft, 16, "start", title_, "font-weight=\"600\"");
  out += label((kLeft + right) / 2, height - 8, "middle", x_label_);
  if (!y_label_.empty()) {
    const double middle = (kTop + bottom) / 2;
    out += label(14, middle, "middle", y_label_,
                 text("transform=\"rotate(-90 14 %.1f)\"", middle).c_str());
  }
  for (const Curve& c : curves_) {
    std::string path;
    bool pen = false;
    for (size_t i = 0; i < c.x.size(); i++) {
      if (!x_axis.takes(c.x[i]) || !y_axis.takes(c.y[i])) {
        pen = false;
        continue;
      }
      const double x = x_axis.pixel(c.x[i]), y = y_axis.pixel(c.y[i]);
      // a dot is a line of no length with round ends
      path += text(c.dots ? "M%.1f %.1fh0" : pen ? "L%.1f %.1f" : "M%.1f %.1f", x, y);
      pen = true;
    }
    if (path.empty()) continue;
    out += "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + c.colour + "\" stroke-width=\"" +
           (c.dots ? "4" : "1.6") + "\" stroke-linecap=\"round\" stroke-linejoin=\"round\"/>\n";
  }
  // the legend, at the right of the title
  double x = right;
  std::vector<std::string> named;
  for (auto c = curves_.rbegin(); c != curves_.rend(); ++c) {
    if (c->label.empty() || std::find(named.begin(), named.end(), c->label) != named.end()) {
      continue;
    }
    named.push_back(c->label);
    out += label(x, 16, "end", c->label);
    x -= 6.6 * static_cast<double>(c->label.size()) + 6;
    out += text("<path d=\"M%.1f 12h%s\" stroke=\"", c->dots ? x : x - 14, c->dots ? "0" : "14") +
           c->colour + "\" stroke-width=\"" + (c->dots ? "5" : "2") +
           "\" stroke-linecap=\"round\"/>\n";
    x -= 26;
  }
  return out + "</svg>\n";
}

}  // namespace diffmj
