// ctest: labels=unit,core,smoke,threads timeout=180
//
// Transport sim when something breaks at a given time (cut, kill, stop, successors), its fields,
// and its two ways of being driven: one thread for all ranks, and a thread a rank.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "comm/sim_driver.h"
#include "src/base/check.h"
#include "tests/sim_ranks.h"

namespace kinet {
namespace {

SimFault at(double time, SimFault::Kind kind, Rank rank, Rank peer = 0) {
  return {kind, time, rank, peer};
}

// ---- cuts ---------------------------------------------------------------------------------------

TEST(SimFaults, ACutLinkIsLostOnceOnBothSidesAndOthersGoOn) {
  SimOptions o = round_figures();
  o.retries = 3;
  o.faults = {at(0.5, SimFault::Kind::kCut, 2, 0)};
  SimRanks ranks(3, o);
  ranks.run(1 - 1e-9);
  const double due = 0.5 + 4 * o.retransmit_timeout;  // also with nothing to send
  for (const auto& [one, other] : {std::pair{0, 2}, std::pair{2, 0}}) {
    ASSERT_EQ(ranks[one].of("lost").size(), 1U);
    EXPECT_EQ(ranks[one].of("lost")[0].peer, other);
    EXPECT_NEAR(ranks[one].of("lost")[0].time, due, 1e-12);
    EXPECT_EQ(ranks[one].send(other, 8, 1), Post::kPeerLost);
  }
  EXPECT_EQ(ranks[1].send(0, 8, 1), Post::kAccepted);
  EXPECT_EQ(ranks[1].send(2, 8, 1), Post::kAccepted);
  ranks.run();
  EXPECT_EQ(ranks[0].of("message").size(), 1U);
  EXPECT_EQ(ranks[2].of("message").size(), 1U);
  EXPECT_TRUE(ranks[1].of("lost").empty());
  EXPECT_EQ(ranks[0].of("lost").size(), 1U);
}

TEST(SimFaults, WhatWasUnderWayOverACutLinkNeverArrives) {
  SimOptions o = round_figures();
  o.faults = {at(1e-3, SimFault::Kind::kCut, 0, 1)};
  SimRanks ranks(2, o);
  ranks.run(1e-3 - 1e-6);  // the first byte would arrive 1 us after the cut
  ranks[0].put(1, ranks[1], 100, 1);
  ranks[0].send(1, 8, 1);
  ranks.run();
  EXPECT_TRUE(ranks[1].of("put").empty());
  EXPECT_TRUE(ranks[1].of("message").empty());
  EXPECT_TRUE(ranks[0].of("completed").empty());
  EXPECT_EQ(ranks[0].of("lost").size(), 1U);
  EXPECT_GT(ranks.world->counters().lost, 2U) << "it was tried again";
}

TEST(SimFaults, ALinkMendedInTimeLosesNothing) {
  SimOptions o = round_figures();
  o.faults = {at(0, SimFault::Kind::kCut, 0, 1), at(2.5e-3, SimFault::Kind::kMend, 1, 0)};
  SimRanks ranks(2, o);
  ranks.run(1e-6);
  ranks[0].put(1, ranks[1], 100, 1);
  ranks.run();
  ASSERT_EQ(ranks[1].of("put").size(), 1U);
  EXPECT_GT(ranks[1].of("put")[0].time, 2.5e-3);
  EXPECT_TRUE(ranks[0].of("lost").empty());
  EXPECT_TRUE(ranks[1].of("lost").empty());
}

TEST(SimFaults, ALinkThatLosesEverythingIsGivenUpAfterTheRetries) {
  SimOptions o = round_figures();
  o.loss = 1;
  o.retries = 4;
  SimRanks ranks(2, o);
  ranks[0].put(1, ranks[1], 1000, 1);
  ranks.run();
  ASSERT_EQ(ranks[0].of("lost").size(), 1U);
  ASSERT_EQ(ranks[1].of("lost").size(), 1U);
  EXPECT_NEAR(ranks[0].of("lost")[0].time, 5 * (1.5e-6 + o.retransmit_timeout), 1e-12);
  EXPECT_NE(ranks[0].last_why.find("5 transmissions"), std::string::npos) << ranks[0].last_why;
  EXPECT_EQ(ranks[0].transport->counters().retransmissions, 4U);
}

// ---- deaths -------------------------------------------------------------------------------------

TEST(SimFaults, AKilledRankIsNoticedOneLatencyLater) {
  SimOptions o = round_figures();
  o.faults = {at(1e-3, SimFault::Kind::kKill, 1)};
  SimRanks ranks(3, o);
  ranks.run(1e-3 - 1e-6);
  ranks[1].put(0, ranks[0], 100000, 1);  // leaves before the end ...
  ranks[1].put(2, ranks[2], 100000, 2);  // ... and this one would leave after it
  ranks.run(2e-3);
  for (const Rank r : {0, 2}) {
    ASSERT_EQ(ranks[r].of("lost").size(), 1U);
    EXPECT_NEAR(ranks[r].of("lost")[0].time, 1e-3 + 2e-6, 1e-12);
    EXPECT_TRUE(ranks[r].of("put").empty()) << "nothing of a lost peer may come any more";
  }
  EXPECT_TRUE(ranks.world->killed(1));
  EXPECT_THROW(ranks[1].transport->poll(ranks[1]), Error);
  EXPECT_EQ(ranks[1].send(0, 8, 1), Post::kPeerLost);
  ranks[0].send(2, 8, 1);
  ranks.run();
  EXPECT_EQ(ranks[2].of("message").size(), 1U);
}

TEST(SimFaults, ASuccessorTakesThePlaceAndNothingOldReachesIt) {
  SimOptions o = round_figures();
  o.loss = 0.9;  // so that much of the old link is still being repeated
  o.retries = 1000;
  o.faults = {at(5e-3, SimFault::Kind::kKill, 1)};
  SimRanks ranks(2, o);
  for (int i = 0; i < 50; ++i) ranks[0].send(1, 8, 1);
  ranks.run(6e-3);
  EXPECT_EQ(ranks[0].of("lost").size(), 1U);
  ranks.ranks[1].reset();
  ranks.ranks[1] = std::make_unique<SimRank>(ranks.world, 1, 2, 1);
  EXPECT_FALSE(ranks.world->killed(1));
  ranks[0].transport->connect(1, 1, ranks[1].transport->offer(0));
  ranks[1].transport->connect(0, 0, ranks[0].transport->offer(1));
  ranks.poll();
  EXPECT_EQ(ranks[0].of("connected").size(), 1U);
  ranks[0].send(1, 8, 77);
  ranks.run();
  ASSERT_EQ(ranks[1].of("message").size(), 1U);
  EXPECT_EQ(ranks[1].of("message")[0].number, 77U);
}

TEST(SimFaults, AStoppedRankMissesNothingOnceItGoesOn) {
  SimOptions o = round_figures();
  o.faults = {at(1e-3, SimFault::Kind::kStop, 1), at(2, SimFault::Kind::kContinue, 1)};
  SimRanks ranks(2, o);
  ranks.run(1.5e-3);
  EXPECT_TRUE(ranks.world->stopped(1));
  EXPECT_EQ(ranks[1].send(0, 8, 1), Post::kBusy);
  ranks[0].send(1, 8, 9);
  ranks[0].put(1, ranks[1], 8, 9);
  ranks.run(1);
  EXPECT_TRUE(ranks[1].seen.empty());
  ranks.run();
  ASSERT_EQ(ranks[1].of("message").size(), 1U);
  EXPECT_EQ(ranks[1].of("message")[0].time, 2);
  EXPECT_EQ(ranks[1].of("put").size(), 1U);
  EXPECT_TRUE(ranks[0].of("lost").empty());
}

// ---- fields -------------------------------------------------------------------------------------

SimOptions options_of(const std::string& text) {
  Diagnostics diagnostics;
  const ParamNode node = parse_prototxt(text, "cluster.prototxt", diagnostics);
  validate(node, SimOptions::fields(), "sim", diagnostics);
  diagnostics.throw_if_any();
  return SimOptions::from(Params(&node, &SimOptions::fields()));
}

TEST(SimFaults, OptionsComeFromAFile) {
  const SimOptions o = options_of(R"(
      link { preset: qdr } seed: 7 loss: 0.01 retransmit_timeout: 50 retries: 2 jitter: 3
      reorder: 0.5 reorder_delay: 20 duplicate: 0.25
      fault { kind: CUT at: 1.5 rank: 2 peer: 3 } fault { at: 2 rank: 1 })");
  EXPECT_DOUBLE_EQ(o.link.network.latency, 1.2e-6);
  EXPECT_EQ(o.seed, 7U);
  EXPECT_DOUBLE_EQ(o.retransmit_timeout, 50e-6);
  EXPECT_EQ(o.retries, 2);
  ASSERT_EQ(o.faults.size(), 2U);
  EXPECT_EQ(o.faults[0].kind, SimFault::Kind::kCut);
  EXPECT_EQ(o.faults[0].peer, 3);
  EXPECT_EQ(o.faults[1].kind, SimFault::Kind::kKill);
  EXPECT_EQ(o.faults[1].at, 2);
  EXPECT_NE(SimWorld(4, o).describe().find("loss 0.01"), std::string::npos);
  EXPECT_THROW(SimWorld(2, o), Error) << "a fault of a rank that is not there";
  EXPECT_THROW(options_of("loss: 1.5"), Error);
  EXPECT_THROW(options_of("jitter: -1"), Error);
}

// ---- communicators, both ways -------------------------------------------------------------------

constexpr int kRounds = 20;

// Rank 0 asks all others kRounds times; each answer comes with a put of 1000 bytes.
struct Player {
  explicit Player(Communicator& comm) : comm(comm), region(comm.allocate(1 << 16, "game")) {
    comm.on_message(kTestKind, [this](Rank from, std::span<const std::byte> payload) {
      std::memcpy(&there, payload.data(), sizeof(there));
      RegionPut put;
      put.from = region.get();
      put.to = there;
      put.to_offset = 1000U * static_cast<uint64_t>(this->comm.rank());
      put.bytes = 1000;
      put.kind = kTestKind;
      this->comm.put(from, put);
      ++answered;
    });
    comm.on_put(kTestKind, [this](Rank, uint32_t, uint64_t) {
      if (++arrived % (this->comm.size() - 1) == 0 && rounds() < kRounds) ask();
    });
  }
  ~Player() { region.reset(); }
  int rounds() const { return arrived / (comm.size() - 1); }
  void ask() {
    for (Rank r = 1; r < comm.size(); ++r) {
      const RemoteRegion mine = comm.key_for(*region, r);
      comm.send(r, kTestKind, std::as_bytes(std::span(&mine, 1)));
    }
  }
  bool over() const { return comm.rank() == 0 ? rounds() == kRounds : answered == kRounds; }

