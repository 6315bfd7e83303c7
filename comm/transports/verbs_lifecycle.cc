// Links of the verbs transport begin and end.
//
// Losses: a work request that fails (the first failure of a link, whatever its status), a goodbye,
// a completion that does not come, or a device that breaks. A peer that dies in silence is noticed
// only when something is sent to it: the communicator's heartbeats do.
// Ending a link: disconnect() forbids the peer's writes at once, sends a goodbye, and destroys the
// first queue pair when that has left or a second has passed; the others are destroyed at once.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/transports/verbs.h"

namespace kinet {
namespace {

constexpr double kNewsInterval = 0.02;  // seconds between two looks at the device's events
constexpr double kGoodbyeTime = 1;      // seconds for a goodbye to leave

}  // namespace

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

}  // namespace kinet
