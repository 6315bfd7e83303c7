#include "comm/communicator.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "comm/comm_fields.h"
#include "comm/communicator_impl.h"
#include "src/base/check.h"

namespace kinet {
namespace {

using Guard = std::lock_guard<std::recursive_mutex>;

// Messages that may wait for credit for one peer. More means that it takes nothing any more, while
// it still gives signs of life: a defect of whoever sends without waiting for answers.
constexpr size_t kMaxWaiting = 16384;

void check_range(const Params& params, const std::string& field, double low, double high) {
  const double value = params.get_double(field);
  if (value < low || value > high) {
    fail_at(params.where(field),
            fmt::format("comm_param: {} is {:g}, but must lie between {:g} and {:g}", field, value,
                        low, high));
  }
}

void check_times(const Params& params) {
  constexpr double kYear = 366.0 * 24 * 3600;
  check_range(params, "setup_timeout", 0.1, kYear);
  check_range(params, "wait_timeout", 1, kYear);
  check_range(params, "heartbeat_interval", 0.01, kYear);
  check_range(params, "heartbeat_timeout", 0, kYear);
  check_range(params, "stall_timeout", 0, kYear);
  check_range(params, "spin", -1, 1e6);
  const double timeout = params.get_double("heartbeat_timeout");
  const double interval = params.get_double("heartbeat_interval");
  if (timeout != 0 && interval > timeout / 2) {
    fail_at(params.where("heartbeat_timeout"),
            fmt::format("comm_param: heartbeat_timeout is {:g} s, but must be at least twice "
                        "heartbeat_interval ({:g} s), or 0",
                        timeout, interval));
  }
}

double default_spin(double field, const World& world) {
  if (field >= 0) return field * 1e-6;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return world.local_size() <= cores ? 50e-6 : 0;
}

}  // namespace

Communicator::Impl::Impl(World the_world, std::unique_ptr<Rendezvous> the_rendezvous,
                         const CommOptions& the_options)
    : world(std::move(the_world)),
      rendezvous(std::move(the_rendezvous)),
      options(the_options),
      peers(world.size) {
  const Params params(options.params.node(), &comm_fields());
  wanted = options.transport.empty() ? params.get_string("transport") : options.transport;
  setup_timeout = params.get_double("setup_timeout");
  heartbeat_interval = params.get_double("heartbeat_interval");
  heartbeat_timeout = options.heartbeats ? params.get_double("heartbeat_timeout") : 0;
  stall_timeout = options.heartbeats ? params.get_double("stall_timeout") : 0;
  spin = default_spin(params.get_double("spin"), world);
  check_times(params);
  for (Rank r = 0; r < world.size; ++r) peers[r].incarnation = world.members[r].incarnation;
  peers[world.rank].state = PeerState::kAlive;
}

Communicator::Impl::~Impl() {
  stop_thread();
  transports.clear();
  if (epoll_fd >= 0) close(epoll_fd);
  if (wake_fd >= 0) close(wake_fd);
}

Communicator::Communicator(World world, std::unique_ptr<Rendezvous> rendezvous,
                           const CommOptions& options)
    : impl_(std::make_unique<Impl>(std::move(world), std::move(rendezvous), options)) {
  const Guard guard(impl_->lock);
  impl_->find_usable();
  for (Rank r = 0; r < size(); ++r) impl_->link(r);
  impl_->build_wait_set();
  for (Rank r = 0; r < size(); ++r) impl_->connect(r);
  impl_->virtual_clock = virtual_time();
  if (impl_->virtual_clock) impl_->heartbeat_timeout = 0;
  impl_->wait_for_links();
  impl_->tell_routes();
  if (options.progress_thread && !virtual_time()) impl_->start_thread();
}

Communicator::~Communicator() { impl_->stop_thread(); }

Rank Communicator::rank() const { return impl_->world.rank; }
int Communicator::size() const { return impl_->world.size; }
int Communicator::local_rank() const { return impl_->world.local_rank(); }
int Communicator::local_size() const { return impl_->world.local_size(); }

double Communicator::now() const {
  const Guard guard(impl_->lock);
  return impl_->now();
}

double Communicator::Impl::now() const {
  for (const auto& [name, transport] : transports) return transport->now();
  return steady_now();
}

bool Communicator::virtual_time() const {
  const Guard guard(impl_->lock);
  return std::any_of(impl_->transports.begin(), impl_->transports.end(),
                     [](const auto& t) { return t.second->capabilities().virtual_time; });
}

PeerState Communicator::state(Rank peer) const {
  const Guard guard(impl_->lock);
  return impl_->peers[peer].state;
}

int Communicator::alive() const {
  const Guard guard(impl_->lock);
  return static_cast<int>(
      std::count_if(impl_->peers.begin(), impl_->peers.end(),
                    [](const Peer& p) { return p.state == PeerState::kAlive; }));
}

std::string Communicator::declared_lost() const {
  const Guard guard(impl_->lock);
  return impl_->self_lost.empty() ? "" : impl_->self_lost_text();
}

std::string Communicator::why_lost(Rank peer) const {
  const Guard guard(impl_->lock);
  return impl_->peers[peer].state == PeerState::kLost ? impl_->peers[peer].why_lost : "";
}

std::string Communicator::why_left(Rank peer) const {
  const Guard guard(impl_->lock);
  return impl_->peers[peer].state == PeerState::kLeft ? impl_->peers[peer].why_lost : "";
}

std::string Communicator::first_loss() const {
  const Guard guard(impl_->lock);
  if (impl_->losses.empty()) return "";
  const Rank r = impl_->losses.front();
  return fmt::format("{} is lost: {}", impl_->name_of(r), impl_->peers[r].why_lost);
}

std::string Communicator::name(Rank peer) const {
  const Guard guard(impl_->lock);
  return impl_->name_of(peer);
}

std::string Communicator::route(Rank peer) const {
  const Guard guard(impl_->lock);
  return impl_->peers[peer].transport_name;
}

std::string Communicator::describe_routes(bool verbose) const {
  const Guard guard(impl_->lock);
  std::string out;
  for (Rank r = 0; r < size(); ++r) {
    const Peer& p = impl_->peers[r];
    if (p.transport == nullptr) continue;
    out += fmt::format("rank {} to {}: {}\n", rank(), impl_->name_of(r),
                       p.transport->describe(r, verbose));
  }
  return out;
}

std::string Communicator::describe_states() const {
  const Guard guard(impl_->lock);
  return impl_->describe_states();
}

TransportCounters Communicator::counters() const {
  const Guard guard(impl_->lock);
  TransportCounters sum;
  for (const auto& [name, transport] : impl_->transports) {
    const TransportCounters c = transport->counters();
    sum.puts += c.puts;
    sum.put_bytes += c.put_bytes;
    sum.puts_arrived += c.puts_arrived;
    sum.messages_sent += c.messages_sent;
    sum.messages_received += c.messages_received;
    sum.work_requests += c.work_requests;
    sum.signalled += c.signalled;
    sum.completions += c.completions;
    sum.receives_posted += c.receives_posted;
    sum.system_calls += c.system_calls;
    sum.registrations += c.registrations;
    sum.copied_bytes += c.copied_bytes;
    sum.busy += c.busy;
    sum.retransmissions += c.retransmissions;
    sum.flushed += c.flushed;
  }
  return sum;
}

Capabilities Communicator::capabilities(Rank peer) const {
  const Guard guard(impl_->lock);
  const Peer& p = impl_->peers[peer];
  return p.transport == nullptr ? Capabilities{} : p.transport->capabilities();
}

// ---- memory
// ---------------------------------------------------------------------------------------

Region::~Region() {
  if (lock_ == nullptr) return;
  const Guard guard(*lock_);
  registrations_.clear();
}

std::unique_ptr<Region> Communicator::allocate(size_t bytes, const std::string& what) {
  SharedMemory memory(bytes, "kinet " + what);
  auto region = adopt({memory.data(), memory.bytes(), memory.fd()});
  region->owned_ = std::move(memory);
  return region;
}

std::unique_ptr<Region> Communicator::adopt(const MemoryBlock& block) {
  const Guard guard(impl_->lock);
  auto region = std::make_unique<Region>();
  region->lock_ = &impl_->lock;
  region->block_ = block;
  for (const auto& [name, transport] : impl_->transports) {
    region->registrations_[transport.get()] = transport->register_memory(block);
  }
  return region;
}

// A successor may have come by a transport that did not exist when the region was made.
RemoteRegion Communicator::key_for(Region& region, Rank peer) {
  const Guard guard(impl_->lock);
  Transport* transport = impl_->peers[peer].transport;
  KINET_CHECK(transport != nullptr, "there is no link to rank {}", peer);
  auto& registration = region.registrations_[transport];
  if (!registration) registration = transport->register_memory(region.block_);
  return registration->remote();
}

uint64_t Communicator::overslept() const {
  const Guard guard(impl_->lock);
  return impl_->overslept;
}

const std::byte* Communicator::peer_memory(Rank peer, const RemoteRegion& region) {
  const Guard guard(impl_->lock);
  Peer& p = impl_->peers[peer];
  if (p.transport == nullptr || p.state != PeerState::kAlive) return nullptr;
  return p.transport->peer_memory(peer, region);
}

std::shared_ptr<std::byte> Communicator::share_peer_memory(Rank peer, const RemoteRegion& region) {
  const Guard guard(impl_->lock);
  Peer& p = impl_->peers[peer];
  if (p.transport == nullptr || p.state != PeerState::kAlive) return nullptr;
  return p.transport->share_peer_memory(peer, region);
}

// ---- messages and puts
// ------------------------------------------------------------------------------

bool Communicator::send(Rank peer, uint8_t kind, std::span<const std::byte> payload) {
  const Guard guard(impl_->lock);
  return impl_->send(peer, kind, payload);
}

bool Communicator::Impl::send(Rank peer, uint8_t kind, std::span<const std::byte> payload) {
  KINET_CHECK(payload.size() <= kMaxPayload, "a message of {} bytes; {} is the limit",
              payload.size(), kMaxPayload);
  Peer& p = peers[peer];
  if (p.state != PeerState::kAlive || p.transport == nullptr) return false;
  std::array<std::byte, kMaxMessage> message{};
  message[0] = static_cast<std::byte>(kind);
  std::copy(payload.begin(), payload.end(), message.begin() + kMessageHeader);
  const std::span<const std::byte> bytes(message.data(), kMessageHeader + payload.size());
  if (p.waiting.empty()) {
    const Post post = p.transport->send(peer, bytes);
    if (post == Post::kAccepted) return true;
    if (post == Post::kPeerLost) return false;
  }
  if (p.waiting.size() >= kMaxWaiting) {
    fail_runtime("{} takes no messages: {} wait for it\n{}", name_of(peer), p.waiting.size(),
                 describe_states());
  }
  p.waiting.emplace_back(bytes.begin(), bytes.end());
  return true;
}

Post Communicator::put(Rank peer, const RegionPut& put) {
  const Guard guard(impl_->lock);
  Peer& p = impl_->peers[peer];
  if (p.state == PeerState::kConnecting) return Post::kBusy;
  if (p.state != PeerState::kAlive || p.transport == nullptr) return Post::kPeerLost;
  KINET_DCHECK(put.tag <= kMaxTag);
  Put out;
  if (put.from != nullptr) {
    const auto it = put.from->registrations_.find(p.transport);
    KINET_CHECK(it != put.from->registrations_.end(), "the source is not registered for rank {}",
                peer);
    out.from = it->second.get();
  }
  out.from_offset = put.from_offset;
  out.to = put.to;
  out.to_offset = put.to_offset;
  out.bytes = put.bytes;
  out.notify = (static_cast<uint32_t>(put.kind) << 24) | put.tag;
  out.flush = put.flush;
  const Post post = p.transport->put(peer, out);
  if (post == Post::kAccepted) ++p.posted;
  return post;
}

uint64_t Communicator::puts_posted(Rank peer) const {
  const Guard guard(impl_->lock);
  return impl_->peers[peer].posted;
}

uint64_t Communicator::puts_completed(Rank peer) const {
  const Guard guard(impl_->lock);
  return impl_->peers[peer].completed;
}

// ---- handlers
// ---------------------------------------------------------------------------------------

void Communicator::on_message(uint8_t kind, MessageHandler handler) {
  const Guard guard(impl_->lock);
  impl_->message_handlers[kind] = std::move(handler);
  impl_->deliver_held(kind);
}

void Communicator::on_put(uint8_t kind, PutHandler handler) {
  const Guard guard(impl_->lock);
  impl_->put_handlers[kind] = std::move(handler);
  impl_->deliver_held(kind);
}

int Communicator::on_peer_lost(LostHandler handler) {
  const Guard guard(impl_->lock);
  impl_->lost_handlers[impl_->next_number] = std::move(handler);
  return impl_->next_number++;
}

int Communicator::on_peer_joined(JoinHandler handler) {
  const Guard guard(impl_->lock);
  impl_->join_handlers[impl_->next_number] = std::move(handler);
  return impl_->next_number++;
}

int Communicator::add_pump(std::function<void()> pump) {
  const Guard guard(impl_->lock);
  impl_->pumps[impl_->next_number] = std::move(pump);
  return impl_->next_number++;
}

void Communicator::remove(int number) {
  const Guard guard(impl_->lock);
  impl_->lost_handlers.erase(number);
  impl_->join_handlers.erase(number);
  impl_->pumps.erase(number);
}

// Outside of a poll the progress thread may be asleep for long: it is woken.
void Communicator::retry_soon() {
  const Guard guard(impl_->lock);
  impl_->retry = true;
  if (impl_->polling == 0) eventfd_write(impl_->wake_fd, 1);
}

void Communicator::locked(const std::function<void()>& work) {
  const Guard guard(impl_->lock);
  work();
}

void Communicator::note_progress(uint64_t step, const std::string& phase, int patience) {
  const Guard guard(impl_->lock);
  impl_->own_beat.step = step;
  impl_->own_beat.patience = static_cast<uint64_t>(std::max(patience, 1));
  impl_->own_beat.phase.fill(0);
  std::memcpy(impl_->own_beat.phase.data(), phase.data(),
              std::min(phase.size(), impl_->own_beat.phase.size() - 1));
}

}  // namespace kinet
