// A cluster profile from what a real run has recorded in its metrics.jsonl.
//
// Of a run with servers, round by round: how long each gradient took its worker, how long the first
// server was busy, who was lost and joined. From that
//   compute   GAMMA around each worker's own mean (slow { worker factor }), and random slow-downs
//             where enough steps take more than twice the median of their worker
//   server    seconds a push, divided into bytes at 10 GB/s and the rest a push
//   events    of the run
// Of another run the display lines alone: the mean of a step, CONSTANT, and its variation from
// display to display as a comment.
// What a run does not record (latency and bandwidth) is a preset after the transport of its solver
// file, and the text says so.
// Thread safety: pure functions of the files.
#pragma once

#include <filesystem>
#include <string>

namespace kinet {

// The text of a profile (models/clusters/*.prototxt). Throws Error when `run_dir` holds no run, or
// one without a single step.
std::string calibrate(const std::filesystem::path& run_dir);

// The recorded steps for clock TRACE: worker,seconds a line. Throws Error when there are none.
std::string recorded_steps(const std::filesystem::path& run_dir);

}  // namespace kinet
