// inproc: ranks are threads of one process. Also the template for a new transport: every part of
// the contract in comm/transport.h is here in its plainest form.
//
//   put   copies into the peer's registered memory, then leaves a note in the peer's inbox
//   send  leaves the bytes in the peer's inbox
//   poll  empties the own inbox
// An inbox is bounded: a peer that does not poll makes others busy, as credits do elsewhere.
//
// Thread safety: an InprocEndpoint is shared by the threads of all ranks and locks itself; an
// Inproc belongs to its rank's thread. Lock order: only one endpoint's lock is held at a time.
#include "comm/transports/inproc.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <shared_mutex>
#include <utility>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr size_t kInboxEvents = 1024;        // from all peers together, then they are told kBusy
constexpr uint64_t kOutstandingPuts = 1024;  // a put is done when put() returns

}  // namespace

struct InprocEvent {
  enum class Kind { kConnected, kMessage, kPutArrived, kGone } kind = Kind::kMessage;
  Rank from = 0;
  uint32_t incarnation = 0;  // of `from`: news of one that is no longer linked is dropped
  uint32_t notify = 0;
  uint64_t bytes = 0;
  std::vector<std::byte> message;
};

class InprocEndpoint {
 public:
  InprocEndpoint(Rank rank, uint32_t incarnation) : rank(rank), incarnation(incarnation) {}
  ~InprocEndpoint() { close(event_fd); }

  // false: the inbox is full. Connection news always fits.
  bool leave(InprocEvent event) {
    const std::lock_guard lock(mutex_);
    const bool bounded =
        event.kind == InprocEvent::Kind::kMessage || event.kind == InprocEvent::Kind::kPutArrived;
    if (bounded && inbox_.size() >= kInboxEvents) return false;
    inbox_.push_back(std::move(event));
    eventfd_write(event_fd, 1);
    return true;
  }

  bool has_room() {
    const std::lock_guard lock(mutex_);
    return inbox_.size() < kInboxEvents;
  }

  std::deque<InprocEvent> take_all() {
    std::deque<InprocEvent> out;
    const std::lock_guard lock(mutex_);
    if (inbox_.empty()) return out;
    out.swap(inbox_);
    eventfd_t ignored = 0;
    eventfd_read(event_fd, &ignored);
    return out;
  }

  // Regions: written by the owner, read by whoever puts; a region is not freed under a copy.
  uint64_t add_region(const MemoryBlock& block) {
    const std::unique_lock lock(regions_mutex_);
    regions_[++last_key_] = block;
    return last_key_;
  }
  void remove_region(uint64_t key) {
    const std::unique_lock lock(regions_mutex_);
    regions_.erase(key);
  }
  bool copy_into(const Put& put) {
    const std::shared_lock lock(regions_mutex_);
    const auto it = regions_.find(put.to.key);
    if (it == regions_.end() || it->second.bytes < put.to_offset + put.bytes) return false;
    std::memcpy(it->second.data + put.to_offset, put.from->data() + put.from_offset, put.bytes);
    return true;
  }
  std::byte* region(uint64_t key) {
    const std::shared_lock lock(regions_mutex_);
    const auto it = regions_.find(key);
    return it == regions_.end() ? nullptr : it->second.data;
  }

  const Rank rank;
  const uint32_t incarnation;
  const int event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::atomic<bool> open{true};

 private:
  std::mutex mutex_;
  std::deque<InprocEvent> inbox_;
  std::shared_mutex regions_mutex_;
  std::map<uint64_t, MemoryBlock> regions_;
  uint64_t last_key_ = 0;
};

void InprocHub::enter(Rank rank, const std::shared_ptr<InprocEndpoint>& endpoint) {
  const std::lock_guard lock(mutex_);
  endpoints_[rank] = endpoint;
}

std::shared_ptr<InprocEndpoint> InprocHub::find(Rank rank) {
  const std::lock_guard lock(mutex_);
  const auto it = endpoints_.find(rank);
  return it == endpoints_.end() ? nullptr : it->second.lock();
}

namespace {

class InprocRegion : public MemoryRegion {
 public:
  InprocRegion(const MemoryBlock& block, std::shared_ptr<InprocEndpoint> endpoint)
      : MemoryRegion(block), endpoint_(std::move(endpoint)), key_(endpoint_->add_region(block)) {}
  ~InprocRegion() override { endpoint_->remove_region(key_); }
  RemoteRegion remote() const override { return {0, key_, bytes()}; }

 private:
  std::shared_ptr<InprocEndpoint> endpoint_;
  uint64_t key_;
};

class Inproc : public Transport {
 public:
  explicit Inproc(const TransportConfig& config)
      : hub_(config.runtime.inproc),
        self_(std::make_shared<InprocEndpoint>(config.rank, config.incarnation)),
        links_(config.size) {
    KINET_CHECK(hub_ != nullptr,
                "transport inproc joins the threads of one process; ranks that are "
                "processes need another one\nhint: --transport auto");
    hub_->enter(config.rank, self_);
  }

  ~Inproc() override {
    self_->open = false;
    for (Rank r = 0; r < static_cast<Rank>(links_.size()); ++r) disconnect(r);
  }

  static TransportType type() {
    return {"inproc",
            "threads of one process (tests, benches, examples)",
            Reach::kProcess,
            100,
            nullptr,
            [](const Params&) {
              return TransportProbe{true, "works: threads of this process", {}, ""};
            },
            [](const TransportConfig& config) -> std::unique_ptr<Transport> {
              return std::make_unique<Inproc>(config);
            }};
  }

  std::unique_ptr<MemoryRegion> register_memory(const MemoryBlock& block) override {
    ++counters_.registrations;
    return std::make_unique<InprocRegion>(block, self_);
  }

