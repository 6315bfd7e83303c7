// A cluster that exists as numbers: how long gradients take, how the network carries bytes, what a
// server needs for a push, who dies and joins when. Read from a file of models/clusters/.
//
// Units: seconds and bytes here; in files as the fields say. Figures of a profile are modelled
// figures; every profile names the source of its numbers.
// Thread safety: const after load().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/link_model.h"
#include "src/prototxt/fields.h"
#include "src/sim/step_times.h"

namespace kinet {

struct ServerCosts {
  double per_push = 0;             // seconds beside the bytes: message handling, a kernel launch
  double bytes_per_second = 10e9;  // memory that a server reads and writes while it applies
  // How pushes and answers come and go:
  //   kLinks   over the servers' links, full duplex, whenever they are free
  //   kCopies  the server fetches a push when it takes it and brings the answer, one at a time, and
  //            does nothing else meanwhile: a host that copies to and from its devices
  //   kTree    pushes of models that wait for all are summed by a binomial tree, and answers spread
  //            by one; those of other models as kLinks
  enum class Exchange { kLinks, kCopies, kTree } exchange = Exchange::kLinks;
  bool resident = false;  // kTree: a worker's device holds the weights; the tree has no server
  // Seconds of a push: `passes` vectors of `bytes` each, read or written.
  double seconds(uint64_t bytes, int passes) const {
    return per_push + static_cast<double>(bytes) * passes / bytes_per_second;
  }
};

struct ClusterEvent {
  enum class Kind { kLeave, kJoin } kind = Kind::kLeave;
  double at = 0;  // seconds
  int worker = 0;
};

struct ClusterProfile {
  std::string name, source, path;
  std::shared_ptr<const StepTimes> steps;
  LinkModel::Parameters link;
  ServerCosts server;
  std::vector<ClusterEvent> events;  // by time

  // `seed`: of everything that is drawn. `set`: fields that win over the file, "compute.mean=0.1".
  // Throws Error with all that is wrong with the file.
  static ClusterProfile load(const std::string& path, uint64_t seed,
                             const std::vector<std::string>& set = {});
  static const MessageType& fields();
  std::string describe() const;  // a line for people
};

}  // namespace kinet
