// shm: ranks are processes of one machine (or threads). Bytes are copied once, by the sender,
// straight into memory of the receiver.
//
//   put   memcpy into the peer's region, then an entry in the ring to the peer
//   send  the bytes, in an entry of that ring
//   poll  looks at the next word of every ring: no system call
// Set-up, regions and the end of a link: shm_link.h. Rings and sleeping: shm_ring.h.
//
// System calls. While ranks poll there are none, but for one epoll_wait each `check_ms`, which
// finds peers that are gone. arm() sets a flag that the peers see; whoever writes next into a ring
// of this rank then rings its bell. The poll after arm() takes old rings away first and then looks
// at the rings, so that a bell rung later stays readable. The second poll after arm() ends the
// sleep.
//
// A lost peer. Its memory is unmapped here, its rings are forgotten, and a successor gets new ones.
// What cannot be taken away is its own mapping of our regions: a process that was declared lost,
// was only stopped, and wakes in the middle of the copy of a put finishes that copy. It then meets
// the closed socket and does no more. So memory that such a peer could write to must not be used
// again for something else before that process is gone; memory of its successor it has never
// mapped.
//
// fork: descriptors close on exec. A child that does not exec may only destroy the transport: that
// closes its copies and leaves the parent's links alone.
// Thread safety: none; see comm/transport.h.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport.h"
#include "comm/transports/shm_callers.h"
#include "comm/transports/shm_link.h"
#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

constexpr unsigned kClockEvery = 32;  // polls between looks at the clock
constexpr int kEntriesAtOnce = 64;    // of one peer, then others have their turn
constexpr int kReadyAtOnce = 64;      // descriptors

const MessageType& shm_fields() {
  static const MessageType type{
      "shm",
      "ranks on one machine through shared memory",
      {uint_field(
           "ring_bytes", "65536",
           "bytes of the ring from one rank to another, a power of two from 4096; a put takes "
           "64, a message its size and 8, in steps of 64"),
       float_field("check_ms", "10",
                   "milliseconds between looks for peers that are gone, while a rank polls")}};
  return type;
}

size_t ring_bytes_of(const Params& params) {
  const auto bytes = static_cast<size_t>(params.get_int("ring_bytes"));
  if (!std::has_single_bit(bytes) || bytes < kShmSmallestRing || bytes > kShmLargestRing) {
    fail_at(params.where("ring_bytes"),
            fmt::format("ring_bytes: {} is no power of two from {} to {}", bytes, kShmSmallestRing,
                        kShmLargestRing));
  }
  return bytes;
}

double check_seconds_of(const Params& params) {
  const double ms = params.get_double("check_ms");
  if (!(ms > 0)) {
    fail_at(params.where("check_ms"), "check_ms: must be above 0");
  }
  return ms / 1000;
}

TransportProbe probe(const Params&) {
  TransportProbe out;
  try {
    const ShmFd listener = shm_listen(shm_socket_name(0, 0));
    const ShmInbox ring(kShmSmallestRing);
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    out.works = true;
    out.summary = "works: memory shared between processes of this machine";
    out.details.push_back(
        fmt::format("descriptors: {} (needs 4 a peer, and 1 a region of a peer)", files.rlim_cur));
  } catch (const Error& error) {
    out.summary = error.what();
    out.remedy = "allow memfd_create and unix sockets (seccomp of a container), or --transport tcp";
  }
  return out;
}

class Shm;

class ShmRegion : public MemoryRegion {
 public:
  ShmRegion(const MemoryBlock& block, Shm& owner, uint64_t key)
      : MemoryRegion(block), owner_(owner), key_(key) {}
  ~ShmRegion() override;
  RemoteRegion remote() const override { return {0, key_, bytes()}; }

 private:
  Shm& owner_;
  uint64_t key_;
};

class Shm : public Transport {
 public:
  explicit Shm(const TransportConfig& config)
      : size_(config.size),
        timeout_(config.timeout),
        check_seconds_(check_seconds_of(config.params)),
        links_(config.size),
        lost_(config.size, false) {
    self_.rank = config.rank;
    self_.incarnation = config.incarnation;
    self_.token = config.token;
    self_.ring_bytes = ring_bytes_of(config.params);
    self_.bell = ShmFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    self_.epoll = ShmFd(epoll_create1(EPOLL_CLOEXEC));
    callers_ = std::make_unique<ShmCallers>(self_, timeout_);
    if (!self_.bell || !self_.epoll ||
        !shm_watch(self_, self_.bell.get(), ShmReady::kBell, self_.rank) ||
        !shm_watch(self_, callers_->listener(), ShmReady::kListener, self_.rank)) {
      fail("transport shm cannot start: {}\nhint: raise `ulimit -n`", std::strerror(errno));
    }
  }

