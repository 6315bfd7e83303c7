// One server of a run: its shard, the memory into which workers put their gradients, and the copies
// of the weights that it puts into theirs. Carries out commands; decides nothing.
//
// Memory, in floats; P parameters, B buffers (batch-norm statistics, at the lead alone), both
// padded to lines of 16 where another block follows:
//   slots of a worker   slots x [ slice of the gradient | buffers ]
//                       with a codec slots x [ the encoded slice | buffers ], decoded when used
//   a publication       [ slice of the weights | buffers ]
//   of a worker         gradients [ P | B ], then weights 3 x [ P | B ]
// A publication is a copy of the weights of one version. It is reused when the last put from it has
// left and the last worker that reads it where it lies has given it back, with its gradient or its
// test results; as a worker has one answer and one test outstanding at most, there are few.
// Loans: a worker that sees this server's memory, and has no other server, computes its gradients
// in its slots and trains on the publication itself; then nothing is copied between the two. The
// slots of a lost worker stay mapped in its process: its successor gets new ones, with what was
// pushed whole.
// A gradient is complete when all its bytes are there: puts may arrive in any order.
//
// Thread safety: one thread calls; handlers only note what came.
// Reference: rules 9 to 11 of distributed training in docs/design.md.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "src/sync/codec.h"
#include "src/sync/put_queue.h"
#include "src/sync/shard.h"
#include "src/sync/sync_messages.h"

namespace kinet {

// Who is who, and who holds what. Ranks 0 .. servers-1 are the servers, the others the workers.
struct SyncLayout {
  int servers = 1, workers = 1;
  size_t floats = 0, buffers = 0;  // P and B of the net
  std::vector<size_t> cuts = {};   // floats at which a put ends and another begins, in order

  Rank rank_of(int worker) const { return servers + worker; }
  int worker_of(Rank rank) const { return rank - servers; }
  size_t begin(int server) const;
  size_t end(int server) const { return server + 1 == servers ? floats : begin(server + 1); }
  static size_t padded(size_t floats) { return (floats + 15) / 16 * 16; }
  size_t copy_floats() const { return padded(floats) + padded(buffers); }  // [ P | B ]
  size_t slice_bytes(int server) const;  // what a worker puts there for one gradient
  void cut_at(std::span<const ParameterSegment> parameters);
  // Of floats [from, to): what goes in a put each. Without cuts, all of it in one.
  std::vector<std::pair<size_t, size_t>> pieces(size_t from, size_t to) const;
  // Throws Error when there are more servers than the net has lines of 16 parameters: a server
  // without a slice would never have a gradient.
  void check() const;
};

// Batch-norm statistics of a round: B = (1 - W) B + W mean, where the mean is that of its members
// by weight and W their total weight, at most 1. With W = 1 that is the mean alone.
void merge_buffers(const std::vector<std::pair<double, const float*>>& members,
                   std::span<float> buffers);

class ServerRank {
 public:
  // `buffers`: of the lead's net; empty elsewhere. `timeout`: seconds that another server may take.
  // `codec`: of this slice; null: pushes come as they are.
  ServerRank(Communicator& comm, const SyncLayout& layout, Shard& shard, std::span<float> weights,
             std::span<float> buffers, int slots, double timeout,
             std::unique_ptr<PushCodec> codec = nullptr);
  ~ServerRank();

  // Called under the communicator's lock when a gradient has arrived whole.
  void on_complete(std::function<void(int worker, uint32_t seq_tag)> handler);
  // Under the lock: a worker has said where its weights lie.
  void on_hello(std::function<void(int worker)> handler);
  void forget(int worker);  // under the lock: it is lost

  // What a worker reads where it is published: what it computes at, and what it tests.
  enum class Loan { kAnswer, kTest };
  // Where; of no bytes: nothing, it was put.
  RemoteRegion lent(int worker, Loan loan);
  void take_back(int worker, Loan loan);

  struct Result {
    bool mean_known = false;  // of the round, over all slices:
    double mean_squared = 0;
    double product = 0;
    Shard::Norms norms;  // when asked for, over all slices
  };
  Result execute(const Command& command);

  // Servers that are not the lead: the next command, once there is one.
  bool has_command() const { return !commands_.empty(); }  // under the lock
  Command take_command();

  int slots() const { return slots_; }
  bool lead() const { return comm_.rank() == 0; }
  // All puts of weights have left.
  bool idle() const;

 private:
  static constexpr uint32_t kNoTag = ~0U;
  struct WorkerPlace {
    std::unique_ptr<Region> slots;
    RemoteRegion weights;
    uint32_t seq_tag = kNoTag;
    uint64_t bytes = 0;  // of the gradient that is arriving
    uint32_t life = 0;   // how often a worker of this number has said hello
    bool lend_weights = false;
  };
  struct Publication {
    std::unique_ptr<Region> region;
    std::vector<std::pair<Rank, uint64_t>> puts;
    std::vector<std::pair<int, Loan>> loans;  // by worker; under the lock

    float* floats() const { return region->as<float>().data(); }
  };
  void greet(Rank from, const HelloMessage& hello);
  void arrived(Rank from, uint32_t tag, uint64_t bytes);
  uint64_t due_bytes(uint32_t tag) const;  // of a whole gradient
  std::unique_ptr<Region> new_slots();
  float* slot(int worker, int index) const;
  // Of a member, decoded when need be; `place` of the scratch memory is its own.
  float* gradient(const CommandMember& member, size_t place);
  std::array<double, 3> total(int64_t round, const std::array<double, 3>& part);
  void merge(const Command& command);
  void send_weights(const Command& command, Publication* answer);
  Publication& free_publication();
  void send_copy(Publication& from, const CommandPeer& to, int buffer, Loan loan, int64_t version);

  Communicator& comm_;
  const SyncLayout layout_;
  Shard& shard_;
  const std::span<float> weights_, buffers_;
  const int slots_;
  const double timeout_;
  const std::unique_ptr<PushCodec> codec_;
  const size_t slice_, pushed_;  // floats: of the slice, and of what is pushed of it, padded
  const size_t slot_floats_, copy_floats_;
  std::vector<std::vector<float>> decoded_;  // of the round's members
  PutQueue queue_;
  std::vector<WorkerPlace> workers_;
  std::vector<std::unique_ptr<Region>> retired_;  // slots of lost workers; under the lock
  std::vector<std::unique_ptr<Publication>> publications_;
  std::function<void(int, uint32_t)> complete_;
  std::function<void(int)> hello_;
  PartAssembler command_parts_;
  std::deque<Command> commands_;
  std::vector<std::deque<NormsMessage>> norms_;  // by server
};

}  // namespace kinet
