// A worker's end of the servers: joins, gets weights and orders, pushes gradients.
//
// Memory, in floats; P parameters, B buffers, padded as in server_rank.h:
//   gradients  [ P | B ]       the net's gradient arena lies here
//   weights    3 x [ P | B ]   copies 0 and 1 to train on in turn, copy 2 to test
//   encoded    room for what a codec makes of the gradient, a line-padded piece for each server
// The servers write only into the copy that this worker has granted: with its hello or its last
// header. It changes over when the slices of all servers and the answer are there, so a copy never
// mixes versions, and the one in use is never written.
// Loans (server_rank.h): with one server, over a transport that shares memory, the gradient lies in
// the server's slot, and the weights are read where they are published; of the copies only the
// buffers are used, since a pass changes them. Whatever becomes of the server, what was lent stays
// mapped as long as this worker holds it.
//
// Thread safety: one thread calls; handlers only note what came. cancelled() from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "src/base/shared_memory.h"
#include "src/sync/put_queue.h"
#include "src/sync/server_rank.h"
#include "src/sync/sync_messages.h"

namespace kinet {

struct WorkerLinkOptions {
  double timeout = 7200;         // seconds that the servers may be silent while they are alive
  size_t bucket_bytes = 262144;  // gradients leave in pieces of at least that, the last one apart
  // Of encoded pushes, by server, the largest; empty: they are not encoded.
  std::vector<size_t> encoded_bytes;
  bool lend_slots = false, lend_weights = false;  // where it can be
};

class WorkerLink {
 public:
  WorkerLink(Communicator& comm, const SyncLayout& layout, const WorkerLinkOptions& options);
  ~WorkerLink();

  static constexpr int kCopies = 3, kTestCopy = 2;
  // Where the gradient of the last order belongs, P floats. Not the same for every order.
  std::span<float> gradients() const;
  std::span<float> pushed_buffers() const;   // B, beside the gradients
  std::span<float> weights(int copy) const;  // P; of this worker's own
  std::span<float> buffers(int copy) const;  // B
  std::span<std::byte> memory() const { return {memory_->data(), memory_->bytes()}; }  // its own
  std::shared_ptr<void> owner() const { return owner_; }  // of gradients() and of the last order's

  // Says hello to all servers. Throws Error when one does not answer.
  void join();

  struct Order {
    enum class Kind { kCompute, kTest, kStop, kInterrupted } kind = Kind::kInterrupted;
    AnswerMessage answer;
    TestTaskMessage test;
    std::span<float> weights, buffers;  // to compute at, or to test: P and B
  };
  // Until there is something to do. Throws a run-time Error when a server is lost.
  Order wait(const std::function<bool()>& interrupted);

  // Computing is of no use any more: the lead has cancelled it, or stops the run, or is gone.
  bool cancelled() const { return cancelled_; }

  // The run ends, or a server is gone.
  bool ended() const { return ended_; }

  // Floats [from, to) of the gradient are final and may leave. begin_push() first; in any order,
  // each float once.
  void begin_push(const AnswerMessage& answer);
  void push(size_t from, size_t to);
  // In place of push(): what a codec has written to encoded(server) leaves for that server.
  std::span<std::byte> encoded(int server) const;
  void push_encoded(int server, size_t bytes);
  // Sends what is left of the gradient and the header. `header.seq`, version, batch and buffer are
  // filled in here.
  void finish_push(GradientMessage header);
  void give_up();  // in place of finish_push
  // The gradients have left: their memory may change.
  void wait_sent();

  // Lets `seconds` pass while others are served, unless it is cancelled.
  void pause(double seconds);

  void send_test_sums(const TestTaskMessage& task, std::span<const double> sums);
  void wish(const WishMessage& wish);
  void say_bye();

  double take_waiting();                                   // seconds in wait() since the last call
  uint64_t pushed_bytes() const { return pushed_bytes_; }  // since the beginning
  uint64_t pushes() const { return pushes_; }              // puts

 private:
  void listen();
  void post(size_t from, size_t to);
  void post_to(int server, uint64_t from, uint64_t to_offset, uint64_t bytes);
  size_t encoded_floats(int server) const;  // padded
  // The weights of an answer or a test; they are here: `region` names what is lent, or `put` bytes
  // have come. Null: not yet. Under the lock.
  float* arrived(const RemoteRegion& region, uint64_t put, int copy);
  std::string lost_server() const;

  Communicator& comm_;
  const SyncLayout layout_;
  const WorkerLinkOptions options_;
  std::shared_ptr<SharedMemory> memory_;
  struct Lent {
    std::shared_ptr<std::byte> slots, weights;
    std::shared_ptr<SharedMemory> memory;
  };
  Lent lent_;
  std::shared_ptr<void> owner_;
  std::unique_ptr<Region> region_;
  PutQueue queue_;
  std::vector<std::optional<SlotsMessage>> slots_;  // by server
  std::vector<uint64_t> tickets_;                   // by server, of the last put

  // Noted by handlers, under the communicator's lock.
  std::optional<AnswerMessage> answer_;
  std::optional<TestTaskMessage> test_;
  uint64_t weight_bytes_ = 0, test_bytes_ = 0;
  bool stop_ = false;
  int64_t current_seq_ = -1;
  std::atomic<bool> cancelled_{false}, ended_{false};
  int lost_handler_ = 0;

  AnswerMessage current_;
  int grant_ = 0;  // the copy that the servers may write
  size_t pending_from_ = 0, pending_to_ = 0;
  double waiting_ = 0;
  uint64_t pushed_bytes_ = 0, pushes_ = 0;
};

}  // namespace kinet
