// tcp: ranks that are processes, on one machine or many, over plain sockets.
//
//   put   is cut into pieces, sent from where it lies, received to where it belongs (tcp_link.h)
//   send  a frame on stream 0
//   poll  reads the stream that spoke last, then one epoll_wait(0)
// Frames: tcp_frame.h. Coming up: tcp_greeter.h. A peer's death is told by the kernel at once
// (its sockets close); a machine that falls silent, by unacknowledged bytes after `timeout`.
//
// Invariants: a link that has ended has no socket; its object lives until the next poll(), since
// one of its own handlers may have ended it. Thread safety: none, as in comm/transport.h.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport.h"
#include "comm/transports/tcp_address.h"
#include "comm/transports/tcp_greeter.h"
#include "comm/transports/tcp_link.h"
#include "comm/transports/tcp_options.h"
#include "comm/transports/tcp_regions.h"
#include "comm/transports/tcp_wait_set.h"
#include "src/base/check.h"

namespace kinet {
namespace {

// What an epoll event is about: the top byte, the rest by kind.
constexpr uint64_t kGreeterTag = uint64_t{1} << 56, kTimerTag = uint64_t{2} << 56,
                   kStreamTag = uint64_t{3} << 56;
constexpr int kMaxRanks = 1 << 24;  // have room in a tag
constexpr int kEventsAtOnce = 64;   // of one epoll_wait
// Polls that look at the hot stream alone, before one that looks at all.
constexpr int kTurnsWithNews = 16, kTurnsWithout = 4;
constexpr int kRounds = 4;  // of raising what handlers have caused, in one poll

class Tcp : public Transport {
 public:
  explicit Tcp(const TransportConfig& config)
      : rank_(config.rank),
        timeout_(config.timeout),
        options_(read_tcp_options(config.params)),
        wait_set_(kTimerTag, counters_),
        greeter_(config, options_, wait_set_.fd(), kGreeterTag),
        peers_(config.size) {
    KINET_CHECK(config.size <= kMaxRanks, "transport tcp: {} ranks", config.size);
  }

  ~Tcp() override {
    for (Rank r = 0; r < static_cast<Rank>(peers_.size()); ++r) Tcp::disconnect(r);
  }

  static TransportType type() {
    return {"tcp",
            "sockets: any machines that reach each other",
            Reach::kNetwork,
            10,
            &tcp_fields(),
            probe_tcp,
            [](const TransportConfig& config) -> std::unique_ptr<Transport> {
              return std::make_unique<Tcp>(config);
            }};
  }

  std::unique_ptr<MemoryRegion> register_memory(const MemoryBlock& block) override {
    ++counters_.registrations;
    return std::make_unique<TcpRegion>(block, regions_);
  }

  std::string offer(Rank) override { return make_offer(greeter_.reachable_at()); }

  void connect(Rank peer, uint32_t incarnation, const std::string& offer) override {
    Peer& p = peers_[peer];
    bury(peer);
    std::erase_if(losses_, [peer](const auto& loss) { return loss.first == peer; });
    p.lost = false;
    p.link = std::make_unique<TcpLink>(peer, incarnation, options_, *regions_, counters_);
    p.link->deadline = now() + timeout_;
    if (rank_ < peer) {
      greeter_.dial(peer, incarnation, parse_offer(offer));
    } else {
      greeter_.expect(peer, incarnation);
    }
    tick();
    take_from_greeter();
  }

  void disconnect(Rank peer) override {
    Peer& p = peers_[peer];
    std::erase_if(losses_, [peer](const auto& loss) { return loss.first == peer; });
    if (!p.link) return;
    if (p.link->announced &&
        !p.link->broken()) {  // what was accepted leaves if the kernel takes it
      for (int i = 0; i < p.link->streams(); ++i) p.link->flush(i);
    }
    bury(peer);
    p.lost = true;
  }

  Post send(Rank peer, std::span<const std::byte> message) override {
    KINET_DCHECK(message.size() <= kMaxMessage);
    TcpLink* link = usable(peer);
    if (link == nullptr) return not_usable(peer);
    const Post answer = link->send(message);
    after_writing(*link);
    return answer;
  }

  Post put(Rank peer, const Put& put) override {
    check_put(put);
    TcpLink* link = usable(peer);
    if (link == nullptr) return not_usable(peer);
    const Post answer = link->put(put);
    after_writing(*link);
    return answer;
  }

  int poll(EventSink& sink) override {
    graveyard_.clear();
    raised_ = 0;
    raise_pending(sink);
    const bool news = poll_hot(sink);
    const int turns = news ? kTurnsWithNews : kTurnsWithout;
    if (hot_ == 0 || ++turns_of_hot_ >= turns) poll_all(sink);
    for (int round = 0; round < kRounds && pending(); ++round) raise_pending(sink);
    if (pending()) wait_set_.kick();
    return raised_;
  }