  std::string offer(Rank) override { return fmt::format("{}", self_->rank); }

  void connect(Rank peer, uint32_t incarnation, const std::string& offer) override {
    const std::shared_ptr<InprocEndpoint> there = hub_->find(peer);
    if (offer != fmt::format("{}", peer) || !there || there->incarnation != incarnation) {
      links_[peer] = Link{};
      pending_lost_.push_back(peer);
      return;
    }
    links_[peer] = {there, incarnation, false, false, 0};
    InprocEvent hello;
    hello.kind = InprocEvent::Kind::kConnected;
    hello.from = self_->rank;
    hello.incarnation = self_->incarnation;
    there->leave(std::move(hello));
  }

  void disconnect(Rank peer) override {
    Link& link = links_[peer];
    if (!link.there) return;
    InprocEvent gone;
    gone.kind = InprocEvent::Kind::kGone;
    gone.from = self_->rank;
    gone.incarnation = self_->incarnation;
    link.there->leave(std::move(gone));
    link = Link{};
    link.lost = true;
  }

  Post send(Rank peer, std::span<const std::byte> message) override {
    KINET_DCHECK(message.size() <= kMaxMessage);
    Link& link = links_[peer];
    if (link.lost || (link.there && !link.there->open)) return Post::kPeerLost;
    if (!link.up) return busy();
    InprocEvent event = event_for(link, InprocEvent::Kind::kMessage);
    event.message.assign(message.begin(), message.end());
    if (!link.there->leave(std::move(event))) return busy();
    ++counters_.messages_sent;
    return Post::kAccepted;
  }

  Post put(Rank peer, const Put& put) override {
    check_put(put);
    Link& link = links_[peer];
    if (link.lost || (link.there && !link.there->open)) return Post::kPeerLost;
    if (!link.up || !link.there->has_room()) return busy();
    if (put.bytes > 0 && !link.there->copy_into(put)) return Post::kPeerLost;
    InprocEvent event = event_for(link, InprocEvent::Kind::kPutArrived);
    event.notify = put.notify;
    event.bytes = put.bytes;
    // Others may have filled the inbox since; then the same bytes are copied again later.
    if (!link.there->leave(std::move(event))) return busy();
    ++link.completed;
    ++counters_.puts;
    counters_.put_bytes += put.bytes;
    counters_.copied_bytes += put.bytes;
    return Post::kAccepted;
  }

  int poll(EventSink& sink) override {
    int count = 0;
    for (const Rank peer : std::exchange(pending_lost_, {})) {
      count += lose(peer, "its thread is not there", sink);
    }
    for (Rank r = 0; r < static_cast<Rank>(links_.size()); ++r) {
      if (const uint64_t done = std::exchange(links_[r].completed, 0); done > 0) {
        sink.on_puts_completed(r, done);
        ++count;
      }
    }
    for (const InprocEvent& event : self_->take_all()) count += raise(event, sink);
    return count;
  }

  int event_fd() const override { return self_->event_fd; }

  const std::byte* peer_memory(Rank peer, const RemoteRegion& region) override {
    const Link& link = links_[peer];
    return link.up && !link.lost ? link.there->region(region.key) : nullptr;
  }

  Capabilities capabilities() const override {
    Capabilities c;
    c.maps_peer_memory = true;
    c.outstanding_puts = kOutstandingPuts;
    return c;
  }
  TransportCounters counters() const override { return counters_; }
  std::string describe(Rank, bool) const override { return "inproc: memory of this process"; }

 private:
  struct Link {
    std::shared_ptr<InprocEndpoint> there;
    uint32_t incarnation = 0;
    bool up = false, lost = false;
    uint64_t completed = 0;  // puts not yet reported
  };

  Post busy() {
    ++counters_.busy;
    return Post::kBusy;
  }

  InprocEvent event_for(const Link&, InprocEvent::Kind kind) const {
    InprocEvent event;
    event.kind = kind;
    event.from = self_->rank;
    event.incarnation = self_->incarnation;
    return event;
  }

  int raise(const InprocEvent& event, EventSink& sink) {
    Link& link = links_[event.from];
    if (event.kind == InprocEvent::Kind::kConnected) return greet(event, sink);
    if (!link.there || link.lost || link.incarnation != event.incarnation) return 0;
    switch (event.kind) {
      case InprocEvent::Kind::kMessage:
        ++counters_.messages_received;
        sink.on_message(event.from, event.message);
        break;
      case InprocEvent::Kind::kPutArrived:
        ++counters_.puts_arrived;
        sink.on_put_arrived(event.from, event.notify, event.bytes);
        break;
      default:
        return lose(event.from, "its thread ended", sink);
    }
    return 1;
  }

  // The peer has called connect(). Its hello may be here before our own connect(): kept till then.
  int greet(const InprocEvent& event, EventSink& sink) {
    Link& link = links_[event.from];
    if (link.incarnation > event.incarnation) return 0;
    if (!link.there || link.incarnation != event.incarnation) {
      self_->leave(event);
      return 0;
    }
    if (link.up) return 0;
    link.up = true;
    sink.on_connected(event.from);
    return 1;
  }

  int lose(Rank peer, const std::string& why, EventSink& sink) {
    Link& link = links_[peer];
    if (link.lost) return 0;
    link = Link{};
    link.lost = true;
    sink.on_peer_lost(peer, why);
    return 1;
  }

  std::shared_ptr<InprocHub> hub_;
  std::shared_ptr<InprocEndpoint> self_;
  std::vector<Link> links_;
  std::vector<Rank> pending_lost_;
  TransportCounters counters_;
};

KINET_REGISTER_TRANSPORT(Inproc::type());

}  // namespace
}  // namespace kinet