  Communicator& comm;
  std::unique_ptr<Region> region;
  RemoteRegion there;
  int arrived = 0, answered = 0;
};

SimOptions shaky(std::string& trace) {
  SimOptions o = round_figures();
  o.loss = 0.1;
  o.jitter = 1e-5;
  o.duplicate = 0.1;
  o.trace = [&trace](const std::string& line) {
    if (line.find("close") == std::string::npos && line.find("gone") == std::string::npos &&
        line.find("drop") == std::string::npos) {
      trace += line + "\n";  // how ranks end is not part of the game
    }
  };
  return o;
}

std::string play_on_one_thread(int size, double* ended) {
  std::string trace;
  const auto world = std::make_shared<SimWorld>(size, shaky(trace));
  const auto comms = make_virtual_ranks(world, size);
  std::vector<std::unique_ptr<Player>> players;
  for (const auto& comm : comms) players.push_back(std::make_unique<Player>(*comm));
  players[0]->ask();
  const bool over = run_virtual(
      *world, comms, [&] { return players[0]->over(); }, kForever);
  EXPECT_TRUE(over);
  *ended = world->now();
  run_virtual(
      *world, comms, [] { return false; }, kForever);  // what is still under way
  players.clear();
  return trace;
}

std::string play_on_threads(int size, double* ended) {
  std::string trace;
  SimOptions options = shaky(trace);
  options.threads = true;
  const auto world = std::make_shared<SimWorld>(size, options);
  auto comms = make_virtual_ranks(world, size);
  std::vector<std::thread> threads;
  for (Rank r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        Player player(*comms[r]);
        if (r == 0) player.ask();
        comms[r]->wait_until([&] { return player.over(); }, 1000, "the game");
        if (r == 0) *ended = comms[r]->now();
        comms[r]->wait_until([&] { return comms[r]->now() >= 10; }, 1000, "the last packets");
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
      comms[r].reset();  // from here on the others do not wait for this rank
    });
  }
  for (std::thread& thread : threads) thread.join();
  return trace;
}

