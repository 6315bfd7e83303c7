// ctest: labels=unit,core,threads timeout=240
//
// Collectives over {transports that work here} x ranks 2 to 8, against a sum by one loop: all
// operations, algorithms and sizes; several under way; equal bits everywhere; losses.
#include "comm/collectives.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "tests/communicator_ranks.h"
#include "tests/transport_ranks.h"

namespace kinet {
namespace {

constexpr double kTimeout = 60;  // seconds

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr uint64_t kMostFloats = kSanitized ? (1 << 18) + 5 : (10 << 20) / 4;

float value_of(uint64_t seed, Rank rank, uint64_t i) {
  const auto x = static_cast<uint32_t>((i * 2654435761U) ^ (seed * 97 + 31 * (rank + 1)) * 40503U);
  return static_cast<float>(static_cast<int32_t>(x * 2246822519U)) * 0x1p-31F;
}

void fill(std::span<float> data, uint64_t seed, Rank rank) {
  for (uint64_t i = 0; i < data.size(); ++i) data[i] = value_of(seed, rank, i);
}

// In rank order, as direct promises.
float sum_of(uint64_t seed, int ranks, uint64_t i) {
  float sum = value_of(seed, 0, i);
  for (Rank r = 1; r < ranks; ++r) sum += value_of(seed, r, i);
  return sum;
}

// Counts the floats that differ in more than the order of summation explains (in any bit: exact).
void expect_sums(std::span<const float> data, uint64_t first, uint64_t count, uint64_t seed,
                 int ranks, bool exact) {
  uint64_t wrong = 0, where = 0;
  for (uint64_t i = first; i < first + count; ++i) {
    const float want = sum_of(seed, ranks, i);
    const bool good = exact ? std::bit_cast<uint32_t>(data[i]) == std::bit_cast<uint32_t>(want)
                            : std::abs(data[i] - want) <= 1e-5F;
    if (!good && wrong++ == 0) where = i;
  }
  EXPECT_EQ(wrong, 0U) << "first at " << where << ", of " << count;
}

class CollectivesTest : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  CommRun run() const {
    CommRun out;
    out.transport = std::get<0>(GetParam());
    out.size = std::get<1>(GetParam());
    return out;
  }
  std::vector<uint64_t> counts() const {
    const auto n = static_cast<uint64_t>(run().size);
    return {0, 1, n - 1, n, n + 1, 777, 1023, 1024, 1025, 65537, kMostFloats};
  }
};

std::vector<int> sizes() {
  if (kSanitized) {
    fmt::print("under a sanitizer: 2, 3 and 5 ranks and at most {} floats\n", kMostFloats);
    return {2, 3, 5};
  }
  return {2, 3, 4, 5, 6, 7, 8};
}

INSTANTIATE_TEST_SUITE_P(, CollectivesTest,
                         testing::Combine(testing::ValuesIn(runnable_transports()),
                                          testing::ValuesIn(sizes())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::to_string(std::get<1>(info.param)) + "_ranks";
                         });

TEST_P(CollectivesTest, AllReduceOfEverySize) {
  run_communicators(run(), [&](Communicator& comm) {
    const auto region = comm.allocate(kMostFloats * sizeof(float), "test");
    const auto data = region->as<float>();
    for (const Algorithm algorithm :
         {Algorithm::kDirect, Algorithm::kRing, Algorithm::kHalvingDoubling}) {
      CollectiveOptions options;
      options.algorithm = algorithm;
      options.piece = 64 << 10;
      Collectives sums(comm, *region, options);
      const bool exact = algorithm == Algorithm::kDirect;
      for (uint64_t count : counts()) {
        if (!exact) count = std::min<uint64_t>(count, 300001);
        fill(data, count, comm.rank());
        sums.wait(sums.all_reduce(0, count), kTimeout, name_of(algorithm));
        expect_sums(data, 0, count, count, comm.size(), exact);
        if (count < data.size()) {
          EXPECT_EQ(data[count], value_of(count, comm.rank(), count));
        }
      }
    }
  });
}

TEST_P(CollectivesTest, OtherOperations) {
  run_communicators(run(), [&](Communicator& comm) {
    const auto region = comm.allocate((70000 + 3) * sizeof(float), "test");
    const auto data = region->as<float>();
    for (const Algorithm algorithm : {Algorithm::kDirect, Algorithm::kRing}) {
      CollectiveOptions options;
      options.algorithm = algorithm;
      options.piece = 8 << 10;
      Collectives ops(comm, *region, options);
      for (const uint64_t count : {0, 1, comm.size() - 1, comm.size() + 1, 1023, 1025, 70000}) {
        const Collectives::Share own = ops.share(count, comm.rank());
        fill(data, count, comm.rank());
        ops.wait(ops.reduce_scatter(3, count), kTimeout, "reduce_scatter");
        expect_sums(data, 3 + own.first, own.count, count, comm.size(),
                    algorithm == Algorithm::kDirect);
        fill(data, 1, -1);
        for (uint64_t i = own.first; i < own.first + own.count; ++i) {
          data[3 + i] = value_of(2, 0, i);
        }
        ops.wait(ops.all_gather(3, count), kTimeout, "all_gather");
        for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(data[3 + i], value_of(2, 0, i)) << i;

        const Rank root = static_cast<Rank>(count % comm.size());
        fill(data, count, comm.rank());
        ops.wait(ops.reduce(3, count, root), kTimeout, "reduce");
        if (comm.rank() == root) {
          expect_sums(data, 3, count, count, comm.size(), false);
        } else {
          for (uint64_t i = 0; i < count; ++i) {
            ASSERT_EQ(data[3 + i], value_of(count, comm.rank(), 3 + i)) << i;
          }
        }
        fill(data, count, comm.rank());
        ops.wait(ops.broadcast(5, count * sizeof(float), root), kTimeout, "broadcast");
        std::vector<float> want(data.size());
        fill(want, count, root);
        const auto bytes = std::as_bytes(std::span(want)).subspan(5, count * sizeof(float));
        EXPECT_EQ(std::memcmp(region->data() + 5, bytes.data(), bytes.size()), 0);
        ops.wait(ops.barrier(), kTimeout, "barrier");
      }
    }
  });
}

// Buckets, as training sends them: cut differently, the sums keep their bits.
TEST_P(CollectivesTest, ManyUnderWay) {
  run_communicators(run(), [&](Communicator& comm) {
    constexpr uint64_t kFloats = 300000;
    const auto region = comm.allocate(kFloats * sizeof(float), "test");
    const auto data = region->as<float>();
    CollectiveOptions options;
    options.piece = 16 << 10;
    Collectives sums(comm, *region, options);
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t bucket = 1000 + 37111 * round;
      fill(data, round, comm.rank());
      std::vector<Ticket> tickets;
      for (uint64_t first = 0; first < kFloats; first += bucket) {
        tickets.push_back(sums.all_reduce(first, std::min(bucket, kFloats - first)));
      }
      for (const Ticket t : tickets) sums.wait(t, kTimeout, "a bucket");
      expect_sums(data, 0, kFloats, round, comm.size(), true);
      EXPECT_TRUE(sums.done(tickets.back()));
    }
  });
}

