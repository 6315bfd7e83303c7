#include "src/cli/bench_tune.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "comm/comm_fields.h"
#include "comm/transport.h"
#include "comm/workers.h"
#include "src/base/files.h"
#include "src/prototxt/value.h"

namespace kinet {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

constexpr double kBetter = 1.02;  // less is noise

std::string text_of(const Settings& settings) {
  std::string out;
  for (const auto& [knob, value] : settings) out += fmt::format(" {}={}", knob, value);
  return out.empty() ? " defaults" : out;
}

// Around the default: a quarter to four times.
std::vector<std::string> values_around(const Field& field) {
  std::vector<std::string> out{field.default_value};
  int64_t number = 0;
  if (field.kind == FieldKind::kBool) {
    out.emplace_back(field.default_value == "true" ? "false" : "true");
  } else if (field.kind == FieldKind::kUint &&
             parse_integer(field.default_value, number) == IntegerText::kInteger && number > 0) {
    for (const int64_t value : {number / 4, number / 2, number * 2, number * 4}) {
      if (value > 0) out.push_back(std::to_string(value));
    }
  }
  return out;
}

}  // namespace

TuneResult tune(const std::vector<Knob>& knobs,
                const std::function<double(const Settings&)>& score) {
  TuneResult out;
  out.first = out.best = score({});
  std::printf("# %10.3f  defaults\n", out.first);
  for (const Knob& knob : knobs) {
    std::string chosen;
    for (size_t i = 1; i < knob.values.size(); ++i) {
      if (knob.values[i] == knob.values[0]) continue;
      Settings settings = out.chosen;
      settings.emplace_back(knob.name, knob.values[i]);
      const double value = score(settings);
      const bool better = value > out.best * kBetter;
      std::printf("# %10.3f %s%s\n", value, text_of(settings).c_str(), better ? "  (better)" : "");
      std::fflush(stdout);
      if (!better) continue;
      out.best = value;
      chosen = knob.values[i];
    }
    if (!chosen.empty()) out.chosen.emplace_back(knob.name, chosen);
  }
  return out;
}

std::vector<Knob> transport_knobs(const std::string& transport) {
  std::vector<Knob> out;
  const TransportType* type = TransportRegistry::instance().find(transport);
  if (type == nullptr || type->fields == nullptr) return out;
  for (const Field& field : type->fields->fields) {
    std::vector<std::string> values = values_around(field);
    if (values.size() > 1) out.push_back({transport + "." + field.name, std::move(values)});
  }
  return out;
}

std::string comm_param_block(const std::string& transport, const TuneResult& result) {
  std::string out, inner;
  for (const auto& [knob, value] : result.chosen) {
    const size_t dot = knob.find('.');
    if (knob.rfind("--", 0) == 0) {
      out += fmt::format("# with {} {}\n", knob, value);
    } else if (dot != std::string::npos) {
      inner += fmt::format("    {}: {}\n", knob.substr(dot + 1), value);
    }
  }
  out += "comm_param {\n";
  if (!transport.empty()) out += fmt::format("  transport: \"{}\"\n", transport);
  if (!inner.empty()) out += fmt::format("  {} {{\n{}  }}\n", transport, inner);
  return out + "}\n";
}

void add_settings(std::vector<std::string>& words, const BenchFlags& flags,
                  const Settings& settings) {
  if (!flags.transport.empty()) words.insert(words.end(), {"--transport", flags.transport});
  if (!flags.comm_param.empty()) words.insert(words.end(), {"--comm-param", flags.comm_param});
  if (flags.threads_as_ranks) words.emplace_back("--threads-as-ranks");
  for (const std::string& set : flags.sets) words.insert(words.end(), {"--set", set});
  for (const auto& [knob, value] : settings) {
    if (knob.rfind("--", 0) == 0) {
      words.insert(words.end(), {knob, value});
    } else {
      words.insert(words.end(), {"--set", knob + "=" + value});
    }
  }
}

std::string run_and_read_json(std::vector<std::string> arguments, int workers) {
  const std::string file =
      (std::filesystem::temp_directory_path() / fmt::format("kinet-tune-{}.json", getpid()))
          .string();
  const bool threads =
      std::find(arguments.begin(), arguments.end(), "--threads-as-ranks") != arguments.end() ||
      std::find(arguments.begin(), arguments.end(), "inproc") != arguments.end();
  arguments.insert(arguments.begin(), "kinet");
  arguments.insert(arguments.end(), {"--json", file});
  if (threads) arguments.insert(arguments.end(), {"--workers", std::to_string(workers)});
  WorkerOptions quiet;
  quiet.out = quiet.err = [](const std::string&) {};
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const int status = run_workers(program, arguments, threads ? 1 : workers, quiet);
  std::string text;
  if (status == 0) text = read_file(file);
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return text;
}

}  // namespace kinet
