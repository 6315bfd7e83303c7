// What a put, a message and a stream cost, counted: work requests, completions, system calls,
// registrations, copies, and allocations (operator new is counted here).
#include <cstdlib>
#include <new>

#include "tests/rdma_vm/verbs_pair.h"

namespace {
std::atomic<uint64_t> allocations{0};
}

void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace kinet {
namespace {

constexpr size_t kSlot = 4096;

// Everything was touched once: the rest of the test is steady state.
struct Steady {
  explicit Steady(const std::string& knobs = "") : pair(knobs) {
    source = std::make_unique<TestMemory>(*pair.ranks[0], 64 * kSlot);
    target = std::make_unique<TestMemory>(*pair.ranks[1], 64 * kSlot);
    source->fill(7);
    pair.connect();
    stream(64);
    before = counters();
    start = test_now();
  }
  void stream(uint64_t puts, size_t bytes = kSlot) {
    const uint64_t arrived = pair.logs[1].arrived, completed = pair.logs[0].completed;
    const std::function<bool()> done = [&] {
      return pair.logs[1].arrived == arrived + puts && pair.logs[0].completed == completed + puts;
    };
    const std::string what = "the stream";
    const uint64_t at_start = allocations;
    for (uint64_t i = 0; i < puts; ++i) {
      const Put put = make_put(*source, i % 64 * kSlot, *target, i % 64 * kSlot, bytes,
                               static_cast<uint32_t>(i), i + 1 == puts);
      while (pair.ranks[0]->put(1, put) != Post::kAccepted) {
        if (pair.poll() == 0) nap();
      }
    }
    allocated = allocations - at_start;
    pair.until(what, done);
  }
  std::array<TransportCounters, 2> counters() const {
    return {pair.ranks[0]->counters(), pair.ranks[1]->counters()};
  }

  VerbsPair pair;
  std::unique_ptr<TestMemory> source, target;
  std::array<TransportCounters, 2> before;
  uint64_t allocated = 0;
  double start = 0;
};

TEST(VerbsCounts, AStreamOfPuts) {
  Steady steady;
  constexpr uint64_t kPuts = 512;
  steady.stream(kPuts);
  // Receives go back in batches; the last of them when there is nothing else to do.
  for (int i = 0; i < 20; ++i) steady.pair.poll();
  const auto [sender, receiver] = steady.counters();
  const auto& [sender_before, receiver_before] = steady.before;
  // One request a put, all of it zero copy.
  EXPECT_EQ(sender.puts - sender_before.puts, kPuts);
  EXPECT_EQ(sender.work_requests - sender_before.work_requests, kPuts);
  EXPECT_EQ(sender.copied_bytes, sender_before.copied_bytes);
  EXPECT_EQ(sender.put_bytes - sender_before.put_bytes, kPuts * kSlot);
  // One in 16 asks for a completion, at most.
  EXPECT_LE(sender.signalled - sender_before.signalled, kPuts / 16);
  // The receiver: one completion a put, its receive posted again, and some credits on their way.
  EXPECT_EQ(receiver.puts_arrived - receiver_before.puts_arrived, kPuts);
  EXPECT_GE(receiver.receives_posted - receiver_before.receives_posted, kPuts);
  const uint64_t returns = receiver.work_requests - receiver_before.work_requests;
  EXPECT_LE(returns, kPuts / 32);
  EXPECT_LE(receiver.completions - receiver_before.completions, kPuts + returns + 1);
  // Nothing is set up any more.
  EXPECT_EQ(steady.allocated, 0U);
  EXPECT_EQ(sender.registrations, sender_before.registrations);
  EXPECT_EQ(receiver.registrations, receiver_before.registrations);
  // Nobody slept: only the device's events are looked at, every 20 ms.
  const double looks = 2 + (test_now() - steady.start) / 0.02;
  EXPECT_LE(static_cast<double>(sender.system_calls - sender_before.system_calls), looks);
  EXPECT_EQ(sender.flushed, 0U);
  EXPECT_EQ(sender.retransmissions, 0U);
}

TEST(VerbsCounts, AShortStreamStaysBelowOneInSixteenToo) {
  Steady steady;
  steady.stream(64);
  const TransportCounters now = steady.pair.ranks[0]->counters();
  EXPECT_LE(now.signalled - steady.before[0].signalled, 64 / 16);
}

TEST(VerbsCounts, AMessage) {
  Steady steady;
  std::array<std::byte, 48> small{};
  std::array<std::byte, kMaxMessage> large{};
  const uint64_t at_start = allocations;
  ASSERT_EQ(steady.pair.ranks[0]->send(1, small), Post::kAccepted);
  ASSERT_EQ(steady.pair.ranks[0]->send(1, large), Post::kAccepted);
  EXPECT_EQ(allocations, at_start);
  const uint64_t before = steady.pair.logs[1].messages;
  steady.pair.until("the messages", [&] { return steady.pair.logs[1].messages >= before + 2; });
  const TransportCounters now = steady.pair.ranks[0]->counters();
  EXPECT_EQ(now.work_requests - steady.before[0].work_requests, 2U);
  EXPECT_EQ(now.messages_sent, 2U);
}

TEST(VerbsCounts, SmallPutsTravelInTheRequest) {
  Steady steady;
  const size_t limit = steady.pair.ranks[0]->capabilities().inline_bytes;
  ASSERT_GE(limit, 128U);
  steady.stream(1, limit);
  const uint64_t copied = steady.pair.ranks[0]->counters().copied_bytes;
  EXPECT_EQ(copied - steady.before[0].copied_bytes, limit);
  steady.stream(1, limit + 1);
  EXPECT_EQ(steady.pair.ranks[0]->counters().copied_bytes, copied);
  EXPECT_EQ(0, std::memcmp(steady.source->data(), steady.target->data(), limit + 1));
}

TEST(VerbsCounts, ASleeperAsksForOneWakeUp) {
  Steady steady;
  Transport& receiver = *steady.pair.ranks[1];
  receiver.arm();
  receiver.poll(steady.pair.logs[1]);
  steady.stream(8);
  // Awake again, polling makes no system call but a look at the device's events now and then.
  const TransportCounters awake = receiver.counters();
  for (int i = 0; i < 100; ++i) receiver.poll(steady.pair.logs[1]);
  EXPECT_LE(receiver.counters().system_calls - awake.system_calls, 1U);
  EXPECT_GE(receiver.event_fd(), 0);
}

}  // namespace
}  // namespace kinet
