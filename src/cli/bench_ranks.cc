#include "src/cli/bench_ranks.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <mutex>
#include <thread>

#include "comm/comm_fields.h"
#include "comm/join_run.h"
#include "comm/local_rendezvous.h"
#include "comm/transports/inproc.h"
#include "comm/workers.h"
#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/solver/overrides.h"

namespace kinet {
namespace {

constexpr int kDefaultWorkers = 2;

CommOptions options_of(const BenchFlags& flags, const ParamNode& comm_param, bool chatty) {
  CommOptions options;
  options.params = Params(&comm_param, &comm_fields());
  options.transport = flags.transport;
  options.progress_thread = false;  // whoever measures polls
  options.log = [chatty](const std::string& line) {
    if (chatty) std::fprintf(stderr, "%s\n", line.c_str());
  };
  return options;
}

// A rank that fails tells the others, so that none waits for it.
void run_rank(Communicator& comm, const std::function<void(Communicator&)>& body) {
  try {
    body(comm);
  } catch (const std::exception& error) {
    comm.abort(error.what());
    throw;
  }
  comm.leave();
}

int run_threads(const BenchFlags& flags, const std::function<void(Communicator&)>& body) {
  const ParamNode comm_param = bench_comm_param(flags);
  const int size = flags.launch.workers > 0 ? flags.launch.workers : kDefaultWorkers;
  const auto store = std::make_shared<LocalStore>(size);
  const auto hub = std::make_shared<InprocHub>();
  std::mutex mutex;
  std::exception_ptr failure;
  const auto be_a_rank = [&](Rank rank) {
    try {
      auto rendezvous = std::make_unique<LocalRendezvous>(store);
      JoinRequest request;
      request.rank = rank;
      request.size = size;
      request.node = node_id();
      request.host = host_name();
      World world = rendezvous->join(request, kJoinTimeout);
      CommOptions options = options_of(flags, comm_param, flags.verbose);
      options.runtime.inproc = hub;
      Communicator comm(std::move(world), std::move(rendezvous), options);
      run_rank(comm, body);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (Rank rank = 1; rank < size; ++rank) threads.emplace_back(be_a_rank, rank);
  be_a_rank(0);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return 0;
}

int run_process(const BenchFlags& flags, const RankIdentity& me,
                const std::function<void(Communicator&)>& body) {
  const ParamNode comm_param = bench_comm_param(flags);
  JoinRequest request = request_of(me);
  request.fingerprint = {{"build", build_info_line()}, {"comm_param", comm_param.to_text()}};
  JoinedRun run = join_run(me, request, kJoinTimeout, [](const std::string& line) {
    std::fprintf(stderr, "%s\n", line.c_str());
  });
  {
    Communicator comm(run.world(), run.take_rendezvous(),
                      options_of(flags, comm_param, flags.verbose));
    run_rank(comm, body);
  }
  run.leave();
  return 0;
}

}  // namespace

void add_bench_flags(CLI::App& app, BenchFlags& flags) {
  app.add_option("--workers", flags.launch.workers, "ranks to start on this machine (default 2)")
      ->check(CLI::Range(1, 256));
  app.add_option("--rank", flags.launch.rank, "by hand: which rank this process is");
  app.add_option("--size", flags.launch.size, "by hand: how many ranks there are");
  app.add_option("--rendezvous", flags.launch.rendezvous, "by hand: HOST:PORT where ranks meet");
  app.add_option("--token-file", flags.launch.token_file, "by hand: file with the run's secret");
  app.add_option("--transport", flags.transport, "auto, inproc, shm, tcp, verbs, ...");
  app.add_option("--comm-param", flags.comm_param, "fields of comm_param as text");
  app.add_option("--set", flags.sets, "FIELD=VALUE of comm_param, as verbs.queue_pairs=2");
  app.add_flag("--threads-as-ranks", flags.threads_as_ranks, "ranks are threads of one process");
  app.add_flag("--verbose", flags.verbose, "print routes with every attribute of every link");
  app.add_option("--json", flags.json, "write the results into this file too");
}

ParamNode bench_comm_param(const BenchFlags& flags) {
  Diagnostics diagnostics;
  ParamNode root = parse_prototxt(flags.comm_param, "--comm-param", diagnostics);
  for (const std::string& set : flags.sets) apply_override(set, comm_fields(), root, diagnostics);
  diagnostics.throw_if_any();
  validate(root, comm_fields(), "comm_param", diagnostics);
  diagnostics.throw_if_any();
  return root;
}

bool ranks_are_threads(const BenchFlags& flags) {
  return flags.threads_as_ranks || flags.transport == "inproc";
}

int run_bench_ranks(const BenchFlags& flags, const std::function<void(Communicator&)>& body) {
  if (ranks_are_threads(flags)) return run_threads(flags, body);
  LaunchSettings settings = flags.launch;
  RankIdentity me = who_am_i(settings);
  if (me.role == Role::kAlone && settings.workers == 0 && settings.rank < 0) {
    settings.workers = kDefaultWorkers;
    me = who_am_i(settings);
  }
  switch (me.role) {
    case Role::kLauncher:
      bench_comm_param(flags);  // what is wrong is said once
      return run_workers_of_this_program(me.size, {});
    case Role::kRank:
      return run_process(flags, me, body);
    case Role::kAlone:
      break;
  }
  fail("bench: one rank has nobody to talk to\nhint: --workers 2");
}

std::string bench_heading(const Communicator& comm, bool verbose) {
  return fmt::format("# {}, {} ranks\n# {}", build_info_line(), comm.size(),
                     comm.describe_routes(verbose));
}

void write_json_file(const std::string& path, const std::string& text) {
  if (!path.empty()) write_file_atomic(path, text);
}

}  // namespace kinet
