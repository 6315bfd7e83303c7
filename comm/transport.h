// The contract of a transport: moves bytes between ranks, and knows nothing of training.
//
//   bulk      put(): zero copy into memory that the peer has registered, with a 32-bit notification
//   control   send(): a short message, copied
//   progress  poll(): the only place where anything happens; events go to an EventSink
//   clock     now()
//
// No call blocks; what takes time completes through poll(). The template for a new transport is
// comm/transports/inproc.cc; a transport is one file that registers itself.
//
// Set-up of a link:  offer(peer) on both sides -> the two offers change hands (comm/rendezvous.h)
//   -> connect(peer, its offer) on both sides -> on_connected on both sides.
//   Until on_connected, send and put answer kBusy.
// Order: messages of one peer arrive in the order sent. A put promises nothing against other puts
//   or messages, only that all of its bytes are visible when on_put_arrived is raised.
// Loss: a link ends by disconnect(), or by itself with one on_peer_lost(). After that nothing of
//   that peer is raised any more, nothing of it may write into this process through this transport
//   (as far as the kernel lets us: see shm), and send and put answer kPeerLost. Other links go on.
//   An event of a rank after its on_peer_lost is a defect; so is a second on_peer_lost.
// Errors: set-up errors are thrown with the remedy. Whatever a peer does (dies, sends rubbish) is
// an
//   on_peer_lost of that peer, never an exception.
// Thread safety: none; one thread at a time, different transports are independent. Handlers of an
//   EventSink may call anything but poll(), and may not destroy the transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/registry.h"
#include "src/prototxt/fields.h"

namespace kinet {

using Rank = int;

inline constexpr size_t kMaxMessage = 1024;  // bytes; two fit into an RoCE packet of 4096

// Memory to be registered. `fd`: of the SharedMemory it lies in (whole, from its start), else -1.
struct MemoryBlock {
  std::byte* data = nullptr;
  size_t bytes = 0;
  int fd = -1;
};

// What a peer needs in order to put into a region. Plain numbers, good for one link's transport;
// they travel in messages.
struct RemoteRegion {
  uint64_t address = 0;  // of the first byte, as the owner's transport counts
  uint64_t key = 0;
  uint64_t bytes = 0;
};

// A registration, owned. REQUIRES: destroyed before its memory is freed, before its transport, and
// never while a put from or into it is outstanding.
class MemoryRegion {
 public:
  explicit MemoryRegion(const MemoryBlock& block) : block_(block) {}
  virtual ~MemoryRegion() = default;
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  std::byte* data() const { return block_.data; }
  size_t bytes() const { return block_.bytes; }
  virtual RemoteRegion remote() const = 0;

 private:
  MemoryBlock block_;
};

struct Put {
  const MemoryRegion* from = nullptr;  // may be null when bytes == 0
  uint64_t from_offset = 0;
  RemoteRegion to;
  uint64_t to_offset = 0;
  uint64_t bytes = 0;   // 0: a notification alone
  uint32_t notify = 0;  // handed to the peer with on_put_arrived
  bool flush = false;   // report completion soon: set on the last put before waiting for it
};

enum class Post {
  kAccepted,
  kBusy,  // no credit or no room now: poll, then try again
  kPeerLost,
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_connected(Rank peer) = 0;
  // `message` is valid during the call only.
  virtual void on_message(Rank from, std::span<const std::byte> message) = 0;
  virtual void on_put_arrived(Rank from, uint32_t notify, uint64_t bytes) = 0;
  // The oldest `count` puts to that peer not yet reported have left: their sources may be reused.
  // Without Put::flush this may come late (verbs signals one put in 16).
  virtual void on_puts_completed(Rank to, uint64_t count) = 0;
  virtual void on_peer_lost(Rank peer, const std::string& why) = 0;
};

struct Capabilities {
  bool survives_peer_loss = true;    // the other links go on after one peer has died
  bool zero_copy = true;             // put copies nothing between source and wire or target
  bool needs_shared_memory = false;  // register_memory takes only memory with an fd
  bool maps_peer_memory = false;     // peer_memory() works
  bool shares_peer_memory = false;   // share_peer_memory() works
  bool virtual_time = false;         // advance() works, now() is not the time of this machine
  bool atomics = false;
  size_t inline_bytes = 0;        // puts up to this size travel within the work request
  uint64_t outstanding_puts = 0;  // to one peer, before kBusy; at least 16
};

// What a transport has done since it was made; for tests, benches and reports.
struct TransportCounters {
  uint64_t puts = 0, put_bytes = 0, puts_arrived = 0;
  uint64_t messages_sent = 0, messages_received = 0;
  uint64_t work_requests = 0, signalled = 0, completions = 0, receives_posted = 0;  // verbs
  uint64_t system_calls = 0;  // made by this transport itself, set-up excluded
  uint64_t registrations = 0;
  uint64_t copied_bytes = 0;  // of puts, by this process's processor
  uint64_t busy = 0;          // times that send or put answered kBusy
  uint64_t retransmissions = 0, flushed = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;  // closes all links

