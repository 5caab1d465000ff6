#include "stages/sensors/sensors.h"

#include <algorithm>
#include <cmath>

#include "mj/call.h"
#include "mj/collider.h"
#include "mj/names.h"
#include "stages/acceleration/inverse_dynamics.h"
#include "stages/position/tendon.h"
#include "stages/sensors/scratch.h"
#include "stages/sensors/sensors_internal.h"

namespace diffmj {
namespace {

// Which file has the pullback of a sensor.
enum class Kind { kNone, kFrame, kForce, kTouch, kScalar, kWhole, kDistance };

Kind kind_of(int type) {
  switch (type) {
    case mjSENS_ACCELEROMETER:
    case mjSENS_VELOCIMETER:
    case mjSENS_GYRO:
    case mjSENS_MAGNETOMETER:
    case mjSENS_CAMPROJECTION:
    case mjSENS_FRAMEPOS:
    case mjSENS_FRAMEQUAT:
    case mjSENS_FRAMEXAXIS:
    case mjSENS_FRAMEYAXIS:
    case mjSENS_FRAMEZAXIS:
    case mjSENS_FRAMELINVEL:
    case mjSENS_FRAMEANGVEL:
    case mjSENS_FRAMELINACC:
    case mjSENS_FRAMEANGACC:
      return Kind::kFrame;
    case mjSENS_FORCE:
    case mjSENS_TORQUE:
      return Kind::kForce;
    case mjSENS_TOUCH:
      return Kind::kTouch;
    case mjSENS_JOINTPOS:
    case mjSENS_JOINTVEL:
    case mjSENS_TENDONPOS:
    case mjSENS_TENDONVEL:
    case mjSENS_ACTUATORPOS:
    case mjSENS_ACTUATORVEL:
    case mjSENS_ACTUATORFRC:
    case mjSENS_JOINTACTFRC:
    case mjSENS_TENDONACTFRC:
    case mjSENS_BALLQUAT:
    case mjSENS_BALLANGVEL:
    case mjSENS_JOINTLIMITPOS:
    case mjSENS_JOINTLIMITVEL:
    case mjSENS_JOINTLIMITFRC:
    case mjSENS_TENDONLIMITPOS:
    case mjSENS_TENDONLIMITVEL:
    case mjSENS_TENDONLIMITFRC:
      return Kind::kScalar;
    case mjSENS_SUBTREECOM:
    case mjSENS_SUBTREELINVEL:
    case mjSENS_SUBTREEANGMOM:
    case mjSENS_E_POTENTIAL:
    case mjSENS_E_KINETIC:
    case mjSENS_CLOCK:
      return Kind::kWhole;
    case mjSENS_GEOMDIST:
    case mjSENS_GEOMNORMAL:
    case mjSENS_GEOMFROMTO:
      return Kind::kDistance;
    default:
      return Kind::kNone;
  }
}

bool reads_rows(int type) {
  switch (type) {
    case mjSENS_TOUCH:
    case mjSENS_FORCE:
    case mjSENS_TORQUE:
    case mjSENS_JOINTLIMITPOS:
    case mjSENS_JOINTLIMITVEL:
    case mjSENS_JOINTLIMITFRC:
    case mjSENS_TENDONLIMITPOS:
    case mjSENS_TENDONLIMITVEL:
    case mjSENS_TENDONLIMITFRC:
      return true;
    default:
      return false;
  }
}

// MuJoCo counts the forces of spatial tendons among the external ones of the bodies they pass:
// force and torque sensors are the oracle's then.
bool is_for_oracle(const mjModel* m, int sensor) {
  const int type = m->sensor_type[sensor];
  if (type != mjSENS_FORCE && type != mjSENS_TORQUE) return false;
  for (int i = 0; i < static_cast<int>(m->ntendon); i++) {
    if (m->wrap_type[m->tendon_adr[i]] != mjWRAP_JOINT) return true;
  }
  return false;
}

bool reads_force(int type) {
  return type == mjSENS_TOUCH || type == mjSENS_FORCE || type == mjSENS_TORQUE ||
         type == mjSENS_JOINTLIMITFRC || type == mjSENS_TENDONLIMITFRC;
}

// a or f; forces of actuators are known before the solver
bool reads_acceleration(int type) {
  return type == mjSENS_ACCELEROMETER || type == mjSENS_FRAMELINACC || type == mjSENS_FRAMEANGACC ||
         reads_force(type);
}

bool uses_camera(const mjModel* m, int sensor, int& camera) {
  if (m->sensor_type[sensor] == mjSENS_CAMPROJECTION) {
    camera = m->sensor_refid[sensor];
    return true;
  }
  for (const auto& [type, id] : {std::pair{m->sensor_objtype[sensor], m->sensor_objid[sensor]},
                                 {m->sensor_reftype[sensor], m->sensor_refid[sensor]}}) {
    if (type != mjOBJ_CAMERA || id < 0) continue;
    camera = id;
    // of two, the one that is not fixed to its body
    if (m->cam_mode[camera] != mjCAMLIGHT_FIXED) return true;
  }
  return camera >= 0;
}

CVec part_of(const mjModel* m, CVec sensordata, int sensor) {
  return sensordata.subspan(static_cast<size_t>(m->sensor_adr[sensor]),
                            static_cast<size_t>(m->sensor_dim[sensor]));
}

bool is_zero(CVec x) {
  return std::all_of(x.begin(), x.end(), [](double value) { return value == 0; });
}

// fn(sensor, its cotangent) of all whose cotangent is not zero
template <class Fn>
void for_each_cotangent(const mjModel* m, CVec sensordata_bar, Fn&& fn) {
  for (int i = 0; i < static_cast<int>(m->nsensor); i++) {
    const CVec bar = part_of(m, sensordata_bar, i);
    if (!is_zero(bar)) fn(i, bar);
  }
}

}  // namespace

std::string sensor_name(const mjModel* m, int sensor) {
  return element_name(m, mjOBJ_SENSOR, sensor);
}

std::string sensor_value_obstacle(const StageModel& impl, int sensor) {
  const mjModel* m = impl.mj();
  if (m->sensor_delay[sensor] > 0 || m->sensor_interval[2 * sensor] > 0) {
    return "it has a delay or an interval, which read a history of earlier steps; remove delay= "
           "and interval= from it";
  }
  if (m->sensor_type[sensor] == mjSENS_USER) return "a user sensor is a callback";
  if (m->sensor_type[sensor] == mjSENS_PLUGIN) return "it is a plugin's";
  if (impl.cfd && impl.options.cfd->forward && m->sensor_needstage[sensor] == mjSTAGE_ACC) {
    return "forces from distance in the rollout (Cfd::forward) are not those that it measures";
  }
  return "";
}

std::string sensor_obstacle(const StageModel& impl, int sensor) {
  const mjModel* m = impl.mj();
  const std::string value = sensor_value_obstacle(impl, sensor);
  if (!value.empty()) return value;
  const int type = m->sensor_type[sensor];
  switch (type) {
    case mjSENS_RANGEFINDER:
      return "rays jump at the edges of geoms, and a rangefinder does not tell which it is near";
    case mjSENS_CONTACT:
      return "which contacts a contact sensor lists changes abruptly; use touch, force or "
             "efc_force";
    case mjSENS_TACTILE:
      return "a tactile sensor";
    case mjSENS_INSIDESITE:
      return "insidesite is 0 or 1";
    default:
      break;
  }
  if (kind_of(type) == Kind::kNone) return "this kind of sensor is not known here";
  int camera = -1;
  if (uses_camera(m, sensor, camera) && m->cam_mode[camera] != mjCAMLIGHT_FIXED) {
    return "its camera tracks or targets a body; use mode=\"fixed\"";
  }
  if (impl.has_surrogate_field() && reads_force(type)) {
    return std::string("with ") + (impl.cfd ? "cfd" : "collisions smooth-field") +
           " the forces of the backward pass are others than the rollout's";
  }
  return "";
}

SensorNeeds::SensorNeeds(const mjModel* m, CVec sensordata_bar) {
  if (sensordata_bar.empty()) return;
  for_each_cotangent(m, sensordata_bar, [&](int i, CVec) {
    const int type = m->sensor_type[i];
    any = true;
    stages = stages || (type != mjSENS_JOINTPOS && type != mjSENS_JOINTVEL);
    rows = rows || reads_rows(type);
    acceleration = acceleration || reads_acceleration(type);
    force = force || reads_force(type);
    oracle = oracle || is_for_oracle(m, i);
    int id = -1;
    camera = camera || (m->ncam > 0 && uses_camera(m, i, id));
  });
}

void joint_sensors_pullback(const mjModel* m, CVec sensordata_bar, Vec qpos_bar, Vec qvel_bar) {
  for_each_cotangent(m, sensordata_bar, [&](int i, CVec s_bar) {
    const int type = m->sensor_type[i];
    if (type != mjSENS_JOINTPOS && type != mjSENS_JOINTVEL) return;
    const auto dof = static_cast<size_t>(m->jnt_dofadr[m->sensor_objid[i]]);
    (type == mjSENS_JOINTPOS ? qpos_bar : qvel_bar)[dof] += s_bar[0];
  });
}

void mask_cutoff(const mjModel* m, CVec sensordata, Vec sensordata_bar) {
  for (int i = 0; i < static_cast<int>(m->nsensor); i++) {
    const double cutoff = m->sensor_cutoff[i];
    if (cutoff <= 0 || m->sensor_type[i] == mjSENS_GEOMFROMTO) continue;
    const int datatype = m->sensor_datatype[i];
    if (datatype != mjDATATYPE_REAL && datatype != mjDATATYPE_POSITIVE) continue;
    for (int k = m->sensor_adr[i]; k < m->sensor_adr[i] + m->sensor_dim[i]; k++) {
      const double value = sensordata[static_cast<size_t>(k)];
      const bool beyond = value >= cutoff || (datatype == mjDATATYPE_REAL && value <= -cutoff);
      if (beyond) sensordata_bar[static_cast<size_t>(k)] = 0;
    }
  }
}

void evaluate_sensors(const mjModel* m, mjData* d) {
  mjModel sensing = *m;  // of the pointers
  sensing.opt.disableflags &= ~mjDSBL_SENSOR;
  d->flg_energypos = d->flg_energyvel = d->flg_subtreevel = d->flg_rnepost = 0;
  mj_sensorPos(&sensing, d);
  mj_sensorVel(&sensing, d);
  mj_sensorAcc(&sensing, d);
}

SensorScratch::SensorScratch(const mjModel* m) {
  const auto nout = static_cast<size_t>(m->nout), nv = static_cast<size_t>(m->nv),
             nbody = static_cast<size_t>(m->nbody);
  if (m->nsensor == 0) return;
  for (auto* x : {&actuator_length, &actuator_velocity, &actuator_force}) x->resize(nout);
  for (auto* x : {&qfrc_actuator, &gravcomp, &qacc}) x->resize(nv);
  motion.resize(nbody, Vector6::Zero());
  internal.resize(nbody, Vector6::Zero());
  com.resize(nbody, Vector3::Zero());
  subtree_com.resize(3 * nbody);
}

void SensorScratch::clear() {
  has_tendons = has_actuation = has_rows = has_bodies = has_contacts = has_com = false;
  has_row_force = has_internal = false;
  kinetic = 0;
  for (auto* x : {&actuator_length, &actuator_velocity, &actuator_force, &qfrc_actuator}) {
    std::fill(x->begin(), x->end(), 0.0);
  }
  std::fill(motion.begin(), motion.end(), Vector6::Zero());
  std::fill(com.begin(), com.end(), Vector3::Zero());
}

void sensors_pullback(const StageModel& impl, const SensorProblem& problem, CVec sensordata_bar,
                      const SensorNeeds& needs, const SensorsBar& bar, Workspace& workspace) {
  const mjModel* m = impl.mj();
  mjData* d = workspace.data.get();
  Sweep& s = workspace.sweep;
  const SensorContext c{impl, m, d, problem, bar, workspace, s, workspace.sensors};
  body_accelerations(m, d, problem.in.qvel,
                     needs.acceleration ? problem.qacc : CVec(workspace.zero), effective_gravity(m),
                     s);
  s.clear();
  std::fill(workspace.tendon.bars.begin(), workspace.tendon.bars.end(), TendonBar());
  workspace.sensors.clear();
  workspace.constraint.contacts.clear();
  RowsBar& rows = workspace.constraint.rows;
  if (needs.rows) {
    for (auto* x : {&rows.J_lambda, &rows.J_a, &rows.J_v, &rows.aref, &rows.pos}) {
      x->assign(static_cast<size_t>(c.nefc()), 0.0);
    }
    // λ's place is for virtual motions (force_sensors_finish)
    s.use(m, d, workspace.zero, s.L);
    s.use(m, d, workspace.zero, s.Q);
  }
  if (needs.camera) mj_call("mj_camlight", [&] { mj_camlight(m, d); });

  for_each_cotangent(m, sensordata_bar, [&](int i, CVec s_bar) {
    switch (kind_of(m->sensor_type[i])) {
      case Kind::kFrame:
        frame_sensor_pullback(c, i, s_bar);
        break;
      case Kind::kForce:
        force_sensor_pullback(c, i, s_bar);
        break;
      case Kind::kTouch:
        touch_sensor_pullback(c, i, s_bar);
        break;
      case Kind::kScalar:
        scalar_sensor_pullback(c, i, s_bar);
        break;
      case Kind::kWhole:
        whole_sensor_pullback(c, i, s_bar);
        break;
      case Kind::kDistance:
        distance_sensor_pullback(c, i, s_bar);
        break;
      case Kind::kNone:
        break;  // refused by sensor_obstacle()
    }
  });
  force_sensors_finish(c);
  whole_sensors_finish(c);
  scalar_sensors_finish(c);
  if (m->ntendon > 0 && workspace.sensors.has_tendons) {
    tendon_pullback(m, d, workspace.tendon.bars, {&s.B, &s.V, &s.Q, &s.U, &s.G, &s.C}, bar.qpos,
                    bar.qvel, s, bar.params);
  }
  kinematics_pullback(m, d, s, bar.qpos, bar.qvel, bar.params);
  if (!needs.acceleration) return;
  // the sweep has left sums over all bodies behind
  for (size_t k = 0; k < bar.qacc.size(); k++) {
    const int dof = static_cast<int>(k);
    bar.qacc[k] += axis(d, dof).dot(s.A_bar[static_cast<size_t>(m->dof_bodyid[k])]);
  }
}

void split_sensors(const mjModel* m, CVec sensordata_bar, Vec analytic, Vec oracle) {
  std::copy(sensordata_bar.begin(), sensordata_bar.end(), analytic.begin());
  std::fill(oracle.begin(), oracle.end(), 0.0);
  for_each_cotangent(m, sensordata_bar, [&](int i, CVec) {
    if (!is_for_oracle(m, i)) return;
    for (int k = m->sensor_adr[i]; k < m->sensor_adr[i] + m->sensor_dim[i]; k++) {
      std::swap(analytic[static_cast<size_t>(k)], oracle[static_cast<size_t>(k)]);
    }
  });
}

bool sensor_parameter_is_for_oracle(const mjModel* m, CVec sensordata_bar, Parameter parameter) {
  bool oracle = false;
  for_each_cotangent(m, sensordata_bar, [&](int i, CVec) {
    const int type = m->sensor_type[i];
    switch (parameter) {
      case Parameter::kJntStiffness:
      case Parameter::kQposSpring:
      case Parameter::kTendonStiffness:
      case Parameter::kTendonLengthspring:
        oracle = oracle || type == mjSENS_E_POTENTIAL;
        break;
      case Parameter::kGeomSize:
        oracle = oracle || kind_of(type) == Kind::kDistance;
        break;
      case Parameter::kJntRange:
      case Parameter::kGeomMargin:
      case Parameter::kPairMargin:
        oracle = oracle || type == mjSENS_JOINTLIMITPOS;
        break;
      default:
        break;
    }
  });
  return oracle;
}

}  // namespace diffmj
