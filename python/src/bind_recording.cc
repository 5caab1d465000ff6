// include/diffmj/recording.h
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>

#include "bind.h"
#include "diffmj/recording.h"

namespace diffmj::python {
namespace {

using ReadOnly = nb::ndarray<nb::numpy, const double>;
using Arrays = std::map<std::string, RowArray>;
using Rows2 = std::map<std::string, std::vector<double>>;

constexpr const char* kWeight = "weight:";

struct NamedMap {
  const char* prefix;
  Rows2 Recording::*member;
};
constexpr NamedMap kMaps[] = {{"sensor:", &Recording::sensors},
                              {"site:", &Recording::sites},
                              {"body_pos:", &Recording::body_pos},
                              {"body_quat:", &Recording::body_quat},
                              {kWeight, &Recording::weights}};
struct NamedArray {
  const char* name;
  std::vector<double> Recording::*member;
};
constexpr NamedArray kArrays[] = {
    {"time", &Recording::time}, {"qpos", &Recording::qpos}, {"qvel", &Recording::qvel},
    {"act", &Recording::act},   {"ctrl", &Recording::ctrl}, {"sensordata", &Recording::sensordata}};

// One array per quantity, by its name; weights as "weight:" and that name.
Recording recording_of(const std::string& name, const Arrays& arrays) {
  Recording out{.name = name};
  for (const auto& [key, array] : arrays) {
    std::vector<double> rows(array.data(), array.data() + array.size());
    const std::string& text = key;
    const auto whole = std::find_if(std::begin(kArrays), std::end(kArrays),
                                    [&](const NamedArray& x) { return text == x.name; });
    if (whole != std::end(kArrays)) {
      out.*(whole->member) = std::move(rows);
      continue;
    }
    const auto map = std::find_if(std::begin(kMaps), std::end(kMaps), [&](const NamedMap& x) {
      return text.compare(0, std::string(x.prefix).size(), x.prefix) == 0;
    });
    if (map == std::end(kMaps)) throw InputError("recording: there is no quantity '" + key + "'");
    (out.*(map->member))[text.substr(std::string(map->prefix).size())] = std::move(rows);
  }
  return out;
}

nb::dict arrays_of(const Recording& x) {
  nb::dict out;
  const auto add = [&](const std::string& key, const std::vector<double>& rows) {
    if (rows.empty()) return;
    // a weight for everything is one row
    const size_t n = rows.size() == 1 ? 1 : x.time.size();
    out[key.c_str()] = nb::cast(new_array<double, ReadOnly>(rows, {n, rows.size() / n}));
  };
  for (const NamedArray& array : kArrays) add(array.name, x.*(array.member));
  for (const NamedMap& map : kMaps) {
    for (const auto& [name, rows] : x.*(map.member)) add(map.prefix + name, rows);
  }
  return out;
}

ReadOnly rows_of(const std::vector<double>& rows, int n) {
  const auto count = static_cast<size_t>(n);
  return new_array<double, ReadOnly>(rows, {count, count ? rows.size() / count : 0});
}

auto state_rows(std::vector<double> State::*member) {
  return [member](const Segment& s) {
    const std::vector<double>& x = s.start.*member;
    return new_array<double, ReadOnly>(x, {x.size()});
  };
}

}  // namespace

void bind_recording(nb::module_& m) {
  nb::class_<Recording>(m, "Recording", "A recording, as arrays by the name of the quantity.")
      .def(
          "__init__",
          [](Recording* self, const std::string& name, const Arrays& arrays) {
            new (self) Recording(recording_of(name, arrays));
          },
          "name"_a, "arrays"_a)
      .def_ro("name", &Recording::name)
      .def_prop_ro("arrays", &arrays_of);

  nb::class_<Target>(m, "Target", "Numbers that a fit compares with a simulation.")
      .def_ro("name", &Target::name)
      .def_ro("observable", &Target::observable)
      .def_ro("offset", &Target::offset)
      .def_ro("quaternion", &Target::quaternion)
      .def_prop_ro(
          "values",
          [](const Target& t) {
            return rows_of(t.values, t.width ? static_cast<int>(t.values.size()) / t.width : 0);
          },
          kOwner)
      .def_prop_ro(
          "weights",
          [](const Target& t) {
            return rows_of(t.weights,
                           t.nweight ? static_cast<int>(t.weights.size()) / t.nweight : 0);
          },
          kOwner);

  nb::class_<Segment>(m, "Segment", "A short piece of a recording.")
      .def_ro("recording", &Segment::recording)
      .def_ro("first", &Segment::first)
      .def_ro("length", &Segment::length)
      .def_ro("substeps", &Segment::substeps)
      .def_prop_ro("time", [](const Segment& s) { return s.start.time; })
      .def_prop_ro("qpos", state_rows(&State::qpos), kOwner)
      .def_prop_ro("qvel", state_rows(&State::qvel), kOwner)
      .def_prop_ro("act", state_rows(&State::act), kOwner)
      .def_prop_ro(
          "ctrl", [](const Segment& s) { return rows_of(s.ctrl, s.length * s.substeps); }, kOwner)
      .def_prop_ro("targets", [](const Segment& s) { return s.targets; });

  m.def(
      "validate_recording", [](const Recording& x) { validate(x); }, "recording"_a,
      "What can be said without a model.");
  m.def(
      "validate_recording_for",
      [](const Model& model, const Recording& x) { return validate(model, x); }, "model"_a,
      "recording"_a, "The recording with unit quaternions.");
  m.def(
      "record",
      [](const Model& model, const TrajectoryBatch& batch, int every) {
        return record(model, batch.items.at(0), every);
      },
      "model"_a, "trajectories"_a, "every"_a, "The first trajectory as a recording.");
  m.def(
      "estimate_velocities",
      [](const Model& model, const Recording& x, const std::string& difference) {
        return estimate_velocities(model, x, difference_from_name(difference));
      },
      "model"_a, "recording"_a, "difference"_a, "Velocities by differences of positions.");
  m.def("resample", &resample, "model"_a, "recording"_a, "dt"_a, "The recording at other times.");
  m.def(
      "with_bodies",
      [](const Model& model, const Recording& x, const std::vector<std::string>& bodies) {
        return with_bodies(model, x, bodies);
      },
      "model"_a, "recording"_a, "bodies"_a, "Poses of bodies from recorded positions.");
  nb::class_<SegmentOptions>(m, "SegmentOptions", "See recording.h.")
      .def(nb::init<>())
      // clang-format off
      DIFFMJ_CHOICE(SegmentOptions, rule, segment_rule_name, segment_rule_from_name)
      DIFFMJ_OPTION(SegmentOptions, length) DIFFMJ_OPTION(SegmentOptions, stride)
      DIFFMJ_OPTION(SegmentOptions, margin) DIFFMJ_OPTION(SegmentOptions, max_missing)
      DIFFMJ_OPTION(SegmentOptions, targets);
  // clang-format on
  m.def(
      "segments",
      [](const Model& model, const std::vector<Recording>& recordings,
         const SegmentOptions& options) {
        const nb::gil_scoped_release no_gil;
        return segments(model, recordings, options);
      },
      "model"_a, "recordings"_a, "options"_a, "Segments in the order of recordings and rows.");
  m.def(
      "residuals",
      [](const Model& model, const Segment& segment, const TrajectoryBatch& batch) {
        std::vector<std::vector<double>> all;
        {
          const nb::gil_scoped_release no_gil;
          all = residuals(model, segment, batch.items.at(0));
        }
        nb::list out;
        for (const std::vector<double>& x : all) {
          out.append(nb::cast(rows_of(x, segment.length + 1)));
        }
        return out;
      },
      "model"_a, "segment"_a, "trajectories"_a, "simulated - recorded, of each target.");
  m.def(
      "split",
      [](int n, double share, unsigned seed) {
        Split out = split(n, share, seed);
        return std::pair(std::move(out.training), std::move(out.held_out));
      },
      "n"_a, "share"_a, "seed"_a, "Indices to fit and to test on.");
  m.def("read_csv", &read_csv, "model"_a, "path"_a, "A recording from a CSV file.");
  m.def("write_csv", &write_csv, "recording"_a, "path"_a, "Writes a recording to a CSV file.");
}

}  // namespace diffmj::python