  ~Shm() override {
    if (getpid() != process_) return;  // a forked child: closing must not end the parent's links
    for (Rank r = 0; r < size_; ++r) disconnect(r);
  }

  static TransportType type() {
    return {"shm",
            "processes of one machine, through shared memory",
            Reach::kNode,
            90,
            &shm_fields(),
            probe,
            [](const TransportConfig& config) -> std::unique_ptr<Transport> {
              TransportConfig c = config;
              if (!c.params.present()) c.params = Params(nullptr, &shm_fields());
              return std::make_unique<Shm>(c);
            }};
  }

  std::unique_ptr<MemoryRegion> register_memory(const MemoryBlock& block) override {
    struct stat file {};
    KINET_CHECK(block.fd >= 0,
                "transport shm needs memory that other processes can map; {} without a file cannot "
                "be registered\nhint: allocate it as SharedMemory (src/base/shared_memory.h)",
                human_bytes(block.bytes));
    KINET_CHECK(fstat(block.fd, &file) == 0 && static_cast<size_t>(file.st_size) >= block.bytes,
                "the file of {} of memory is shorter than that", human_bytes(block.bytes));
    const uint64_t key = ++last_key_;
    self_.regions[key] = block;
    ++counters_.registrations;
    for (const Rank r : active_) links_[r]->announce(ShmPacket::Kind::kRegion, key);
    return std::make_unique<ShmRegion>(block, *this, key);
  }

  void withdraw(uint64_t key) {
    if (getpid() != process_) return;
    self_.regions.erase(key);
    for (const Rank r : active_) links_[r]->announce(ShmPacket::Kind::kWithdraw, key);
  }

  std::string offer(Rank) override { return callers_->name(); }

  void connect(Rank peer, uint32_t incarnation, const std::string& offer) override {
    KINET_CHECK(peer != self_.rank, "rank {} cannot connect to itself", peer);
    disconnect(peer);
    lost_[peer] = false;
    const std::string dial = self_.rank < peer ? offer : "";
    links_[peer] = std::make_unique<ShmLink>(self_, peer, incarnation, dial, now() + timeout_);
    active_.push_back(peer);
    ++setting_up_;
    if (self_.rank < peer && !offer.starts_with("kinet-shm/")) {
      links_[peer]->end("what it offers is no address of transport shm");
    }
    links_[peer]->dial();
  }

  void disconnect(Rank peer) override {
    lost_[peer] = true;
    if (!links_[peer]) return;
    ShmLink& link = *links_[peer];
    if (!link.reported_up) --setting_up_;
    link.close();
    link.closed = true;
    retired_.push_back(std::move(links_[peer]));  // poll() may be looking at it
    std::erase(active_, peer);
  }

  Post send(Rank peer, std::span<const std::byte> message) override {
    KINET_DCHECK(message.size() <= kMaxMessage);
    ShmLink* link = links_[peer].get();
    if (const Post answer = ready(peer, link, message.size()); answer != Post::kAccepted) {
      return answer;
    }
    if (link->outbox().push_message(message)) ring(*link);
    ++counters_.messages_sent;
    return Post::kAccepted;
  }

  Post put(Rank peer, const Put& put) override {
    check_put(put);
    ShmLink* link = links_[peer].get();
    if (const Post answer = ready(peer, link, sizeof(uint64_t)); answer != Post::kAccepted) {
      return answer;
    }
    if (put.bytes > 0) {
      const SharedMemory* there = find_region(*link, put.to);
      if (there == nullptr) return link->ended() ? Post::kPeerLost : busy();
      std::memcpy(there->data() + put.to_offset, put.from->data() + put.from_offset, put.bytes);
    }
    if (link->outbox().push_put(put.notify, put.bytes)) ring(*link);
    ++link->completed;
    ++counters_.puts;
    counters_.put_bytes += put.bytes;
    counters_.copied_bytes += put.bytes;
    return Post::kAccepted;
  }

