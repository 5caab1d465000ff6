// Differences in parameters.
#include <algorithm>

#include "mj/call.h"
#include "stages/oracle.h"
#include "stages/oracle_outputs.h"
#include "stages/probes.h"

namespace diffmj {
namespace {

// Parameters, relative to their size; contact forces bend in them as in positions (see oracle.cc).
constexpr double kParameterStep = 1e-6;
constexpr double kFreeParameterStep = 1e-4;

// gains and time constants of controllers that are 0 switch a state of theirs off, tausmooth that
// is 0 the blend of time constants, friction loss that is 0 its row
bool is_switch(const mjModel* m, Parameter id, int entry) {
  if (id == Parameter::kDofFrictionloss) return true;
  int actuator = 0;
  if (id == Parameter::kActuatorGainprm) {
    actuator = entry / mjNGAIN;
  } else if (id == Parameter::kActuatorDynprm) {
    actuator = entry / mjNDYN;
    if (m->actuator_dyntype[actuator] == mjDYN_MUSCLE) return entry % mjNDYN == 2;
  } else {
    return false;
  }
  const int type = m->actuator_gaintype[actuator];
  return type == mjGAIN_DCMOTOR || type == mjGAIN_PID;
}

// what actuators on a joint add to the armature of its dofs
double actuator_armature(const mjModel* m, int joint) {
  double sum = 0;
  for (int i = 0; i < static_cast<int>(m->nactuator); i++) {
    const bool on_joint =
        m->actuator_trntype[i] == mjTRN_JOINT || m->actuator_trntype[i] == mjTRN_JOINTINPARENT;
    if (!on_joint || m->actuator_trnid[2 * i] != joint) continue;
    const double gear = m->actuator_gear[6 * m->actuator_outadr[i]];
    sum += gear * gear * m->actuator_armature[i];
  }
  return sum;
}

// of ½ vᵀ M v among the sensors
double kinetic_energy_cotangent(const mjModel* m, CVec sensor_bar) {
  double sum = 0;
  for (int i = 0; i < static_cast<int>(m->nsensor) && !sensor_bar.empty(); i++) {
    if (m->sensor_type[i] != mjSENS_E_KINETIC) continue;
    sum += sensor_bar[static_cast<size_t>(m->sensor_adr[i])];
  }
  return sum;
}

// Differences of the contraction of all outputs, one entry of a parameter at a time.
class ParameterDifferences {
 public:
  ParameterDifferences(const StageModel& impl, const OracleProblem& problem,
                       const Multipliers& multipliers, Workspace& workspace)
      : impl_(impl),
        problem_(problem),
        multipliers_(multipliers),
        workspace_(workspace),
        m_(movable_model(impl, workspace)),
        d_(workspace.data.get()),
        excess_(impl.nv),
        still_(impl.nv),
        kinetic_bar_(kinetic_energy_cotangent(m_, problem.sensor_bar)) {
    mj_call("mj_fwdPosition", [&] {
      write_input(m_, d_, problem.in);
      run_stages(m_, impl.options.adaptive.onset, d_, FirstStage::kPosition);
    });
    workspace.probes.rows.set_base(d_);
    oracle_evaluate(impl, m_, problem, FirstStage::kActuation, workspace.probes.base, workspace);
    b0_ = workspace.probes.base.b;
    step_ = workspace.newton.zone.empty() ? kFreeParameterStep : kParameterStep;
  }

  double of(const ParameterField& field, int entry) {
    ParameterProbe probe(m_, field, entry);
    const double h = step_ * probe.scale();
    const double value = field.data(m_)[entry];
    if (value == 0 && is_switch(m_, field.id, entry)) return 0;
    double f[4];
    const auto at = [&](int k, double x) {
      probe.move(x);
      return sample(f[k]);
    };
    // both samples are taken, whatever the first finds
    const auto side = [&](int k, double x) {
      const bool near = at(k, x), far = at(k + 1, 2 * x);
      return near && far;
    };
    // gradient: damping that is 0 takes the side above; a row that vanishes, the other side
    const bool one_sided = value == 0 && field.id == Parameter::kDofDamping;
    const bool above = side(0, h), below = !one_sided && side(2, -h);
    if (above == below && !one_sided) return (8 * (f[0] - f[2]) - f[1] + f[3]) / (12 * h);
    double base = 0;
    probe.move(0);
    sample(base);
    return above || one_sided ? (4 * f[0] - f[1] - 3 * base) / (2 * h)
                              : -(4 * f[2] - f[3] - 3 * base) / (2 * h);
  }

