#include "base/page.h"

#include "base/svg_plot.h"

namespace diffmj {
namespace {

constexpr const char* kStyle = R"(
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; margin: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 1rem 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .4rem; }
p { max-width: 46rem; margin: .5rem 0; }
.quiet { color: #57606a; font-size: .92rem; }
.note { border-left: 3px solid #b3261e; padding-left: .8rem; }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-size: .95rem; }
th, td { text-align: left; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid #e4e8ec; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.matrix td, .matrix th { text-align: center; padding: .2rem .5rem; }
pre { overflow-x: auto; background: #f3f5f7; padding: .8rem; font-size: .85rem; }
)";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>" +
         escaped(title) + "</title><style>" + kStyle + "</style></head><body><main>\n<h1>" +
         escaped(title) + "</h1>\n" + body + "</main></body></html>\n";
}

std::string html_paragraph(const std::string& words, const char* kind) {
  return (kind ? "<p class=\"" + std::string(kind) + "\">" : "<p>") + escaped(words) + "</p>\n";
}

std::string html_number(const std::string& x) { return "<td class=\"number\">" + x + "</td>"; }
std::string html_number(double x) { return html_number(short_number(x)); }

}  // namespace diffmj