  int poll(EventSink& sink) override {
    retired_.clear();
    // Old rings of the bell are taken away before the rings are looked at, never after.
    if (sleep_ != Sleep::kAwake || setting_up_ > 0 || time_to_check()) look_at_descriptors();
    int count = 0;
    // Handlers connect and disconnect; what is missed is seen by the next poll.
    for (size_t i = 0; i < active_.size(); ++i) count += poll_link(*links_[active_[i]], sink);
    if (sleep_ == Sleep::kArmed && count == 0) {
      sleep_ = Sleep::kAsleep;
      look_for_room();
    } else if (sleep_ != Sleep::kAwake) {
      wake();
    }
    return count;
  }

  int event_fd() const override { return self_.epoll.get(); }

  void arm() override {
    sleep_ = Sleep::kArmed;
    for (const Rank r : active_) {
      ShmLink& link = *links_[r];
      link.inbox().set_sleeping(true);
      if (link.starved && link.up()) link.outbox().set_wants_room(true);
    }
  }

  const std::byte* peer_memory(Rank peer, const RemoteRegion& region) override {
    ShmLink* link = links_[peer].get();
    if (link == nullptr || !link->up()) return nullptr;
    const SharedMemory* there = find_region(*link, region);
    return there == nullptr ? nullptr : there->data();
  }

  Capabilities capabilities() const override {
    Capabilities c;
    c.needs_shared_memory = true;
    c.maps_peer_memory = true;
    c.outstanding_puts = self_.ring_bytes / kShmCell;
    return c;
  }

  TransportCounters counters() const override { return counters_; }

  std::string describe(Rank, bool verbose) const override {
    std::string out = "shared memory of this machine";
    if (verbose) {
      out += fmt::format("\n  ring_bytes: {}\n  check_ms: {}", self_.ring_bytes,
                         check_seconds_ * 1000);
    }
    return out;
  }

 private:
  // kArmed: arm() was called; kAsleep: and polled once more, so the caller sleeps or has slept.
  enum class Sleep { kAwake, kArmed, kAsleep };

  Post busy() {
    ++counters_.busy;
    return Post::kBusy;
  }

  Post ready(Rank peer, ShmLink* link, size_t payload) {
    if (link == nullptr) return lost_[peer] ? Post::kPeerLost : busy();
    if (link->ended()) return Post::kPeerLost;
    if (!link->reported_up) return busy();
    const ShmOutbox::Room room = link->outbox().room_for(payload);
    link->starved = room == ShmOutbox::Room::kNo;
    if (room == ShmOutbox::Room::kYes) return Post::kAccepted;
    if (link->starved) return busy();
    link->end("it wrote rubbish into a ring");
    return Post::kPeerLost;
  }

  // A key that is not here yet was sent before this rank could learn it, or soon will be.
  const SharedMemory* find_region(ShmLink& link, const RemoteRegion& wanted) {
    const SharedMemory* there = link.region(wanted.key);
    if (there == nullptr) {
      ++counters_.system_calls;
      link.read_socket();
      there = link.region(wanted.key);
      if (there == nullptr && link.key_is_false(wanted.key)) {
        link.end("it named memory that it has not registered");
      }
    }
    if (there != nullptr && wanted.bytes > there->bytes()) {
      link.end("it named more memory than it has registered");
      return nullptr;
    }
    return there;
  }

  void ring(ShmLink& link) {
    ++counters_.system_calls;
    link.ring_bell();
  }

  bool time_to_check() {
    if (++polls_ % kClockEvery != 0) return false;
    const double time = now();
    if (time < next_check_) return false;
    next_check_ = time + check_seconds_;
    return true;
  }

  void look_at_descriptors() {
    std::array<epoll_event, kReadyAtOnce> events;
    const int count = epoll_wait(self_.epoll.get(), events.data(), kReadyAtOnce, 0);
    if (setting_up_ == 0) ++counters_.system_calls;
    bool calls = false;
    for (int i = 0; i < count; ++i) {
      const uint64_t data = events[i].data.u64;
      calls = handle_ready(static_cast<ShmReady>(data >> 32), static_cast<Rank>(data)) || calls;
    }
    if (calls) callers_->read();
    if (calls || setting_up_ > 0) callers_->match(links_, now());
    if (setting_up_ > 0) continue_set_up();
  }