  int event_fd() const override { return wait_set_.fd(); }
  void arm() override { hot_ = 0; }  // the poll before sleeping looks at all

  Capabilities capabilities() const override {
    Capabilities c;
    c.outstanding_puts = TcpLink::kOutstandingPuts;
    return c;
  }
  TransportCounters counters() const override { return counters_; }

  std::string describe(Rank peer, bool verbose) const override {
    const TcpLink* link = peers_[peer].link.get();
    if (link == nullptr || !link->complete()) return "tcp: not connected";
    const int fd = peers_[peer].link->stream(0)->fd();
    std::string out = fmt::format("{} to {}, {} streams", local_address(fd).text(), peer_text(fd),
                                  link->streams());
    if (!verbose) return out;
    out += fmt::format(", pieces of {} bytes, queue of {} frames", options_.piece_bytes,
                       options_.queue_frames);
    for (int i = 0; i < link->streams(); ++i) {
      out += fmt::format("; stream {}: {}", i, describe_socket(peers_[peer].link->stream(i)->fd()));
    }
    return out;
  }

 private:
  struct Peer {
    std::unique_ptr<TcpLink> link;
    bool lost = false;
    uint32_t generation = 0;  // of links to it: events of an earlier one are not for this one
  };

  // ---- links ----

  TcpLink* usable(Rank peer) {
    TcpLink* link = peers_[peer].link.get();
    return link != nullptr && link->announced ? link : nullptr;
  }
  Post not_usable(Rank peer) {
    if (peers_[peer].lost) return Post::kPeerLost;
    ++counters_.busy;
    return Post::kBusy;
  }

  // Closes the link's sockets. The object stays until the next poll.
  void bury(Rank peer) {
    Peer& p = peers_[peer];
    greeter_.forget(peer);
    ++p.generation;
    std::erase(connected_, peer);
    if (!p.link) return;
    p.link->close();
    graveyard_.push_back(std::move(p.link));
  }

  void lose(Rank peer, const std::string& why) {
    bury(peer);
    peers_[peer].lost = true;
    losses_.emplace_back(peer, why);
  }

  uint64_t tag_of(Rank peer, int stream) const {
    const uint64_t generation = peers_[peer].generation & 0xFFFFFF;
    return kStreamTag | generation << 32 | static_cast<uint64_t>(peer) << 8 |
           static_cast<uint64_t>(stream);
  }

  // Until a link is complete only the end of its streams is looked for, not what they bring.
  void take_from_greeter() {
    for (TcpIntroduced& one : greeter_.take_introduced()) {
      TcpLink* link = peers_[one.peer].link.get();
      if (link == nullptr) continue;
      const int fd = one.fd.get();
      link->add_stream(one.stream, one.streams, std::move(one.fd));
      if (link->broken()) {
        lose(one.peer, link->why());
        continue;
      }
      wait_set_.add(fd, EPOLLRDHUP, tag_of(one.peer, one.stream));
      if (!link->complete()) continue;
      for (int i = 0; i < link->streams(); ++i) {
        wait_set_.change(link->stream(i)->fd(), EPOLLIN, tag_of(one.peer, i));
      }
      connected_.push_back(one.peer);
    }
    for (const TcpDialFailure& failure : greeter_.take_failures()) {
      if (peers_[failure.peer].link) lose(failure.peer, failure.why);
    }
  }

  // Asks epoll for room to write where a stream has more than the kernel took, and no longer where
  // it has not.
  void after_writing(TcpLink& link) {
    for (int i = 0; i < link.streams(); ++i) {
      TcpStream& stream = *link.stream(i);
      if (stream.wants_write == stream.asked_to_write) continue;
      stream.asked_to_write = stream.wants_write;
      wait_set_.change(stream.fd(), EPOLLIN | (stream.wants_write ? uint32_t{EPOLLOUT} : 0U),
                       tag_of(link.peer, i));
    }
    if (link.broken() && !breaking_) {
      breaking_ = true;
      wait_set_.kick();
    }
  }

  // ---- progress ----

  bool pending() const {
    if (!connected_.empty() || !losses_.empty() || breaking_) return true;
    for (const Peer& p : peers_) {
      if (p.link && p.link->has_completed()) return true;
    }
    return false;
  }

  void raise_pending(EventSink& sink) {
    while (!connected_.empty()) {
      const Rank peer = connected_.front();
      connected_.pop_front();
      peers_[peer].link->announced = true;
      ++raised_;
      sink.on_connected(peer);
    }
    for (Rank r = 0; r < static_cast<Rank>(peers_.size()); ++r) {
      if (!peers_[r].link || !peers_[r].link->has_completed()) continue;
      ++raised_;
      sink.on_puts_completed(r, peers_[r].link->take_completed());
    }
    if (std::exchange(breaking_, false)) {
      for (Rank r = 0; r < static_cast<Rank>(peers_.size()); ++r) {
        if (peers_[r].link && peers_[r].link->broken()) end(r, sink);
      }
    }
    while (!losses_.empty()) {
      const auto [peer, why] = losses_.front();
      losses_.pop_front();
      ++raised_;
      sink.on_peer_lost(peer, why);
    }
  }

