// The rounds of a run that is to be repeated, out of its metrics.jsonl (src/sync/replay.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/sync/replay.h"

namespace kinet {

// `given`: a run folder, or a metrics.jsonl. Throws Error when there is none.
std::filesystem::path find_replay_log(const std::string& given);
std::vector<ReplayRound> read_replay_log(const std::filesystem::path& log);
// That the run was started with; nothing when the log does not say.
std::optional<uint64_t> seed_of_log(const std::filesystem::path& log);

}  // namespace kinet
