// verbs: RDMA over reliable queue pairs (InfiniBand, RoCE). Puts are RDMA WRITE WITH IMMEDIATE,
// messages are SENDs into receives shared by all peers.
//
//   verbs.cc            completions become events; losses, goodbyes, time limits
//   verbs_link.{h,cc}   one peer: queue pairs, bring-up        verbs_post.cc  its fast path
//   verbs_endpoint.*    what all links share                   verbs_probe.cc kinet doctor
//   comm/verbs/         thin owners of the library's objects, and the logic that needs no device
//
// Losses: a work request that fails (the first failure of a link, whatever its status), a goodbye,
// a completion that does not come, or a device that breaks. A peer that dies in silence is noticed
// only when something is sent to it: the communicator's heartbeats do.
// Ending a link: disconnect() forbids the peer's writes at once, sends a goodbye, and destroys the
// first queue pair when that has left or a second has passed; the others are destroyed at once.
// Thread safety: none.
#include "comm/transports/verbs.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <unordered_map>
#include <utility>

#include "comm/transports/verbs_link.h"
#include "src/base/check.h"

namespace kinet {
namespace {

using verbs::MessageKind;
using verbs::RequestId;
using verbs::RequestKind;

constexpr int kBatch = 32;              // completions asked for at once
constexpr int kPollBudget = 64;         // completions of one poll(): others want to work too
constexpr uint32_t kTimerPolls = 128;   // polls between two looks at the clock, when not asleep
constexpr double kNewsInterval = 0.02;  // seconds between two looks at the device's events
constexpr double kGoodbyeTime = 1;      // seconds for a goodbye to leave

class Verbs : public Transport {
 public:
  explicit Verbs(const TransportConfig& config)
      : at_(config), links_(config.size), lost_(config.size, false) {
    pending_.resize(kBatch);
    wait_fd_ = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(wait_fd_, EPOLL_CTL_ADD, at_.completions.fd(), &event);
    epoll_ctl(wait_fd_, EPOLL_CTL_ADD, at_.news.fd(), &event);
  }

  ~Verbs() override;

  std::unique_ptr<MemoryRegion> register_memory(const MemoryBlock& block) override {
    ++at_.counters.registrations;
    return std::make_unique<VerbsRegion>(at_, block);
  }

  std::string offer(Rank peer) override;
  void connect(Rank peer, uint32_t incarnation, const std::string& offer) override;
  void disconnect(Rank peer) override;

  Post send(Rank peer, std::span<const std::byte> message) override {
    KINET_DCHECK(message.size() <= kMaxMessage);
    return post(peer, [&](VerbsLink& link) {
      const Post answer = link.send(message);
      if (answer == Post::kAccepted) ++at_.counters.messages_sent;
      return answer;
    });
  }

  Post put(Rank peer, const Put& put) override {
    check_put(put);
    return post(peer, [&](VerbsLink& link) {
      const Post answer = link.put(put);
      if (answer != Post::kAccepted) return answer;
      ++at_.counters.puts;
      at_.counters.put_bytes += put.bytes;
      return answer;
    });
  }

  int poll(EventSink& sink) override;

  int event_fd() const override { return at_.settings.events ? wait_fd_ : -1; }
  void arm() override {
    if (!at_.settings.events) return;
    at_.completions.arm();
    armed_ = true;
  }
  double max_sleep() const override { return 0.001; }  // without events

  Capabilities capabilities() const override {
    Capabilities c;
    c.inline_bytes = at_.settings.inline_bytes;
    for (const auto& link : links_) {
      if (link) c.inline_bytes = std::min(c.inline_bytes, link->lanes()[0].pair->inline_bytes());
    }
    c.outstanding_puts = std::min(at_.settings.send_depth - kReservedSends,
                                  at_.settings.receive_depth - kReservedReceives - 1);
    return c;
  }
  TransportCounters counters() const override { return at_.counters; }
  std::string describe(Rank peer, bool verbose) const override {
    if (!links_[peer]) return fmt::format("{} port {}, no link", at_.port.device, at_.port.number);
    return links_[peer]->describe(verbose);
  }

