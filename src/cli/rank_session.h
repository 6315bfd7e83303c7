// One rank of a training run, from the meeting of the ranks to their parting: agrees on what has to
// be common, connects the solver to those of the others, and tells them how this rank ended.
//
//   RankSession session(join_as_rank(...));
//   folder = session.share("run folder", folder)     worker 0's choice on all
//   Solver solver(...)
//   session.connect(params, transport, solver)       from here on they train together
//   solver.run(...)
//   session.leave()  or, after an Error,  session.abort(error)
//
// Thread safety: none; the main thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/join_run.h"
#include "src/solver/solver.h"
#include "src/sync/bsp.h"

namespace kinet {

class RankSession {
 public:
  // `line`: what is worth reading about links and losses.
  RankSession(JoinedRun run, std::function<void(const std::string&)> line);
  ~RankSession();

  const World& world() const { return run_.world(); }
  bool leader() const { return world().rank == 0; }

  // The value of rank 0 on every rank.
  std::string share(const std::string& key, const std::string& value);
  // Throws Error on the ranks that differ from rank 0, and there on rank 0's behalf.
  void compare(const std::string& what, const std::string& value);

  // What ranks that are threads share. REQUIRES: before connect().
  void use(const Runtime& runtime) { runtime_ = runtime; }
  // `params`: comm_param; its tree outlives this object. `transport`: the flag, may be "".
  void connect(const Params& params, const std::string& transport, Solver& solver);
  std::string describe_routes(bool verbose) const { return comm_->describe_routes(verbose); }
  // "3 workers and 1 server on 1 machine, over shm"
  std::string summary(int servers) const;

  void leave();
  void abort(const Error& error);

 private:
  JoinedRun run_;
  std::function<void(const std::string&)> line_;
  Runtime runtime_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Bsp> bsp_;
  Rank first_lost_ = -1;
};

}  // namespace kinet
