// The communicator in use: every rank puts a block of numbers into the memory of the next rank,
// which looks at every byte of it and answers. Shows how memory is offered, what a loss looks like,
// and how a successor is taken in without anything of the lost process being able to harm it.
//
//   neighbours --workers 4 --until FILE      until FILE is there
//   more flags: --transport T, --heartbeat SECONDS, --rank, --size, --rendezvous, --token-file
//
// Rule shown here: memory that a lost process could write is never used again. Whoever offered it
// offers fresh memory to the successor (Inbox below: one for each process of the rank before).
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm_fields.h"
#include "comm/communicator.h"
#include "comm/join_run.h"
#include "comm/workers.h"
#include "src/base/check.h"
#include "src/prototxt/node.h"

namespace kinet {
namespace {

constexpr uint8_t kOffer = kTestKind, kAnswer = kTestKind + 1, kBlock = kTestKind + 2;
constexpr size_t kWords = 64 << 10;  // 512 KiB a block
constexpr double kLongest = 300;     // seconds that a rank stays, whatever happens

struct Flags {
  LaunchSettings launch;
  std::string until, transport = "auto";
  double heartbeat = 5;
};

// Who wrote a block, and its number: every word of a block is this.
uint64_t word(Rank rank, uint32_t incarnation, uint64_t block) {
  return (static_cast<uint64_t>(rank) << 56) | (static_cast<uint64_t>(incarnation) << 48) | block;
}

class Neighbour {
 public:
  Neighbour(Communicator& comm, uint32_t incarnation)
      : comm_(comm),
        incarnation_(incarnation),
        next_((comm.rank() + 1) % comm.size()),
        before_((comm.rank() + comm.size() - 1) % comm.size()),
        outgoing_(comm.allocate(kWords * sizeof(uint64_t), "outgoing")) {
    comm_.on_message(kOffer, [this](Rank, std::span<const std::byte> bytes) {
      std::memcpy(&target_, bytes.data(), sizeof target_);
      may_send_ = true;
    });
    comm_.on_message(kAnswer, [this](Rank, std::span<const std::byte>) { may_send_ = true; });
    comm_.on_put(kBlock, [this](Rank, uint32_t, uint64_t) { look(); });
    lost_number_ =
        comm_.on_peer_lost([this](Rank peer, const std::string& why) { lose(peer, why); });
    joined_number_ = comm_.on_peer_joined([this](Rank peer) {
      std::printf("rank %d: rank %d is back\n", comm_.rank(), peer);
      std::fflush(stdout);
      if (peer == before_) offer();
    });
    comm_.locked([this] { offer(); });
  }