TEST(SimDriver, OneThreadOrAThreadARankGiveTheSameTrace) {
  for (const int size : {2, 5}) {
    double one = 0, many = 0;
    const std::string first = play_on_one_thread(size, &one);
    EXPECT_GT(first.size(), 1000U);
    EXPECT_EQ(first, play_on_one_thread(size, &one));
    EXPECT_GT(one, kRounds * 2 * 2e-6);
    for (int repeat = 0; repeat < 5; ++repeat) {
      EXPECT_EQ(first, play_on_threads(size, &many)) << size << " ranks";
      EXPECT_EQ(one, many);
    }
  }
}

TEST(SimDriver, AWaitEndsAtItsVirtualDeadline) {
  const auto world = std::make_shared<SimWorld>(2, round_figures());
  const auto comms = make_virtual_ranks(world, 2);
  EXPECT_TRUE(comms[0]->virtual_time());
  EXPECT_THROW(comms[0]->wait_until([] { return false; }, 1e6, "nothing"), Error);
  EXPECT_GE(world->now(), 1e6);
}

TEST(SimDriver, AKilledRankIsNamedByAllOthers) {
  SimOptions o = round_figures();
  o.faults = {at(1, SimFault::Kind::kKill, 2)};
  const auto world = std::make_shared<SimWorld>(4, o);
  const auto comms = make_virtual_ranks(world, 4);
  run_virtual(
      *world, comms, [] { return false; }, 2);
  for (const Rank r : {0, 1, 3}) {
    EXPECT_EQ(comms[r]->state(2), PeerState::kLost);
    EXPECT_EQ(comms[r]->alive(), 3);
    EXPECT_NE(comms[r]->first_loss().find("rank 2"), std::string::npos);
  }
}

