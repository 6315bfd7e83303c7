// What the rendezvous knows and decides, without sockets: who is there, who is gone, which keys are
// set, who waits for what. RendezvousServer feeds it frames and carries its answers away.
//
// A run first gathers: until all ranks are there, whatever cannot come right (a rank twice, another
// size, a rank that died, ranks that differ, time that ran out) fails the whole run, and every rank
// is told the same text. Then it runs: what a newcomer does wrong is told to the newcomer alone.
//
// Invariants: a rank has at most one process at a time; incarnations only grow; a connection that
//   was declared lost changes nothing any more (it may still ask for keys).
// Thread safety: none; the owner has a lock.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/rendezvous.h"
#include "comm/rendezvous_wire.h"
#include "src/base/check.h"

namespace kinet {

class RendezvousBook {
 public:
  using Connection = uint64_t;  // never 0, never used again
  struct Outgoing {
    Connection to = 0;
    std::string frame;
  };

  // `replace`: ranks that die while the run gathers may be replaced, so the others wait.
  RendezvousBook(int size, bool replace);

  // A frame of a connection that has shown the token. Returns "" or why that connection has to be
  // closed. `now` in seconds of any clock that goes forward.
  std::string receive(Connection from, const RendezvousFrame& frame, double now);
  void closed(Connection connection, const std::string& why);
  // News of the launcher, which knows best. Of a process that has left or was never there after
  // the run began there is nothing to tell.
  void process_ended(Rank rank, int64_t process, const std::string& why, Error::Kind kind);
  void tick(double now);
  double next_deadline() const;  // infinity when nothing waits

  std::deque<Outgoing> take_outgoing() { return std::exchange(outgoing_, {}); }
  // "rank 2 (process 12 on host)" or "" for a connection that has not joined.
  std::string name_of(Connection connection) const;
  bool all_left() const;  // nobody is there, or on the way, who has not left

 private:
  enum class Phase { kGathering, kRunning, kFailed };
  struct Slot {
    std::optional<JoinRequest> request;
    uint32_t incarnation = 0;
    Connection connection = 0;
    std::string lost_why;  // of the process before
  };
  struct Client {
    Rank rank = -1;
    uint32_t incarnation = 0;
    double deadline = 0, timeout = 0;
    bool joined = false;  // has its World
    bool left = false;
  };
  struct Question {
    Connection from = 0;
    uint32_t number = 0;
    std::string key;
  };

  std::string join(Connection from, const RendezvousFrame& frame, double now);
  std::string join_problem(const JoinRequest& request) const;
  std::string difference_of(const JoinRequest& newcomer) const;
  Rank free_rank() const;
  void place(Connection from, const JoinFrame& join, double now);
  void complete();
  std::string set(Connection from, const RendezvousFrame& frame);
  std::string get(Connection from, const RendezvousFrame& frame);
  std::string cancel(Connection from, const RendezvousFrame& frame);
  std::string report_lost(Connection from, const RendezvousFrame& frame);

  bool is_current(const Client& client) const;
  bool has_left(Rank rank) const;
  bool waits(const Client& client) const { return client.rank >= 0 && !client.joined; }
  void lose(Rank rank, const std::string& why, Error::Kind kind);
  void declare_lost(Rank rank, const std::string& why);
  void fail_join(Connection to, Error::Kind kind, const std::string& text);
  void fail_all(Error::Kind kind, const std::string& text);
  bool all_there() const;
  std::string missing_text() const;
  std::string member_text(Rank rank) const;
  void send(Connection to, std::string frame) { outgoing_.push_back({to, std::move(frame)}); }
  void tell_members(const std::string& frame);

  const int size_;
  const bool replace_;
  Phase phase_ = Phase::kGathering;
  Error::Kind failure_kind_{};
  std::string failure_;
  std::vector<Slot> slots_;  // by rank
  JoinRequest agreed_;       // its fingerprint is that of all ranks, once the run has begun
  std::map<Connection, Client> clients_;
  std::map<std::string, std::string> values_;
  size_t value_bytes_ = 0;
  std::deque<Question> questions_;
  std::deque<Outgoing> outgoing_;
};

}  // namespace kinet