 private:
  using State = VerbsLink::State;
  struct Owner {
    Rank rank = 0;
    int lane = 0;
  };
  struct GivenBack {  // a receive that goes back to the device, and whom it was used by
    Rank rank = -1;
    uint32_t epoch = 0;
  };

  template <class Action>
  Post post(Rank peer, Action action) {
    if (lost_[peer]) return Post::kPeerLost;
    VerbsLink* link = links_[peer].get();
    if (link == nullptr || link->state != State::kUp) return busy();
    const Post answer = action(*link);
    if (link->broken()) pending_lost_.emplace_back(peer, "the device refuses work requests");
    return answer == Post::kBusy ? busy() : answer;
  }
  Post busy() {
    ++at_.counters.busy;
    return Post::kBusy;
  }

  // ---- completions
  void fetch();
  int handle(const ibv_wc& done, EventSink& sink);
  int sent(const ibv_wc& done, const RequestId& id, EventSink& sink);
  int received(const ibv_wc& done, EventSink& sink);
  int goodbye_answered(const ibv_wc& done);
  int take(const ibv_wc& done, VerbsLink& link, VerbsLink::Lane& lane,
           std::span<const std::byte> bytes, EventSink& sink);
  int take_control(VerbsLink& link, uint32_t code, std::span<const std::byte> bytes,
                   EventSink& sink);
  void give_back(const ibv_wc& done, const VerbsLink* link);
  void flush_receives();
  void return_credits();

  // ---- links
  int try_up(VerbsLink& link, EventSink& sink);
  int failed(VerbsLink& link, const ibv_wc& done, EventSink& sink);
  void restart(VerbsLink& link);
  int lose(Rank peer, const std::string& why, EventSink& sink);
  void close(std::unique_ptr<VerbsLink> link);
  void forget_number(uint32_t queue_pair);
  void drain();
  bool wave_goodbye(Rank peer);
  void close_goodbyes(double now);
  int check_timers(EventSink& sink);
  int check_link(VerbsLink& link, double now, EventSink& sink);
  int check_news(double now, EventSink& sink);

