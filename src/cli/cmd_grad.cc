// diffmj grad: the gradient of a rollout, as JSON or CSV.
#include <memory>

#include "adaptive.h"
#include "cfd.h"
#include "cli.h"
#include "loss.h"
#include "output.h"

namespace diffmj::cli {
namespace {

constexpr Defaults kDefaults{.nstep = 100, .settle = 0};

constexpr const char* kFooter = R"(The loss is a weighted sum of entries of the last state:
  qpos[2]           by number; also qvel[..], act[..]
  qvel[knee]        by joint, of a joint with one coordinate
  qpos[root,2]      by joint and coordinate
  site_xpos[tip,2]  by site, body or geom (name or number) and coordinate; a matrix has 0 to 8, row by row.
                    bodies: xpos, xquat, xmat, subtree_com, body_linvel, body_angvel;
                    sites: site_xpos, site_xmat, site_linvel, site_angvel; geoms: geom_xpos, geom_xmat
  sensor('imu')[2]  by the name of a sensor and its entry; without an entry all of its entries, added
  qvel              all entries, added; sum is qpos + qvel + act
  qpos[2] - 0.5*qvel[knee]

Examples:
  diffmj grad humanoid.xml --nstep 50 --loss "qpos[2]"
  diffmj grad arm.xml --key home --ctrl "0.1 0 -0.2" --loss "qpos[elbow]+0.01*qvel" --every-step
  diffmj grad arm.xml --nstep 50 --loss "site_xpos[tip,2] + 0.1*body_linvel[hand,0]"
  diffmj grad robot.xml --nstep 50 --loss "sensor('imu')[2]" --every-step
  diffmj grad arm.xml --ctrl-file controls.csv --csv --output gradient.csv
  diffmj grad cube.xml --integrator tsit5 --rtol 1e-8 --interval 0.02 --checkpoints 50)";

struct GradCommand {
  CommonOptions common;
  std::string loss = "sum";
  bool every_step = false;
  bool csv = false;
};

// One field of the gradient: rows of width entries, the first row at step 0.
struct Field {
  const char* name;
  const std::vector<double>& values;
  int width;
  bool per_step;
};

std::vector<Field> fields(const Model& model, const Gradient& g) {
  return {{"qpos", g.qpos, model.nq(), false}, {"qpos_tangent", g.qpos_tangent, model.nv(), false},
          {"qvel", g.qvel, model.nv(), false}, {"act", g.act, model.na(), false},
          {"ctrl", g.ctrl, model.nu(), true},  {"qfrc_applied", g.qfrc_applied, model.nv(), true}};
}

std::string csv_text(const Model& model, double loss, const Gradient& gradient) {
  std::string text = csv_row({"name", "step", "index", "value"});
  text += csv_row({"loss", "0", "0", number_text(loss)});
  for (const Field& field : fields(model, gradient)) {
    for (size_t i = 0; i < field.values.size(); i++) {
      const auto width = static_cast<size_t>(field.width);
      text += csv_row({field.name, std::to_string(i / width), std::to_string(i % width),
                       number_text(field.values[i])});
    }
  }
  return text;
}

Json gradient_json(const Setup& setup, const Gradient& gradient) {
  Json out = Json::object();
  for (const Field& field : fields(setup.model, gradient)) {
    if (field.per_step) {
      out[field.name] = json_rows(field.values, static_cast<size_t>(setup.nstep), field.width);
    } else {
      out[field.name] = field.values;
    }
  }
  return out;
}

int run(const GradCommand& command) {
  const Setup setup = read_setup(command.common, kDefaults);
  const Loss loss = parse_loss(setup.model, command.loss);
  Output output(command.common.output);
  const Trajectory trajectory = run_rollout(setup);
  if (!trajectory.ok()) throw RolloutError(trajectory.message);

  const LossValue at = evaluate_loss(setup.model, loss, trajectory, command.every_step);
  Gradient gradient;
  {
    Progress progress("gradient");
    gradient =
        rollout_pullback(setup.model, trajectory, at.cotangents(), rollout_options(progress));
  }

  if (command.csv) {
    output.write(csv_text(setup.model, at.value, gradient));
  } else {
    Json result = json_header(setup);
    result["outcome"] = outcome_name(trajectory.outcome);
    result["loss"] = {
        {"expression", command.loss}, {"every_step", command.every_step}, {"value", at.value}};
    result["muscle_smoothing"] = setup.model.muscle_smoothing();
    result["collisions"] = collisions_name(setup.model.options().collisions.mode);
    if (setup.model.is_adaptive()) {
      result["integrator"] = json_integrator(trajectory);
      result["adjoint"] = json_adjoint(setup.model, gradient);
    }
    if (setup.model.options().cfd) {
      result["cfd"]["evaluations"] = gradient.cfd.evaluations;
      result["cfd"]["capped"] = gradient.cfd.capped;
    }
    result["gradient"] = gradient_json(setup, gradient);
    result["warnings"] = json_warnings(trajectory.warnings);
    output.write(json_text(result));
  }
  output.finish();
  if (command.csv) {
    report_warnings(trajectory.warnings);
    report_cfd(gradient.cfd);
  }
  return kExitOk;
}

}  // namespace

void add_grad(CLI::App& app, int& exit_code) {
  CLI::App* sub = app.add_subcommand("grad", "Gradient of a loss on the states of a rollout");
  auto command = std::make_shared<GradCommand>();
  add_common_options(*sub, command->common, kDefaults);
  sub->add_option("--loss", command->loss, "what to differentiate, see below (default sum)")
      ->option_text("TERMS");
  sub->add_flag("--every-step", command->every_step,
                "add the loss over all states, start included");
  sub->add_flag("--csv", command->csv, "CSV (name,step,index,value) instead of JSON");
  sub->footer(kFooter);
  sub->callback([command, &exit_code] { exit_code = run(*command); });
}

}  // namespace diffmj::cli
