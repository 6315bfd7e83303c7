// Ranks that are processes: each joins the run, prints who is there, and watches until the end.
//
//   ranks --workers 4                     four ranks of this machine
//   mpirun -n 2 ranks                     the ranks that mpirun has started
//   ranks --rank 0 --size 2 --rendezvous 10.0.0.5:7000 --token-file run.token     by hand
//
// More flags: --until FILE (stay until it is there; else leave at once), --wait-for FILE (before
// joining), --timeout SECONDS (for all to come), --setting TEXT (has to be equal in all ranks),
// --setting-of RANK TEXT (of one of them), --restart N, --go-on, --verbose.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/join_run.h"
#include "comm/workers.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kLongest = 300;  // seconds that a rank stays, whatever happens

struct Flags {
  LaunchSettings launch;
  WorkerOptions workers;
  std::string until, wait_for, setting = "plain", other_setting;
  int other_rank = -1;
  double timeout = kJoinTimeout;
};

Flags parse(const std::vector<std::string>& words) {
  Flags f;
  size_t i = 0;
  const auto next = [&]() -> std::string {
    KINET_CHECK(i + 1 < words.size(), "{} needs a value", words[i]);
    return words[++i];
  };
  for (; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--workers")
      f.launch.workers = std::stoi(next());
    else if (word == "--rank")
      f.launch.rank = std::stoi(next());
    else if (word == "--size")
      f.launch.size = std::stoi(next());
    else if (word == "--rendezvous")
      f.launch.rendezvous = next();
    else if (word == "--token-file")
      f.launch.token_file = next();
    else if (word == "--until")
      f.until = next();
    else if (word == "--wait-for")
      f.wait_for = next();
    else if (word == "--timeout")
      f.timeout = std::stod(next());
    else if (word == "--setting")
      f.setting = next();
    else if (word == "--restart")
      f.workers.restarts = std::stoi(next());
    else if (word == "--go-on")
      f.workers.vital = 1;  // the others may fail
    else if (word == "--verbose")
      f.workers.verbose = true;
    else if (word == "--setting-of")
      f.other_rank = std::stoi(next()), f.other_setting = next();
    else
      fail("there is no flag '{}'", word);
  }
  return f;
}

void print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

bool is_there(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

void wait_for(const std::string& file) {
  for (const Deadline deadline(kLongest); !is_there(file) && !deadline.passed();) usleep(5000);
}

// Prints news; a loss ends this rank, unless the user wants to go on.
class Watcher : public MembershipSink {
 public:
  Watcher(const World& world, bool go_on) : world_(world), go_on_(go_on) {}

  void on_member_lost(Rank rank, uint32_t incarnation, const std::string& why) override {
    if (rank == world_.rank && incarnation == world_.members[rank].incarnation) {
      fail_runtime("rank {} was declared lost: {}", rank, why);
    }
    if (!go_on_) fail_runtime("rank {} is lost: {}", rank, why);
    print(fmt::format("rank {}: rank {} is lost: {}", world_.rank, rank, why));
  }
  void on_member_joined(Rank rank, const Member& member) override {
    print(fmt::format("rank {}: rank {} is back: process {}, incarnation {}", world_.rank, rank,
                      member.process, member.incarnation));
  }
  void on_rendezvous_lost(const std::string& why) override {
    fail_runtime("the rendezvous is gone: {}", why);
  }

 private:
  const World& world_;
  const bool go_on_;
};

void be_a_rank(const RankIdentity& me, const Flags& f) {
  print(fmt::format("rank {}: process {} started by {}", me.rank, getpid(), me.source));
  if (!f.wait_for.empty()) wait_for(f.wait_for);
  JoinRequest request = request_of(me);
  request.fingerprint = {{"size", std::to_string(me.size)},
                         {"setting", me.rank == f.other_rank ? f.other_setting : f.setting}};
  const LogLine log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  JoinedRun run = join_run(me, request, f.timeout, log);
  const World& world = run.world();
  print(fmt::format("rank {} of {}: process {}, incarnation {}, local rank {} of {}", world.rank,
                    world.size, getpid(), world.members[world.rank].incarnation, world.local_rank(),
                    world.local_size()));
  Watcher watcher(world, f.workers.vital > 0 || f.workers.restarts > 0);
  for (const Deadline deadline(kLongest); !f.until.empty() && !deadline.passed();) {
    pollfd entry{run.rendezvous().event_fd(), POLLIN, 0};
    ::poll(&entry, 1, 20);
    run.rendezvous().poll(watcher);
    if (is_there(f.until)) break;
  }
  run.leave();
}

int run(const std::vector<std::string>& words) {
  const Flags flags = parse(words);
  const RankIdentity me = who_am_i(flags.launch);
  if (me.role == Role::kLauncher) return run_workers_of_this_program(me.size, flags.workers);
  if (me.role == Role::kAlone) {
    print("one process alone");
  } else {
    be_a_rank(me, flags);
  }
  return 0;
}

}  // namespace
}  // namespace kinet

int main(int argc, char** argv) {
  try {
    return kinet::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const kinet::Error& error) {
    std::fprintf(stderr, "ranks: %s\n", error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ranks: %s\n", error.what());
    return 2;
  }
}
