#include "comm/transports/shm.h"

#include <fcntl.h>
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

#include "comm/transports/shm_copy.h"
#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

const MessageType& shm_fields() {
  static const MessageType type{
      "shm",
      "ranks on one machine through shared memory",
      {uint_field(
           "ring_bytes", "65536",
           "bytes of the ring from one rank to another, a power of two from 4096; a put takes "
           "64 of them, a message its size and 8, rounded up to 64"),
       uint_field("stream_bytes", "8388608",
                  "puts of at least so many bytes are written past the caches; 0: none"),
       float_field("check_ms", "10",
                   "milliseconds between looks for peers that are gone, while a rank polls")}};
  return type;
}

ShmSettings settings_of(const Params& given) {
  const Params params = given.present() ? given : Params(nullptr, &shm_fields());
  ShmSettings out;
  out.ring_bytes = static_cast<size_t>(params.get_int("ring_bytes"));
  if (!std::has_single_bit(out.ring_bytes) || out.ring_bytes < kShmSmallestRing ||
      out.ring_bytes > kShmLargestRing) {
    fail_at(params.where("ring_bytes"),
            fmt::format("ring_bytes: {} is no power of two from {} to {}", out.ring_bytes,
                        kShmSmallestRing, kShmLargestRing));
  }
  out.stream_bytes = static_cast<uint64_t>(params.get_int("stream_bytes"));
  if (out.stream_bytes == 0) out.stream_bytes = UINT64_MAX;
  out.check_seconds = params.get_double("check_ms") / 1000;
  if (!(out.check_seconds > 0)) fail_at(params.where("check_ms"), "check_ms: must be above 0");
  return out;
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
        fmt::format("descriptors: {} (needs 5 a peer, and 1 a region of a peer)", files.rlim_cur));
  } catch (const Error& error) {
    out.summary = error.what();
    out.remedy = "allow memfd_create and unix sockets (seccomp of a container), or --transport tcp";
  }
  return out;
}

class ShmRegion : public MemoryRegion {
 public:
  ShmRegion(const MemoryBlock& block, Shm& owner, uint64_t key)
      : MemoryRegion(block), owner_(owner), key_(key) {}
  ~ShmRegion() override { owner_.withdraw(key_); }
  RemoteRegion remote() const override { return {0, key_, bytes()}; }

 private:
  Shm& owner_;
  uint64_t key_;
};

}  // namespace

Shm::Shm(const TransportConfig& config)
    : size_(config.size),
      timeout_(config.timeout),
      settings_(settings_of(config.params)),
      links_(config.size),
      lost_(config.size, false) {
  self_.rank = config.rank;
  self_.incarnation = config.incarnation;
  self_.token = config.token;
  self_.ring_bytes = settings_.ring_bytes;
  self_.bell = ShmFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  self_.epoll = ShmFd(epoll_create1(EPOLL_CLOEXEC));
  callers_ = std::make_unique<ShmCallers>(self_, timeout_);
  if (!self_.bell || !self_.epoll ||
      !shm_watch(self_, self_.bell.get(), ShmReady::kBell, self_.rank) ||
      !shm_watch(self_, callers_->listener(), ShmReady::kListener, self_.rank)) {
    fail("transport shm cannot start: {}\nhint: raise `ulimit -n`", std::strerror(errno));
  }
}

Shm::~Shm() {
  if (getpid() != process_) return;  // a forked child: closing must not end the parent's links
  for (Rank r = 0; r < size_; ++r) disconnect(r);
}

TransportType Shm::type() {
  return {"shm",
          "processes of one machine, through shared memory",
          Reach::kNode,
          90,
          &shm_fields(),
          probe,
          [](const TransportConfig& config) -> std::unique_ptr<Transport> {
            return std::make_unique<Shm>(config);
          }};
}

std::unique_ptr<MemoryRegion> Shm::register_memory(const MemoryBlock& block) {
  struct stat file {};
  KINET_CHECK(block.fd >= 0,
              "transport shm needs memory that other processes can map; {} without a file cannot "
              "be registered\nhint: allocate it as SharedMemory (src/base/shared_memory.h)",
              human_bytes(block.bytes));
  KINET_CHECK(fstat(block.fd, &file) == 0 && static_cast<size_t>(file.st_size) >= block.bytes,
              "the file of {} of memory is shorter than that", human_bytes(block.bytes));
  const int seals = fcntl(block.fd, F_GET_SEALS);
  KINET_CHECK(seals >= 0 && (seals & F_SEAL_SHRINK) != 0,
              "transport shm needs memory of a fixed size; the file of {} could be made shorter\n"
              "hint: allocate it as SharedMemory (src/base/shared_memory.h)",
              human_bytes(block.bytes));
  const uint64_t key = ++last_key_;
  self_.regions[key] = block;
  ++counters_.registrations;
  for (const Rank r : active_) links_[r]->announce(ShmPacket::Kind::kRegion, key);
  return std::make_unique<ShmRegion>(block, *this, key);
}

