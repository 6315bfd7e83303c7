// ctest: labels=unit,core,smoke,threads
//
// The fork-join loop: every index once, fixed parts, exceptions, nesting, callers side by side.
#include "src/base/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace kinet {
namespace {

TEST(ParallelFor, EveryIndexOnceAndPartsAreFixed) {
  for (int threads : {1, 2, 3, 8}) {
    for (int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<int> hits(n, 0), owner(n, -1);
      parallel_for(threads, n, [&](int64_t begin, int64_t end, int thread) {
        EXPECT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++hits[i], owner[i] = thread;
      });
      const int64_t parts = std::min<int64_t>(threads, n);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(hits[i], 1);
        EXPECT_GE(i, n * owner[i] / parts);
        EXPECT_LT(i, n * (owner[i] + 1) / parts);
      }
    }
  }
}

TEST(ParallelFor, ManyShortLoopsLoseNothing) {
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 20000; ++round) {
    parallel_for(3, 3, [&](int64_t begin, int64_t, int) { sum += begin + 1; });
  }
  EXPECT_EQ(sum, 20000 * 6);
}

TEST(ParallelFor, AnExceptionOfAnyPartReachesTheCallerAfterAllParts) {
  for (int bad : {0, 1, 2}) {
    std::atomic<int> finished{0};
    EXPECT_THROW(parallel_for(3, 3,
                              [&](int64_t begin, int64_t, int) {
                                if (begin == bad) throw std::runtime_error("part");
                                ++finished;
                              }),
                 std::runtime_error);
    EXPECT_EQ(finished, 2);
  }
  int calls = 0;  // and the next loop works
  parallel_for(1, 1, [&](int64_t, int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(ParallelFor, NestedLoopsRunInTheirPart) {
  std::atomic<int> calls{0};
  parallel_for(2, 2, [&](int64_t, int64_t, int) {
    parallel_for(2, 4, [&](int64_t begin, int64_t end, int) { calls += end - begin; });
  });
  EXPECT_EQ(calls, 8);
}

TEST(ParallelFor, CallersDoNotMeet) {
  std::vector<int64_t> sums(4, 0);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      for (int round = 0; round < 200; ++round) {
        std::vector<int64_t> part(2, 0);
        parallel_for(2, 100, [&](int64_t begin, int64_t end, int t) { part[t] += end - begin; });
        sums[c] += part[0] + part[1];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int64_t sum : sums) EXPECT_EQ(sum, 200 * 100);
}

TEST(ParallelFor, AForkedChildMakesItsOwnHelpers) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends a forked child that starts threads";
#endif
  const auto count = [] {
    std::atomic<int64_t> sum{0};
    parallel_for(3, 9, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    return sum.load();
  };
  EXPECT_EQ(count(), 9);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // a hang ends the child by a signal
    ::_exit(count() == 9 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace kinet
