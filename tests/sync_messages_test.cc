// What servers and workers tell each other: packing, cutting into parts, and refusing what is cut
// off, too long or out of order.
// ctest: labels=unit,core timeout=60
#include "src/sync/sync_messages.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/rng.h"
#include "tests/communicator_ranks.h"

namespace kinet {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t size) {
  Rng rng(3, RngPurpose::kTest, size);
  Bytes out(size);
  for (std::byte& b : out) b = static_cast<std::byte>(rng.below(256));
  return out;
}

Command full_command() {
  Command c;
  c.head.round = 7;
  c.head.step = 3;
  c.head.learning_rate = 0.25;
  c.head.applies = c.head.measure = 1;
  c.members = {{{2, 11, 0.5, 3, 1.5, Use::kOrdered, true}, 4.5, 1}, {{0, 9, 0.25}, 2.5, 0}};
  c.answers = {{{2, 1}, 1}};
  c.tests = {{0, 1}, {1, 4}};
  return c;
}

TEST(SyncMessages, ACommandComesBackWhole) {
  Command c = full_command();
  for (const bool gather : {false, true}) {
    c.head.gather = gather ? 1 : 0;
    c.state.offset = 4096;
    c.state.blocks = 3;
    const Command back = Command::unpack(c.pack());
    EXPECT_EQ(back.head.round, 7);
    EXPECT_EQ(back.head.learning_rate, 0.25);
    ASSERT_EQ(back.members.size(), 2u);
    EXPECT_EQ(back.members[0].plan.use, Use::kOrdered);
    EXPECT_EQ(back.members[0].plan.seq, 11);
    EXPECT_TRUE(back.members[0].plan.grouped);
    EXPECT_EQ(back.members[1].norm_squared, 2.5);
    ASSERT_EQ(back.answers.size(), 1u);
    EXPECT_EQ(back.answers[0].to.worker, 2);
    ASSERT_EQ(back.tests.size(), 2u);
    EXPECT_EQ(back.tests[1].life, 4u);
    EXPECT_EQ(back.state.blocks, gather ? 3u : 0u);
    EXPECT_EQ(back.pack(), c.pack());
  }
}

TEST(SyncMessages, ACommandThatIsCutOffOrTooLongIsRefused) {
  Command c = full_command();
  c.head.gather = 1;
  const Bytes whole = c.pack();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(Command::unpack(std::span(whole).first(size)), Error) << size;
  }
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_THROW(Command::unpack(longer), Error);
}

// Counts in a head that were damaged never make memory of that size.
TEST(SyncMessages, DamagedCountsAreRefused) {
  Bytes bytes = full_command().pack();
  CommandHead head;
  std::memcpy(&head, bytes.data(), sizeof(head));
  head.members = 4'000'000'000U;
  std::memcpy(bytes.data(), &head, sizeof(head));
  EXPECT_THROW(Command::unpack(bytes), Error);
}

TEST(SyncMessages, AMessageOfAnotherSizeIsRefused) {
  const GradientMessage m;
  EXPECT_EQ(read_message<GradientMessage>(bytes_of(m)).seq, 0);
  EXPECT_THROW(read_message<AnswerMessage>(bytes_of(m)), Error);
  EXPECT_THROW(read_message<GradientMessage>(bytes_of(m).first(8)), Error);
  EXPECT_THROW(read_message<WishMessage>({}), Error);
}

// Every plain message fits one message of a transport.
TEST(SyncMessages, FitOneMessage) {
  for (const size_t size : {sizeof(HelloMessage), sizeof(SlotsMessage), sizeof(GradientMessage),
                            sizeof(AnswerMessage), sizeof(TestTaskMessage), sizeof(NormsMessage)}) {
    EXPECT_LE(size, kMaxPayload);
  }
}

Bytes part(uint16_t index, uint16_t count, const Bytes& piece) {
  PartHead head;
  head.part = index;
  head.parts = count;
  const auto start = bytes_of(head);
  Bytes out(start.begin(), start.end());
  out.insert(out.end(), piece.begin(), piece.end());
  return out;
}

TEST(PartAssembler, PutsPartsTogether) {
  PartAssembler assembler;
  const Bytes a = random_bytes(5), b = random_bytes(3);
  EXPECT_FALSE(assembler.add(part(0, 2, a)));
  const auto whole = assembler.add(part(1, 2, b));
  ASSERT_TRUE(whole);
  Bytes both = a;
  both.insert(both.end(), b.begin(), b.end());
  EXPECT_EQ(*whole, both);
  EXPECT_EQ(*assembler.add(part(0, 1, {})), Bytes{});  // an empty one is whole
}

// Of a sender that was lost in the middle; its successor begins anew.
TEST(PartAssembler, AFirstPartBeginsAnew) {
  PartAssembler assembler;
  EXPECT_FALSE(assembler.add(part(0, 3, random_bytes(5))));
  EXPECT_FALSE(assembler.add(part(1, 3, random_bytes(5))));
  const auto whole = assembler.add(part(0, 1, random_bytes(7)));
  ASSERT_TRUE(whole);
  EXPECT_EQ(*whole, random_bytes(7));
}

TEST(PartAssembler, PartsOutOfOrderAreRefused) {
  PartAssembler assembler;
  EXPECT_THROW(assembler.add(random_bytes(3)), Error);  // shorter than a head
  EXPECT_THROW(assembler.add(part(1, 2, {})), Error);
  EXPECT_FALSE(assembler.add(part(0, 3, {})));
  EXPECT_THROW(assembler.add(part(2, 3, {})), Error);
}

TEST(SendParts, LongMessagesArriveWhole) {
  const std::vector<size_t> sizes{0, 1, kMaxPayload - sizeof(PartHead),
                                  kMaxPayload - sizeof(PartHead) + 1, 100'000};
  run_communicators(CommRun(), [&](Communicator& comm) {
    if (comm.rank() == 0) {
      for (const size_t size : sizes) send_parts(comm, 1, kTestKind, 0, random_bytes(size));
      bool done = false;
      comm.on_message(kTestKind, [&](Rank, std::span<const std::byte>) { done = true; });
      comm.wait_until([&] { return done; }, 60, "the other to be content");
      return;
    }
    PartAssembler assembler;
    std::vector<Bytes> came;
    comm.on_message(kTestKind, [&](Rank, std::span<const std::byte> payload) {
      if (auto whole = assembler.add(payload)) came.push_back(std::move(*whole));
    });
    comm.wait_until([&] { return came.size() == sizes.size(); }, 60, "all messages");
    for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(came[i], random_bytes(sizes[i]));
    comm.send(0, kTestKind, {});
  });
}

TEST(PutTag, WrapsAround) {
  EXPECT_EQ(put_tag(5), 5u);
  EXPECT_EQ(put_tag(int64_t{kMaxTag} + 6), 5u);
}

}  // namespace
}  // namespace kinet
