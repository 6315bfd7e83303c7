// The verbs transport as a class, for the files that it is made of:
//   verbs.cc            completions become events; receives and credits go back
//   verbs_lifecycle.cc  links begin and end: losses, goodbyes, time limits
// Thread safety: none.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/transports/verbs_link.h"
#include "src/base/check.h"

namespace kinet {

// For kinet doctor: devices, ports, addresses, limits, permissions.
TransportProbe probe_verbs(const Params& params);

class Verbs : public Transport {
 public:
  explicit Verbs(const TransportConfig& config);
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
  void arm() override;
  double max_sleep() const override { return 0.001; }  // without events

  Capabilities capabilities() const override;
  TransportCounters counters() const override { return at_.counters; }
  std::string describe(Rank peer, bool verbose) const override;

 private:
  static constexpr int kBatch = 32;  // completions of one poll(): others want to work too

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
  int sent(const ibv_wc& done, const verbs::RequestId& id, EventSink& sink);
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

}  // namespace kinet
