// ctest: labels=unit,core,threads timeout=60
//
// Numbers of every rank to every rank: any length, round after round, a rank that is gone.
#include "src/sync/number_exchange.h"

#include <gtest/gtest.h>

#include <atomic>

#include "src/base/check.h"
#include "tests/communicator_ranks.h"

namespace kinet {
namespace {

constexpr double kTimeout = 60;  // seconds

std::vector<double> numbers_of(Rank rank, int round) {
  const std::vector<int> lengths = {0, 1, 125, 126, 1000, 7};
  std::vector<double> out(static_cast<size_t>(lengths[(rank + round) % lengths.size()]));
  for (size_t i = 0; i < out.size(); ++i) out[i] = 1000.0 * rank + round + 1.0 / (1.0 + i);
  return out;
}

CommRun run_of(const std::string& transport, int size) {
  CommRun run;
  run.transport = transport;
  run.size = size;
  return run;
}

class Exchange : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, Exchange, testing::Values("inproc", "shm", "tcp", "sim"),
                         [](const auto& info) { return info.param; });

TEST_P(Exchange, EverybodyHasTheNumbersOfAllRoundAfterRound) {
  for (const int size : {1, 2, 4}) {
    run_communicators(run_of(GetParam(), size), [size](Communicator& comm) {
      NumberExchange exchange(comm, kTestKind);
      for (int round = 0; round < 30; ++round) {
        exchange.begin(numbers_of(comm.rank(), round));
        const auto all = exchange.finish(kTimeout, "numbers", nullptr);
        ASSERT_EQ(all.size(), static_cast<size_t>(size));
        for (Rank r = 0; r < size; ++r) EXPECT_EQ(all[r], numbers_of(r, round)) << round;
      }
      // Nobody goes while others may lack a message of an earlier rank.
      exchange.begin({});
      exchange.finish(kTimeout, "the end", nullptr);
    });
  }
}

TEST(NumberExchange, WhatHasComeCanBeLookedAtBefore) {
  run_communicators(run_of("inproc", 2), [](Communicator& comm) {
    NumberExchange exchange(comm, kTestKind);
    const auto is_seven = [](const NumberExchange::Numbers& n) { return n == std::vector{7.0}; };
    if (comm.rank() == 0) exchange.begin(std::vector{7.0});
    if (comm.rank() == 1) {
      while (!exchange.any(is_seven)) comm.sleep_until(comm.now() + 1e-3);
      exchange.begin(std::vector{1.0});
    }
    EXPECT_EQ(exchange.finish(kTimeout, "numbers", nullptr).size(), 2u);
    EXPECT_FALSE(exchange.any(is_seven));  // that round is over
    exchange.begin({});
    exchange.finish(kTimeout, "the end", nullptr);
  });
}

TEST(NumberExchange, WhoIsGoneIsNamedAndAWaitCanBeEnded) {
  CommWorld world(run_of("inproc", 3));
  std::atomic<int> met{0}, over{0};
  run_threads(3, [&](Rank rank) {
    const auto comm = world.connect(rank);
    NumberExchange exchange(*comm, kTestKind);
    exchange.begin({});
    exchange.finish(kTimeout, "all to be there", nullptr);
    if (++met; rank == 2) {
      poll_until(*comm, "all to have met", [&] { return met == 3; });
      return comm->abort("no power");
    }
    exchange.begin(std::vector{1.0});
    const std::atomic<bool> interrupted{rank == 1};
    std::string text = "no error";
    try {
      const auto all = exchange.finish(kTimeout, "numbers", rank == 1 ? &interrupted : nullptr);
      EXPECT_TRUE(all.empty());
    } catch (const Error& error) {
      text = error.what();
    }
    const std::string wanted = rank == 1 ? "no error" : "rank 2 (host test, process 102) is lost";
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
    ++over;
    poll_until(*comm, "the other", [&] { return over == 2; });
    comm->leave();
  });
}

}  // namespace
}  // namespace kinet
