// The network of ranks that share a virtual clock: time passes only when nobody has anything left
// to do, and then jumps to the next event. The endpoints of transport sim (sim.cc) meet here.
//
// Two ways to drive it; both give the same events at the same times:
//   polled   everything on one thread:  poll all ranks; when none had news: step()
//            (comm/sim_driver.h does that for communicators)
//   threads  options.threads: ranks are threads that wait in Transport::advance(); the clock moves
//            when every rank waits, so the order of real threads changes nothing
// Determinism: what ranks do at one virtual time is put in order by rank before the clock moves;
//   events run by time, then sequence number (src/base/event_queue.h); faults are drawn by
//   (seed, link, number of the transmission, attempt). Same calls, same seed: same trace, bit for
//   bit. Exception: ranks as threads, one of them killed: how soon the others hear of it through
//   their rendezvous is a matter of real time.
//
// A packet:  send -> its first byte at the receiver's link -> recv -> credit or completion back.
//   lost     the sender's time-out, counted from its last byte, sends it again; after `retries`
//            repetitions in vain both ends lose the link
//   order    messages carry a number and wait for those before them; puts do not
//   doubles  a packet that comes twice is known by its number and dropped
// Acknowledgements take one latency, no bandwidth, and are never lost.
// Invariants: now() never goes back. The clock and all endpoints are touched under one lock.
// Thread safety: all of it. What call_at() was given runs under the lock, on the thread that moves
// the clock, and may not move it; with ranks as threads it may not call communicators either.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/link_model.h"
#include "comm/transport.h"
#include "src/base/event_queue.h"

namespace kinet {

struct SimFault {
  enum class Kind { kCut, kMend, kKill, kStop, kContinue };
  Kind kind = Kind::kCut;
  double at = 0;  // seconds of virtual time
  Rank rank = 0;
  Rank peer = 0;  // of kCut and kMend: the link's other end
};

struct SimOptions {
  LinkModel::Parameters link;
  uint64_t seed = 1;
  double loss = 0;                   // probability that a transmission is lost
  double retransmit_timeout = 1e-3;  // seconds after the last byte left
  int retries = 7;                   // repetitions before the link is given up
  double jitter = 0;                 // seconds; extra delay, uniform between 0 and this
  double reorder = 0;                // probability that a packet is held back ...
  double reorder_delay = 1e-4;       // ... for so many seconds
  double duplicate = 0;              // probability that a packet comes twice
  std::vector<SimFault> faults;
  bool threads = false;
  // Real seconds that a rank which waits as a thread waits for those that compute; 0:
  // setup_timeout.
  double patience = 0;
  // A line for each event, in the columns of SimWorld::legend(). Called under the lock.
  std::function<void(const std::string&)> trace;

  static const MessageType& fields();  // comm_param { sim { ... } }
  static SimOptions from(const Params& params);
};

struct SimCounters {
  uint64_t transmissions = 0;  // repetitions included
  uint64_t lost = 0, delivered = 0;
  uint64_t duplicates = 0;     // dropped, their number was known
  uint64_t out_of_order = 0;   // messages that waited for an earlier one
  uint64_t undeliverable = 0;  // the receiver, or the link, was gone
};

struct SimPacket;
class SimEndpoint;

class SimWorld {
 public:
  SimWorld(int size, const SimOptions& options);
  ~SimWorld();

  double now() const;
  // Moves the clock to the next event, but not beyond `until`, and lets it happen. false: there is
  // none before `until`; then the clock stands at `until` (where it was, when that is infinite).
  bool step(double until);
  // A call of the driver's own among the events, such as the end of a computation.
  void call_at(double time, std::function<void()> call);

  bool killed(Rank rank) const;   // and no successor has come
  bool stopped(Rank rank) const;  // between kStop and kContinue
  SimCounters counters() const;
  double patience() const { return options_.patience; }
  std::string describe() const;
  static std::string legend();  // what the columns of the trace mean, and their headings

 private:
  friend class SimEndpoint;
  using Lock = std::unique_lock<std::recursive_mutex>;
  using Packet = std::shared_ptr<SimPacket>;
  struct Draws {  // of one transmission
    bool lost = false, twice = false;
    double delay = 0;  // seconds
  };

  // All REQUIRE the lock. sim_world.cc:
  bool next_event(double until);
  void launch(const Packet& packet);
  void first_byte(const Packet& packet);
  void arrive(const Packet& packet);
  void deliver(SimEndpoint& to, const Packet& packet);
  void retry(const Packet& packet);
  void close_link(Rank rank, uint32_t incarnation, Rank peer, uint32_t peer_incarnation,
                  const std::string& why);
  void complete_put(const Packet& packet);
  Draws draw(const SimPacket& packet) const;
  std::shared_ptr<SimEndpoint> find(Rank rank, uint32_t incarnation) const;
  void after(double delay, std::function<void()> call) {
    events_.push(now_ + delay, std::move(call));
  }
  // sim_faults.cc:
  void fault(const SimFault& fault);
  void cut(const SimFault& fault);
  void kill(Rank rank);
  bool is_cut(Rank a, Rank b) const { return cuts_.contains(std::minmax(a, b)); }
  void trace(const char* event, Rank from, Rank to, const SimPacket* packet,
             const std::string& note = "") const;
  // sim_waiting.cc: ranks as threads
  void enter(const std::shared_ptr<SimEndpoint>& endpoint);
  bool wait(SimEndpoint& endpoint, double until, double patience, Lock& lock);
  bool all_wait() const;
  double earliest_limit() const;
  void wake_those_with_news();

  mutable std::recursive_mutex mutex_;
  const int size_;
  const SimOptions options_;
  LinkModel model_;
  double now_ = 0;
  EventQueue<std::function<void()>> events_;
  std::map<Rank, std::shared_ptr<SimEndpoint>> endpoints_;  // ordered: part of the determinism
  std::set<Rank> wishing_;  // whose outbox is not empty; ordered for the same reason
  std::set<std::pair<Rank, Rank>> cuts_;
  SimCounters counters_;
};

}  // namespace kinet
