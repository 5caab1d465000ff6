// diffmj completion: a script that makes a shell complete subcommands, options and their values.
#include <algorithm>
#include <memory>

#include "cli.h"
#include "output.h"

namespace diffmj::cli {
namespace {

constexpr const char* kFooter = R"help(Examples:
  diffmj completion bash > ~/.local/share/bash-completion/completions/diffmj
  diffmj completion zsh > ~/.zfunc/_diffmj      # where fpath has ~/.zfunc, before compinit
  diffmj completion fish > ~/.config/fish/completions/diffmj.fish
  eval "$(diffmj completion bash)"              # in this shell alone)help";

enum class Value { kNone, kAny, kFile, kFolder, kChoice };

struct OptionWord {
  std::string name;  // without dashes
  std::string help;  // what it does, without default and choices
  Value value = Value::kNone;
  std::vector<std::string> choices;
};

struct Command {
  std::string name, help;
  std::vector<OptionWord> options;
  std::vector<std::string> extensions;  // of the file it takes
  std::vector<std::string> words;       // or what it takes instead of a file
};

std::vector<std::string> shells() { return {"bash", "fish", "zsh"}; }

std::vector<std::string> choices_of(const std::string& name) {
  std::string key = name;
  std::replace(key.begin(), key.end(), '-', '_');
  for (const OptionInfo& info : model_option_list()) {
    if (info.name == key) return info.choices;
  }
  if (name != "planner") return {};
  std::vector<std::string> out;
  for (const PlanMethod x :
       {PlanMethod::kGradient, PlanMethod::kSampling, PlanMethod::kHybrid, PlanMethod::kIlqr}) {
    out.emplace_back(plan_method_name(x));
  }
  return out;
}

OptionWord option_word(const CLI::Option& option) {
  OptionWord out{.name = option.get_lnames()[0], .help = option.get_description(), .choices = {}};
  out.help = out.help.substr(0, std::min({out.help.find(" ("), out.help.find(": "),
                                          out.help.find('\n'), out.help.size()}));
  out.choices = choices_of(out.name);
  const std::string text = option.get_option_text();
  if (option.get_items_expected_max() == 0) return out;
  out.value = !out.choices.empty()         ? Value::kChoice
              : text.starts_with("FILE")   ? Value::kFile
              : text.starts_with("FOLDER") ? Value::kFolder
                                           : Value::kAny;
  return out;
}

std::vector<Command> commands(const CLI::App& app) {
  std::vector<Command> out;
  for (const CLI::App* sub : app.get_subcommands({})) {
    Command command{.name = sub->get_name(),
                    .help = sub->get_description(),
                    .options = {},
                    .extensions = {},
                    .words = {}};
    for (const CLI::Option* option : sub->get_options()) {
      const std::string takes = option->get_name(true);
      if (takes == "MODEL") command.extensions = {"xml", "urdf", "mjb"};
      if (takes == "PROBLEM" || takes == "TASK") command.extensions = {"toml"};
      if (takes == "SHELL") command.words = shells();
      if (!option->get_lnames().empty()) command.options.push_back(option_word(*option));
    }
    out.push_back(command);
  }
  return out;
}

std::string spaced(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

// Text within single quotes of a shell.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string bash_script(const std::vector<Command>& all) {
  std::vector<std::string> names = {"--help", "--version"};
  std::string values, words;
  const auto words_of = [](const std::vector<std::string>& list) {
    return "mapfile -t COMPREPLY < <(compgen -W " + shell_quoted(spaced(list)) + " -- \"$word\")";
  };
  const std::string paths = "compopt -o filenames; mapfile -t COMPREPLY < <(";
  for (const Command& command : all) {
    names.push_back(command.name);
    std::vector<std::string> options;
    for (const OptionWord& x : command.options) {
      options.push_back("--" + x.name);
      if (x.value == Value::kNone) continue;
      values += "    " + shell_quoted(command.name + " --" + x.name) + ") ";
      if (x.value == Value::kChoice) values += words_of(x.choices) + "; ";
      if (x.value == Value::kFile) values += paths + "compgen -f -- \"$word\"); ";
      if (x.value == Value::kFolder) values += paths + "compgen -d -- \"$word\"); ";
      values += "return ;;\n";
    }
    words += "    " + shell_quoted(command.name + " -") + "*) " + words_of(options) + " ;;\n";
    if (command.words.empty() && command.extensions.empty()) continue;
    words += "    " + shell_quoted(command.name + " ") + "*) ";
    if (!command.words.empty()) {
      words += words_of(command.words);
    } else {
      words += paths + "compgen -d -- \"$word\"";
      for (const std::string& x : command.extensions) {
        words += "; compgen -f -X '!*." + x + "' -- \"$word\"";
      }
      words += ")";
    }
    words += " ;;\n";
  }
  return "# bash completion of diffmj " DIFFMJ_VERSION R"(
_diffmj() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    )" + words_of(names) +
         "\n    return\n  fi\n  case \"$command $previous\" in\n" + values +
         "  esac\n  case \"$command $word\" in\n" + words +
         "  esac\n}\ncomplete -F _diffmj diffmj\n";
}

// Within [..] and after : of a specification of zsh's _arguments.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_script(const std::vector<Command>& all) {
  std::string names, cases;
  for (const Command& command : all) {
    names += "    " + shell_quoted(escaped(command.name) + ":" + escaped(command.help)) + "\n";
    cases += "    " + command.name + ")\n      _arguments";
    for (const OptionWord& x : command.options) {
      std::string word = "--" + x.name + "[" + escaped(x.help) + "]";
      if (x.value != Value::kNone) word += ": :";
      if (x.value == Value::kChoice) word += "(" + spaced(x.choices) + ")";
      if (x.value == Value::kFile) word += "_files";
      if (x.value == Value::kFolder) word += "_files -/";
      cases += " \\\n        " + shell_quoted(word);
    }
    if (!command.words.empty())
      cases += " \\\n        " + shell_quoted("1: :(" + spaced(command.words) + ")");
    std::string pattern;
    for (const std::string& x : command.extensions) pattern += (pattern.empty() ? "" : "|") + x;
    if (!pattern.empty()) {
      cases += " \\\n        " + shell_quoted("1: :_files -g \"*.(" + pattern + ")\"");
    }
    cases += "\n      ;;\n";
  }
  return "#compdef diffmj\n# zsh completion of diffmj " DIFFMJ_VERSION R"(
_diffmj() {
  local -a commands=(
)" + names +
         R"(  )
  if ((CURRENT == 2)); then
    _describe command commands
    _arguments '--help[print the help]' '--version[print the versions]'
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
)" + cases +
         "  esac\n}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _diffmj \"$@\"\nelse\n"
         "  compdef _diffmj diffmj\nfi\n";
}

