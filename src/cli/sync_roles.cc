#include "src/cli/sync_roles.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/solver/replay_log.h"
#include "src/sync/sync.h"
#include "src/sync/sync_fields.h"

namespace kinet {
namespace {

std::unique_ptr<SyncModel> model_of(const SolverConfig& config, int workers) {
  const Params solver = config.params();
  SyncSetup setup;
  setup.workers = workers;
  setup.momentum = solver.get_double("momentum");
  setup.solver_type = solver.get_string("type");
  return make_sync_model(solver.message("sync_param"), setup);
}

void check(const SolverConfig& config, const SyncRoles& roles) {
  const Params solver = config.params(), sync = solver.message("sync_param");
  const std::unique_ptr<SyncModel> model = model_of(config, roles.workers);
  const std::string name = sync.get_string("model");
  if (roles.servers == 0 && name != "bsp") {
    fail_at(sync.where("servers"), fmt::format("{} needs a server\nhint: servers: 1", name));
  }
  const std::string method = solver.message("lr_search_param").get_enum("method");
  if (roles.servers > 0 && method == "hypergradient") {
    fail_at(sync.where("model"),
            "lr_search_param method hypergradient needs the history of the updates, which is at "
            "the servers\nhint: armijo or barzilai_borwein");
  }
  if (model->make_worker_rule() != nullptr && method != "none") {
    fail_at(sync.where("model"), fmt::format("{} takes steps of its own and has no use for "
                                             "lr_search_param\nhint: leave one of them away",
                                             name));
  }
}

}  // namespace

void add_sync_flag(CLI::App& app, std::string& model) {
  app.add_option("--sync", model,
                 fmt::format("synchronisation model (docs/synchronisation.md): {} [bsp]",
                             join(SyncRegistry::instance().names(), ", ")));
}

void apply_sync_flag(const std::string& model, SolverOptions& options) {
  if (!model.empty()) options.set.push_back("sync_param.model=" + model);
}

void add_replay_flag(CLI::App& app, std::string& run) {
  app.add_option("--replay", run,
                 "repeat the rounds of this run folder or metrics.jsonl: the same weights, bit for "
                 "bit, with the same solver file, workers and servers");
}

void check_replay(const SyncRoles& roles, SolverOptions& options) {
  if (options.replay.empty()) return;
  const std::filesystem::path log = find_replay_log(options.replay);
  KINET_CHECK(roles.servers > 0,
              "--replay {}: there are no servers that could follow a log\nhint: bsp by all-reduce "
              "gives the same bits for the same seed; --sync names the model of the log",
              options.replay);
  if (const auto seed = seed_of_log(log)) options.clock_seed = seed;
}

SyncRoles roles_of_workers(const SolverConfig& config, int workers) {
  SyncRoles roles{server_count(config.params().message("sync_param")), workers};
  check(config, roles);
  return roles;
}

SyncRoles roles_of_ranks(const SolverConfig& config, int ranks) {
  const Params sync = config.params().message("sync_param");
  const int servers = server_count(sync);
  KINET_CHECK(ranks > servers,
              "{} ranks are too few: {} of them would be servers (model {})\nhint: start as many "
              "ranks as servers and workers together",
              ranks, servers, sync.get_string("model"));
  SyncRoles roles{servers, ranks - servers};
  check(config, roles);
  return roles;
}

void assign_role(const SyncRoles& roles, int rank, const SlowFlag& slow, SolverOptions& options) {
  options.servers = roles.servers;
  options.workers = roles.workers;
  options.server = rank < roles.servers ? rank : -1;
  options.worker = std::max(0, rank - roles.servers);
  options.slow_factor = options.server < 0 ? slow.factor(options.worker) : 1;
}

std::string describe_sync(const SolverConfig& config, const SyncRoles& roles) {
  if (roles.servers == 0) return "bulk-synchronous (all-reduce)";
  const std::string name = config.params().message("sync_param").get_string("model");
  return fmt::format("{} ({}) through {} {}", name, model_of(config, roles.workers)->describe(),
                     roles.servers, roles.servers == 1 ? "server" : "servers");
}

}  // namespace kinet
