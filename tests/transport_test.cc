// ctest: labels=unit,core,threads timeout=300
//
// What every transport has to do, by the contract in comm/transport.h: {transports that work here}
// x {2, 3, 4, 8 ranks} x sizes of puts around packets and pages, up to 10 MiB.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "tests/transport_traffic.h"

namespace kinet {
namespace {

KINET_TRANSPORT_TESTS();

// ---- links --------------------------------------------------------------------------------------

TEST_P(TransportTest, LinksComeUpOnce) {
  run_ranks(run(), [](TestRank& rank) {
    const auto hello = message_of(0, 8);
    for (const Rank r : rank.others()) EXPECT_EQ(rank.transport().send(r, hello), Post::kBusy);
    rank.connect_all();
    rank.barrier("all connected");
    rank.poll_for(0.05);
    for (const Rank r : rank.others()) {
      EXPECT_EQ(rank.from(r).connected, 1);
      EXPECT_EQ(rank.from(r).lost, 0) << rank.from(r).why;
      EXPECT_FALSE(rank.transport().describe(r, false).empty());
      EXPECT_FALSE(rank.transport().describe(r, true).empty());
    }
    EXPECT_GE(rank.transport().capabilities().outstanding_puts, 16);
  });
}

// ---- messages -----------------------------------------------------------------------------------

TEST_P(TransportTest, MessagesArriveInOrderAndWhole) {
  run_ranks(run(), [](TestRank& rank) {
    constexpr int kMessages = 300;
    rank.connect_all();
    for (int i = 0; i < kMessages; ++i) {
      for (const Rank r : rank.others()) send_numbered(rank, r, i);
    }
    for (const Rank r : rank.others()) {
      rank.until("messages", [&] { return rank.from(r).messages.size() >= kMessages; });
    }
    rank.barrier("all here");
    for (const Rank r : rank.others()) expect_numbered(rank, r, kMessages);
  });
}

TEST_P(TransportTest, AnswersFromWithinHandlers) {
  run_ranks(run(), [](TestRank& rank) {
    constexpr int kRounds = 50;  // the first byte counts down; each answer is sent by the handler
    rank.when_message = [&](Rank from, std::span<const std::byte> message) {
      const int left = std::to_integer<int>(message[0]);
      const std::byte answer{static_cast<unsigned char>(left - 1)};
      if (left > 0) {
        EXPECT_EQ(rank.transport().send(from, {&answer, 1}), Post::kAccepted);
      }
    };
    rank.connect_all();
    rank.barrier("connected");
    for (const Rank r : rank.others()) {
      if (rank.rank() < r) rank.send(r, {std::byte{kRounds}});
    }
    for (const Rank r : rank.others()) {
      const size_t due = rank.rank() < r ? kRounds / 2 : kRounds / 2 + 1;
      rank.until("answers", [&] { return rank.from(r).messages.size() >= due; });
    }
  });
}

// ---- puts ---------------------------------------------------------------------------------------

TEST_P(TransportTest, PutsOfEverySizeArriveWhole) {
  run_ranks(run(), [](TestRank& rank) {
    rank.connect_all();
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{7}, size_t{1023}, size_t{1024}, size_t{1025}, size_t{1499},
          size_t{1500}, size_t{1501}, size_t{2047}, size_t{2049}, 4 * kKiB - 1, 4 * kKiB,
          4 * kKiB + 1, 64 * kKiB - 1, 64 * kKiB, 64 * kKiB + 1, kMiB + 3, 10 * kMiB}) {
      put_to_next(rank, bytes);
    }
  });
}