std::string fish_script(const std::vector<Command>& all) {
  std::string out = "# fish completion of diffmj " DIFFMJ_VERSION "\ncomplete -c diffmj -f\n";
  out += "complete -c diffmj -n __fish_use_subcommand -l version -d 'Print the versions'\n";
  for (const Command& command : all) {
    out += "complete -c diffmj -n __fish_use_subcommand -a " + command.name + " -d " +
           shell_quoted(command.help) + "\n";
    const std::string of =
        "complete -c diffmj -n '__fish_seen_subcommand_from " + command.name + "' ";
    for (const OptionWord& x : command.options) {
      out += of + "-l " + x.name + " -d " + shell_quoted(x.help);
      if (x.value != Value::kNone) out += " -r";
      if (x.value == Value::kChoice) out += " -a " + shell_quoted(spaced(x.choices));
      if (x.value == Value::kFile) out += " -F";
      if (x.value == Value::kFolder) out += " -a '(__fish_complete_directories)'";
      out += "\n";
    }
    if (!command.words.empty()) out += of + "-a " + shell_quoted(spaced(command.words)) + "\n";
    for (const std::string& x : command.extensions) {
      out += of + "-a '(__fish_complete_suffix ." + x + ")'\n";
    }
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app, int& exit_code) {
  CLI::App* sub = app.add_subcommand("completion", "Completion of commands and options in a shell");
  auto shell = std::make_shared<std::string>();
  sub->add_option("SHELL", *shell, "bash, fish or zsh")->required()->option_text(" ");
  sub->footer(kFooter);
  sub->callback([shell, &app, &exit_code] {
    const std::vector<Command> all = commands(app);
    std::string script;
    if (*shell == "bash") {
      script = bash_script(all);
    } else if (*shell == "fish") {
      script = fish_script(all);
    } else if (*shell == "zsh") {
      script = zsh_script(all);
    } else {
      throw InputError(unknown_name("shell", *shell, shells()));
    }
    Output output("");
    output.write(script);
    output.finish();
    exit_code = kExitOk;
  });
}

}  // namespace diffmj::cli