TEST_P(CollectivesTest, ProgressThreadDoesTheWork) {
  CommRun with_thread = run();
  with_thread.progress_thread = true;
  if (with_thread.transport == "sim") GTEST_SKIP() << "virtual time has no progress thread";
  run_communicators(with_thread, [&](Communicator& comm) {
    const auto region = comm.allocate(100000 * sizeof(float), "test");
    const auto data = region->as<float>();
    Collectives sums(comm, *region, {});
    for (uint64_t round = 0; round < 10; ++round) {
      fill(data, round, comm.rank());
      const Ticket ticket = sums.all_reduce(0, data.size());
      const double deadline = comm.now() + kTimeout;
      if (round % 2 == 0) {
        while (!sums.done(ticket) && comm.now() < deadline) {
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
      }
      sums.wait(ticket, kTimeout);
      expect_sums(data, 0, data.size(), round, comm.size(), true);
    }
    sums.wait(sums.barrier(), kTimeout);
  });
}

TEST_P(CollectivesTest, ObjectsSideBySideAndOneAfterAnother) {
  run_communicators(run(), [&](Communicator& comm) {
    const auto a = comm.allocate(5000 * sizeof(float), "a");
    const auto b = comm.allocate(7000 * sizeof(float), "b");
    for (uint64_t round = 0; round < 3; ++round) {
      CollectiveOptions first, second;
      second.id = 5;
      second.algorithm = Algorithm::kRing;
      Collectives x(comm, *a, first), y(comm, *b, second);
      fill(a->as<float>(), 1, comm.rank());
      fill(b->as<float>(), 2, comm.rank());
      const Ticket s = x.all_reduce(0, 5000), t = y.all_reduce(0, 7000);
      y.wait(t, kTimeout);
      x.wait(s, kTimeout);
      expect_sums(a->as<float>(), 0, 5000, 1, comm.size(), true);
      expect_sums(b->as<float>(), 0, 7000, 2, comm.size(), false);
    }
  });
}

// The same bits in each run, and over every transport; also where nobody may read his peers' data.
TEST_P(CollectivesTest, BitsAreTheSameEverywhere) {
  constexpr uint64_t kFloats = 30011;
  static std::mutex mutex;
  static std::map<std::pair<int, Algorithm>, std::vector<float>> known;
  for (const bool read_peers : {true, false}) {
    run_communicators(run(), [&](Communicator& comm) {
      const auto region = comm.allocate(kFloats * sizeof(float), "test");
      for (const Algorithm algorithm :
           {Algorithm::kDirect, Algorithm::kRing, Algorithm::kHalvingDoubling}) {
        CollectiveOptions options;
        options.algorithm = algorithm;
        options.read_peers = read_peers;
        options.piece = 16 << 10;
        Collectives sums(comm, *region, options);
        fill(region->as<float>(), 9, comm.rank());
        sums.wait(sums.all_reduce(0, kFloats), kTimeout);
        const auto data = region->as<float>();
        const std::lock_guard lock(mutex);
        auto& want = known[{comm.size(), algorithm}];
        if (want.empty()) want.assign(data.begin(), data.end());
        EXPECT_EQ(std::memcmp(want.data(), data.data(), data.size_bytes()), 0)
            << name_of(algorithm);
      }
    });
  }
}

// ---- losses -------------------------------------------------------------------------------------

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kRuntime);
    return error.what();
  }
  return "no error";
}

