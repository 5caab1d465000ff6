// Quantities of a recording: their names, where their numbers are, how a row of them is laid out.
#ifndef DIFFMJ_IDENTIFY_QUANTITIES_H_
#define DIFFMJ_IDENTIFY_QUANTITIES_H_

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "diffmj/model.h"
#include "diffmj/recording.h"

namespace diffmj {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

enum class QuantityKind {
  kQpos,
  kQvel,
  kAct,
  kCtrl,
  kSensordata,
  kSensor,
  kSite,
  kBodyPos,
  kBodyQuat,
};

struct Quantity {
  QuantityKind kind = QuantityKind::kQpos;
  std::string element = {};  // name of the sensor, site or body

  std::string name() const;  // "qpos", "sensor:imu"
};

// The ones that are recorded, in the order of QuantityKind and of names.
std::vector<Quantity> quantities(const Recording& recording);
// The quantity of this name; false if it is the name of none. The model is not asked whether it has
// such a sensor, site or body.
bool quantity_from_name(const std::string& name, Quantity& out);

const std::vector<double>& values(const Recording& recording, const Quantity& quantity);
std::vector<double>& values(Recording& recording, const Quantity& quantity);

// A row of a quantity in a model.
struct Layout {
  const char* width_name = "";        // "nq"
  int width = 0, nweight = 0;         // numbers and residuals in a row
  const char* observable = "";        // as in Target; empty: ctrl
  int offset = 0;                     // as in Target
  std::vector<int> quaternions = {};  // where they begin in a row
};
// InputError that begins with who, if the model has no such sensor, site or body; it names similar
// ones.
Layout layout(const std::string& who, const Model& model, const Quantity& quantity);

// "recording 'toss 3'"
std::string recording_name(const Recording& recording);

// "; did you mean 'elbow' or 'elbow_2'?", or all names if there are few, or nothing.
std::string similar_names(const std::string& name, const std::vector<std::string>& known);
// All names of a type of object (mjtObj).
std::vector<std::string> element_names(const Model& model, int type);

// The median of the intervals between rows; 0 with fewer than two rows.
double median_interval(std::span<const double> time);
// Whether an interval is so much longer than others that rows are missing in it.
inline bool is_gap(double interval, double median) { return interval > 1.5 * median; }

inline std::span<const double> row_of(const std::vector<double>& rows, int i, int width) {
  return {rows.data() + static_cast<size_t>(i) * static_cast<size_t>(width),
          static_cast<size_t>(width)};
}
inline std::span<double> row_of(std::vector<double>& rows, int i, int width) {
  return {rows.data() + static_cast<size_t>(i) * static_cast<size_t>(width),
          static_cast<size_t>(width)};
}

}  // namespace diffmj

#endif  // DIFFMJ_IDENTIFY_QUANTITIES_H_
