#include "identify/attributes.h"

#include <mujoco/mjspecmacro.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/names.h"
#include "base/suggestion.h"
#include "diffmj/error.h"
#include "mj/call.h"

namespace diffmj {
namespace {

// Numbers of one attribute; null: it is missing, or has no numbers.
struct Numbers {
  double* data = nullptr;
  int size = 0;
};
Numbers numbers(double& x) { return {&x, 1}; }
template <size_t N>
Numbers numbers(double (&x)[N]) {
  return {x, static_cast<int>(N)};
}
template <class T>
Numbers numbers(T&) {
  return {};
}

// find(element, name): the numbers of an attribute; known: the names of all that have any.
#define X(type, field, dim)                                                  \
  if (const Numbers found = numbers(e->field); found.data) {                 \
    if (name == #field) return found;                                        \
    if (known) *known += (known->empty() ? "" : ", ") + std::string(#field); \
  }
#define XVEC(type, field, dim) X(type, field, dim)
#define DIFFMJ_FIND(Type, FIELDS)                                      \
  Numbers find(Type* e, const std::string& name, std::string* known) { \
    FIELDS                                                             \
    return {};                                                         \
  }
DIFFMJ_FIND(mjsBody, MJSBODY_FIELDS)
DIFFMJ_FIND(mjsJoint, MJSJOINT_FIELDS)
DIFFMJ_FIND(mjsGeom, MJSGEOM_FIELDS)
DIFFMJ_FIND(mjsSite, MJSSITE_FIELDS)
DIFFMJ_FIND(mjsTendon, MJSTENDON_FIELDS)
DIFFMJ_FIND(mjsActuator, MJSACTUATOR_FIELDS)
DIFFMJ_FIND(mjsEquality, MJSEQUALITY_FIELDS)
DIFFMJ_FIND(mjsPair, MJSPAIR_FIELDS)
#undef DIFFMJ_FIND
#undef XVEC
#undef X

struct KindName {
  mjtObj type;
  const char* name;
};
constexpr KindName kKinds[] = {
    {mjOBJ_BODY, "body"},         {mjOBJ_JOINT, "joint"},   {mjOBJ_GEOM, "geom"},
    {mjOBJ_SITE, "site"},         {mjOBJ_TENDON, "tendon"}, {mjOBJ_ACTUATOR, "actuator"},
    {mjOBJ_EQUALITY, "equality"}, {mjOBJ_PAIR, "pair"},
};

Numbers find_in(mjtObj type, mjsElement* e, const std::string& name, std::string* known) {
  switch (type) {
    case mjOBJ_BODY:
      return find(mjs_asBody(e), name, known);
    case mjOBJ_JOINT:
      return find(mjs_asJoint(e), name, known);
    case mjOBJ_GEOM:
      return find(mjs_asGeom(e), name, known);
    case mjOBJ_SITE:
      return find(mjs_asSite(e), name, known);
    case mjOBJ_TENDON:
      return find(mjs_asTendon(e), name, known);
    case mjOBJ_ACTUATOR:
      return find(mjs_asActuator(e), name, known);
    case mjOBJ_EQUALITY:
      return find(mjs_asEquality(e), name, known);
    case mjOBJ_PAIR:
      return find(mjs_asPair(e), name, known);
    default:
      return {};
  }
}

Numbers find_in_default(mjtObj type, mjsDefault* d, const std::string& name, std::string* known) {
  switch (type) {
    case mjOBJ_JOINT:
      return find(d->joint, name, known);
    case mjOBJ_GEOM:
      return find(d->geom, name, known);
    case mjOBJ_SITE:
      return find(d->site, name, known);
    case mjOBJ_TENDON:
      return find(d->tendon, name, known);
    case mjOBJ_ACTUATOR:
      return find(d->actuator, name, known);
    case mjOBJ_EQUALITY:
      return find(d->equality, name, known);
    case mjOBJ_PAIR:
      return find(d->pair, name, known);
    default:
      return {};
  }
}

Numbers find_in_option(mjOption& o, const std::string& name, std::string* known) {
  const std::pair<const char*, Numbers> fields[] = {
      {"gravity", numbers(o.gravity)},     {"wind", numbers(o.wind)},
      {"timestep", numbers(o.timestep)},   {"density", numbers(o.density)},
      {"viscosity", numbers(o.viscosity)}, {"impratio", numbers(o.impratio)},
  };
  for (const auto& [field, found] : fields) {
    if (name == field) return found;
    if (known) *known += (known->empty() ? "" : ", ") + std::string(field);
  }
  return {};
}

// An attribute in a spec: the places that hold it, with the same value.
struct Place {
  std::vector<Numbers> all;
};

struct Reference {
  std::string element, attribute;
  int index = -1;  // -1: all
};

[[noreturn]] void fail(const std::string& text, const std::string& what) {
  throw InputError("attribute '" + text + "': " + what);
}

Reference parse(const std::string& text) {
  const size_t slash = text.rfind('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) {
    fail(text, "expected an element and an attribute, for instance elbow/damping");
  }
  Reference out{.element = text.substr(0, slash), .attribute = text.substr(slash + 1)};
  const size_t bracket = out.attribute.find('[');
  if (bracket == std::string::npos) return out;
  const char *first = out.attribute.data() + bracket + 1,
             *last = out.attribute.data() + out.attribute.size() - 1;
  const auto [stop, status] = std::from_chars(first, last, out.index);
  if (status != std::errc() || stop != last || *last != ']' || out.index < 0) {
    fail(text, "expected a number in brackets at its end");
  }
  out.attribute.resize(bracket);
  return out;
}

std::optional<mjtObj> kind_from_name(const std::string& name) {
  for (const KindName& kind : kKinds) {
    if (name == kind.name) return kind.type;
  }
  return std::nullopt;
}

bool same(const Numbers& a, const Numbers& b) {
  // unset numbers are NaN
  return std::equal(a.data, a.data + a.size, b.data,
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// "default.geom", "default(toe).geom"
Place find_default(mjSpec* spec, const std::string& text, const Reference& r) {
  const size_t dot = r.element.rfind('.');
  const std::string cls = r.element.substr(7, dot - 7);
  const std::string kind = dot == std::string::npos ? "" : r.element.substr(dot + 1);
  const std::optional<mjtObj> type = kind_from_name(kind);
  if (!type || *type == mjOBJ_BODY) {
    fail(text, "expected default.joint, default.geom, ... or default(class).geom");
  }
  mjsDefault* from = mjs_getSpecDefault(spec);
  if (!cls.empty()) {
    if (cls.size() < 3 || cls.front() != '(' || cls.back() != ')') {
      fail(text, "expected the name of a class in parentheses, default(toe).geom");
    }
    from = mjs_findDefault(spec, cls.substr(1, cls.size() - 2).c_str());
    if (!from) fail(text, "default class '" + cls.substr(1, cls.size() - 2) + "' does not exist");
  }
  std::string known;
  Place out;
  const Numbers own = find_in_default(*type, from, r.attribute, &known);
  if (!own.data) fail(text, "a " + kind + " has no numbers " + r.attribute + "; it has " + known);
  out.all.push_back(own);
  for (mjsElement* e = mjs_firstElement(spec, *type); e; e = mjs_nextElement(spec, e)) {
    if (!cls.empty() && mjs_getDefault(e) != from) continue;
    const Numbers x = find_in(*type, e, r.attribute, nullptr);
    if (same(x, own)) out.all.push_back(x);
  }
  return out;
}

Place find_place(mjSpec* spec, const std::string& text, const Reference& r) {
  std::string known;
  if (r.element == "option") {
    const Numbers found = find_in_option(spec->option, r.attribute, &known);
    if (!found.data) fail(text, "option has no " + r.attribute + " here; it has " + known);
    return {{found}};
  }
  if (r.element.starts_with("default.") || r.element.starts_with("default(")) {
    return find_default(spec, text, r);
  }
  std::string name = r.element;
  std::optional<mjtObj> only;
  if (const size_t colon = name.find(':'); colon != std::string::npos) {
    only = kind_from_name(name.substr(0, colon));
    if (only) name = name.substr(colon + 1);
  }
  Place out;
  std::string kinds;
  bool exists = false;
  for (const KindName& kind : kKinds) {
    if (only && *only != kind.type) continue;
    mjsElement* e = mjs_findElement(spec, kind.type, name.c_str());
    if (!e) continue;
    exists = true;
    const Numbers found = find_in(kind.type, e, r.attribute, &known);
    if (!found.data) continue;
    out.all.push_back(found);
    kinds += (kinds.empty() ? "" : ", ") + std::string(kind.name) + ":" + name;
  }
  if (!exists) {
    std::vector<std::string> names;
    for (const KindName& kind : kKinds) {
      if (only && *only != kind.type) continue;
      for (mjsElement* e = mjs_firstElement(spec, kind.type); e; e = mjs_nextElement(spec, e)) {
        const std::string other = mjs_getString(mjs_getName(e));
        if (!other.empty() && other != "world") names.push_back(other);
      }
    }
    fail(text, "the model has no element '" + name + "'; it has " +
                   (names.empty() ? "none" : joined(names)) + did_you_mean(name, names));
  }
  if (out.all.empty())
    fail(text, "'" + name + "' has no numbers " + r.attribute + "; it has " + known);
  if (out.all.size() > 1) fail(text, "several elements have that name; choose one of " + kinds);
  return out;
}

}  // namespace

AttributeModel::AttributeModel(const std::string& mjcf, std::span<const std::string> attributes) {
  char error[1024] = "";
  mjSpec* parsed = nullptr;
  const bool is_text = mjcf.find('<') != std::string::npos;
  mj_call("mj_parseXML", [&] {
    parsed = is_text ? mj_parseXMLString(mjcf.c_str(), nullptr, error, sizeof(error))
                     : mj_parseXML(mjcf.c_str(), nullptr, error, sizeof(error));
  });
  if (!parsed) throw MujocoError(std::string("the MJCF does not parse: ") + error);
  spec_.reset(parsed);
  for (const std::string& text : attributes) {
    const Reference r = parse(text);
    const Numbers found = find_place(spec_.get(), text, r).all[0];
    if (r.index >= found.size) {
      fail(text, r.attribute + " has " + std::to_string(found.size) + " numbers");
    }
    double scale = 0;
    for (int i = 0; i < found.size; i++) {
      if (std::isfinite(found.data[i])) scale = std::max(scale, std::abs(found.data[i]));
    }
    const auto add = [&](int i) {
      if (!std::isfinite(found.data[i])) {
        fail(text, "it is not set in the MJCF; give it a value there to start from");
      }
      names_.push_back(r.element + "/" + r.attribute +
                       (found.size == 1 ? "" : "[" + std::to_string(i) + "]"));
      start_.push_back(found.data[i]);
      scales_.push_back(scale);
    };
    if (r.index >= 0) {
      add(r.index);
      continue;
    }
    const size_t before = names_.size();
    for (int i = 0; i < found.size; i++) {
      if (found.data[i] != 0 && std::isfinite(found.data[i])) add(i);
    }
    if (names_.size() == before) add(0);
  }
}

MjSpecPtr AttributeModel::edited(std::span<const double> values) const {
  mjSpec* copied = nullptr;
  mj_call("mj_copySpec", [&] { copied = mj_copySpec(spec_.get()); });
  if (!copied) throw MujocoError("mj_copySpec: MuJoCo could not copy the model's description");
  MjSpecPtr spec(copied);
  // all places first: those of defaults are told by their value
  std::vector<std::pair<Place, int>> places;
  for (const std::string& name : names_) {
    const Reference r = parse(name);
    places.emplace_back(find_place(spec.get(), name, r), std::max(r.index, 0));
  }
  for (size_t i = 0; i < places.size(); i++) {
    for (const Numbers& x : places[i].first.all) x.data[places[i].second] = values[i];
  }
  return spec;
}

namespace {

mjModel* compile(mjSpec* spec) {
  mjModel* compiled = nullptr;
  mj_call("mj_compile", [&] { compiled = mj_compile(spec, nullptr); });
  if (!compiled) {
    throw MujocoError(std::string("the model does not compile with these parameters: ") +
                      mjs_getError(spec));
  }
  return compiled;
}

// A folder relative to that of the model, from anywhere.
void make_absolute(const std::filesystem::path& from, mjString* folder) {
  const std::filesystem::path path = mjs_getString(folder);
  if (!path.is_absolute()) mjs_setString(folder, (from / path).string().c_str());
}

}  // namespace

mjModel* AttributeModel::build(std::span<const double> values) const {
  return compile(edited(values).get());
}

std::string AttributeModel::mjcf(std::span<const double> values) const {
  const MjSpecPtr spec = edited(values);
  const std::string folder = mjs_getString(spec->modelfiledir);
  if (!folder.empty()) {
    const std::filesystem::path from = std::filesystem::absolute(folder);
    make_absolute(from, spec->compiler.meshdir);
    make_absolute(from, spec->compiler.texturedir);
  }
  // only a model that compiles is written
  const MjModelPtr compiled(compile(spec.get()));
  char error[1024] = "";
  std::string out(1, '\0');
  while (true) {
    int size = 0;
    mj_call("mj_saveXMLString", [&] {
      size = mj_saveXMLString(spec.get(), out.data(), static_cast<int>(out.size()), error,
                              sizeof(error));
    });
    if (size < 0) throw MujocoError(std::string("the MJCF cannot be written: ") + error);
    if (size == 0) break;
    out.assign(static_cast<size_t>(size) + 1, '\0');
  }
  out.resize(out.find('\0'));
  return out;
}

}  // namespace diffmj
