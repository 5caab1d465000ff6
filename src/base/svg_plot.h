// Lines and dots over two axes, as SVG: the plots of pages that the library writes.
#ifndef DIFFMJ_BASE_SVG_PLOT_H_
#define DIFFMJ_BASE_SVG_PLOT_H_

#include <string>
#include <vector>

namespace diffmj {

// Text as HTML and SVG take it.
std::string escaped(const std::string& text);
// "0.00123", four digits.
std::string short_number(double x);

class SvgPlot {
 public:
  SvgPlot(std::string title, std::string x_label, std::string y_label = {}, bool log_y = false)
      : title_(std::move(title)),
        x_label_(std::move(x_label)),
        y_label_(std::move(y_label)),
        log_y_(log_y) {}

  // Points that are not finite, or not positive on a logarithmic axis, break a line. A label is for
  // the legend; curves of the same label have one entry.
  void line(std::vector<double> x, std::vector<double> y, std::string colour,
            std::string label = {});
  void dots(std::vector<double> x, std::vector<double> y, std::string colour,
            std::string label = {});

  std::string svg(int width = 460, int height = 260) const;

 private:
  struct Curve {
    std::vector<double> x, y;
    std::string colour, label;
    bool dots = false;
  };
  std::string title_, x_label_, y_label_;
  bool log_y_;
  std::vector<Curve> curves_;
};

}  // namespace diffmj

#endif  // DIFFMJ_BASE_SVG_PLOT_H_