// The last rank takes part in a few operations, then dies in the middle of one.
TEST_P(CollectivesTest, LossEndsAllOperationsByName) {
  constexpr uint64_t kFloats = 200000;
  const int size = run().size;
  const Rank dead = size - 1;
  CommWorld world(run());
  // Memory that outlives every rank: on inproc peers read it where it lies.
  std::vector<SharedMemory> memory;
  for (Rank r = 0; r < size; ++r) memory.emplace_back(kFloats * sizeof(float), "test");
  run_threads(size, [&](Rank rank) {
    const auto comm = world.connect(rank);
    const SharedMemory& own = memory[rank];
    const auto region = comm->adopt({own.data(), own.bytes(), own.fd()});
    CollectiveOptions options;
    options.piece = 8 << 10;
    Collectives sums(*comm, *region, options);
    int ready = 0;
    comm->on_message(kTestKind, [&](Rank, std::span<const std::byte>) { ++ready; });
    const Ticket good = sums.all_reduce(0, kFloats);
    sums.wait(good, kTimeout);
    if (rank == dead) {
      poll_until(*comm, "the others", [&] { return ready == size - 1; });
      sums.all_reduce(0, kFloats / 2);
      return;  // without a goodbye, in an operation
    }
    comm->send(dead, kTestKind, {});
    const Ticket first = sums.all_reduce(0, kFloats / 2);
    const Ticket second = sums.all_reduce(kFloats / 2, kFloats / 2);
    const std::string why = error_of([&] { sums.wait(second, kTimeout); });
    EXPECT_NE(why.find(fmt::format("rank {} (host test, process {}) is lost", dead, 100 + dead)),
              std::string::npos)
        << why;
    EXPECT_NE(why.find(fmt::format("in all_reduce {}", second)), std::string::npos) << why;
    // The dead rank began the first one: it may have ended.
    bool done = false;
    const std::string first_why = error_of([&] { done = sums.done(first); });
    EXPECT_TRUE(done || first_why.find("is lost") != std::string::npos) << first_why;
    const Ticket later = sums.barrier();
    EXPECT_NE(error_of([&] { sums.wait(later, kTimeout); }).find("barrier"), std::string::npos);
    EXPECT_TRUE(sums.done(good));  // what was done stays done
    comm->abort("a rank was lost", dead);
  });
}

