// Cotangents of the residuals of one segment.
#ifndef DIFFMJ_IDENTIFY_SEGMENT_LOSS_H_
#define DIFFMJ_IDENTIFY_SEGMENT_LOSS_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "diffmj/gradient.h"
#include "diffmj/recording.h"

namespace diffmj {

// Adds up what the observables of a segment's trajectory receive from its residuals.
class SegmentCotangents {
 public:
  // Both must outlive it.
  SegmentCotangents(const Model& model, const Segment& segment);

  void clear();  // all 0 again
  // r: the residuals of a target in row i, and r_bar their cotangents (nweight numbers each)
  void add(const Target& target, int i, const double* r, const double* r_bar);
  // Looks into this object.
  Cotangents view(const std::vector<std::string>& params) const;

 private:
  const Model& model_;
  const Segment& segment_;
  std::map<std::string, std::vector<double>> bars_;  // by observable
};

// Does a target read sensors, so that a rollout should record them?
bool reads_sensors(const Segment& segment);

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_SEGMENT_LOSS_H_
