// kinet doctor: what works on this machine, what does not, why, and what to do.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/base/build_info.h"
#include "src/cli/command.h"
#include "src/cli/machine_checks.h"

namespace kinet {
namespace {

const char* mark(Finding::Level level) {
  if (level == Finding::Level::kGood) return "ok";
  return level == Finding::Level::kNote ? "--" : "NO";
}

const char* word(Finding::Level level) {
  if (level == Finding::Level::kGood) return "good";
  return level == Finding::Level::kNote ? "note" : "bad";
}

void print(const char* title, const std::vector<Finding>& findings) {
  std::printf("%s\n", title);
  for (const Finding& f : findings) {
    std::printf("  %s  %-16s %s\n", mark(f.level), f.subject.c_str(), f.summary.c_str());
    for (const std::string& detail : f.details) std::printf("%22s %s\n", "", detail.c_str());
    if (!f.remedy.empty()) std::printf("%22s -> %s\n", "", f.remedy.c_str());
  }
  std::printf("\n");
}

nlohmann::ordered_json as_json(const std::vector<Finding>& findings) {
  auto out = nlohmann::ordered_json::array();
  for (const Finding& f : findings) {
    out.push_back({{"subject", f.subject},
                   {"level", word(f.level)},
                   {"summary", f.summary},
                   {"details", f.details},
                   {"remedy", f.remedy}});
  }
  return out;
}

class Doctor : public Command {
 public:
  static CommandType describe() {
    return {"doctor", "what works on this machine, what does not, and what to do", "kinet doctor"};
  }
  void configure(CLI::App& app) override {
    app.add_flag("--json", json_, "print JSON instead of text");
  }

  int run() override {
    const std::vector<Finding> machine = machine_findings(), transports = transport_findings();
    const bool good = all_needed_works(machine) && all_needed_works(transports);
    if (json_) {
      const nlohmann::ordered_json out{{"build", build_info_line()},
                                       {"works", good},
                                       {"machine", as_json(machine)},
                                       {"transports", as_json(transports)}};
      std::printf("%s\n", out.dump(2).c_str());
    } else {
      std::printf("%s\n\n", build_info_line().c_str());
      print("This machine", machine);
      print("Transports between ranks", transports);
      std::printf("%s\n", good ? "Training works on this machine."
                               : "Training does not work here: see the lines with NO.");
    }
    return good ? 0 : 1;
  }

 private:
  bool json_ = false;
};
KINET_REGISTER_COMMAND(Doctor);

}  // namespace
}  // namespace kinet