  // REQUIRES: `block` outlives the region. Throws Error with size, limit and remedy.
  virtual std::unique_ptr<MemoryRegion> register_memory(const MemoryBlock& block) = 0;

  // Opaque bytes that `peer` needs in order to connect to this rank; asked for once a link.
  virtual std::string offer(Rank peer) = 0;
  // `incarnation` of the peer: goes into every check of who is speaking. May be called again for a
  // rank after its loss or disconnect, with the offer of its successor.
  virtual void connect(Rank peer, uint32_t incarnation, const std::string& offer) = 0;
  virtual void disconnect(Rank peer) = 0;  // no event; does nothing when there is no link

  // REQUIRES: message.size() <= kMaxMessage. Copied before the call returns.
  virtual Post send(Rank peer, std::span<const std::byte> message) = 0;
  // The source must not change until its completion. Throws Error when the slice lies outside of
  // `from` or `to`.
  virtual Post put(Rank peer, const Put& put) = 0;
  // Raises what has happened; returns how many events. Never blocks.
  virtual int poll(EventSink& sink) = 0;

  // Sleeping: arm(), then poll() once more, then sleep until event_fd() is readable; poll() takes
  // the readiness away. event_fd() is -1 where there is none: then sleep at most max_sleep().
  virtual int event_fd() const { return -1; }
  virtual void arm() {}
  virtual double max_sleep() const { return 0.05; }  // seconds
  // Virtual time: moves the clock to the next event, but not beyond `until`. false: no such clock.
  virtual bool advance(double /*until*/) { return false; }
  virtual double now() const;  // seconds of a steady clock; virtual on sim

  // The peer's memory as this process sees it, or nullptr (the usual answer).
  virtual const std::byte* peer_memory(Rank /*peer*/, const RemoteRegion& /*region*/) {
    return nullptr;
  }
  // The same, to be read and written for as long as it is held: also when the link has ended, the
  // peer is gone or the region was given up. nullptr also while the region is still on its way.
  virtual std::shared_ptr<std::byte> share_peer_memory(Rank /*peer*/,
                                                       const RemoteRegion& /*region*/) {
    return nullptr;
  }
  virtual Capabilities capabilities() const = 0;
  virtual TransportCounters counters() const = 0;
  // For people: "rxe0 port 1, GID 1 (10.77.0.1, RoCE v2), MTU 4096, ..."; one line, and with
  // `verbose` every attribute that can be set.
  virtual std::string describe(Rank peer, bool verbose) const = 0;
};

class InprocHub;  // comm/transports/inproc.h: joins ranks that are threads of one process
class SimWorld;   // comm/transports/sim.h: joins ranks that share a virtual clock

// What ranks of one process share. Empty for ranks that are processes.
struct Runtime {
  std::shared_ptr<InprocHub> inproc;
  std::shared_ptr<SimWorld> sim;
};

struct TransportConfig {
  Rank rank = 0;
  int size = 1;
  int local_rank = 0;               // number of this rank among those of its node
  uint32_t incarnation = 0;         // of this rank
  bool one_node = true;             // all ranks share this node: nobody else need reach it
  std::string token;                // secret of the run: every connection proves that it knows it
  Params params{nullptr, nullptr};  // comm_param { <name> { ... } }
  double timeout = 30;  // seconds that a link may take to come up, and a peer to take bytes
  Runtime runtime;
};

// What `kinet doctor` says of a transport on this machine.
struct TransportProbe {
  bool works = false;
  std::string summary;               // "works: rxe0 port 1 (active, RoCE v2)", or why not
  std::vector<std::string> details;  // a line each
  std::string remedy;                // what to do when it does not work
};

enum class Reach { kProcess, kNode, kNetwork };

struct TransportType {
  std::string name;  // file name, value of --transport
  std::string help;
  Reach reach = Reach::kNetwork;
  int preference = 0;  // automatic choice takes the largest that reaches and works; 0: never
  const MessageType* fields = nullptr;  // of comm_param { <name> { ... } }
  TransportProbe (*probe)(const Params& params) = nullptr;
  std::unique_ptr<Transport> (*make)(const TransportConfig& config) = nullptr;  // throws Error
};

using TransportRegistry = Registry<TransportType>;

// static TransportType Class::describe_type(): in the transport's own file.
#define KINET_REGISTER_TRANSPORT(type)                      \
  [[maybe_unused]] static const bool kRegisteredTransport = \
      ::kinet::TransportRegistry::instance().add((type).name, (type))

// Throws the Error of a slice outside of its region; for put() of every transport.
void check_put(const Put& put);

}  // namespace kinet
