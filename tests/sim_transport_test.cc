// ctest: labels=unit,core,smoke timeout=120
//
// Transport sim on one thread: times by the link model's formula, and the contract of
// comm/transport.h under loss, delay, reordering and doubles. Cuts and deaths: sim_faults_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "src/base/check.h"
#include "tests/sim_ranks.h"

namespace kinet {
namespace {

constexpr double kExact = 1e-15;

// ---- times --------------------------------------------------------------------------------------

TEST(SimTransport, APutTakesWhatTheFormulaSays) {
  for (const uint64_t bytes : {0U, 1U, 4096U, 1U << 20}) {
    SimRanks ranks(2, round_figures());
    ASSERT_EQ(ranks[0].put(1, ranks[1], bytes, 7), Post::kAccepted);
    EXPECT_EQ(ranks.world->now(), 0) << "posting takes no time";
    ranks.run();
    const double due = 2e-6 + 5e-7 + static_cast<double>(bytes) / 1e9;
    ASSERT_EQ(ranks[1].of("put").size(), 1U);
    EXPECT_NEAR(ranks[1].of("put")[0].time, due, kExact);
    EXPECT_EQ(ranks[1].of("put")[0].number, 7U);
    ASSERT_EQ(ranks[0].of("completed").size(), 1U);
    EXPECT_NEAR(ranks[0].of("completed")[0].time, due + 2e-6, kExact);  // one latency back
  }
}

TEST(SimTransport, IncastOfNSendersTakesNTimesAsLong) {
  for (const int n : {1, 4, 16}) {
    SimRanks ranks(n + 1, round_figures());
    for (Rank r = 1; r <= n; ++r) ranks[r].put(0, ranks[0], 100000, r);
    ranks.run();
    ASSERT_EQ(ranks[0].of("put").size(), static_cast<size_t>(n));
    EXPECT_NEAR(ranks[0].of("put").back().time, 2e-6 + n * (5e-7 + 1e-4), n * kExact);
  }
}

TEST(SimTransport, TheClockStopsWhereItIsTold) {
  SimRanks ranks(2, round_figures());
  EXPECT_FALSE(ranks.world->step(kForever)) << "nothing to come";
  EXPECT_EQ(ranks.world->now(), 0);
  EXPECT_FALSE(ranks.world->step(1.5));
  EXPECT_EQ(ranks.world->now(), 1.5);
  ranks[0].put(1, ranks[1], 0, 1);
  EXPECT_FALSE(ranks.world->step(1.5 + 1e-6)) << "it arrives later than that";
  EXPECT_TRUE(ranks[1].of("put").empty());
  EXPECT_FALSE(ranks.world->step(1)) << "time does not go back";
  EXPECT_NEAR(ranks.world->now(), 1.5 + 1e-6, kExact);
  ranks.run();
  EXPECT_NEAR(ranks[1].of("put")[0].time, 1.5 + 2.5e-6, kExact);
}

TEST(SimTransport, CallsOfTheDriverComeInTheOrderOfTime) {
  SimRanks ranks(2, round_figures());
  std::vector<double> times;
  const auto note = [&] { times.push_back(ranks.world->now()); };
  ranks.world->call_at(3, note);
  ranks.world->call_at(1, [&] {
    note();
    ranks.world->call_at(2, note);
    ranks.world->call_at(0, note);  // the past is now
  });
  ranks.run();
  EXPECT_EQ(times, (std::vector<double>{1, 1, 2, 3}));
}

// ---- the contract -------------------------------------------------------------------------------

TEST(SimTransport, BytesAreThereWhenThePutIsAnnouncedAndNotBefore) {
  SimRanks ranks(2, round_figures());
  ranks[0].memory[99] = std::byte{42};
  ranks[0].put(1, ranks[1], 100, 1);
  ASSERT_TRUE(ranks[1].of("put").empty());
  EXPECT_EQ(ranks[1].memory[99], std::byte{0});
  ranks.run();
  ASSERT_EQ(ranks[1].of("put").size(), 1U);
  EXPECT_EQ(ranks[1].memory[99], std::byte{42});
}

TEST(SimTransport, APeerThatDoesNotPollMakesTheSenderWait) {
  SimRanks ranks(2, round_figures());
  int accepted = 0;
  while (ranks[0].send(1, 8, 1) == Post::kAccepted) ++accepted;
  EXPECT_GE(accepted, 16);
  while (ranks.world->step(kForever)) {  // everything arrives, nobody looks
  }
  EXPECT_EQ(ranks[0].send(1, 8, 1), Post::kBusy);
  EXPECT_EQ(ranks[0].transport->counters().busy, 2U);
  ranks.run();
  EXPECT_EQ(ranks[0].send(1, 8, 1), Post::kAccepted);
  EXPECT_EQ(ranks[1].of("message").size(), static_cast<size_t>(accepted));
  int puts = 0;
  while (ranks[0].put(1, ranks[1], 8, 1) == Post::kAccepted) ++puts;
  EXPECT_EQ(puts, static_cast<int>(ranks[0].transport->capabilities().outstanding_puts));
}

TEST(SimTransport, APutOutsideOfTheTargetEndsThatLinkOnly) {
  SimRanks ranks(3, round_figures());
  Put put;
  put.from = ranks[0].region.get();
  put.to = {0, 999, 1 << 20};  // a key that nobody gave
  put.bytes = 8;
  EXPECT_EQ(ranks[0].transport->put(1, put), Post::kAccepted);
  ranks[0].put(2, ranks[2], 8, 5);
  ranks.run();
  EXPECT_EQ(ranks[0].of("lost").size(), 1U);
  EXPECT_EQ(ranks[1].of("lost").size(), 1U);
  EXPECT_EQ(ranks[2].of("put").size(), 1U);
  EXPECT_EQ(ranks[0].send(1, 8, 1), Post::kPeerLost);
  put.to = {0, 1, 4};
  EXPECT_THROW(ranks[0].transport->put(2, put), Error) << "wrong on this side: a defect of ours";
}

TEST(SimTransport, DisconnectIsToldToThePeerAfterTheLastMessage) {
  SimRanks ranks(2, round_figures());
  ranks[0].send(1, 1000, 1);
  ranks[0].send(1, 0, 0);
  ranks[0].transport->disconnect(1);
  EXPECT_EQ(ranks[0].send(1, 8, 1), Post::kPeerLost);
  ranks.run();
  ASSERT_EQ(ranks[1].seen.size(), 3U);
  EXPECT_EQ(ranks[1].seen[0].what, "message");
  EXPECT_EQ(ranks[1].seen[2].what, "lost");
  EXPECT_TRUE(ranks[0].seen.empty()) << "no event for the one who disconnects";
}

// ---- an unreliable network ----------------------------------------------------------------------

SimOptions bad_network() {
  SimOptions o = round_figures();
  o.loss = 0.2;
  o.jitter = 2e-5;
  o.reorder = 0.3;
  o.duplicate = 0.2;
  return o;
}

TEST(SimTransport, ALostTransmissionArrivesOneTimeOutLater) {
  SimOptions o = round_figures();
  o.loss = 0.5;
  o.retries = 60;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    o.seed = seed;
    SimRanks ranks(2, o);
    ranks[0].put(1, ranks[1], 1000, 1);
    ranks.run();
    ASSERT_EQ(ranks[1].of("put").size(), 1U);
    const auto again = static_cast<double>(ranks[0].transport->counters().retransmissions);
    const double due = again * (1.5e-6 + o.retransmit_timeout) + 2e-6 + 1.5e-6;
    EXPECT_NEAR(ranks[1].of("put")[0].time, due, 1e-12) << "seed " << seed;
    EXPECT_EQ(ranks.world->counters().lost, static_cast<uint64_t>(again));
  }
}

TEST(SimTransport, OnABadNetworkEverythingArrivesOnceAndMessagesInOrder) {
  constexpr int kCount = 200;
  SimRanks ranks(3, bad_network());
  for (int i = 0; i < kCount; ++i) {
    for (const Rank from : {0, 1}) {
      EXPECT_EQ(ranks[from].send(2, 1 + i, i), Post::kAccepted);
      EXPECT_EQ(ranks[from].put(2, ranks[2], 1 + i, i), Post::kAccepted);
    }
  }
  ranks.run();
  bool puts_overtook = false;
  for (const Rank from : {0, 1}) {
    std::vector<uint64_t> messages, puts;
    for (const SimSeen& s : ranks[2].seen) {
      if (s.peer == from) (s.what == "message" ? messages : puts).push_back(s.number);
    }
    ASSERT_EQ(messages.size(), kCount);
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(messages[i], static_cast<uint64_t>(i % 256));
    ASSERT_EQ(puts.size(), kCount);
    EXPECT_EQ(std::set(puts.begin(), puts.end()).size(), static_cast<size_t>(kCount));
    puts_overtook = puts_overtook || !std::is_sorted(puts.begin(), puts.end());
    uint64_t completed = 0;
    for (const SimSeen& s : ranks[from].of("completed")) completed += s.number;
    EXPECT_EQ(completed, static_cast<uint64_t>(kCount));
  }
  const SimCounters c = ranks.world->counters();
  EXPECT_TRUE(puts_overtook);
  EXPECT_GT(c.lost, 0U);
  EXPECT_GT(c.duplicates, 0U);
  EXPECT_GT(c.out_of_order, 0U);
  EXPECT_EQ(c.delivered, 4U * kCount);
}

TEST(SimTransport, LastMessagesGetThroughABadNetworkAfterDisconnect) {
  SimRanks ranks(2, bad_network());
  for (int i = 0; i < 50; ++i) ranks[0].send(1, 8, i);
  ranks[0].transport->disconnect(1);
  ranks.run();
  EXPECT_EQ(ranks[1].of("message").size(), 50U);
  EXPECT_EQ(ranks[1].of("lost").size(), 1U);
}

std::string trace_of(uint64_t seed) {
  SimOptions o = bad_network();
  o.seed = seed;
  SimRanks ranks(4, o);
  for (int i = 0; i < 50; ++i) {
    for (Rank r = 0; r < 4; ++r) {
      ranks[r].put((r + 1) % 4, ranks[(r + 1) % 4], 100 * i, i);
      ranks[r].send((r + 2) % 4, i, i);
    }
    ranks.run(ranks.world->now() + 1e-5);
  }
  ranks.run();
  return ranks.trace;
}

TEST(SimTransport, TheSameSeedGivesTheSameTraceBitForBit) {
  const std::string first = trace_of(1);
  EXPECT_GT(first.size(), 10000U);
  EXPECT_EQ(first, trace_of(1));
  EXPECT_NE(first, trace_of(2));
}

TEST(SimTransport, TheTraceHasFixedColumns) {
  SimRanks ranks(2, round_figures());
  ranks[1].put(0, ranks[0], 12345, 1);
  ranks[1].send(0, 0, 0);
  ranks.run();
  EXPECT_EQ(ranks.trace,
            "    0.000000000 send      1     0 put           0      12345   1\n"
            "    0.000000000 send      1     0 message       1          0   1\n"
            "    0.000014845 recv      1     0 put           0      12345   1\n"
            "    0.000015345 recv      1     0 message       1          0   1\n");
  const std::string legend = SimWorld::legend();
  const std::string heading = legend.substr(legend.rfind('\n', legend.size() - 2) + 1);
  const std::string line = ranks.trace.substr(0, ranks.trace.find('\n'));
  for (const char* column : {"time", "from", "to", "number", "bytes", "try"}) {
    const size_t end = heading.find(column) + std::strlen(column);
    ASSERT_LE(end, line.size()) << column;
    EXPECT_NE(line[end - 1], ' ') << column << " does not stand above its values";
  }
}

}  // namespace
}  // namespace kinet
