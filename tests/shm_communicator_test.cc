// Transport shm under a communicator with a progress thread.
// ctest: labels=unit,core,threads timeout=60
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/communicator_ranks.h"

namespace kinet {
namespace {

// The progress thread of rank 1 has armed and sleeps; then another thread of it polls and goes
// away. What comes now has to wake the sleeper, so the sender has to ring the bell: one system
// call.
TEST(ShmCommunicator, APollOfAnotherThreadLeavesTheSleeperArmed) {
  constexpr int kRounds = 20;
  constexpr uint8_t kKind = 100;
  std::atomic<int> turn{0}, arrived{0};
  const auto wait_for = [](const std::atomic<int>& value, int due) {
    for (int i = 0; value < due && i < 10000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  int rung = 0;
  run_communicators({"shm", 2, true, false, ""}, [&](Communicator& comm) {
    comm.on_message(kKind, [&](Rank, std::span<const std::byte>) { ++arrived; });
    for (int round = 0; round < kRounds; ++round) {
      if (comm.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(15));  // its thread sleeps by now
        comm.progress();
        turn = 2 * round + 1;
        wait_for(turn, 2 * round + 2);
      } else {
        wait_for(turn, 2 * round + 1);
        const uint64_t before = comm.counters().system_calls;
        comm.send(1, kKind, {});
        rung += comm.counters().system_calls > before ? 1 : 0;
        wait_for(arrived, round + 1);
        turn = 2 * round + 2;
      }
    }
  });
  EXPECT_EQ(arrived, kRounds);
  EXPECT_GE(rung, kRounds / 2) << "on a busy machine the thread may not have slept every time";
}

}  // namespace
}  // namespace kinet
