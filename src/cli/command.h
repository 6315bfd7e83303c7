// Sub-commands of the program. Each is one file of src/cli that registers itself:
//
//   class Devices : public Command {
//    public:
//     static CommandType describe() {
//       return {"devices", "what this machine computes with", "kinet devices"};
//     }
//     void configure(CLI::App& app) override;  // declares flags, bound to members
//     int run() override;                      // does the work, returns the exit status
//   };
//   KINET_REGISTER_COMMAND(Devices);
//
// A name of two words ("convert mean") is a command of a group; the group ("convert") comes into
// being by itself and lists its members. Wrong input is reported by throwing Error.
// Thread safety: one command runs, on the main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/registry.h"

namespace CLI {
class App;
}

namespace kinet {

class Command {
 public:
  virtual ~Command() = default;
  virtual void configure(CLI::App& app) = 0;
  virtual int run() = 0;
};

struct CommandType {
  std::string name;     // as typed: "train", "convert mean"
  std::string help;     // one line
  std::string example;  // one line that works from the top folder of the source tree
  std::unique_ptr<Command> (*make)() = nullptr;  // set by KINET_REGISTER_COMMAND
};

using CommandRegistry = Registry<CommandType>;

// Runs what the arguments (without the program's name) ask for; returns the exit status.
// Throws Error for an unknown command or flag, with the nearest valid one.
int run_command_line(const std::vector<std::string>& arguments);

template <class Class>
bool register_command() {
  CommandType type = Class::describe();
  type.make = []() -> std::unique_ptr<Command> { return std::make_unique<Class>(); };
  const std::string name = type.name;
  return CommandRegistry::instance().add(name, std::move(type));
}

#define KINET_REGISTER_COMMAND(Class) \
  [[maybe_unused]] static const bool kRegistered##Class = ::kinet::register_command<Class>()

}  // namespace kinet