 private:
  static mjModel* movable_model(const StageModel& impl, Workspace& workspace) {
    if (!workspace.probes.model) workspace.probes.model = movable_copy(impl.mj());
    return workspace.probes.model.get();
  }

  // M of dofs with body_simple is a constant of the model: what inverse dynamics says is missing
  // of M x, in excess_
  void find_excess(const double* x) {
    mj_call("mj_rne", [&] {
      mju_copy(d_->qacc, x, impl_.nv);
      mj_rne(m_, d_, 1, excess_.data());
      mju_zero(d_->qacc, impl_.nv);
      mj_rne(m_, d_, 1, still_.data());
      excess_ -= still_;
      mj_mulM(m_, d_, still_.data(), x);
    });
    for (int i = 0; i < impl_.nv; i++) {
      const double armature = m_->dof_armature[i] + actuator_armature(m_, m_->dof_jntid[i]);
      excess_[i] = m_->dof_simplenum[i] > 0 ? excess_[i] + armature * x[i] - still_[i] : 0;
    }
  }

  // the contraction at the parameter as it is now, and whether all rows of the base are there
  bool sample(double& total) {
    write_input(m_, d_, problem_.in);
    const bool all_rows = oracle_evaluate(impl_, m_, problem_, FirstStage::kPosition,
                                          workspace_.probes.probe, workspace_);
    Eigen::VectorXd sum(1);
    oracle_contract(multipliers_, problem_.sensor_bar, workspace_.probes.probe,
                    workspace_.probes.base, sum);
    find_excess(problem_.qacc.data());
    total = sum[0];
    if (multipliers_.lambda) total -= multipliers_.lambda->row(0).dot(excess_);
    if (multipliers_.mu) {
      if (!problem_.mass_vector.empty()) find_excess(problem_.mass_vector.data());
      total += multipliers_.mu->row(0).dot(excess_);
    }
    if (problem_.noslip) {
      const Eigen::Map<const Matrix> M_bar(workspace_.projection.M_bar.data(), impl_.nv, impl_.nv);
      for (int i = 0; i < impl_.nv; i++) {
        if (m_->dof_simplenum[i] == 0) continue;
        const Eigen::VectorXd unit = Eigen::VectorXd::Unit(impl_.nv, i);
        find_excess(unit.data());
        total += M_bar.row(i).dot(excess_);
      }
    }
    if (kinetic_bar_ != 0) {
      const ConstVectorMap qvel = eigen(problem_.in.qvel);
      find_excess(qvel.data());
      total += kinetic_bar_ / 2 * qvel.dot(excess_);
    }
    if (multipliers_.mu && multipliers_.b_bar) {
      find_excess(b0_.data());
      total -= multipliers_.mu->row(0).dot(excess_);
    }
    return all_rows;
  }

  const StageModel& impl_;
  const OracleProblem& problem_;
  const Multipliers& multipliers_;
  Workspace& workspace_;
  mjModel* m_;
  mjData* d_;
  Eigen::VectorXd excess_, still_, b0_;  // nv
  double kinetic_bar_, step_ = 0;
};

}  // namespace

void oracle_parameters_pullback(const StageModel& impl, const OracleProblem& problem,
                                const Multipliers& multipliers, const ParameterBar& params,
                                Workspace& workspace) {
  if (!params.any()) return;
  ParameterDifferences differences(impl, problem, multipliers, workspace);
  for (const ParameterField& field : parameter_fields()) {
    const Vec bar = params[field.id];
    for (int entry = 0; entry < static_cast<int>(bar.size()); entry++) {
      bar[static_cast<size_t>(entry)] += differences.of(field, entry);
    }
  }
}

}  // namespace diffmj
