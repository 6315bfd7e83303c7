// The verbs transport over real (Soft-RoCE) devices: sizes, pieces, queue pairs, the switches, what
// goes wrong between two ranks, and faults of the network between them.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/rdma_vm/verbs_pair.h"

namespace kinet {
namespace {

using testing::HasSubstr;

// `count` puts of that size from 0 to 1, each in its own place; contents compared.
void puts_arrive(VerbsPair& pair, size_t bytes, uint32_t count) {
  TestMemory source(*pair.ranks[0], bytes * count + 1), target(*pair.ranks[1], bytes * count + 1);
  source.fill(static_cast<uint32_t>(bytes));
  const uint64_t arrived = pair.logs[1].arrived, total = pair.logs[1].arrived_bytes;
  const uint64_t completed = pair.logs[0].completed;
  for (uint32_t i = 0; i < count; ++i) {
    pair.put(0, make_put(source, i * bytes, target, i * bytes, bytes, i, i + 1 == count));
  }
  pair.until("the puts", [&] {
    return pair.logs[1].arrived >= arrived + count && pair.logs[0].completed >= completed + count;
  });
  EXPECT_EQ(pair.logs[1].arrived, arrived + count);
  EXPECT_EQ(pair.logs[0].completed, completed + count);
  EXPECT_EQ(pair.logs[1].arrived_bytes - total, bytes * count);
  EXPECT_EQ(0, std::memcmp(source.data(), target.data(), bytes * count)) << bytes;
  EXPECT_EQ(std::byte{0}, target.data()[bytes * count]) << "a byte too many";
}

void messages_arrive(VerbsPair& pair, uint32_t count, size_t bytes) {
  std::array<uint64_t, 2> wrong{};
  for (const Rank to : {0, 1}) {
    pair.logs[to].when_message = [&, to, next = 0U](std::span<const std::byte> m) mutable {
      uint32_t number = 0;
      std::memcpy(&number, m.data(), sizeof(number));
      wrong[to] += number != next++ || m.size() != bytes || m.back() != std::byte{0x5A};
    };
  }
  const std::array<uint64_t, 2> before{pair.logs[0].messages, pair.logs[1].messages};
  std::vector<std::byte> message(bytes, std::byte{0x5A});
  for (uint32_t i = 0; i < count; ++i) {
    std::memcpy(message.data(), &i, sizeof(i));
    pair.send(0, message);
    pair.send(1, message);
  }
  pair.until("the messages", [&] {
    return pair.logs[0].messages >= before[0] + count && pair.logs[1].messages >= before[1] + count;
  });
  EXPECT_EQ(wrong[0] + wrong[1], 0U);
  for (const Rank to : {0, 1}) pair.logs[to].when_message = nullptr;
}

// ---- sizes, pieces, queue pairs, switches -------------------------------------------------------

TEST(VerbsDevice, SizesAroundTheMtuAndTheInlineLimit) {
  VerbsPair pair;
  pair.connect();
  EXPECT_THAT(pair.ranks[0]->describe(1, false), HasSubstr("MTU 4096"));
  const size_t limit = pair.ranks[0]->capabilities().inline_bytes;
  for (const size_t bytes : {limit - 1, limit, limit + 1, 4095UL, 4096UL, 4097UL, 40960UL}) {
    puts_arrive(pair, bytes, 3);
  }
}

TEST(VerbsDevice, APutLargerThanARequestAndThanTheWindow) {
  VerbsPair pair("max_piece: 4096 send_depth: 32");
  pair.connect();
  const uint64_t before = pair.ranks[0]->counters().work_requests;
  puts_arrive(pair, 1 << 20, 1);
  EXPECT_EQ(pair.ranks[0]->counters().work_requests - before, 256U + 1U);
  puts_arrive(pair, 3 * 4096 + 1, 5);
}

TEST(VerbsDevice, WholePutsTakeTurnsOnSeveralQueuePairs) {
  VerbsPair pair("queue_pairs: 4 max_piece: 8192");
  pair.connect();
  EXPECT_THAT(pair.ranks[0]->describe(1, false), HasSubstr("4 queue pairs"));
  puts_arrive(pair, 5000, 200);
  puts_arrive(pair, 20000, 20);
  messages_arrive(pair, 500, 100);
}

TEST(VerbsDevice, EverySwitchHasItsFallBack) {
  for (const char* knobs : {"use_srq: false", "use_srq: false queue_pairs: 3", "inline: 0",
                            "events: false", "relaxed_ordering: true", "signal_every: 1",
                            "send_depth: 16 receive_depth: 32", "mtu: 256", "gid_index: 0"}) {
    SCOPED_TRACE(knobs);
    VerbsPair pair(knobs);
    pair.connect();
    messages_arrive(pair, 400, 64);
    messages_arrive(pair, 200, 1000);
    puts_arrive(pair, 3000, 100);
    EXPECT_EQ(pair.logs[0].lost + pair.logs[1].lost, 0) << pair.logs[0].why << pair.logs[1].why;
  }
}

TEST(VerbsDevice, DescribeNamesBothEndsAndEveryKnob) {
  VerbsPair pair("timeout: 13 traffic_class: 104");
  pair.connect();
  const std::string text = pair.ranks[0]->describe(1, true);
  for (const char* part : {"rxe0 port 1", "10.77.0.1", "RoCE v2", "10.77.0.2", "timeout 13",
                           "traffic_class 104", "inline ", "piece ", "use_srq true"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(VerbsDevice, NumberedWritesOfRandomSizesWithCheckSums) {
  for (const char* knobs : {"", "relaxed_ordering: true"}) {
    VerbsPair pair(knobs);
    constexpr uint32_t kWrites = 1500, kSlots = 32;
    constexpr size_t kSlot = 3 * 4096;
    TestMemory source(*pair.ranks[0], kSlots * kSlot), target(*pair.ranks[1], kSlots * kSlot);
    pair.connect();
    uint64_t wrong = 0, looked_at = 0;
    pair.logs[1].when_arrived = [&](uint32_t number, uint64_t bytes) {
      const std::byte* slot = target.data() + number % kSlots * kSlot;
      for (uint64_t i = 0; i < bytes; ++i) wrong += slot[i] != TestMemory::pattern(number, i);
      ++looked_at;
    };
    uint32_t dice = 99;
    for (uint32_t number = 0; number < kWrites; ++number) {
      dice = dice * 1664525 + 1013904223;
      const size_t bytes = 4096 - 600 + dice % 1200 + (dice >> 30) * 2000;
      // A slot is written again when its last put has been looked at and its source is free.
      pair.until("a slot", [&] {
        return looked_at + kSlots > number && pair.logs[0].completed + kSlots > number;
      });
      const size_t at = number % kSlots * kSlot;
      for (size_t i = 0; i < bytes; ++i) source.data()[at + i] = TestMemory::pattern(number, i);
      pair.put(0, make_put(source, at, target, at, bytes, number, number % 8 == 7));
    }
    pair.until("the last", [&] { return looked_at == kWrites; });
    EXPECT_EQ(wrong, 0U) << knobs;
  }
}

// ---- two ranks that do not agree ----------------------------------------------------------------

TEST(VerbsDevice, ARankThatConnectsLateIsWaitedFor) {
  VerbsPair pair("timeout: 12 retry_count: 2");  // gives up after 50 ms
  const std::string from_0 = pair.ranks[0]->offer(1), from_1 = pair.ranks[1]->offer(0);
  pair.ranks[0]->connect(1, 0, from_1);
  const double late = test_now() + 1.5;
  pair.until("some time", [&] { return test_now() > late; });
  EXPECT_EQ(pair.logs[0].connected + pair.logs[0].lost, 0) << pair.logs[0].why;
  EXPECT_GT(pair.ranks[0]->counters().retransmissions, 0U);
  pair.ranks[1]->connect(0, 0, from_0);
  pair.until("the link", [&] { return pair.logs[0].connected > 0 && pair.logs[1].connected > 0; });
  messages_arrive(pair, 100, 64);
  EXPECT_EQ(pair.logs[0].lost + pair.logs[1].lost, 0);
}

TEST(VerbsDevice, AnotherTokenIsNoPeer) {
  VerbsPair pair("", "another run", 5);
  pair.offer_and_connect();
  pair.until("the losses", [&] { return pair.logs[0].lost > 0 || pair.logs[1].lost > 0; });
  EXPECT_EQ(pair.logs[0].connected + pair.logs[1].connected, 0);
  EXPECT_THAT(pair.logs[0].why + pair.logs[1].why, HasSubstr("greeting"));
}

TEST(VerbsDevice, RubbishForAnOfferIsALoss) {
  VerbsPair pair;
  pair.ranks[0]->offer(1);
  pair.ranks[0]->connect(1, 0, "verbs 1 rubbish");
  pair.until("the loss", [&] { return pair.logs[0].lost > 0; });
  EXPECT_THAT(pair.logs[0].why, HasSubstr("offer"));
}

TEST(VerbsDevice, AnAccessThatIsRefusedNamesItsReason) {
  VerbsPair pair;
  TestMemory source(*pair.ranks[0], 64);
  pair.connect();
  Put put{&source.region(), 0, {4096, 0x1234567, 64}, 0, 64, 1, true};
  pair.put(0, put);
  pair.until("the loss", [&] { return pair.logs[0].lost > 0; });
  EXPECT_THAT(pair.logs[0].why, HasSubstr("refused the access"));
  EXPECT_EQ(pair.ranks[0]->put(1, put), Post::kPeerLost);
  EXPECT_EQ(pair.logs[0].lost, 1);
}

TEST(VerbsDevice, WrongKnobsAreSetUpErrors) {
  EXPECT_THROW(VerbsPair("devices: 'rxe9'"), Error);
  EXPECT_THROW(VerbsPair("send_depth: 16000 queue_pairs: 64"), Error);
  VerbsPair pair("gid_index: 77");
  EXPECT_THROW(pair.ranks[0]->offer(1), Error);
}

TEST(VerbsDevice, TheProbeSaysWhatIsThere) {
  const TransportType* type = TransportRegistry::instance().find("verbs");
  const TransportProbe probe = type->probe(Params(nullptr, type->fields));
  EXPECT_TRUE(probe.works);
  EXPECT_THAT(probe.summary, HasSubstr("RoCE v2"));
  std::string details;
  for (const std::string& line : probe.details) details += line + "\n";
  for (const char* part : {"rxe1 port 1: ACTIVE", "10.77.0.1", "locked memory", "uverbs0"}) {
    EXPECT_THAT(details, HasSubstr(part));
  }
}

// ---- the network between them -------------------------------------------------------------------

void shell(const std::string& command) {
  ASSERT_EQ(std::system((command + " 2>&1").c_str()), 0) << command;
}

TEST(VerbsNetwork, OnePercentOfLossChangesNothing) {
  VerbsPair pair("timeout: 12");
  pair.connect();
  shell("/usr/sbin/tc qdisc replace dev veth0 root netem loss 1%");
  puts_arrive(pair, 16384, 300);
  messages_arrive(pair, 500, 900);
  shell("/usr/sbin/tc qdisc del dev veth0 root");
  EXPECT_EQ(pair.logs[0].lost + pair.logs[1].lost, 0) << pair.logs[0].why << pair.logs[1].why;
}

TEST(VerbsNetwork, PortsOfUnequalMtuUseTheSmaller) {
  shell("/usr/sbin/ip link set veth1 mtu 1500");
  {
    VerbsPair pair;
    pair.connect();
    for (const Rank r : {0, 1}) {
      EXPECT_THAT(pair.ranks[r]->describe(1 - r, false), HasSubstr("MTU 1024"));
    }
    for (const size_t bytes : {1023, 1024, 1025, 10240, 100000}) puts_arrive(pair, bytes, 3);
    VerbsPair forced("mtu: 4096");
    EXPECT_THROW(forced.offer_and_connect(), Error);
  }
  shell("/usr/sbin/ip link set veth1 mtu 4500");
}

TEST(VerbsNetwork, ALinkThatGoesDownIsNamedAndComesBack) {
  {
    VerbsPair pair("timeout: 12");
    pair.connect();
    shell("/usr/sbin/ip link set veth0 down");
    std::array<std::byte, 64> message{};
    pair.ranks[0]->send(1, message);
    pair.until("the loss", [&] { return pair.logs[0].lost > 0; });
    EXPECT_THAT(pair.logs[0].why, HasSubstr("own port is DOWN"));
    EXPECT_EQ(pair.logs[0].lost, 1);
    shell("/usr/sbin/ip link set veth0 up");
  }
  // The port takes a moment, and so does its address.
  const double deadline = test_now() + kRdmaPatience;
  for (;;) {
    const TransportType* type = TransportRegistry::instance().find("verbs");
    const TransportProbe probe = type->probe(Params(nullptr, type->fields));
    std::string details;
    for (const std::string& line : probe.details) details += line + "\n";
    if (details.find("rxe0 port 1: ACTIVE") != std::string::npos &&
        details.find("10.77.0.1") != std::string::npos) {
      break;
    }
    ASSERT_LT(test_now(), deadline) << details;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  VerbsPair again;
  again.connect();
  puts_arrive(again, 5000, 10);
}

}  // namespace
}  // namespace kinet