  bool handle_ready(ShmReady what, Rank peer) {
    eventfd_t ignored = 0;
    switch (what) {
      case ShmReady::kBell:
        ++counters_.system_calls;
        eventfd_read(self_.bell.get(), &ignored);
        return false;
      case ShmReady::kListener:
        callers_->accept(now());
        return true;
      case ShmReady::kCaller:
        return true;
      case ShmReady::kLink:
        if (setting_up_ == 0) ++counters_.system_calls;
        if (links_[peer]) links_[peer]->flush();
        if (links_[peer]) links_[peer]->read_socket();
        return false;
      case ShmReady::kProcess:
        if (links_[peer]) links_[peer]->end("its process has ended");
        return false;
    }
    return false;
  }

  void continue_set_up() {
    const double time = now();
    for (const Rank r : active_) {
      ShmLink& link = *links_[r];
      if (!link.setting_up()) continue;
      link.dial();
      if (time > link.deadline()) link.end(fmt::format("no link within {:.0f} s", timeout_));
    }
  }

  int poll_link(ShmLink& link, EventSink& sink) {
    int count = 0;
    if (link.came_up() && !link.reported_up) {
      link.reported_up = true;
      --setting_up_;
      sink.on_connected(link.peer());
      ++count;
    }
    if (link.completed > 0 && !link.closed) {
      sink.on_puts_completed(link.peer(), std::exchange(link.completed, 0));
      ++count;
    }
    // A dead peer writes no more, so its ring comes to an end within one ring's worth of entries.
    const bool last = link.ended();
    if (link.reported_up) count += take_entries(link, last, sink);
    if (last && !link.closed) {
      ++count;
      const Rank peer = link.peer();
      const std::string why = link.why();
      disconnect(peer);
      sink.on_peer_lost(peer, why);
    }
    return count;
  }

  int take_entries(ShmLink& link, bool all, EventSink& sink) {
    int count = 0;
    const size_t most = all ? self_.ring_bytes / kShmCell : kEntriesAtOnce;
    for (size_t i = 0; i < most && !link.closed; ++i) {
      const ShmInbox::Take got = link.inbox().take(entry_);
      if (got == ShmInbox::Take::kNothing) break;
      if (got == ShmInbox::Take::kRubbish) {
        link.end("it wrote rubbish into a ring");
        break;
      }
      ++count;
      if (got == ShmInbox::Take::kMessage) {
        ++counters_.messages_received;
        sink.on_message(link.peer(), {entry_.data, entry_.bytes});
      } else {
        ++counters_.puts_arrived;
        sink.on_put_arrived(link.peer(), entry_.notify, entry_.bytes);
      }
    }
    if (count > 0 && !link.closed && link.inbox().release() && !link.ended()) ring(link);
    return count;
  }

  // Room that came between the answer kBusy and arm() would wake nobody: our own bell does.
  void look_for_room() {
    for (const Rank r : active_) {
      ShmLink& link = *links_[r];
      if (!link.starved || !link.up()) continue;
      if (link.outbox().room_for(kMaxMessage) != ShmOutbox::Room::kNo) {
        ++counters_.system_calls;
        eventfd_write(self_.bell.get(), 1);
      }
    }
  }

  void wake() {
    sleep_ = Sleep::kAwake;
    for (const Rank r : active_) {
      ShmLink& link = *links_[r];
      link.inbox().set_sleeping(false);
      if (link.starved && link.up()) link.outbox().set_wants_room(false);
    }
  }

  int size_;
  double timeout_, check_seconds_;
  ShmSelf self_;
  pid_t process_ = getpid();
  std::unique_ptr<ShmCallers> callers_;
  std::vector<std::unique_ptr<ShmLink>> links_, retired_;  // links_: by rank
  std::vector<bool> lost_;
  std::vector<Rank> active_;  // those that have a link
  int setting_up_ = 0;        // links of which on_connected was not raised yet
  Sleep sleep_ = Sleep::kAwake;
  unsigned polls_ = 0;
  double next_check_ = 0;
  uint64_t last_key_ = 0;
  ShmEntry entry_;
  TransportCounters counters_;
};

ShmRegion::~ShmRegion() { owner_.withdraw(key_); }

KINET_REGISTER_TRANSPORT(Shm::type());

}  // namespace
}  // namespace kinet
