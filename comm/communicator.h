// The communicator: one rank's view of the run. Adds to the transports who is who: rank and size, a
// route to each peer, memory that all transports know, handlers by kind, signs of life.
//
// Kinds: a message and the notification of a put carry a kind (0 to 255) that says whose they are;
//   kinds below kFirstFreeKind are the communicator's own, CommKind lists the others.
// Losses: a peer is lost when its transport says so, when the rendezvous says so, or when nothing
//   was heard of it for heartbeat_timeout. Its link ends, handlers of on_peer_lost are called once,
//   all other ranks are told. A peer that said goodbye has *left*: no loss, but nobody to wait for.
//   When this rank itself was declared lost (it was stopped too long), every call that waits throws
//   Error "declared lost".
// Progress: with options.progress_thread a thread of the communicator polls the transports, asleep
//   while nothing happens; a thread that waits in wait_until() polls in its stead, so that no news
//   has to change threads. Without it (bench, inproc in one thread, sim) only progress() and
//   wait_until() poll, and heartbeats are off unless the caller polls often.
// Thread safety: all methods may be called from any thread; one lock guards everything. Handlers
// run
//   under that lock, on whichever thread polls: short ones, that wait for nothing.
// Reference: rules 1 to 8 of distributed training in docs/design.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/rendezvous.h"
#include "comm/transport.h"
#include "src/base/shared_memory.h"

namespace kinet {

// Whose messages and puts they are. One list, so that two users never take the same number.
enum CommKind : uint8_t {
  kHeartbeatKind = 0,
  kGoodbyeKind = 1,
  kAbortKind = 2,
  kFirstFreeKind = 8,
  kCollectiveKind = 8,  // comm/collectives
  kBenchKind = 16,      // kinet bench comm
  kSyncKind = 32,       // src/sync: 32 to 63
  kTestKind = 200,      // tests and examples: 200 to 255
};

inline constexpr size_t kMessageHeader = 8;                          // bytes
inline constexpr size_t kMaxPayload = kMaxMessage - kMessageHeader;  // of a message
inline constexpr uint32_t kMaxTag = (1U << 24) - 1;                  // of a put

// Memory that all transports of a communicator know. REQUIRES: destroyed before the communicator.
class Region {
 public:
  Region() = default;
  ~Region();  // any thread
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* data() const { return block_.data; }
  size_t bytes() const { return block_.bytes; }
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data()), bytes() / sizeof(T)};
  }

 private:
  friend class Communicator;
  std::recursive_mutex* lock_ = nullptr;  // the communicator's: transports are not thread-safe
  SharedMemory owned_;
  MemoryBlock block_;
  std::map<const Transport*, std::unique_ptr<MemoryRegion>> registrations_;
};

struct RegionPut {
  const Region* from = nullptr;  // may be null when bytes == 0
  uint64_t from_offset = 0;
  RemoteRegion to;  // what the peer's key_for() gave
  uint64_t to_offset = 0, bytes = 0;
  uint8_t kind = 0;
  uint32_t tag = 0;  // up to kMaxTag; handed to the peer's on_put handler
  bool flush = false;
};

enum class PeerState { kConnecting, kAlive, kLeft, kLost };

struct CommOptions {
  Params params{nullptr, nullptr};  // comm_param { ... }; its tree outlives the communicator
  std::string transport;            // wins over comm_param's; "": as the file says
  bool progress_thread = true;
  bool heartbeats = true;
  Runtime runtime;
  std::function<void(const std::string&)> log;   // routes, losses, goodbyes: lines for people
  std::function<void(const std::string&)> warn;  // ranks that stall; without it these go to `log`
};

class Communicator {
 public:
  using MessageHandler = std::function<void(Rank from, std::span<const std::byte> payload)>;
  using PutHandler = std::function<void(Rank from, uint32_t tag, uint64_t bytes)>;
  using LostHandler = std::function<void(Rank peer, const std::string& why)>;
  using JoinHandler = std::function<void(Rank peer)>;