TEST_P(CollectivesTest, LeavingEndsOperationsToo) {
  const int size = run().size;
  CommWorld world(run());
  run_threads(size, [&](Rank rank) {
    const auto comm = world.connect(rank);
    const auto region = comm->allocate(4096, "test");
    Collectives sums(*comm, *region, {});
    int ready = 0;
    comm->on_message(kTestKind, [&](Rank, std::span<const std::byte>) { ++ready; });
    if (rank == 0) {
      poll_until(*comm, "the others", [&] { return ready == size - 1; });
      return comm->leave();
    }
    comm->send(0, kTestKind, {});
    const std::string why = error_of([&] { sums.wait(sums.all_reduce(0, 1024), kTimeout, "x"); });
    EXPECT_NE(why.find("rank 0 (host test, process 100)"), std::string::npos) << why;
    comm->abort(why, 0);
  });
}

// ---- wrong use ----------------------------------------------------------------------------------

TEST(CollectivesErrorsTest, DifferentOptionsAreNamed) {
  run_threads(1, [](Rank) {});
  CommRun run;
  CommWorld world(run);
  run_threads(2, [&](Rank rank) {
    const auto comm = world.connect(rank);
    const auto region = comm->allocate(4096, "test");
    CollectiveOptions options;
    options.depth = 2 + rank;
    std::string why;
    try {
      const Collectives sums(*comm, *region, options);
    } catch (const Error& error) {
      why = error.what();
    }
    EXPECT_NE(why.find("depth is"), std::string::npos) << why;
    comm->wait_until([] { return true; }, 1, "");
    comm->leave();
  });
}

TEST(CollectivesErrorsTest, RangesRootsAndOptions) {
  CommRun run;
  run.size = 1;
  run_communicators(run, [](Communicator& comm) {
    const auto region = comm.allocate(4096, "test");
    Collectives sums(comm, *region, {});
    EXPECT_THROW(sums.all_reduce(1, 1024), Error);
    EXPECT_THROW(sums.broadcast(0, 16, 1), Error);
    sums.wait(sums.all_reduce(0, 1024), 1);
    sums.wait(sums.barrier(), 1);
    CollectiveOptions options;
    options.depth = 0;
    EXPECT_THROW(Collectives(comm, *region, options), Error);
    options.depth = 4;
    options.piece = 100;
    EXPECT_THROW(Collectives(comm, *region, options), Error);
    EXPECT_THROW(algorithm_of("fast"), Error);
    EXPECT_EQ(algorithm_of("ring"), Algorithm::kRing);
  });
}

TEST(CollectivesErrorsTest, TimeOutSaysWhatWasWaitedFor) {
  run_communicators({}, [](Communicator& comm) {
    const auto region = comm.allocate(4096, "test");
    Collectives sums(comm, *region, {});
    if (comm.rank() == 0) {
      const std::string why =
          error_of([&] { sums.wait(sums.all_reduce(0, 1024), 0.2, "the gradient of step 7"); });
      EXPECT_NE(why.find("all_reduce 2 (the gradient of step 7)"), std::string::npos) << why;
      EXPECT_NE(why.find("rank 1 (host test, process 101): alive"), std::string::npos) << why;
      sums.wait(2, kTimeout);
    } else {
      const double until = comm.now() + 0.5;
      comm.wait_until([&] { return comm.now() > until; }, kTimeout, "a while");
      sums.wait(sums.all_reduce(0, 1024), kTimeout);
    }
  });
}

}  // namespace
}  // namespace kinet
