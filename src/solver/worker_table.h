// What became of each worker of a run with servers, in words, for its end.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/sync/lead.h"

namespace kinet {

// A line a worker, and one for each that is more than twice as slow as the median worker:
//   "worker 1 (rank 2 (host a, process 77)): 1,204 gradients applied, 3 dropped, 12.1 ms each,
//    waiting 40 % of its time, replaced once"
//   "worker 1 is slow: 12.1 ms a gradient, the median worker takes 4.0 ms"
std::vector<std::string> worker_lines(std::span<const WorkerBook> books);

}  // namespace kinet
