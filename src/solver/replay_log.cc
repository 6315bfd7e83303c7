#include "src/solver/replay_log.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/solver/round_lines.h"

namespace kinet {
namespace fs = std::filesystem;
namespace {

ReplayRound replayed(const RoundRecord& r, const fs::path& log) {
  ReplayRound out;
  out.number = r.round;
  out.k = r.k;
  out.live = r.live;
  out.loss = r.loss;
  out.terms = r.terms;
  out.note = r.note;
  for (const RoundRecord::Member& m : r.members) {
    const std::optional<Use> use = use_of(m.how);
    KINET_CHECK(use.has_value(), "{}: round {}: '{}' is no use of a gradient", log.string(),
                r.round, m.how);
    out.members.push_back({m.worker, m.seq, m.weight, m.lag, m.rate, *use, false, m.steps});
  }
  return out;
}

}  // namespace

fs::path find_replay_log(const std::string& given) {
  std::error_code error;
  fs::path log = given;
  if (fs::is_directory(log, error)) log /= "metrics.jsonl";
  KINET_CHECK(fs::is_regular_file(log, error),
              "--replay {}: there is no {}\nhint: the folder of a run, or its metrics.jsonl", given,
              log.string());
  return log;
}

std::vector<ReplayRound> read_replay_log(const fs::path& log) {
  std::vector<ReplayRound> out;
  for (const RoundRecord& r : read_rounds(log)) out.push_back(replayed(r, log));
  return out;
}

std::optional<uint64_t> seed_of_log(const fs::path& log) {
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (!j.is_object() || j.value("type", "") != "start") continue;
    const auto seed = j.find("seed");
    if (seed != j.end() && seed->is_number_unsigned()) return seed->get<uint64_t>();
  }
  return std::nullopt;
}

}  // namespace kinet
