// From "who am I" to a rank that has met the others: opens or finds the rendezvous and joins.
#pragma once

#include <memory>

#include "comm/launch.h"
#include "comm/local_rendezvous.h"
#include "comm/rendezvous.h"
#include "comm/rendezvous_server.h"

namespace kinet {

inline constexpr double kJoinTimeout = 60;  // seconds for all ranks to come

// A rank of a run. Destroyed without leave(): the others hear of a loss.
class JoinedRun {
 public:
  JoinedRun() = default;
  JoinedRun(JoinedRun&&) = default;
  JoinedRun& operator=(JoinedRun&&) = delete;
  ~JoinedRun();

  // REQUIRES: joined().
  Rendezvous& rendezvous() { return *rendezvous_; }
  bool joined() const { return rendezvous_ != nullptr; }  // and the rendezvous is still here
  // For a Communicator, which is then the one to leave. REQUIRES: gone before this object.
  std::unique_ptr<Rendezvous> take_rendezvous() { return std::move(rendezvous_); }
  const World& world() const { return world_; }
  // An orderly end. The rank that hosts the rendezvous waits for the others, `seconds` at most.
  void leave(double seconds = 30);

 private:
  friend JoinedRun join_run(const RankIdentity&, const JoinRequest&, double, const LogLine&);
  friend JoinedRun join_threads(const std::shared_ptr<LocalStore>&, const JoinRequest&, double);
  std::unique_ptr<RendezvousServer> server_;  // where this rank hosts it
  std::unique_ptr<Rendezvous> rendezvous_;
  World world_;
};

// What this process says of itself; the caller adds the fingerprint.
JoinRequest request_of(const RankIdentity& me);

// REQUIRES: me.role == Role::kRank. Throws Error as Rendezvous::join does, and when there is no
// rendezvous within `timeout` seconds. `log`: of the server, where this rank hosts it.
JoinedRun join_run(const RankIdentity& me, const JoinRequest& request, double timeout,
                   const LogLine& log);

// The same for ranks that are threads of this process.
JoinedRun join_threads(const std::shared_ptr<LocalStore>& store, const JoinRequest& request,
                       double timeout);

}  // namespace kinet
