// Where the ranks of a run find each other, and hear who has come and gone.
//
// A run has one rendezvous: a small store of keys and values that also knows the members. Over it
// travel only set-up data (addresses, keys of regions) and news of members; never training data.
//   LocalRendezvous  comm/local_rendezvous.h   ranks that are threads of one process
//   TcpRendezvous    comm/tcp_rendezvous.h     ranks that are processes, on any machines
//
// Incarnation: counts the processes that have been a rank, from 0. A rank that was declared lost
// and a process that takes its place never share an incarnation.
// Who decides: the first report of a loss. From then on that incarnation is lost for all, itself
// included, even if it was only slow: it is told so and must end ("declared lost").
// Thread safety: none; one thread a rank calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport.h"

namespace kinet {

struct JoinRequest {
  Rank rank = -1;       // -1: any that is free
  int size = 0;         // of the world, as this process was told
  std::string node;     // equal for ranks that share memory (node_id())
  std::string host;     // for people
  int64_t process = 0;  // for people
  // What has to be equal in all ranks, in the order in which it is compared: {"solver", digest}.
  std::vector<std::pair<std::string, std::string>> fingerprint;
};

struct Member {
  std::string node, host;
  int64_t process = 0;
  uint32_t incarnation = 0;
};

struct World {
  Rank rank = 0;
  int size = 1;
  std::string token;            // secret of the run
  std::vector<Member> members;  // by rank
  int local_rank() const;       // number of `rank` among the members of its node
  int local_size() const;
};

class MembershipSink {
 public:
  virtual ~MembershipSink() = default;
  // Also of this rank itself: then it is declared lost and has to end.
  virtual void on_member_lost(Rank rank, uint32_t incarnation, const std::string& why) = 0;
  virtual void on_member_joined(Rank rank, const Member& member) = 0;  // a successor
  virtual void on_rendezvous_lost(const std::string& why) = 0;         // the store itself is gone
};

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // Waits until all ranks are there and equal. Throws Error within `timeout` seconds: who is
  // missing, who is there twice, or the first difference (the same text on every rank).
  virtual World join(const JoinRequest& request, double timeout) = 0;

  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits for the key, which rank `owner` sets (-1: any). Throws a run-time Error when the owner is
  // lost, with the reason; when this rank is; and after `timeout` seconds.
  virtual std::string get(const std::string& key, double timeout, Rank owner) = 0;
  std::string get(const std::string& key, double timeout) { return get(key, timeout, -1); }

  virtual void report_lost(Rank rank, uint32_t incarnation, const std::string& why) = 0;
  virtual void leave() = 0;  // an orderly end: going away afterwards is no loss

  // News; event_fd() is readable when poll() has something to say.
  virtual int poll(MembershipSink& sink) = 0;
  virtual int event_fd() const = 0;
};

// Same text = same memory: machine, boot, and the namespaces through which processes see each
// other.
std::string node_id();
std::string host_name();
// Throws the Error of a get() whose time is up.
[[noreturn]] void fail_late(const std::string& key, double timeout, Rank owner);
std::string random_token();  // 32 hexadecimal digits from the system's generator

// "" when equal, else "net: rank 2 has ab12, rank 0 has cd34" for the first that differs.
std::string first_difference(const std::vector<JoinRequest>& requests);

}  // namespace kinet
