// ctest: labels=unit,core,threads timeout=120
//
// Communicator::sleep_until: time passes, events are served meanwhile, a rank that was declared
// lost does not sleep on. Over every transport that needs no device.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "src/base/check.h"
#include "tests/communicator_ranks.h"

namespace kinet {
namespace {

constexpr uint8_t kKind = kTestKind;

class SleepUntil : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  CommRun run(int size) const {
    CommRun out;
    out.transport = std::get<0>(GetParam());
    out.size = size;
    out.progress_thread = std::get<1>(GetParam());
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(
    , SleepUntil, testing::Combine(testing::Values("inproc", "shm", "tcp", "sim"), testing::Bool()),
    [](const auto& info) {
      return std::get<0>(info.param) + (std::get<1>(info.param) ? "_thread" : "_polled");
    });

// Message after message arrives and is answered while its receiver does nothing but sleep.
TEST_P(SleepUntil, EventsAreServedMeanwhile) {
  run_communicators(run(2), [](Communicator& comm) {
    std::atomic<int> got{0};
    std::atomic<bool> over{false};
    comm.on_message(kKind, [&](Rank from, std::span<const std::byte>) {
      if (comm.rank() == 1) comm.send(from, kKind, {});  // an answer
      ++got;
    });
    comm.on_message(kKind + 1, [&](Rank, std::span<const std::byte>) { over = true; });
    if (comm.rank() == 0) {
      for (int i = 1; i <= 20; ++i) {
        comm.send(1, kKind, {});
        poll_until(comm, "an answer", [&] { return got >= i; });
      }
      comm.send(1, kKind + 1, {});
    } else {
      while (!over) {
        const double until = comm.now() + 0.02;
        comm.sleep_until(until);
        EXPECT_GE(comm.now(), until);
      }
      EXPECT_EQ(got, 20);
    }
    comm.on_message(kKind, nullptr);
    comm.on_message(kKind + 1, nullptr);
  });
}

TEST_P(SleepUntil, TimeThatIsOverTakesNone) {
  run_communicators(run(2), [](Communicator& comm) {
    const double begin = comm.now();
    comm.sleep_until(begin - 1);
    comm.sleep_until(begin);
    comm.sleep_until(-std::numeric_limits<double>::infinity());
    EXPECT_LT(comm.now(), begin + 5);
  });
}

// Virtual time comes to the very moment, to that of every rank in turn.
TEST(SleepUntilVirtual, EndsAtTheVeryMoment) {
  CommRun run;
  run.transport = "sim";
  run.size = 3;
  run_communicators(run, [](Communicator& comm) {
    const double begin = comm.now();
    for (int i = 1; i <= 50; ++i) {
      const double until = begin + i * 0.1 * (comm.rank() + 1);
      comm.sleep_until(until);
      EXPECT_EQ(comm.now(), until);
    }
  });
}

// Whom the others have given up sleeps no longer.
TEST(SleepUntilLost, ARankDeclaredLostHearsOfIt) {
  CommRun run;
  run.comm = "heartbeat_interval: 0.1 heartbeat_timeout: 1";
  CommWorld world(run);
  std::atomic<bool> found{false};
  std::atomic<int> heard{0};
  run_threads(2, [&](Rank rank) {
    const auto comm = world.connect(rank);
    comm->on_message(kKind, [&](Rank, std::span<const std::byte>) { ++heard; });
    comm->send(1 - rank, kKind, {});
    poll_until(*comm, "the other", [&] { return heard == 2; });
    if (rank == 0) {
      poll_until(*comm, "the silence", [&] { return comm->state(1) == PeerState::kLost; });
      found = true;
      return comm->leave();
    }
    while (!found) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::string text = "no error";
    try {
      comm->sleep_until(comm->now() + 60);
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_NE(text.find("declared lost"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace kinet