  // What the peer sent before its end is still raised.
  void end(Rank peer, EventSink& sink) {
    TcpLink* link = peers_[peer].link.get();
    const uint64_t before = link->events();
    link->drain(sink);
    raised_ += static_cast<int>(link->events() - before);
    if (peers_[peer].link.get() == link) lose(peer, link->why());
  }

  // true: events were raised.
  bool read_stream(Rank peer, int number, EventSink& sink) {
    TcpLink* link = peers_[peer].link.get();
    const uint64_t before = link->events();
    const bool good = link->receive(number, sink);
    const uint64_t events = link->events() - before;
    raised_ += static_cast<int>(events);
    // Bulk is left to epoll: looking at its socket all the time holds up the kernel, which fills
    // it.
    if (events > 0 && number == 0) hot_ = tag_of(peer, number);
    if (!good && peers_[peer].link.get() == link) end(peer, sink);
    return events > 0;
  }

  // The stream that spoke last is likely to speak next: one system call instead of two.
  bool poll_hot(EventSink& sink) {
    if (hot_ != 0 && !is_current(hot_)) hot_ = 0;
    return hot_ != 0 && read_stream(peer_of(hot_), stream_of(hot_), sink);
  }

  static Rank peer_of(uint64_t tag) { return static_cast<Rank>(tag >> 8 & 0xFFFFFF); }
  static int stream_of(uint64_t tag) { return static_cast<int>(tag & 0xFF); }
  bool is_current(uint64_t tag) const {
    const Rank peer = peer_of(tag);
    return peers_[peer].link != nullptr && tag_of(peer, stream_of(tag)) == tag;
  }

  void poll_all(EventSink& sink) {
    turns_of_hot_ = 0;
    std::array<epoll_event, kEventsAtOnce> room;
    for (const epoll_event& event : wait_set_.ready(room)) {
      const uint64_t tag = event.data.u64;
      if ((tag & kStreamTag) == kGreeterTag) {
        greeter_.on_event(static_cast<uint32_t>(tag));
        take_from_greeter();
        tick();
      } else if ((tag & kStreamTag) == kTimerTag) {
        on_timer();
      } else if (is_current(tag)) {
        on_stream(tag, event.events, sink);
      }
    }
  }

  void on_stream(uint64_t tag, uint32_t events, EventSink& sink) {
    const Rank peer = peer_of(tag);
    TcpLink* link = peers_[peer].link.get();
    if (!link->complete()) {
      lose(peer, "its socket was closed before the link was up");
      return;
    }
    if (!link->announced) return;  // in connected_, raised before anything it brings
    if ((events & EPOLLOUT) != 0) {
      link->flush(stream_of(tag));
      after_writing(*link);
    }
    if ((events & ~uint32_t{EPOLLOUT}) != 0) read_stream(peer, stream_of(tag), sink);
  }

  // ---- time ----

  // Runs the timer while something may be given up.
  void tick() {
    wait_set_.tick(!greeter_.idle() || std::any_of(peers_.begin(), peers_.end(), is_coming_up));
  }
  static bool is_coming_up(const Peer& p) { return p.link && !p.link->complete(); }

  void on_timer() {
    wait_set_.take_timer();
    greeter_.on_tick();
    take_from_greeter();
    for (Rank r = 0; r < static_cast<Rank>(peers_.size()); ++r) {
      if (is_coming_up(peers_[r]) && peers_[r].link->deadline < now()) {
        lose(r, fmt::format("no connection within {:.3g} s", timeout_));
      }
    }
    tick();
  }

  const Rank rank_;
  const double timeout_;
  const TcpOptions options_;
  std::shared_ptr<TcpRegions> regions_ = std::make_shared<TcpRegions>();
  TransportCounters counters_;
  TcpWaitSet wait_set_;
  TcpGreeter greeter_;
  std::vector<Peer> peers_;
  std::vector<std::unique_ptr<TcpLink>> graveyard_;
  std::deque<Rank> connected_;                       // not yet raised
  std::deque<std::pair<Rank, std::string>> losses_;  // not yet raised
  bool breaking_ = false;                            // some link's writing has failed
  uint64_t hot_ = 0;                                 // tag of the stream that spoke last
  int turns_of_hot_ = 0;
  int raised_ = 0;  // events of this poll
};

KINET_REGISTER_TRANSPORT(Tcp::type());

}  // namespace
}  // namespace kinet
