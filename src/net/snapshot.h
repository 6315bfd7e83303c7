// Solver states in Caffe's binary form (.solverstate): everything besides the weights that makes a
// resumed run the same, bit for bit, as one that never stopped.
//
// A snapshot is a pair of files, PREFIX_iter_N.caffemodel and PREFIX_iter_N.solverstate, where N
// updates were applied. The model is written first, so a state on the disk always has its model;
// the state carries a hash of the model, so a pair that does not belong together is noticed.
// Reference: docs of the two messages in src/proto/kinet/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/net/caffemodel.h"
#include "src/net/net.h"

namespace kinet {

// Where a data layer stands after the last applied update.
struct SourcePosition {
  std::string layer;
  int64_t position = 0, items = 0, batch_size = 0;
};

struct EarlyStopRecord {
  double best = 0;
  int64_t best_iteration = 0;
  int tests_since_best = 0;
};

// What the learning-rate search of one worker remembers: LrSearchState of src/sync/lr_search.h.
struct LrSearchRecord {
  double log_multiplier = 0;
  int64_t step = 0, next = 0, searches = 0, passes = 0;
  double log_ceiling = 0;
};

// Of a worker whose gradients go to servers.
struct WorkerExtras {
  int64_t next_batch = 0;       // all mini-batches before this one are in the weights, or given up
  std::vector<float> momentum;  // its own, laid out like the parameter arena; empty: none
};

// Of a run that trains through servers.
struct SyncExtras {
  std::string model;          // "" : the run had no servers
  double iteration = 0;       // with its fraction
  int64_t round = 0;          // versions made
  std::vector<double> state;  // of the model
  std::vector<WorkerExtras> workers;
};

// What kinet knows and Caffe does not.
struct KinetExtras {
  std::string solver_type, net_name;
  uint64_t seed = 0;
  int64_t iter_size = 1;
  std::vector<SourcePosition> positions;
  uint64_t model_hash = 0;
  int64_t tested_iteration = -1;
  std::optional<EarlyStopRecord> early_stop;
  std::vector<double> recent_losses;
  std::vector<LrSearchRecord> lr_search;  // one a worker, by rank; empty: no search
  SyncExtras sync;
};

struct HistoryEntry {
  Shape shape;
  std::vector<float> data;
};

struct Snapshot {
  std::string path;  // of the state; "" when it was made here
  int64_t iteration = 0;
  std::string learned_net;  // as written in the file
  std::vector<HistoryEntry> history;
  std::optional<KinetExtras> extras;  // absent: written by Caffe
};

// The optimizer's state as entries: one for each parameter and buffer in the net's order (zeros for
// buffers), for each of `histories` blocks laid out like the parameter arena.
std::vector<HistoryEntry> pack_history(const Net& net, std::span<const float> history,
                                       int histories);
// The reverse. Throws Error when count or shapes do not fit the net or the solver type.
void unpack_history(const Snapshot& snapshot, const Net& net, const std::string& solver_type,
                    int histories, std::span<float> history);

// Writes both files and returns the path of the state. extras.model_hash is filled in. Throws a
// run-time Error; a file that was there before is then as it was.
std::string write_snapshot(const std::string& prefix, Net& net, Snapshot snapshot);

// Throws Error that says what the file is when it is no state, and whether it is cut off.
Snapshot read_snapshot(const std::string& path);

// The model of a state: the one beside it when there is one, else the path written in it. Checks
// the hash and that neither file was cut off.
Model read_model_of(const Snapshot& snapshot);

}  // namespace kinet
