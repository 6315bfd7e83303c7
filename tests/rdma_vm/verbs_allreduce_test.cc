// What an all-reduce over verbs costs, counted against paper: puts, work requests, bytes,
// registrations, copies, allocations (operator new is counted here). Two ranks, threads of this
// process, one device each.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include "comm/collectives.h"
#include "tests/communicator_ranks.h"

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

constexpr uint64_t kFloats = 256 << 10;  // 1 MiB
constexpr double kSeconds = 100;         // the machine is emulated

struct Cost {
  uint64_t puts = 0, bytes = 0, work_requests = 0, registrations = 0, copied = 0, allocated = 0;
};

// Polls without waiting, as wait() makes texts for its errors.
void run_to_end(Communicator& comm, const Collectives& sums, Ticket ticket) {
  const double until = comm.now() + kSeconds;
  while (!sums.done(ticket) && comm.now() < until) {
    if (comm.progress() == 0) std::this_thread::yield();
  }
  ASSERT_TRUE(sums.done(ticket));
}

// Of rank 0, for all-reduces of `count` floats in the steady state; the sums are checked.
Cost cost_of_all_reduce(uint64_t count) {
  Cost cost;
  const CommRun run{"verbs", 2, false, false, "setup_timeout: 100 verbs { devices: 'rxe0,rxe1' }"};
  run_communicators(run, [&](Communicator& comm) {
    const auto region = comm.allocate(kFloats * sizeof(float), "data");
    const std::span<float> data = region->as<float>();
    CollectiveOptions options;
    options.timeout = kSeconds;
    Collectives sums(comm, *region, options);
    for (int round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < count; ++i) data[i] = static_cast<float>(i % 97 + comm.rank());
      run_to_end(comm, sums, sums.barrier());
      const TransportCounters before = comm.counters();
      const uint64_t allocated = allocations;
      run_to_end(comm, sums, sums.all_reduce(0, count));
      const uint64_t allocated_now = allocations;
      const TransportCounters after = comm.counters();
      for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(data[i], static_cast<float>(2 * (i % 97) + 1));
      if (round == 2 && comm.rank() == 0) {
        cost = {after.puts - before.puts,
                after.put_bytes - before.put_bytes,
                after.work_requests - before.work_requests,
                after.registrations - before.registrations,
                after.copied_bytes - before.copied_bytes,
                allocated_now - allocated};
      }
      run_to_end(comm, sums, sums.barrier());
    }
  });
  return cost;
}

// 1 MiB in pieces of 128 KiB: 4 segments of a piece for each rank. In each, rank 0 puts its share
// of rank 1's piece to rank 1, and the sum of its own piece.
TEST(VerbsAllReduce, OfOneMebibyte) {
  const Cost cost = cost_of_all_reduce(kFloats);
  EXPECT_EQ(cost.puts, 8U);
  EXPECT_EQ(cost.bytes, uint64_t{1} << 20);
  EXPECT_EQ(cost.registrations, 0U);
  EXPECT_EQ(cost.copied, 0U);
  EXPECT_EQ(cost.allocated, 0U);
  // One a put, and now and then one that gives credits back.
  EXPECT_GE(cost.work_requests, cost.puts);
  EXPECT_LE(cost.work_requests, cost.puts + 2);
}

// Small ones go to everybody at once: one put.
TEST(VerbsAllReduce, OfAFewNumbers) {
  const Cost cost = cost_of_all_reduce(1000);
  EXPECT_EQ(cost.puts, 1U);
  EXPECT_EQ(cost.bytes, 4000U);
  EXPECT_EQ(cost.registrations, 0U);
  EXPECT_EQ(cost.allocated, 0U);
  EXPECT_LE(cost.work_requests, 3U);
}

}  // namespace
}  // namespace kinet
