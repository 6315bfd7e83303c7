// ctest: labels=unit,core,threads timeout=300
//
// What every transport has to do when a peer does not poll, dies, is replaced or is left; and how a
// rank sleeps and wakes. Second half of transport_test.cc.
#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <vector>

#include "tests/transport_traffic.h"

namespace kinet {
namespace {

KINET_TRANSPORT_TESTS();

// ---- a peer that does not poll ------------------------------------------------------------------

// Rank 0 posts until it is told kBusy for a while (or all is accepted) and only then lets the last
// rank poll again. `post(i)` posts number i once.
void outrun(TestRank& rank, int count, const std::function<Post(int)>& post) {
  constexpr int kPatience = 2000;  // polls without a post accepted
  int i = 0, refused = 0;
  while (i < count && refused < kPatience) {
    const Post answer = post(i);
    ASSERT_NE(answer, Post::kPeerLost);
    if (answer == Post::kAccepted) {
      ++i;
      refused = 0;
    } else {
      ++refused;
      rank.poll();
    }
  }
  rank.arrive("outrun");
  for (; i < count; ++i) {
    rank.until("room", [&] { return post(i) == Post::kAccepted; });
  }
}

TEST_P(TransportTest, MessagesToAPeerThatDoesNotPollWait) {
  run_ranks(run(), [](TestRank& rank) {
    constexpr int kMessages = 5000;
    const Rank receiver = rank.size() - 1;
    rank.connect_all();
    rank.barrier("connected");
    if (rank.rank() == 0) {
      outrun(rank, kMessages, [&](int i) {
        return rank.transport().send(receiver, numbered_message(0, receiver, i));
      });
    } else if (rank.last()) {
      rank.wait_idle("outrun", 1);
      rank.until("all", [&] { return rank.from(0).messages.size() >= kMessages; });
      expect_numbered(rank, 0, kMessages);
    }
  });
}

TEST_P(TransportTest, PutsToAPeerThatDoesNotPollWait) {
  run_ranks(run(), [](TestRank& rank) {
    constexpr int kPuts = 600;
    constexpr size_t kSlot = 32 * kKiB;
    const Rank receiver = rank.size() - 1;
    TestRegion& memory = rank.region("memory", rank.rank() == 0 || rank.last() ? kPuts * kSlot : 1);
    rank.connect_all();
    rank.barrier("connected");
    if (rank.rank() == 0) {
      const RemoteRegion there = rank.remote(receiver, "memory");
      fill_pattern(memory.data(), memory.bytes(), 3);
      outrun(rank, kPuts, [&](int i) {
        return rank.transport().put(receiver,
                                    put_of(memory, i * kSlot, there, i * kSlot, kSlot, i));
      });
      rank.until("completions", [&] { return rank.from(receiver).completed >= kPuts; });
      EXPECT_EQ(rank.from(receiver).completed, kPuts);
    } else if (rank.last()) {
      rank.wait_idle("outrun", 1);
      rank.until("all", [&] { return rank.from(0).arrived.size() >= kPuts; });
      EXPECT_TRUE(is_pattern(memory.data(), memory.bytes(), 3));
    }
  });
}

// ---- loss ---------------------------------------------------------------------------------------

TEST_P(TransportTest, ADeadPeerIsLostOnceAndOthersGoOn) {
  run_ranks(run(), [](TestRank& rank) {
    const int survivors = rank.size() - 1;
    const bool others_go_on = rank.transport().capabilities().survives_peer_loss;
    rank.connect_all();
    rank.barrier("connected");
    if (rank.last()) {
      for (const Rank r : rank.others()) rank.send(r, message_of(1, 10));
      for (const Rank r : rank.others()) {
        rank.until("traffic", [&] { return rank.from(r).messages.size() >= 100; });
      }
      rank.die();
      rank.rise();
      return;
    }
    const Rank dead = survivors;
    Put nothing;
    rank.until("the loss", [&] {
      rank.transport().send(dead, message_of(2, 100));  // also while it dies
      return rank.from(dead).lost > 0;
    });
    EXPECT_FALSE(rank.from(dead).why.empty());
    EXPECT_EQ(rank.transport().send(dead, message_of(2, 1)), Post::kPeerLost);
    EXPECT_EQ(rank.transport().put(dead, nothing), Post::kPeerLost);
    if (others_go_on) chat(rank, 0, survivors);
    rank.poll_for(0.05);
    EXPECT_EQ(rank.from(dead).lost, 1);
    EXPECT_EQ(rank.transport().send(dead, message_of(2, 1)), Post::kPeerLost);
    if (!others_go_on) return;
    for (Rank r = 0; r < survivors; ++r) EXPECT_EQ(rank.from(r).lost, 0) << rank.from(r).why;
  });
}

TEST_P(TransportTest, ASuccessorTakesThePlaceOfADeadPeer) {
  run_ranks(run(), [](TestRank& rank) {
    const Rank dead = rank.size() - 1;
    if (!rank.transport().capabilities().survives_peer_loss) return;
    rank.connect_all();
    rank.barrier("connected");
    if (rank.last()) {
      rank.die();
      rank.rise();
      rank.arrive("risen");
      rank.connect_all();
    } else {
      rank.until("the loss", [&] { return rank.from(dead).lost > 0; });
      rank.until("the successor", [&] { return rank.all_at("risen", 1); });
      rank.expect_successor(dead);
      rank.start_connect(dead);
      rank.wait_connected(dead);
    }
    rank.barrier("connected again");
    put_to_next(rank, 100 * kKiB + 1);
    chat(rank, 0, rank.size());
    for (const Rank r : rank.others()) EXPECT_EQ(rank.from(r).lost, 0) << rank.from(r).why;
  });
}

TEST_P(TransportTest, DisconnectEndsOneLinkWithoutAnEvent) {
  run_ranks(run(), [](TestRank& rank) {
    const Rank other = rank.size() - 1;
    rank.connect_all();
    rank.barrier("connected");
    if (rank.rank() == 0) {
      rank.transport().disconnect(other);
      EXPECT_EQ(rank.transport().send(other, message_of(2, 1)), Post::kPeerLost);
      EXPECT_EQ(rank.transport().put(other, Put{}), Post::kPeerLost);
    } else if (rank.last()) {
      rank.until("the loss", [&] { return rank.from(0).lost > 0; });
      EXPECT_EQ(rank.transport().send(0, message_of(2, 1)), Post::kPeerLost);
    }
    rank.barrier("disconnected");
    if (rank.rank() != 0) chat(rank, 1, rank.size());
    rank.poll_for(0.05);
    for (const Rank r : rank.others()) {
      EXPECT_EQ(rank.from(r).lost, rank.last() && r == 0 ? 1 : 0) << r;
    }
  });
}

TEST_P(TransportTest, ConnectingToTheDeadIsALoss) {
  RankRun quick = run();
  quick.timeout = 2;
  run_ranks(quick, [](TestRank& rank) {
    const Rank dead = rank.size() - 1;
    if (rank.last()) {
      rank.publish_offer(0);
      rank.die();
      rank.arrive("dead");
      rank.rise();
    } else if (rank.rank() == 0) {
      rank.until("its death", [&] { return rank.all_at("dead", 1); });
      rank.take_offer(dead);
      rank.until("the loss", [&] { return rank.from(dead).lost > 0; });
      EXPECT_EQ(rank.from(dead).connected, 0);
      EXPECT_EQ(rank.transport().send(dead, message_of(2, 1)), Post::kPeerLost);
    }
  });
}

// ---- sleeping -----------------------------------------------------------------------------------

TEST_P(TransportTest, PollTakesTheReadinessAway) {
  run_ranks(run(), [](TestRank& rank) {
    rank.connect_all();
    chat(rank, 0, rank.size());
    const int fd = rank.transport().event_fd();
    rank.until("a quiet event_fd", [&] {
      rank.transport().arm();
      rank.poll();
      pollfd ready{fd, POLLIN, 0};
      return fd < 0 || ::poll(&ready, 1, 0) == 0;
    });
  });
}

TEST_P(TransportTest, ASleeperWakesForMessagesAndPuts) {
  run_ranks(run(), [](TestRank& rank) {
    constexpr int kRounds = 20;
    TestRegion& target = rank.region("target", 64 * kKiB);
    TestRegion& source = rank.region("source", 64 * kKiB);
    rank.connect_all();
    const RemoteRegion there = rank.remote(rank.next(), "target");
    const PeerEvents& before = rank.from(rank.previous());
    rank.barrier("connected");
    // A token goes round the ring: the one before wakes this rank, in turn by message and by put.
    const auto events = [&] { return before.messages.size() + before.arrived.size(); };
    for (size_t round = 0; round < kRounds; ++round) {
      if (rank.rank() != 0) {
        while (events() <= round) rank.sleep_until_event();
      }
      if (round % 2 == 0) {
        rank.send(rank.next(), message_of(round, 64));
      } else {
        fill_pattern(source.data(), source.bytes(), round);
        rank.put(rank.next(), put_of(source, 0, there, 0, source.bytes(), 0));
        const uint64_t done = (round + 1) / 2;
        while (rank.from(rank.next()).completed < done) rank.sleep_until_event();
      }
      if (rank.rank() == 0) {
        while (events() <= round) rank.sleep_until_event();
      }
      if (round % 2 == 1) {
        EXPECT_TRUE(is_pattern(target.data(), target.bytes(), round));
      }
    }
  });
}

}  // namespace
}  // namespace kinet