TEST(SimDriver, WithAThreadARankTheKilledOneEndsAndTheOthersGoOn) {
  SimOptions o = round_figures();
  o.threads = true;
  o.faults = {at(1, SimFault::Kind::kKill, 2)};
  const auto world = std::make_shared<SimWorld>(4, o);
  auto comms = make_virtual_ranks(world, 4);
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (Rank r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      try {
        comms[r]->wait_until([&] { return comms[r]->state(2) == PeerState::kLost; }, 10, "it");
        EXPECT_LT(comms[r]->now(), 1.1);
      } catch (const Error& error) {
        errors[r] = error.what();
      }
      if (r != 2) comms[r]->leave();
      comms[r].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Rank r : {0, 1, 3}) EXPECT_EQ(errors[r], "") << r;
  EXPECT_NE(errors[2].find("killed at 1 s"), std::string::npos) << errors[2];
}

// A rank that computes in real time, without waiting: the others' clock stands still, and they say
// who it is instead of waiting for ever.
TEST(SimDriver, ARankThatNeverWaitsIsNamed) {
  SimOptions o = round_figures();
  o.threads = true;
  const auto world = std::make_shared<SimWorld>(2, o);
  TransportConfig config;
  config.size = 2;
  config.timeout = 0.3;
  config.runtime.sim = world;
  const auto transport = TransportRegistry::instance().find("sim")->make(config);
  try {
    transport->advance(1);
    FAIL() << "it did not wait for rank 1";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not waited: 1"), std::string::npos) << error.what();
  }
  EXPECT_EQ(world->now(), 0);
}

}  // namespace
}  // namespace kinet