  // The communicator polls until its own end: nothing may call what is no longer here.
  ~Neighbour() {
    comm_.remove(lost_number_);
    comm_.remove(joined_number_);
    for (const uint8_t kind : {kOffer, kAnswer}) comm_.on_message(kind, nullptr);
    comm_.on_put(kBlock, nullptr);
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // One round: sends the next block when the last one was answered.
  void send() {
    comm_.locked([this] {
      if (!may_send_) return;
      const uint64_t value = word(comm_.rank(), incarnation_, sent_ + 1);
      for (uint64_t& w : outgoing_->as<uint64_t>()) w = value;
      RegionPut put;
      put.from = outgoing_.get();
      put.to = target_;
      put.bytes = outgoing_->bytes();
      put.kind = kBlock;
      put.flush = true;
      if (comm_.put(next_, put) != Post::kAccepted) return;
      may_send_ = false;
      ++sent_;
    });
  }

  uint64_t seen() const { return seen_; }
  uint64_t sent() const { return sent_; }

 private:
  // Fresh memory for the rank before, and its key.
  void offer() {
    inboxes_.push_back(comm_.allocate(kWords * sizeof(uint64_t), "inbox"));
    const RemoteRegion key = comm_.key_for(*inboxes_.back(), before_);
    comm_.send(before_, kOffer, std::as_bytes(std::span(&key, 1)));
  }

  // Every word has to be the same, from the rank before, and newer than the last.
  void look() {
    const auto words = inboxes_.back()->as<uint64_t>();
    const uint64_t first = words[0];
    bool right = first > last_ && first >> 56 == static_cast<uint64_t>(before_);
    for (const uint64_t w : words) right = right && w == first;
    if (!right) fail_runtime("rank {}: WRONG BYTES from rank {}", comm_.rank(), before_);
    last_ = first;
    ++seen_;
    comm_.send(before_, kAnswer, {});
  }

  void lose(Rank peer, const std::string& why) {
    std::printf("rank %d: rank %d is gone: %s\n", comm_.rank(), peer, why.c_str());
    std::fflush(stdout);
    if (peer == next_) may_send_ = false;
  }

  Communicator& comm_;
  const uint32_t incarnation_;
  const Rank next_, before_;
  std::unique_ptr<Region> outgoing_;
  std::vector<std::unique_ptr<Region>> inboxes_;  // the last one is in use
  RemoteRegion target_;
  bool may_send_ = false;
  int lost_number_ = 0, joined_number_ = 0;
  uint64_t sent_ = 0, seen_ = 0, last_ = 0;
};

void be_a_rank(const RankIdentity& me, const Flags& f) {
  const LogLine log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  JoinedRun run = join_run(me, request_of(me), kJoinTimeout, log);
  Diagnostics diagnostics;
  const ParamNode fields = parse_prototxt(
      fmt::format("heartbeat_timeout: {} heartbeat_interval: {}", f.heartbeat, f.heartbeat / 8),
      "neighbours", diagnostics);
  CommOptions options;
  options.params = Params(&fields, &comm_fields());
  options.transport = f.transport;
  const World world = run.world();
  Communicator comm(world, run.take_rendezvous(), options);
  {
    Neighbour neighbour(comm, world.members[world.rank].incarnation);
    std::printf("rank %d: process %d, incarnation %u, over %s\n", comm.rank(), getpid(),
                world.members[world.rank].incarnation,
                comm.route((comm.rank() + 1) % comm.size()).c_str());
    std::fflush(stdout);
    const double begin = comm.now();
    std::error_code ignored;
    bool told = false;
    while (!std::filesystem::exists(f.until, ignored) && comm.now() - begin < kLongest) {
      neighbour.send();
      const uint64_t seen = neighbour.seen();
      const double until = comm.now() + 0.02;
      comm.wait_until([&] { return neighbour.seen() != seen || comm.now() > until; }, 60,
                      "the next block");
      if (!told && neighbour.seen() > 20 && neighbour.sent() > 20) {
        told = true;
        std::printf("rank %d: well under way\n", comm.rank());
        std::fflush(stdout);
      }
    }
    std::printf("rank %d: %llu blocks seen, every byte right\n", comm.rank(),
                static_cast<unsigned long long>(neighbour.seen()));
    std::fflush(stdout);
    comm.leave();
  }
  run.leave();
}

Flags parse(const std::vector<std::string>& words) {
  Flags f;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string& flag = words[i];
    KINET_CHECK(i + 1 < words.size(), "{} needs a value", flag);
    const std::string& value = words[i + 1];
    if (flag == "--workers") {
      f.launch.workers = std::stoi(value);
    } else if (flag == "--rank") {
      f.launch.rank = std::stoi(value);
    } else if (flag == "--size") {
      f.launch.size = std::stoi(value);
    } else if (flag == "--rendezvous") {
      f.launch.rendezvous = value;
    } else if (flag == "--token-file") {
      f.launch.token_file = value;
    } else if (flag == "--until") {
      f.until = value;
    } else if (flag == "--transport") {
      f.transport = value;
    } else if (flag == "--heartbeat") {
      f.heartbeat = std::stod(value);
    } else {
      fail("there is no flag '{}'", flag);
    }
  }
  KINET_CHECK(!f.until.empty(), "--until FILE is missing: how long to go on");
  return f;
}

int run(const std::vector<std::string>& words) {
  const Flags flags = parse(words);
  const RankIdentity me = who_am_i(flags.launch);
  KINET_CHECK(me.role != Role::kAlone, "one rank has no neighbour\nhint: --workers 4");
  if (me.role == Role::kLauncher) return run_workers_of_this_program(me.size, {});
  be_a_rank(me, flags);
  return 0;
}

}  // namespace
}  // namespace kinet

int main(int argc, char** argv) {
  try {
    return kinet::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const kinet::Error& error) {
    std::fprintf(stderr, "neighbours: %s\n", error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "neighbours: %s\n", error.what());
    return 2;
  }
}
