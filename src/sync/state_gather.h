// The whole state of the servers at the lead: the other servers put their slices of the weights, of
// the optimizer's history and of the workers' own momenta into the lead's memory. For snapshots,
// for tests that the lead makes itself, and for the weights that a run ends with.
//
// The request travels as a command (sync_messages.h), so every slice is of the same version: that
// of the commands before it.
//
// Memory of one server in the lead's region, n floats a slice; it begins at
// SyncLayout::begin(server) times the number of blocks:
//   [ weights n | history blocks x n | own momenta of the workers that have one, x n ]
// Every server has the same own momenta, since all apply the same members.
//
// Thread safety: one thread calls; handlers only count what came.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "src/sync/put_queue.h"
#include "src/sync/server_rank.h"
#include "src/sync/shard.h"

namespace kinet {

// Over all slices, each laid out like the parameter arena.
struct WholeState {
  std::vector<float> history;                    // the optimizer's blocks, one after the other
  std::vector<std::vector<float>> own_momentum;  // by worker; empty: it has none
};

class StateGather {
 public:
  // `history_blocks`: of the optimizer. `timeout`: seconds that another server may take.
  StateGather(Communicator& comm, const SyncLayout& layout, Shard& shard, int history_blocks,
              double timeout);
  ~StateGather();

  // The lead: writes the other servers' slices into `weights`, the whole parameter arena. Throws a
  // run-time Error when a server is lost.
  WholeState collect(std::span<float> weights);

  // Another server: carries out a command with head.gather.
  void put_slice(const Command& command);

 private:
  std::vector<std::span<float>> slice_blocks() const;
  std::vector<std::span<float>> whole_blocks(std::span<float> weights, WholeState& out) const;
  size_t slice(int server) const { return layout_.end(server) - layout_.begin(server); }
  void request(size_t blocks);
  Region& room(size_t floats);

  Communicator& comm_;
  const SyncLayout layout_;
  Shard& shard_;
  const size_t history_blocks_;
  const double timeout_;
  PutQueue queue_;
  std::unique_ptr<Region> region_;  // kept for the next time when it is large enough
  std::vector<uint64_t> came_;      // bytes, by server; under the communicator's lock
};

}  // namespace kinet
