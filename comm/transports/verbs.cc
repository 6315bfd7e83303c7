// verbs: RDMA over reliable queue pairs (InfiniBand, RoCE). Puts are RDMA WRITE WITH IMMEDIATE,
// messages are SENDs into receives shared by all peers.
//
//   verbs.{h,cc}        completions become events; receives and credits go back
//   verbs_lifecycle.cc  links begin and end: losses, goodbyes, time limits
//   verbs_link.{h,cc}   one peer: queue pairs, bring-up        verbs_post.cc  its fast path
//   verbs_endpoint.*    what all links share                   verbs_probe.cc kinet doctor
//   comm/verbs/         thin owners of the library's objects, and the logic that needs no device
//
// Thread safety: none.
#include "comm/transports/verbs.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>

#include "comm/transports/verbs.h"

namespace kinet {
namespace {

using verbs::MessageKind;
using verbs::RequestId;
using verbs::RequestKind;

constexpr uint32_t kTimerPolls = 128;  // polls between two looks at the clock, when not asleep
// Receives that are gathered for one call while there is work: answers leave before them.
constexpr int kGatheredReceives = 16;

}  // namespace

Verbs::Verbs(const TransportConfig& config)
    : at_(config), links_(config.size), lost_(config.size, false) {
  pending_.resize(kBatch);
  wait_fd_ = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(wait_fd_, EPOLL_CTL_ADD, at_.completions.fd(), &event);
  epoll_ctl(wait_fd_, EPOLL_CTL_ADD, at_.news.fd(), &event);
}

Capabilities Verbs::capabilities() const {
  Capabilities c;
  c.inline_bytes = at_.settings.inline_bytes;
  for (const auto& link : links_) {
    if (link) c.inline_bytes = std::min(c.inline_bytes, link->lanes()[0].pair->inline_bytes());
  }
  c.outstanding_puts = std::min(at_.settings.send_depth - kReservedSends,
                                at_.settings.receive_depth - kReservedReceives - 1);
  return c;
}

std::string Verbs::describe(Rank peer, bool verbose) const {
  if (!links_[peer]) return fmt::format("{} port {}, no link", at_.port.device, at_.port.number);
  return links_[peer]->describe(verbose);
}

void Verbs::arm() {
  if (!at_.settings.events) return;
  at_.completions.arm();
  armed_ = true;
}

// ---- completions --------------------------------------------------------------------------------

void Verbs::fetch() {
  if (next_ < end_) return;
  next_ = 0;
  end_ = at_.completions.poll(std::span(pending_).first(kBatch));
  at_.counters.completions += end_;
}

int Verbs::poll(EventSink& sink) {
  int events = 0;
  if (armed_) {
    ++at_.counters.system_calls;
    if (at_.completions.take_event()) armed_ = false;
  }
  if (!pending_lost_.empty()) {
    for (const auto& [peer, why] : std::exchange(pending_lost_, {}))
      events += lose(peer, why, sink);
  }
  fetch();
  const bool idle = next_ == end_;
  for (int handled = 0; handled < kBatch && next_ < end_; ++handled) {
    const ibv_wc done = pending_[next_++];
    events += handle(done, sink);
  }
  if (idle || given_back_count_ >= kGatheredReceives) flush_receives();
  if (returns_due_) return_credits();
  if (armed_ || ++polls_ % kTimerPolls == 0) events += check_timers(sink);
  return events;
}

int Verbs::handle(const ibv_wc& done, EventSink& sink) {
  const RequestId id = verbs::unpack_request(done.wr_id);
  switch (id.kind) {
    case RequestKind::kReceive:
      return received(done, sink);
    case RequestKind::kBye:
      for (const auto& link : goodbyes_) {
        if (link->peer() == id.rank && link->epoch() == id.epoch) link->deadline = 0;
      }
      close_goodbyes(now());
      return 0;
    default:
      return sent(done, id, sink);
  }
}

int Verbs::sent(const ibv_wc& done, const RequestId& id, EventSink& sink) {
  VerbsLink* link = links_[id.rank].get();
  if (link == nullptr || link->epoch() != id.epoch) {
    if (done.status != IBV_WC_SUCCESS) ++at_.counters.flushed;
    return 0;
  }
  if (done.status != IBV_WC_SUCCESS) return failed(*link, done, sink);
  const uint64_t left = link->complete(id.lane, id.number);
  int events = try_up(*link, sink);
  if (left == 0) return events;
  sink.on_puts_completed(id.rank, left);
  return events + 1;
}

int Verbs::received(const ibv_wc& done, EventSink& sink) {
  const auto owner = by_number_.find(done.qp_num);
  if (owner == by_number_.end()) {
    give_back(done, nullptr);
    return goodbye_answered(done);
  }
  const Rank rank = owner->second.rank;
  const int lane_number = owner->second.lane;
  VerbsLink& link = *links_[rank];
  if (done.status != IBV_WC_SUCCESS) {
    give_back(done, nullptr);
    return failed(link, done, sink);
  }
  VerbsLink::Lane& lane = link.lanes()[lane_number];
  verbs::ReceiveQueue& receives = at_.receives ? *at_.receives : *lane.receives;
  const std::span<const std::byte> slot = receives.slot(done.wr_id);
  const auto give_back_slot = [&] {  // the handler may have ended the link
    const auto still = by_number_.find(done.qp_num);
    give_back(done, still == by_number_.end() ? nullptr : links_[rank].get());
  };
  try {
    const int events = take(done, link, lane, slot, sink);
    give_back_slot();
    return events;
  } catch (...) {
    give_back_slot();
    throw;
  }
}

// A link that says goodbye has heard its peer say the same: nobody waits for anything any more.
int Verbs::goodbye_answered(const ibv_wc& done) {
  if (done.status != IBV_WC_SUCCESS || done.opcode != IBV_WC_RECV) return 0;
  const verbs::MessageTag tag = verbs::unpack(ntohl(done.imm_data));
  if (tag.kind != MessageKind::kControl || tag.pieces != verbs::kByeCode) return 0;
  for (const auto& link : goodbyes_) {
    if (link->lanes()[0].own.number == done.qp_num) link->deadline = 0;
  }
  close_goodbyes(now());
  return 0;
}

int Verbs::take(const ibv_wc& done, VerbsLink& link, VerbsLink::Lane& lane,
                std::span<const std::byte> slot, EventSink& sink) {
  const bool is_put = done.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  const uint32_t immediate = ntohl(done.imm_data);
  const verbs::MessageTag tag = is_put ? verbs::MessageTag{} : verbs::unpack(immediate);
  const Rank peer = link.peer();
  if (!is_put && tag.kind == MessageKind::kControl) {
    return take_control(link, tag.pieces, slot.first(done.byte_len), sink);
  }
  if (!link.peer_greeted) return lose(peer, "it spoke before it had greeted", sink);
  int events = 0;
  if (link.state != State::kUp) {  // it has our greeting, its answer to that is still on the way
    link.state = State::kUp;
    sink.on_connected(peer);
    ++events;
    if (links_[peer].get() != &link) return events;
  }
  if (is_put) {
    const uint64_t bytes = std::exchange(lane.leading_bytes, 0) + done.byte_len;
    ++at_.counters.puts_arrived;
    sink.on_put_arrived(peer, immediate, bytes);
    return events + 1;
  }
  link.credits().refill(static_cast<int>(tag.credits));
  if (tag.kind == MessageKind::kPieces) {
    lane.leading_bytes = static_cast<uint64_t>(tag.pieces) * link.piece();
  }
  if (tag.kind != MessageKind::kData) return events;
  ++at_.counters.messages_received;
  sink.on_message(peer, slot.first(done.byte_len));
  return events + 1;
}

int Verbs::take_control(VerbsLink& link, uint32_t code, std::span<const std::byte> bytes,
                        EventSink& sink) {
  if (code == verbs::kByeCode) return lose(link.peer(), "it closed the link", sink);
  if (link.state == State::kOffered || link.peer_greeted || !link.is_greeting_of_peer(bytes)) {
    return lose(link.peer(), "its greeting is not that of the rank expected", sink);
  }
  link.peer_greeted = true;
  return try_up(link, sink);
}

// ---- receives and credits -----------------------------------------------------------------------

void Verbs::give_back(const ibv_wc& done, const VerbsLink* link) {
  if (at_.receives) {
    at_.receives->give_back(done.wr_id);
    given_back_[given_back_count_++] = {link == nullptr ? -1 : link->peer(),
                                        link == nullptr ? 0 : link->epoch()};
    if (at_.receives->full()) flush_receives();
    return;
  }
  if (link == nullptr) return;  // its receives went with its queue pair
  VerbsLink& owner = *links_[link->peer()];
  VerbsLink::Lane& lane = owner.lanes()[by_number_.find(done.qp_num)->second.lane];
  lane.receives->give_back(done.wr_id);
  at_.counters.receives_posted += lane.receives->flush(lane.pair->get());
  owner.credits().reposted();
  if (owner.credits().return_is_due()) owner.return_due = returns_due_ = true;
}

// Credits are counted when the device has the receives, not before.
void Verbs::flush_receives() {
  if (given_back_count_ == 0) return;
  at_.counters.receives_posted += at_.receives->flush(nullptr);
  for (int i = 0; i < given_back_count_; ++i) {
    const auto& [rank, epoch] = given_back_[i];
    if (rank < 0 || !links_[rank] || links_[rank]->epoch() != epoch) continue;
    verbs::Credits& credits = links_[rank]->credits();
    credits.reposted();
    if (credits.return_is_due()) links_[rank]->return_due = returns_due_ = true;
  }
  given_back_count_ = 0;
}

// What went along with a message in the meantime need not be returned again.
void Verbs::return_credits() {
  returns_due_ = false;
  for (const auto& link : links_) {
    if (!link || !link->return_due) continue;
    const bool due = link->credits().return_is_due() && link->state == State::kUp;
    if (!due || link->return_credits()) {
      link->return_due = false;
    } else {
      returns_due_ = true;
    }
  }
}

namespace {

TransportType make_type() {
  return {"verbs",
          "RDMA between machines: InfiniBand, RoCE",
          Reach::kNetwork,
          60,
          &verbs::fields(),
          probe_verbs,
          [](const TransportConfig& config) -> std::unique_ptr<Transport> {
            return std::make_unique<Verbs>(config);
          }};
}

KINET_REGISTER_TRANSPORT(make_type());

}  // namespace
}  // namespace kinet