  VerbsEndpoint at_;
  std::vector<std::unique_ptr<VerbsLink>> links_;  // by rank
  std::vector<bool> lost_;                         // lost or disconnected, until the next offer()
  std::vector<std::pair<Rank, std::string>> pending_lost_;
  std::unordered_map<uint32_t, Owner> by_number_;     // queue pair -> lane
  std::vector<std::unique_ptr<VerbsLink>> goodbyes_;  // links that still have one to send
  std::vector<ibv_wc> pending_;                       // fetched, not yet handled: [next_, end_)
  size_t next_ = 0, end_ = 0;
  std::array<GivenBack, verbs::ReceiveQueue::kBatch> given_back_;
  int given_back_count_ = 0;
  bool returns_due_ = false;
  uint32_t epochs_ = 0;
  uint32_t polls_ = 0;
  bool armed_ = false;
  double news_time_ = 0;
  std::string last_news_;
  int wait_fd_ = -1;
};

// ---- links --------------------------------------------------------------------------------------

std::string Verbs::offer(Rank peer) {
  if (links_[peer]) disconnect(peer);
  auto link = std::make_unique<VerbsLink>(at_, peer, ++epochs_);
  for (size_t i = 0; i < link->lanes().size(); ++i) {
    by_number_[link->lanes()[i].own.number] = {peer, static_cast<int>(i)};
  }
  lost_[peer] = false;
  links_[peer] = std::move(link);
  return links_[peer]->offer();
}

void Verbs::connect(Rank peer, uint32_t incarnation, const std::string& offer) {
  // Without an offer of ours the peer will never answer; the time limit then says so.
  if (!links_[peer]) this->offer(peer);
  std::string why;
  const std::optional<verbs::Offer> there = verbs::decode(offer, why);
  if (!there) {
    pending_lost_.emplace_back(peer, "its offer cannot be read: " + why);
    return;
  }
  try {
    links_[peer]->deadline = now() + at_.timeout;
    links_[peer]->connect(incarnation, *there);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kUser) throw;
    pending_lost_.emplace_back(peer, error.what());
  }
}

void Verbs::disconnect(Rank peer) {
  if (!links_[peer]) return;
  lost_[peer] = true;
  std::erase_if(pending_lost_, [&](const auto& entry) { return entry.first == peer; });
  if (!wave_goodbye(peer)) close(std::move(links_[peer]));
}

// The link moves to those that are about to end. false: there is nothing to wait for.
bool Verbs::wave_goodbye(Rank peer) {
  VerbsLink& link = *links_[peer];
  if (link.state != State::kUp || link.failure.failed() || !link.say_goodbye()) return false;
  link.deadline = now() + kGoodbyeTime;
  drain();
  for (const VerbsLink::Lane& lane : link.lanes()) {
    lane.pair->forbid_writes();
    by_number_.erase(lane.own.number);  // nothing is taken in any more
  }
  std::vector<uint32_t> numbers;
  for (size_t i = 1; i < link.lanes().size(); ++i) numbers.push_back(link.lanes()[i].own.number);
  link.close_all_but_first();
  drain();
  for (const uint32_t number : numbers) forget_number(number);
  goodbyes_.push_back(std::move(links_[peer]));
  return true;
}

void Verbs::forget_number(uint32_t queue_pair) {
  by_number_.erase(queue_pair);
  for (size_t i = next_; i < end_; ++i) {
    if (pending_[i].qp_num == queue_pair) pending_[i].qp_num = 0;  // nobody's
  }
}

// All completions that are there: destroying a queue pair may take its own along, and with them
// the receives that they stand for.
void Verbs::drain() {
  for (;;) {
    if (pending_.size() - end_ < kBatch) pending_.resize(end_ + kBatch);
    const int count = at_.completions.poll(std::span(pending_).subspan(end_, kBatch));
    if (count == 0) return;
    end_ += count;
    at_.counters.completions += count;
  }
}

void Verbs::close(std::unique_ptr<VerbsLink> link) {
  std::vector<uint32_t> numbers;
  for (const VerbsLink::Lane& lane : link->lanes()) numbers.push_back(lane.own.number);
  drain();
  link.reset();
  drain();
  for (const uint32_t number : numbers) forget_number(number);
}

int Verbs::lose(Rank peer, const std::string& why, EventSink& sink) {
  if (lost_[peer] || !links_[peer]) return 0;
  lost_[peer] = true;
  close(std::move(links_[peer]));
  sink.on_peer_lost(peer, last_news_.empty() ? why : why + "\n  news of the device: " + last_news_);
  return 1;
}

// On the first failure of a link. While it comes up, nobody may have been there yet: again.
int Verbs::failed(VerbsLink& link, const ibv_wc& done, EventSink& sink) {
  if (!link.failure.add(done)) {
    ++at_.counters.flushed;
    return 0;
  }
  if (done.status == IBV_WC_WR_FLUSH_ERR) ++at_.counters.flushed;
  const std::string why = explain(done, link.names());
  if (link.state == State::kGreeting && !link.greeting_is_done() && now() < link.deadline) {
    try {
      restart(link);
      return 0;
    } catch (const Error& error) {
      return lose(link.peer(), why + "\n  " + error.what(), sink);
    }
  }
  return lose(link.peer(), why, sink);
}

// Its greeting may be among what has been fetched: after the reset its number is another one.
void Verbs::restart(VerbsLink& link) {
  drain();
  VerbsLink::Lane& lane = link.lanes()[0];
  verbs::ReceiveQueue& receives = at_.receives ? *at_.receives : *lane.receives;
  for (size_t i = next_; i < end_; ++i) {
    ibv_wc& done = pending_[i];
    if (done.qp_num != lane.own.number) continue;
    if (done.status == IBV_WC_SUCCESS && done.opcode == IBV_WC_RECV &&
        link.is_greeting_of_peer(receives.slot(done.wr_id).first(done.byte_len))) {
      link.peer_greeted = true;
      link.credits().reposted();
    }
    done.qp_num = 0;
  }
  ++at_.counters.retransmissions;
  link.restart();
}

int Verbs::try_up(VerbsLink& link, EventSink& sink) {
  if (link.state != State::kGreeting || !link.peer_greeted || !link.greeting_is_done()) return 0;
  link.state = State::kUp;
  sink.on_connected(link.peer());
  return 1;
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
  for (int handled = 0; handled < kPollBudget; ++handled) {
    fetch();
    if (next_ == end_) break;
    const ibv_wc done = pending_[next_++];
    events += handle(done, sink);
  }
  flush_receives();
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
  const auto [rank, lane_number] = owner->second;
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

// ---- time ---------------------------------------------------------------------------------------

int Verbs::check_timers(EventSink& sink) {
  const double time = now();
  int events = 0;
  for (size_t r = 0; r < links_.size(); ++r) {
    if (links_[r]) events += check_link(*links_[r], time, sink);
  }
  close_goodbyes(time);
  if (time - news_time_ > kNewsInterval) events += check_news(time, sink);
  return events;
}

int Verbs::check_link(VerbsLink& link, double time, EventSink& sink) {
  if (link.state == State::kGreeting && time > link.deadline) {
    return lose(link.peer(),
                fmt::format("{} did not come up within {:.3g} s\n  own end: {}\n  its end: {}",
                            link.greeting_is_done() ? "its half of the link" : "the link",
                            at_.timeout, link.names().own_end, link.names().peer_end),
                sink);
  }
  if (link.state != State::kUp) return 0;
  if (!link.waits() || link.progress() != link.progress_seen || link.progress_time == 0) {
    link.progress_seen = link.progress();
    link.progress_time = time;
    return 0;
  }
  const double limit = std::max(at_.timeout, 4 * verbs::give_up_seconds(at_.settings));
  if (time - link.progress_time < limit) return 0;
  return lose(link.peer(),
              fmt::format("no completion within {:.3g} s, which the device should have given up "
                          "long before\n  own end: {}\n  its end: {}",
                          limit, link.names().own_end, link.names().peer_end),
              sink);
}

void Verbs::close_goodbyes(double time) {
  for (size_t i = 0; i < goodbyes_.size();) {
    if (goodbyes_[i]->deadline > time) {
      ++i;
      continue;
    }
    close(std::move(goodbyes_[i]));
    goodbyes_.erase(goodbyes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

int Verbs::check_news(double time, EventSink& sink) {
  news_time_ = time;
  int events = 0;
  for (;;) {
    ++at_.counters.system_calls;
    const std::optional<verbs::AsyncEvent> event = at_.news.next();
    if (!event) return events;
    last_news_ = event->text;
    if (event->scope == verbs::AsyncEvent::Scope::kQueuePair) {
      const auto owner = by_number_.find(event->queue_pair);
      if (owner != by_number_.end()) events += lose(owner->second.rank, event->text, sink);
    } else if (event->scope == verbs::AsyncEvent::Scope::kDevice) {
      for (size_t r = 0; r < links_.size(); ++r) {
        events += lose(static_cast<Rank>(r), event->text, sink);
      }
    }
  }
}

// Says goodbye to all, and waits a little for that to leave.
Verbs::~Verbs() {
  for (size_t r = 0; r < links_.size(); ++r) {
    if (links_[r] && !wave_goodbye(static_cast<Rank>(r))) close(std::move(links_[r]));
  }
  struct Nobody : EventSink {
    void on_connected(Rank) override {}
    void on_message(Rank, std::span<const std::byte>) override {}
    void on_put_arrived(Rank, uint32_t, uint64_t) override {}
    void on_puts_completed(Rank, uint64_t) override {}
    void on_peer_lost(Rank, const std::string&) override {}
  } nobody;
  while (!goodbyes_.empty()) {
    try {
      poll(nobody);
    } catch (const Error&) {
      break;
    }
    close_goodbyes(now());
    if (!goodbyes_.empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  goodbyes_.clear();
  ::close(wait_fd_);
}

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
