#include "src/cli/launch_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "comm/workers.h"
#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/options.h"

namespace kinet {

constexpr int kMostRanks = 65536;

void add_launch_flags(CLI::App& app, LaunchFlags& flags) {
  LaunchSettings& s = flags.settings;
  app.add_option("--workers", s.workers, "start N ranks on this machine")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("--rank", s.rank, "number of this rank, from 0, when ranks are started by hand")
      ->check(CLI::Range(0, kMostRanks - 1));
  app.add_option("--size", s.size, "number of ranks, with --rank")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("--rendezvous", s.rendezvous,
                 "host:port of rank 0, where ranks meet that --workers has not started");
  app.add_option("--token-file", s.token_file,
                 "file with the secret of the run (mode 0600), with --rendezvous");
  app.add_option("--transport", flags.transport,
                 "what carries bytes between ranks; wins over comm_param [auto]");
  app.add_option("--restarts", flags.restarts,
                 "with --workers: start dead workers again, so many in all")
      ->check(CLI::Range(0, kMostRanks));
  app.add_flag("--verbose", flags.verbose, "with --workers: show what every rank prints");
}

RankIdentity resolve_launch(const LaunchFlags& flags) {
  const auto names = TransportRegistry::instance().names();
  const std::vector<std::string> known(names.begin(), names.end());
  const std::string& t = flags.transport;
  KINET_CHECK(t.empty() || t == "auto" || std::find(known.begin(), known.end(), t) != known.end(),
              "--transport {}: there is no such transport{}\nhint: auto, {}", t,
              did_you_mean(t, known), join(known, ", "));
  return who_am_i(flags.settings);
}

int run_launcher(const LaunchFlags& flags, int ranks, int servers) {
  WorkerOptions options;
  options.verbose = flags.verbose;
  options.restarts = flags.restarts;
  options.vital = servers > 0 ? servers : ranks;
  return run_workers_of_this_program(ranks, options);
}

JoinedRun join_as_rank(const RankIdentity& me,
                       const std::vector<std::pair<std::string, std::string>>& fingerprint) {
  JoinRequest request = request_of(me);
  request.fingerprint = {{"size", std::to_string(me.size)}, {"build", build_info_line()}};
  request.fingerprint.insert(request.fingerprint.end(), fingerprint.begin(), fingerprint.end());
  return join_run(me, request, kJoinTimeout, [](const std::string& line) {
    std::fprintf(stderr, "kinet: %s\n", line.c_str());
  });
}

int resolve_threads(int threads, const RankIdentity& me, const World& world, int servers) {
  if (threads > 0) return threads;
  const int cores = resolve_threads(0);  // those that this process may run on
  const bool engine = me.source != "--workers" && me.source != "--rank";
  const bool bound = engine && cores < sysconf(_SC_NPROCESSORS_ONLN);
  const int computing = std::max(1, world.local_size() - servers);
  return bound ? cores : std::max(1, cores / computing);
}

std::string launch_flags_text(const LaunchFlags& flags) {
  std::string text;
  if (flags.settings.workers > 1) text += fmt::format(" --workers {}", flags.settings.workers);
  if (!flags.transport.empty()) text += " --transport " + shell_word(flags.transport);
  if (flags.restarts > 0) text += fmt::format(" --restarts {}", flags.restarts);
  return text;
}

}  // namespace kinet