TEST_P(TransportTest, NotificationsAloneNeedNoMemory) {
  run_ranks(run(), [](TestRank& rank) {
    constexpr uint32_t kCount = 100;
    rank.connect_all();
    for (uint32_t i = 0; i < kCount; ++i) {
      Put put;
      put.notify = i;
      put.flush = i + 1 == kCount;
      for (const Rank r : rank.others()) rank.put(r, put);
    }
    for (const Rank r : rank.others()) {
      rank.until("notifications", [&] {
        return rank.from(r).arrived.size() >= kCount && rank.from(r).completed >= kCount;
      });
      std::vector<bool> seen(kCount, false);
      for (const auto& [notify, bytes] : rank.from(r).arrived) {
        ASSERT_LT(notify, kCount);
        EXPECT_FALSE(seen[notify]) << "put " << notify << " arrived twice";
        seen[notify] = true;
        EXPECT_EQ(bytes, 0U);
      }
    }
    rank.barrier("all here");
  });
}

// Slots that are written again and again: each put carries its number in its pattern, and its bytes
// are looked at within on_put_arrived. A message with the number gives the slot back.
class SlotStream {
 public:
  static constexpr uint32_t kPuts = 200, kSlots = 16, kFlushEvery = 8;
  static constexpr size_t kSlotBytes = 12 * kKiB;

  explicit SlotStream(TestRank& rank)
      : rank_(rank),
        target_(rank.region("target", kSlots * kSlotBytes)),
        source_(rank.region("source", kSlots * kSlotBytes)) {
    rank.when_put_arrived = [this](Rank from, uint32_t i, uint64_t bytes) {
      check(from, i, bytes);
    };
    rank.when_message = [this](Rank, std::span<const std::byte> message) {
      uint32_t number = 0;
      std::memcpy(&number, message.data(), sizeof(number));
      free_[number] = true;
    };
  }

  void stream() {
    const RemoteRegion there = rank_.remote(rank_.next(), "target");
    const PeerEvents& next = rank_.from(rank_.next());
    rank_.barrier("ready");
    for (uint32_t i = 0; i < kPuts; ++i) {
      rank_.until("a slot", [&] {
        give_back();
        return i < kSlots || (next.completed > i - kSlots && free_[i - kSlots]);
      });
      const size_t slot = (i % kSlots) * kSlotBytes, bytes = bytes_of(rank_.rank(), i);
      fill_pattern(source_.data() + slot, bytes, seed_of(rank_.rank(), rank_.next(), i));
      Put put = put_of(source_, slot, there, slot, bytes, i);
      put.flush = (i + 1) % kFlushEvery == 0 || i + 1 == kPuts;
      rank_.put(rank_.next(), put);
    }
    rank_.until("the last puts", [&] {
      give_back();
      return next.completed >= kPuts && next.messages.size() >= kPuts &&
             rank_.from(rank_.previous()).arrived.size() >= kPuts;
    });
    rank_.barrier("streamed");
    rank_.poll_for(0.02);
    EXPECT_EQ(bad_, 0U);
    EXPECT_EQ(next.completed, kPuts);
    EXPECT_EQ(rank_.from(rank_.previous()).arrived.size(), kPuts);
  }

 private:
  static size_t bytes_of(Rank from, uint32_t number) {
    return 1 + Rng(2, RngPurpose::kTest, from, number).below(kSlotBytes);
  }
  void check(Rank from, uint32_t number, uint64_t bytes) {
    const std::byte* slot = target_.data() + (number % kSlots) * kSlotBytes;
    if (bytes != bytes_of(from, number)) ++bad_;
    if (!is_pattern(slot, bytes, seed_of(from, rank_.rank(), number))) ++bad_;
    due_.push_back(number);
  }
  void give_back() {
    while (!due_.empty()) {
      const auto number = std::as_bytes(std::span(&due_.front(), 1));
      if (rank_.transport().send(rank_.previous(), number) != Post::kAccepted) return;
      due_.erase(due_.begin());
    }
  }

  TestRank& rank_;
  TestRegion& target_;
  TestRegion& source_;
  std::vector<uint32_t> due_;  // slots to be given back
  std::vector<bool> free_ = std::vector<bool>(kPuts, false);
  uint32_t bad_ = 0;
};

