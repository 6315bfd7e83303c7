// A round as a line of metrics.jsonl, and back. A run may have 100,000 of them, so a line is short:
// members are lists, and what is empty is left out. Weights and rates keep every bit, since a
// replay
// (`--replay`) applies them again; what is only looked at has six digits.
//
//   {"type":"round","round":7,"iteration":3.5,"seconds":1.25,"k":2,"live":4,"loss":0.53,
//    "members":[[0,8,0.25,0,0.01,"fresh",0.0125],[3,5,0.25,2,0.01,"late",0.03]],
//    "terms":{"gap":0.1},"waiting":[0.1,0,0,0.02],"dropped":1,"service":0.0004,"note":"..."}
//   members: [worker, seq, weight, lag, rate, how, seconds of a mini-batch where they are known]
// Thread safety: pure functions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/solver/observer.h"

namespace kinet {

std::string round_line(const RoundRecord& record);
// None: the line is no round, or is damaged.
std::optional<RoundRecord> parse_round(const std::string& line);
// All rounds of a metrics.jsonl, in order; those that a `start` line with resumed_from takes back
// are left out. Throws Error when the file cannot be read.
std::vector<RoundRecord> read_rounds(const std::filesystem::path& path);

}  // namespace kinet
