// The link to one peer: its queue pairs ("lanes"), what is under way on them, and credits.
//
//   lane 0   messages (in order) and puts      lanes 1..  puts
//   A put stays on one lane: writes of one queue pair arrive in order, so the last one, which
//   carries the notification, tells that all of it is there.
// Bring-up:  offer(): RESET -> INIT, receives posted  -> connect(): RTR, RTS, greeting
//   The peer may reach RTR later than the greeting is sent: then it is not answered, the lane
//   breaks after the retries, and restart() begins again from RESET. That is safe because before
//   both greetings have arrived neither side sends anything else, and a greeting is one packet.
// Thread safety: one thread.
#pragma once

#include <optional>
#include <vector>

#include "comm/transports/verbs_endpoint.h"
#include "comm/verbs/credits.h"
#include "comm/verbs/failure.h"
#include "comm/verbs/offer.h"
#include "comm/verbs/queue_pair.h"
#include "comm/verbs/send_window.h"
#include "comm/verbs/wire.h"

namespace kinet {

class VerbsLink {
 public:
  enum class State { kOffered, kGreeting, kUp };

  struct Lane {
    std::unique_ptr<verbs::ReceiveQueue> receives;  // without a shared one
    std::unique_ptr<verbs::QueuePair> pair;
    verbs::SendWindow window;
    verbs::QueuePairAddress own;
    bool flush_due = false;      // its silent requests have to be followed by a signalled one
    uint64_t leading_bytes = 0;  // of the put that is arriving, without its last piece
  };

  VerbsLink(VerbsEndpoint& endpoint, Rank peer, uint32_t epoch);

  std::string offer() const;
  // Throws Error when the two ends do not fit together or a transition fails.
  void connect(uint32_t incarnation, const verbs::Offer& offer);
  void restart();  // from RESET, see above

  Post send(std::span<const std::byte> message);
  Post put(const Put& put);
  bool return_credits();  // false: not now
  bool say_goodbye();     // false: no room for it

  // A request of this link has been done: how many puts have now left.
  uint64_t complete(int lane, uint32_t number);
  bool greeting_is_done() const { return lanes_[0].window.completed() > 0; }

  bool is_greeting_of_peer(std::span<const std::byte> message) const;
  verbs::LinkNames names() const;
  std::string describe(bool verbose) const;
  void close_all_but_first();  // lanes; the first one still has something to say

  Rank peer() const { return peer_; }
  uint32_t epoch() const { return epoch_; }
  uint32_t piece() const { return piece_; }
  std::vector<Lane>& lanes() { return lanes_; }
  verbs::Credits& credits() { return credits_; }
  bool broken() const { return broken_; }  // the device refused a request
  bool waits() const;                      // for a completion that has to come
  uint64_t progress() const;               // grows with every completion

  State state = State::kOffered;
  bool peer_greeted = false;
  double deadline = 0;         // of the greeting, of the goodbye
  bool return_due = false;     // credits could not be handed back yet
  uint64_t progress_seen = 0;  // for the watch over completions
  double progress_time = 0;
  verbs::FailureLog failure;

 private:
  struct Outstanding {
    int lane = 0;
    uint64_t last = 0;  // number of its last request
  };
  struct Partial {  // a put of which not all pieces are posted
    Put put;
    int lane = 0;
    uint64_t done = 0;  // bytes
    bool active = false;
  };

  void make_lane(Lane& lane);
  void to_ready();  // INIT -> RTR -> RTS, all lanes
  void greet();
  uint64_t proof(Rank from, Rank to) const;
  int free_lane(uint64_t requests);
  // Kept free on lane 0 for credits, on the others for the request that makes a flush be seen.
  uint64_t reserve(int lane) const { return lane == 0 ? kReservedSends : 1; }
  void flush_lanes();
  void post_tag(int lane, verbs::MessageTag tag, std::span<const std::byte> message, bool signal);
  void post_piece(int lane, const Put& put, uint64_t offset, uint64_t bytes, bool last);
  void post_more();  // of the partial put
  void post(int lane, ibv_send_wr& request, bool signal);

  VerbsEndpoint& endpoint_;
  const Rank peer_;
  uint32_t epoch_;
  verbs::GidEntry gid_;
  std::vector<Lane> lanes_;
  std::vector<std::byte> messages_;  // copies under way, a slot for each request of lane 0
  std::unique_ptr<verbs::MemoryKey> messages_key_;
  std::optional<verbs::Offer> there_;
  uint32_t incarnation_ = 0;  // of the peer
  verbs::Path path_;
  verbs::Credits credits_;
  uint32_t piece_ = 0;
  int next_lane_ = 0;
  bool broken_ = false;
  // Ring of puts that have not been reported, in the order accepted.
  std::vector<Outstanding> puts_;
  size_t first_put_ = 0, put_count_ = 0;
  Partial partial_;
};

}  // namespace kinet