TEST_P(TransportTest, BytesAreVisibleWhenThePutIsAnnounced) {
  run_ranks(run(), [](TestRank& rank) {
    SlotStream slots(rank);
    rank.connect_all();
    slots.stream();
    rank.when_put_arrived = nullptr;
    rank.when_message = nullptr;
  });
}

TEST_P(TransportTest, BothDirectionsOfEveryLinkAtOnce) {
  run_ranks(run(), [](TestRank& rank) {
    constexpr int kPuts = 12;
    constexpr size_t kSlot = 40 * kKiB + 24;
    TestRegion& target = rank.region("target", rank.size() * kPuts * kSlot);
    TestRegion& source = rank.region("source", rank.size() * kPuts * kSlot);
    const auto offset = [&](Rank r, int i) { return (static_cast<size_t>(r) * kPuts + i) * kSlot; };
    rank.connect_all();
    std::vector<RemoteRegion> there(rank.size());
    for (const Rank r : rank.others()) there[r] = rank.remote(r, "target");
    for (int i = 0; i < kPuts; ++i) {
      for (const Rank r : rank.others()) {
        fill_pattern(source.data() + offset(r, i), kSlot, seed_of(rank.rank(), r, i));
        rank.put(r, put_of(source, offset(r, i), there[r], offset(rank.rank(), i), kSlot, i));
        send_numbered(rank, r, i);
      }
    }
    for (const Rank r : rank.others()) {
      PeerEvents& p = rank.from(r);
      rank.until("everything", [&] {
        return p.arrived.size() >= kPuts && p.messages.size() >= kPuts && p.completed >= kPuts;
      });
      expect_numbered(rank, r, kPuts);
      for (int i = 0; i < kPuts; ++i) {
        EXPECT_TRUE(is_pattern(target.data() + offset(r, i), kSlot, seed_of(r, rank.rank(), i)));
      }
    }
    rank.barrier("all here");
    for (const Rank r : rank.others()) {
      EXPECT_EQ(rank.from(r).completed, kPuts);
      EXPECT_EQ(rank.from(r).arrived.size(), kPuts);
    }
    const TransportCounters counters = rank.transport().counters();
    EXPECT_EQ(counters.puts, kPuts * (rank.size() - 1));
    EXPECT_EQ(counters.put_bytes, kPuts * kSlot * (rank.size() - 1));
    EXPECT_EQ(counters.puts_arrived, kPuts * (rank.size() - 1));
    EXPECT_EQ(counters.messages_received, kPuts * (rank.size() - 1));
  });
}

TEST_P(TransportTest, PutsOutsideOfARegionThrow) {
  run_ranks(run(), [](TestRank& rank) {
    TestRegion& target = rank.region("target", 4 * kKiB);
    TestRegion& source = rank.region("source", 8 * kKiB);
    rank.connect_all();
    const RemoteRegion there = rank.remote(rank.next(), "target");
    std::memset(target.data(), 0xA5, target.bytes());
    rank.barrier("ready");
    const auto expect_refused = [&](size_t from, size_t to, size_t bytes) {
      const Put put = put_of(source, from, there, to, bytes, 0);
      EXPECT_THROW(rank.transport().put(rank.next(), put), Error);
    };
    expect_refused(0, 0, 4 * kKiB + 1);
    expect_refused(0, 1, 4 * kKiB);
    expect_refused(8 * kKiB, 0, 1);
    expect_refused(8 * kKiB - 1, 0, 2);
    expect_refused(0, ~size_t{0} - 3, 8);
    expect_refused(~size_t{0} - 3, 0, 8);
    expect_refused(0, 0, ~size_t{0});
    rank.barrier("refused");
    rank.poll_for(0.02);
    EXPECT_TRUE(all_equal(target.data(), target.bytes(), std::byte{0xA5}));
    EXPECT_TRUE(rank.from(rank.previous()).arrived.empty());
    EXPECT_EQ(rank.from(rank.previous()).lost, 0);
  });
}

}  // namespace
}  // namespace kinet