void Shm::withdraw(uint64_t key) {
  if (getpid() != process_) return;
  self_.regions.erase(key);
  for (const Rank r : active_) links_[r]->announce(ShmPacket::Kind::kWithdraw, key);
}

std::string Shm::offer(Rank) { return callers_->name(); }

void Shm::connect(Rank peer, uint32_t incarnation, const std::string& offer) {
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

void Shm::disconnect(Rank peer) {
  lost_[peer] = true;
  if (!links_[peer]) return;
  ShmLink& link = *links_[peer];
  if (!link.reported_up) --setting_up_;
  link.close();
  link.closed = true;
  retired_.push_back(std::move(links_[peer]));  // poll() may be looking at it
  std::erase(active_, peer);
}

Post Shm::send(Rank peer, std::span<const std::byte> message) {
  KINET_DCHECK(message.size() <= kMaxMessage);
  ShmLink* link = links_[peer].get();
  if (const Post answer = ready(peer, link, message.size()); answer != Post::kAccepted) {
    return answer;
  }
  if (link->outbox().push_message(message)) ring(*link);
  ++counters_.messages_sent;
  return Post::kAccepted;
}

Post Shm::put(Rank peer, const Put& put) {
  check_put(put);
  ShmLink* link = links_[peer].get();
  if (const Post answer = ready(peer, link, sizeof(uint64_t)); answer != Post::kAccepted) {
    return answer;
  }
  if (put.bytes > 0) {
    const std::shared_ptr<SharedMemory> there = find_region(*link, put.to);
    if (there == nullptr) return link->ended() ? Post::kPeerLost : busy();
    std::byte* to = there->data() + put.to_offset;
    const std::byte* from = put.from->data() + put.from_offset;
    if (put.bytes < settings_.stream_bytes) {
      std::memcpy(to, from, put.bytes);
    } else {
      shm_copy_streamed(to, from, put.bytes);
    }
  }
  if (link->outbox().push_put(put.notify, put.bytes)) ring(*link);
  ++link->completed;
  ++counters_.puts;
  counters_.put_bytes += put.bytes;
  counters_.copied_bytes += put.bytes;
  return Post::kAccepted;
}

const std::byte* Shm::peer_memory(Rank peer, const RemoteRegion& region) {
  return share_peer_memory(peer, region).get();
}

std::shared_ptr<std::byte> Shm::share_peer_memory(Rank peer, const RemoteRegion& region) {
  ShmLink* link = links_[peer].get();
  if (link == nullptr || !link->up()) return nullptr;
  std::shared_ptr<SharedMemory> there = find_region(*link, region);
  std::byte* data = there == nullptr ? nullptr : there->data();
  return {std::move(there), data};
}

Post Shm::busy() {
  ++counters_.busy;
  return Post::kBusy;
}

Post Shm::ready(Rank peer, ShmLink* link, size_t payload) {
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
std::shared_ptr<SharedMemory> Shm::find_region(ShmLink& link, const RemoteRegion& wanted) {
  std::shared_ptr<SharedMemory> there = link.region(wanted.key);
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

void Shm::ring(ShmLink& link) {
  ++counters_.system_calls;
  link.ring_bell();
}

Capabilities Shm::capabilities() const {
  Capabilities c;
  c.needs_shared_memory = true;
  c.maps_peer_memory = c.shares_peer_memory = true;
  c.outstanding_puts = self_.ring_bytes / kShmCell;
  return c;
}

std::string Shm::describe(Rank, bool verbose) const {
  std::string out =
      fmt::format("memory of this machine, a ring of {} bytes each way", settings_.ring_bytes);
  if (!verbose) return out;
  const bool streams = settings_.stream_bytes != UINT64_MAX;
  return out + fmt::format("\n  ring_bytes: {}\n  stream_bytes: {}\n  check_ms: {}",
                           settings_.ring_bytes, streams ? settings_.stream_bytes : 0,
                           settings_.check_seconds * 1000);
}

namespace {

KINET_REGISTER_TRANSPORT(Shm::type());

}  // namespace
}  // namespace kinet
