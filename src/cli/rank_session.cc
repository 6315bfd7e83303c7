#include "src/cli/rank_session.h"

#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "comm/comm_fields.h"
#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/base/text.h"

namespace kinet {
namespace {

constexpr double kShareTimeout = 60;  // seconds that rank 0 may take to build its nets

// Of the weights and buffers that training begins with, and where.
std::string start_digest(Solver& solver) {
  Net& net = solver.train_net();
  uint64_t hash = 0;
  for (const std::span<float> part : {net.parameter_arena(), net.buffer_arena()}) {
    const auto bytes = std::as_bytes(part);
    hash = hash * 31 + hash_name({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return fmt::format("iteration {}, weights {:016x}", solver.iteration(), hash);
}

}  // namespace

RankSession::RankSession(JoinedRun run, std::function<void(const std::string&)> line)
    : run_(std::move(run)), line_(std::move(line)) {}

RankSession::~RankSession() {
  bsp_.reset();
  comm_.reset();
}

std::string RankSession::share(const std::string& key, const std::string& value) {
  if (leader()) run_.rendezvous().set("share/" + key, value);
  return run_.rendezvous().get("share/" + key, kShareTimeout, 0);
}

void RankSession::compare(const std::string& what, const std::string& value) {
  const std::string first = share(what, value);
  KINET_CHECK(first == value, "the ranks differ: {}: rank {} has {}, rank 0 has {}", what,
              world().rank, value, first);
}

void RankSession::connect(const Params& params, const std::string& transport, Solver& solver) {
  for (const BatchSource* source : solver.train_net().batch_sources()) {
    compare("training data", source->describe());
  }
  compare("start", start_digest(solver));
  const Params comm_params(params.node(), &comm_fields());
  CommOptions options;
  options.params = params;
  options.transport = transport;
  options.log = line_;
  options.runtime = runtime_;
  options.warn = [](const std::string& text) {
    std::fprintf(stderr, "kinet: warning: %s\n", text.c_str());
  };
  comm_ = std::make_unique<Communicator>(world(), run_.take_rendezvous(), options);
  // Not through comm_: its thread may call while comm_ is being reset.
  comm_->on_peer_lost([this, comm = comm_.get()](Rank peer, const std::string&) {
    if (first_lost_ < 0 && comm->state(peer) == PeerState::kLost) first_lost_ = peer;
  });
  if (solver.servers() > 0) return solver.attach(*comm_);
  BspOptions sync;
  sync.timeout = comm_params.get_double("wait_timeout");
  // A rate that is searched for is known after backward, and scales the gradient before the sum.
  if (comm_params.get_bool("overlap") && !solver.searches_rate()) {
    sync.bucket_bytes = static_cast<size_t>(comm_params.get_int("bucket_bytes"));
  }
  bsp_ = std::make_unique<Bsp>(*comm_, solver.gradient_floats(), solver.buffer_floats(), sync);
  solver.attach(*bsp_);
}

std::string RankSession::summary(int servers) const {
  std::set<std::string> nodes, routes;
  for (const Member& m : world().members) nodes.insert(m.node);
  for (Rank r = 0; r < world().size; ++r) {
    if (r != world().rank) routes.insert(comm_->route(r));
  }
  const int workers = world().size - servers;
  std::string text = fmt::format("{} {}", workers, workers == 1 ? "worker" : "workers");
  if (servers > 0) text += fmt::format(" and {} {}", servers, servers == 1 ? "server" : "servers");
  return text + fmt::format(" on {} {}, over {}", nodes.size(),
                            nodes.size() == 1 ? "machine" : "machines",
                            join({routes.begin(), routes.end()}, " and "));
}

void RankSession::leave() {
  comm_->leave();
  run_.leave();
}

void RankSession::abort(const Error& error) {
  const std::string text = error.what();
  const std::string line = text.substr(0, text.find('\n'));
  if (comm_) {
    comm_->abort(line, first_lost_);
  } else if (run_.joined()) {  // the others wait for this rank's set-up: they hear why in vain
    const Member& self = world().members[world().rank];
    run_.rendezvous().report_lost(world().rank, self.incarnation, line);
  }
}

}  // namespace kinet
