// What a fit compares, and where the numbers are in a recording.
#ifndef DIFFMJ_IDENTIFY_SOURCES_H_
#define DIFFMJ_IDENTIFY_SOURCES_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "diffmj/recording.h"
#include "identify/quantities.h"

namespace diffmj {

// Where the rows and weights of a target are in a recording, which must outlive it.
struct Source {
  Target target;                                             // without numbers
  const std::vector<double>* rows = nullptr;                 // n x columns
  std::shared_ptr<const std::vector<double>> computed = {};  // they are these, if not null
  int columns = 0, begin = 0;                                // the target's numbers in a row
  const std::vector<double>* weights = nullptr;
  int weight_columns = 0, weight_begin = 0;  // 0 columns: one weight for all
  std::vector<bool> recorded;                // width: known in one row at least
  bool at_acceleration = false;              // depends on the control at its row

  double weight(int row, int k) const {
    if (!weights) return 1;
    if (weight_columns == 0) return weights->front();
    const int column = weight_columns == 1 ? 0 : weight_begin + k;
    return row_of(*weights, row, weight_columns)[static_cast<size_t>(column)];
  }
  std::span<const double> values(int row) const {
    return row_of(*rows, row, columns)
        .subspan(static_cast<size_t>(begin), static_cast<size_t>(target.width));
  }
};

// Those of the targets wanted (SegmentOptions::targets); who begins a message.
std::vector<Source> sources(const std::string& who, const Model& model, const Recording& recording,
                            const std::vector<std::string>& wanted);

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_SOURCES_H_
