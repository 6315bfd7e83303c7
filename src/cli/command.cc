// From arguments to a command: help, version, unknown names, and the flags of one command.
#include "src/cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <set>

#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/math/blas.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

using Arguments = std::vector<std::string>;

bool is_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

// Commands of a group ("convert"), or all of them for "".
std::vector<const CommandType*> members(const std::string& group) {
  std::vector<const CommandType*> out;
  const CommandRegistry& registry = CommandRegistry::instance();
  for (const std::string& name : registry.names()) {
    if (group.empty() || name.rfind(group + " ", 0) == 0) out.push_back(registry.find(name));
  }
  return out;
}

void print_help(const std::string& group) {
  std::string text;
  if (group.empty()) {
    text += "kinet trains convolutional networks described in prototxt files.\n\n";
  }
  text +=
      fmt::format("usage: kinet {} ARGUMENTS\n\n", group.empty() ? "COMMAND" : group + " COMMAND");
  for (const CommandType* type : members(group)) {
    text +=
        fmt::format("  {:<15} {}\n  {:<15}   $ {}\n", type->name, type->help, "", type->example);
  }
  text +=
      "\n'kinet COMMAND --help' lists the flags of a command; 'kinet --version' names the build.\n";
  std::fputs(text.c_str(), stdout);
}

void print_version() {
  const std::string text = fmt::format("{}\nBLAS: {}\nvector kernels: {}\n", build_info_line(),
                                       blas_description(), vec().name);
  std::fputs(text.c_str(), stdout);
}

// The registered name that the arguments begin with ("" when they only name a group), and takes its
// words off. Throws when there is none.
std::string take_name(Arguments& arguments) {
  const CommandRegistry& registry = CommandRegistry::instance();
  const std::string first = arguments.front();
  if (registry.find(first) != nullptr) {
    arguments.erase(arguments.begin());
    return first;
  }
  const bool is_group = !members(first).empty();
  if (is_group && (arguments.size() == 1 || is_help(arguments[1]))) return "";
  std::string name = first;
  if (is_group) name += " " + arguments[1];
  if (registry.find(name) == nullptr) {
    // Groups are candidates too, so that 'kinet convret' finds 'convert'.
    std::set<std::string> known;
    for (const std::string& candidate : registry.names()) {
      known.insert(is_group ? candidate : candidate.substr(0, candidate.find(' ')));
    }
    fail("there is no command '{}'{}\nhint: 'kinet help' lists the commands", name,
         did_you_mean(name, {known.begin(), known.end()}));
  }
  arguments.erase(arguments.begin(), arguments.begin() + 2);
  return name;
}

Arguments flag_names(const CLI::App& app) {
  Arguments names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// An unknown flag is reported before anything else: it is often why the rest does not fit.
[[noreturn]] void fail_parse(const CLI::App& app, const std::string& name,
                             const std::string& what) {
  const std::string hint = fmt::format("\nhint: 'kinet {} --help' lists what it takes", name);
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word.front() == '-') {
      const std::string flag = word.substr(0, word.find('='));
      fail("{}: there is no flag '{}'{}{}", name, flag, did_you_mean(flag, flag_names(app)), hint);
    }
  }
  for (const std::string& word : app.remaining()) {
    fail("{}: '{}' is one argument too many{}", name, word, hint);
  }
  fail("{}: {}{}", name, what, hint);
}

int run_command(const CommandType& type, Arguments arguments) {
  const std::unique_ptr<Command> command = type.make();
  CLI::App app(type.help, "kinet " + type.name);
  app.footer("Example:\n  " + type.example);
  command->configure(app);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    fail_parse(app, type.name, error.what());
  }
  return command->run();
}

}  // namespace

int run_command_line(const Arguments& given) {
  Arguments arguments = given;
  if (arguments.empty()) {
    print_help("");
    return 0;
  }
  if (arguments.front() == "--version" || arguments.front() == "version") {
    print_version();
    return 0;
  }
  if (is_help(arguments.front())) {  // 'kinet help train' = 'kinet train --help'
    arguments.erase(arguments.begin());
    if (arguments.empty()) {
      print_help("");
      return 0;
    }
    arguments.push_back("--help");
  }
  const std::string group = arguments.front();
  const std::string name = take_name(arguments);
  if (name.empty()) {
    print_help(group);
    return 0;
  }
  return run_command(*CommandRegistry::instance().find(name), arguments);
}

}  // namespace kinet
