// The frame of pages that the library writes: one HTML file, style in it, no scripts.
#ifndef DIFFMJ_BASE_PAGE_H_
#define DIFFMJ_BASE_PAGE_H_

#include <string>

namespace diffmj {

// body is HTML, after a heading with the title.
std::string html_page(const std::string& title, const std::string& body);

// <p>, escaped; kind: "quiet" or "note".
std::string html_paragraph(const std::string& words, const char* kind = nullptr);
// <td> for a number.
std::string html_number(const std::string& x);
std::string html_number(double x);

}  // namespace diffmj

#endif  // DIFFMJ_BASE_PAGE_H_