  // Connects to all other ranks. Throws Error when a transport cannot start or somebody does not
  // answer within setup_timeout.
  Communicator(World world, std::unique_ptr<Rendezvous> rendezvous, const CommOptions& options);
  ~Communicator();  // without leave() before: for the others a loss
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Rank rank() const;
  int size() const;
  int local_rank() const;
  int local_size() const;
  double now() const;  // of the transports: virtual on sim
  bool virtual_time() const;

  PeerState state(Rank peer) const;
  int alive() const;                      // ranks alive, this one included
  std::string declared_lost() const;      // why, when the others declared this rank lost; else ""
  std::string why_lost(Rank peer) const;  // "" when it is not lost
  std::string why_left(Rank peer) const;  // "it stopped: ..."; "" while it has not left
  // "rank 2 (host a, process 77) is lost: its socket was closed"; "" when nobody is.
  std::string first_loss() const;
  std::string name(Rank peer) const;                // "rank 2 (host a, process 77)"
  std::string route(Rank peer) const;               // name of the transport
  std::string describe_routes(bool verbose) const;  // for people, several lines
  // For tests: sleeps of waiting threads that ran to their end although there was news.
  uint64_t overslept() const;
  std::string describe_states() const;  // a line a rank: alive, last heard, phase
  TransportCounters counters() const;   // all transports together
  Capabilities capabilities(Rank peer) const;

  // Memory of `bytes` zeros that peers may write once they have its key.
  std::unique_ptr<Region> allocate(size_t bytes, const std::string& what);
  // The same for memory that exists; fd as in MemoryBlock.
  std::unique_ptr<Region> adopt(const MemoryBlock& block);
  // What `peer` needs to put into the region; to be sent to that peer alone.
  RemoteRegion key_for(Region& region, Rank peer);
  // The peer's memory where this process can see it, else null.
  const std::byte* peer_memory(Rank peer, const RemoteRegion& region);
  // The same, to be read and written for as long as it is held, whatever becomes of the peer. Null
  // also while news of the region is still on its way: ask again in wait_until().
  std::shared_ptr<std::byte> share_peer_memory(Rank peer, const RemoteRegion& region);

  // Never kBusy: what finds no credit is queued. Throws a run-time Error when a peer takes nothing
  // for so long that the queue is full. false: the peer is not alive.
  bool send(Rank peer, uint8_t kind, std::span<const std::byte> payload);
  Post put(Rank peer, const RegionPut& put);
  uint64_t puts_posted(Rank peer) const;
  uint64_t puts_completed(Rank peer) const;

  // What came before its handler is kept and handed over now. A null handler: none any more.
  void on_message(uint8_t kind, MessageHandler handler);
  void on_put(uint8_t kind, PutHandler handler);
  // Each returns a number for remove(). Called under the lock, in the order they were added.
  int on_peer_lost(LostHandler handler);     // also for one that left: see state()
  int on_peer_joined(JoinHandler handler);   // a successor is connected
  int add_pump(std::function<void()> pump);  // called at every progress: retry what was busy
  void remove(int number);
  // From a pump, or after a call that was kBusy: no event may announce that there is room again, so
  // nobody sleeps for long before the pumps have run once more.
  void retry_soon();

  // Polls once; returns how many events there were.
  int progress();
  // Waits until done() (called under the lock). Throws a run-time Error that says `what` was waited
  // for and how every rank is, after `timeout` seconds; or "declared lost".
  void wait_until(const std::function<bool()>& done, double timeout, const std::string& what);
  // Lets time pass until now() >= time, while events are served as in wait_until(). Later by up to
  // a millisecond where time is real, never where it is virtual. Throws a run-time Error "declared
  // lost".
  void sleep_until(double time);
  // The same, or until done() (called under the lock); returns whether it was.
  bool sleep_until(double time, const std::function<bool()>& done);
  // Runs `work` under the lock, for several calls that belong together.
  void locked(const std::function<void()>& work);

  // Says how far this rank is; travels with the heartbeats: step counter and "layer conv1". A rank
  // that stays at one step longer than patience * stall_timeout is reported by the others.
  void note_progress(uint64_t step, const std::string& phase, int patience = 1);

  // Orderly end: says goodbye. Nothing may be sent after it.
  void leave();
  // Tells all peers why this rank stops and whose fault it is (-1: its own), then leaves.
  void abort(const std::string& why, Rank culprit = -1);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kinet
