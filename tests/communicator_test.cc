// ctest: labels=unit,core,threads timeout=180
//
// The communicator over inproc: routes, messages, puts, signs of life, and all ways in which a rank
// can go: leaving, dying, falling silent, stopping with a reason, being replaced.
// long because: one fixture and its meeting serve all parts, each of which is short.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "src/base/check.h"
#include "tests/communicator_ranks.h"

namespace kinet {
namespace {

constexpr uint8_t kKind = kTestKind, kOther = kTestKind + 1;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// All ranks are here, by messages; several in a run need different words.
class Meeting {
 public:
  explicit Meeting(Communicator& comm) : comm_(comm) {
    comm.on_message(kOther, [this](Rank, std::span<const std::byte>) { ++arrived_; });
  }
  ~Meeting() { comm_.on_message(kOther, nullptr); }
  void meet() {
    due_ += comm_.size() - 1;
    for (Rank r = 0; r < comm_.size(); ++r) {
      if (r != comm_.rank()) comm_.send(r, kOther, {});
    }
    poll_until(comm_, "the meeting", [this] { return arrived_ >= due_; });
  }

 private:
  Communicator& comm_;
  int arrived_ = 0, due_ = 0;
};

// Every test runs where ranks poll by themselves and where a progress thread does.
class CommunicatorTest : public testing::TestWithParam<bool> {
 protected:
  CommRun run(int size, const std::string& comm = "") const {
    CommRun out;
    out.size = size;
    out.progress_thread = GetParam();
    out.comm = comm;
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(, CommunicatorTest, testing::Bool(), [](const auto& info) {
  return info.param ? "progress_thread" : "polled";
});

// ---- who is there -------------------------------------------------------------------------------

TEST_P(CommunicatorTest, RanksRoutesAndNames) {
  run_communicators(run(4), [](Communicator& comm) {
    EXPECT_EQ(comm.size(), 4);
    EXPECT_EQ(comm.alive(), 4);
    EXPECT_EQ(comm.local_size(), 4);
    EXPECT_EQ(comm.local_rank(), comm.rank());
    for (Rank r = 0; r < 4; ++r) {
      EXPECT_EQ(comm.state(r), PeerState::kAlive);
      EXPECT_EQ(comm.name(r), fmt::format("rank {} (host test, process {})", r, 100 + r));
      EXPECT_EQ(comm.route(r), r == comm.rank() ? "" : "inproc");
    }
    EXPECT_EQ(comm.first_loss(), "");
    EXPECT_TRUE(contains(comm.describe_routes(false), "inproc"));
    Meeting(comm).meet();
  });
}

TEST(CommunicatorSetUp, UnknownTransportsAreNamed) {
  CommRun run;
  run.size = 1;
  run.transport = "pigeon";
  CommWorld world(run);
  const std::string why = error_of([&] { world.connect(0); });
  EXPECT_TRUE(contains(why, "there is no transport 'pigeon'")) << why;
  EXPECT_TRUE(contains(why, "inproc")) << why;
}

TEST(CommunicatorSetUp, HeartbeatFieldsAreCompared) {
  CommRun run;
  run.size = 1;
  run.comm = "heartbeat_interval: 4 heartbeat_timeout: 5";
  CommWorld world(run);
  EXPECT_TRUE(contains(error_of([&] { world.connect(0); }), "at least twice"));
}

TEST(CommunicatorSetUp, ARunOfOneRank) {
  CommRun run;
  run.size = 1;
  run_communicators(run, [](Communicator& comm) {
    const auto region = comm.allocate(100, "test");
    EXPECT_EQ(region->bytes(), 100U);
    comm.wait_until([] { return true; }, 1, "nothing");
    EXPECT_EQ(comm.alive(), 1);
  });
}

// ---- messages and puts --------------------------------------------------------------------------

TEST_P(CommunicatorTest, MessagesGoToTheHandlerOfTheirKind) {
  run_communicators(run(3), [](Communicator& comm) {
    std::map<Rank, std::vector<std::string>> first, second;
    std::atomic<int> count{0};
    comm.on_message(kKind, [&](Rank from, std::span<const std::byte> payload) {
      first[from].push_back(text_of(payload));
      ++count;
    });
    comm.on_message(kKind + 2, [&](Rank from, std::span<const std::byte> payload) {
      second[from].push_back(text_of(payload));
      ++count;
    });
    const std::string longest(kMaxPayload, 'x');
    for (Rank r = 0; r < 3; ++r) {
      if (r == comm.rank()) continue;
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(comm.send(r, kKind, bytes_of(std::to_string(i))));
      EXPECT_TRUE(comm.send(r, kKind + 2, bytes_of(longest)));
    }
    EXPECT_THROW(comm.send(0, kKind, bytes_of(longest + "x")), Error);
    poll_until(comm, "messages", [&] { return count == 42; });
    comm.locked([&] {
      for (Rank r = 0; r < 3; ++r) {
        if (r == comm.rank()) continue;
        ASSERT_EQ(first[r].size(), 20U);
        for (int i = 0; i < 20; ++i) EXPECT_EQ(first[r][i], std::to_string(i));
        EXPECT_EQ(second[r], std::vector<std::string>{longest});
      }
    });
    Meeting(comm).meet();
    comm.on_message(kKind, nullptr);
    comm.on_message(kKind + 2, nullptr);
  });
}

// More than an inbox holds: what finds no room waits and keeps its order.
TEST_P(CommunicatorTest, MessagesWaitWhenThePeerIsBusy) {
  run_communicators(run(2), [](Communicator& comm) {
    constexpr int kMany = 5000;
    int got = 0, in_order = 0;
    comm.on_message(kKind, [&](Rank, std::span<const std::byte> payload) {
      int number = 0;
      std::memcpy(&number, payload.data(), sizeof(number));
      in_order += number == got++ ? 1 : 0;
    });
    if (comm.rank() == 0) {
      for (int i = 0; i < kMany; ++i) comm.send(1, kKind, std::as_bytes(std::span(&i, 1)));
    } else {
      poll_until(comm, "messages", [&] { return got == kMany; });
      EXPECT_EQ(in_order, kMany);
    }
    Meeting(comm).meet();
    comm.on_message(kKind, nullptr);
  });
}

TEST(CommunicatorMessages, APeerThatTakesNothingIsAnError) {
  CommRun run;
  run.heartbeats = false;
  CommWorld world(run);
  std::atomic<bool> over{false};
  run_threads(2, [&](Rank rank) {
    const auto comm = world.connect(rank);
    Meeting(*comm).meet();
    if (rank == 1) {  // does not poll
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    const std::string why = error_of([&] {
      for (int i = 0; i < 100000; ++i) comm->send(1, kKind, {});
    });
    over = true;
    EXPECT_TRUE(contains(why, "rank 1 (host test, process 101) takes no messages")) << why;
  });
}

TEST_P(CommunicatorTest, PutsArriveWithTheirTagAndComplete) {
  run_communicators(run(3), [](Communicator& comm) {
    constexpr uint64_t kBytes = 1000;
    const auto source = comm.allocate(kBytes, "source");
    const auto target = comm.allocate(3 * kBytes, "target");
    std::vector<RemoteRegion> keys(3);
    std::atomic<int> has_keys{0}, arrived{0};
    comm.on_message(kKind, [&](Rank from, std::span<const std::byte> payload) {
      std::memcpy(&keys[from], payload.data(), sizeof(RemoteRegion));
      ++has_keys;
    });
    comm.on_put(kKind, [&](Rank from, uint32_t tag, uint64_t bytes) {
      EXPECT_EQ(tag, kMaxTag - static_cast<uint32_t>(from));
      EXPECT_EQ(bytes, kBytes);
      EXPECT_EQ(target->data()[from * kBytes + 7], static_cast<std::byte>(from + 1));
      ++arrived;
    });
    std::memset(source->data(), comm.rank() + 1, kBytes);
    for (Rank r = 0; r < 3; ++r) {
      if (r == comm.rank()) continue;
      const RemoteRegion key = comm.key_for(*target, r);
      comm.send(r, kKind, std::as_bytes(std::span(&key, 1)));
    }
    poll_until(comm, "keys", [&] { return has_keys == 2; });
    for (Rank r = 0; r < 3; ++r) {
      if (r == comm.rank()) continue;
      EXPECT_NE(comm.peer_memory(r, keys[r]), nullptr);
      RegionPut put;
      put.from = source.get();
      put.to = keys[r];
      put.to_offset = comm.rank() * kBytes;
      put.bytes = kBytes;
      put.kind = kKind;
      put.tag = kMaxTag - static_cast<uint32_t>(comm.rank());
      put.flush = true;
      EXPECT_EQ(comm.put(r, put), Post::kAccepted);
      EXPECT_EQ(comm.puts_posted(r), 1U);
      put.to_offset = 3 * kBytes - 1;
      EXPECT_THROW(comm.put(r, put), Error);
    }
    poll_until(comm, "puts", [&] {
      bool complete = arrived == 2;
      for (Rank r = 0; r < 3; ++r) {
        complete = complete && (r == comm.rank() || comm.puts_completed(r) == 1);
      }
      return complete;
    });
    EXPECT_EQ(comm.counters().puts, 2U);
    Meeting(comm).meet();
    comm.on_put(kKind, nullptr);
    comm.on_message(kKind, nullptr);
  });
}

TEST_P(CommunicatorTest, WhatComesBeforeItsHandlerIsKept) {
  run_communicators(run(2), [](Communicator& comm) {
    Meeting meeting(comm);
    if (comm.rank() == 0) comm.send(1, kKind, bytes_of("early"));
    meeting.meet();  // the message came before the meeting's
    std::string got;
    comm.on_message(kKind, [&](Rank, std::span<const std::byte> p) { got = text_of(p); });
    EXPECT_EQ(got, comm.rank() == 1 ? "early" : "");
    meeting.meet();
    comm.on_message(kKind, nullptr);
  });
}

TEST(CommunicatorWaiting, TimeOutsSayWhatAndHowAllAre) {
  run_communicators({}, [](Communicator& comm) {
    comm.note_progress(7, "layer conv1");
    Meeting meeting(comm);
    meeting.meet();
    const std::string why =
        error_of([&] { comm.wait_until([] { return false; }, 0.8, "the moon"); });
    EXPECT_TRUE(contains(why, "waited 0.8 s for the moon")) << why;
    EXPECT_TRUE(contains(why, comm.name(1 - comm.rank()) + ": alive over inproc")) << why;
    EXPECT_TRUE(contains(why, fmt::format("rank {} (this one), step 7: layer conv1", comm.rank())))
        << why;
    meeting.meet();
  });
}

TEST(CommunicatorWaiting, PumpsRunAtEveryPoll) {
  run_communicators({}, [](Communicator& comm) {
    int runs = 0;
    const int number = comm.add_pump([&] {
      ++runs;
      comm.retry_soon();  // without news: no sleep may last long
    });
    const double start = comm.now();
    poll_until(comm, "twenty rounds", [&] { return runs >= 20; });
    EXPECT_LT(comm.now() - start, 20);
    comm.remove(number);
    Meeting(comm).meet();
  });
}

// The progress thread comes to the lock when a wait has ended; the next wait may be asleep by then.
// What it takes or disarms there, the sleeper never hears of.
TEST(CommunicatorWaiting, NoSleeperMissesWhatTheProgressThreadTakes) {
  constexpr int kSize = 4, kRounds = 1500;
  CommRun ring;
  ring.transport = "shm", ring.size = kSize, ring.progress_thread = true;
  ring.comm = "spin: 0";
  std::atomic<uint64_t> overslept{0};
  run_communicators(ring, [&](Communicator& comm) {
    std::atomic<int> count{0};
    comm.on_message(kKind, [&](Rank, std::span<const std::byte>) { ++count; });
    const Rank next = (comm.rank() + 1) % kSize;
    for (int round = 1; round <= kRounds; ++round) {
      ASSERT_TRUE(comm.send(next, kKind, bytes_of(std::string("round"))));
      comm.wait_until([&] { return count >= round; }, 60, "the rank before");
    }
    overslept += comm.overslept();
    Meeting(comm).meet();
    comm.on_message(kKind, nullptr);
  });
  EXPECT_LE(overslept, 1U);  // one may come in the very moment that a sleep ends
}

// ---- ends ---------------------------------------------------------------------------------------

struct Seen {
  std::vector<Rank> lost;
  std::string why;
};

void watch(Communicator& comm, Seen& seen) {
  comm.on_peer_lost([&](Rank peer, const std::string& why) {
    seen.lost.push_back(peer);
    seen.why = why;
  });
}

TEST_P(CommunicatorTest, LeavingIsNoLoss) {
  CommWorld world(run(3));
  run_threads(3, [&](Rank rank) {
    Seen seen;
    const auto comm = world.connect(rank);
    watch(*comm, seen);
    Meeting(*comm).meet();
    if (rank == 2) return comm->leave();
    poll_until(*comm, "rank 2's end", [&] { return comm->state(2) != PeerState::kAlive; });
    EXPECT_EQ(comm->state(2), PeerState::kLeft);
    EXPECT_EQ(comm->first_loss(), "");
    EXPECT_EQ(comm->why_lost(2), "");
    EXPECT_FALSE(comm->send(2, kKind, {}));
    comm->locked([&] { EXPECT_EQ(seen.lost, std::vector<Rank>{2}); });
    poll_until(*comm, "the other", [&, told = false, heard = false]() mutable {
      if (!told) {
        told = true;
        comm->on_message(kKind, [&](Rank, std::span<const std::byte>) { heard = true; });
        comm->send(1 - rank, kKind, {});
      }
      return heard;
    });
    comm->on_message(kKind, nullptr);
    comm->leave();
  });
}

TEST_P(CommunicatorTest, DyingIsALossThatIsNamedOnce) {
  CommWorld world(run(3));
  std::atomic<int> met{0}, done{0};
  run_threads(3, [&](Rank rank) {
    Seen seen;
    const auto comm = world.connect(rank);
    watch(*comm, seen);
    Meeting(*comm).meet();
    if (rank == 1) {  // destroyed without a goodbye, once its last message has been read
      while (met < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    ++met;
    poll_until(*comm, "the loss", [&] { return comm->state(1) == PeerState::kLost; });
    EXPECT_EQ(comm->alive(), 2);
    EXPECT_TRUE(contains(comm->first_loss(), "rank 1 (host test, process 101) is lost"));
    EXPECT_EQ(comm->put(1, {}), Post::kPeerLost);
    ++done;
    poll_until(*comm, "the other", [&] { return done == 2; });
    comm->locked([&] {
      EXPECT_EQ(seen.lost.front(), 1);
      EXPECT_EQ(std::count(seen.lost.begin(), seen.lost.end(), 1), 1);
    });
    comm->leave();
  });
}

TEST_P(CommunicatorTest, AbortNamesWhoseFaultItIs) {
  CommWorld world(run(3));
  std::atomic<bool> heard{false};
  std::atomic<int> met{0};
  run_threads(3, [&](Rank rank) {
    const auto comm = world.connect(rank);
    Meeting(*comm).meet();
    ++met;
    if (rank == 0) {  // once nobody needs a message of rank 2 any more
      while (met < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return comm->abort("rank 2 sent nonsense", 2);
    }
    if (rank == 2) {  // is declared lost, and waits until that has been looked at
      while (!heard) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    poll_until(*comm, "the culprit and its witness",
               [&] { return !comm->first_loss().empty() && comm->state(0) == PeerState::kLeft; });
    EXPECT_EQ(comm->first_loss(), "rank 2 (host test, process 102) is lost: rank 2 sent nonsense");
    EXPECT_EQ(comm->state(0), PeerState::kLeft);
    heard = true;
    comm->leave();
  });
}

// A thread that stands still is what a stopped process is.
TEST(CommunicatorHealth, ARankThatDoesNotPollIsLostAndIsToldSo) {
  CommRun run;
  run.size = 3;
  run.comm = "heartbeat_interval: 0.1 heartbeat_timeout: 1";
  CommWorld world(run);
  std::atomic<int> found{0};
  run_threads(3, [&](Rank rank) {
    const auto comm = world.connect(rank);
    Meeting(*comm).meet();
    if (rank == 2) {
      while (found < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::string why =
          error_of([&] { comm->wait_until([] { return false; }, 60, "anything"); });
      EXPECT_TRUE(contains(why, "rank 2 was declared lost")) << why;
      EXPECT_TRUE(contains(why, "heartbeat_timeout")) << why;
      return;
    }
    poll_until(*comm, "the silence", [&] { return comm->state(2) == PeerState::kLost; });
    EXPECT_TRUE(contains(comm->why_lost(2), "no sign of life")) << comm->why_lost(2);
    EXPECT_EQ(comm->state(1 - rank), PeerState::kAlive);
    ++found;
    poll_until(*comm, "the other", [&] { return found == 2; });
    comm->leave();
  });
}

// With a progress thread a rank may compute for as long as it likes.
TEST(CommunicatorHealth, ARankThatComputesIsNotLost) {
  CommRun run;
  run.progress_thread = true;
  run.comm = "heartbeat_interval: 0.1 heartbeat_timeout: 1.5";
  run_communicators(run, [](Communicator& comm) {
    Meeting meeting(comm);
    meeting.meet();
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(4));
    meeting.meet();
    EXPECT_EQ(comm.first_loss(), "");
  });
}

TEST(CommunicatorHealth, StallsAreReportedWithTheirPhase) {
  CommRun run;
  run.comm = "heartbeat_interval: 0.05 heartbeat_timeout: 30 stall_timeout: 0.3";
  CommWorld world(run);
  run_threads(2, [&](Rank rank) {
    std::string log;
    const auto comm = world.connect(rank, [&](const std::string& line) { log += line + "\n"; });
    Meeting meeting(*comm);
    comm->note_progress(3, "layer fc7");
    if (rank == 0) {
      poll_until(*comm, "the report", [&] { return contains(log, "stays at step 3"); });
      EXPECT_TRUE(contains(log, "layer fc7")) << log;
    }
    meeting.meet();
    comm->leave();
  });
}

// ---- successors ---------------------------------------------------------------------------------

TEST_P(CommunicatorTest, ASuccessorTakesThePlaceOfALostRank) {
  CommWorld world(run(3));
  std::atomic<bool> dead{false};
  std::atomic<int> met{0};
  const auto greet = [](Communicator& comm, Rank peer) {
    // A kind for each pair: a greeting may come while another is waited for.
    const auto kind = static_cast<uint8_t>(kKind + 10 + std::min(peer, comm.rank()));
    std::string got;
    comm.on_message(kind, [&](Rank, std::span<const std::byte> p) { got = text_of(p); });
    comm.send(peer, kind, bytes_of("hello"));
    poll_until(comm, "the greeting", [&] { return got == "hello"; });
    comm.on_message(kind, nullptr);
  };
  run_threads(4, [&](Rank thread) {
    const bool successor = thread == 3;
    if (successor) {
      while (!dead) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    auto comm = world.connect(successor ? 2 : thread);
    if (!successor) {
      Meeting(*comm).meet();
      ++met;
    }
    if (thread == 2) {
      while (met < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      comm.reset();
      dead = true;
      return;
    }
    if (successor) {
      greet(*comm, 0);
      greet(*comm, 1);
    } else {
      int joined = 0;
      comm->locked([&] {
        comm->on_peer_joined([&](Rank peer) { joined += peer == 2 ? 1 : 0; });
        if (comm->state(2) == PeerState::kAlive && dead) joined = 1;
      });
      poll_until(*comm, "the successor", [&] { return joined > 0; });
      EXPECT_EQ(comm->state(2), PeerState::kAlive);
      EXPECT_EQ(comm->alive(), 3);
      greet(*comm, 2);
    }
    Meeting(*comm).meet();
    comm->leave();
  });
}

}  // namespace
}  // namespace kinet
