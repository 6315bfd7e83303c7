// ctest: labels=unit timeout=400
//
// Transport mpi: its front on a machine with or without MPI, and ranks under a real mpirun
// (tests/programs/mpi_ranks.cc).
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "comm/mpi_library.h"
#include "src/base/check.h"
#include "tests/subprocess.h"

namespace kinet {
namespace {

constexpr double kLimit = 120;  // seconds of one mpirun

std::string why_not() {
  std::string why;
  if (find_mpi_library(&why) == nullptr) return "this build has no MPI: " + why;
  const ProcessResult version = Process({"/bin/sh", "-c", "mpirun --version"}, ".").wait(kLimit);
  return version.status == 0 ? "" : "mpirun is not installed";
}

ProcessResult mpirun(int ranks, const std::string& mode) {
  const std::string program = KINET_BINARY_DIR "/tests/programs/mpi_ranks";
  // Shared memory and TCP over loopback alone; as root, and more ranks than cores.
  return Process({"/bin/sh", "-c",
                  "exec mpirun --allow-run-as-root --oversubscribe --mca btl self,vader,tcp --mca "
                  "btl_tcp_if_include lo --mca pml ob1 -n " +
                      std::to_string(ranks) + " " + program + " " + mode},
                 ".")
      .wait(kLimit);
}

void expect_all_ok(int ranks, const std::string& mode) {
  const ProcessResult result = mpirun(ranks, mode);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.status, 0) << result.err;
  for (int r = 0; r < ranks; ++r) {
    const std::string line = "rank " + std::to_string(r) + " of " + std::to_string(ranks);
    EXPECT_NE(result.out.find(line + ": " + mode + " ok"), std::string::npos)
        << result.out << result.err;
  }
}

TEST(MpiFront, IsAlwaysThereAndSaysWhatIsMissing) {
  const TransportType* type = TransportRegistry::instance().find("mpi");
  ASSERT_NE(type, nullptr);
  const TransportProbe probe = type->probe(Params(nullptr, nullptr));
  EXPECT_FALSE(probe.works) << "this test was started by mpirun?";
  EXPECT_FALSE(probe.summary.empty());
  EXPECT_FALSE(probe.remedy.empty());
  try {
    type->make(TransportConfig{});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("mpirun"), std::string::npos) << error.what();
  }
}

#define NEEDS_MPIRUN()                                   \
  if (const std::string why = why_not(); !why.empty()) { \
    GTEST_SKIP() << "no ranks under mpirun: " << why;    \
  }                                                      \
  static_assert(true)

TEST(MpiTransport, TrafficOfTwoToFourRanks) {
  NEEDS_MPIRUN();
  for (const int ranks : {2, 3, 4}) expect_all_ok(ranks, "traffic");
}

TEST(MpiTransport, AStringReachesAllRanks) {
  NEEDS_MPIRUN();
  expect_all_ok(3, "broadcast");
}

TEST(MpiTransport, ARankWithoutTheTokenIsRefused) {
  NEEDS_MPIRUN();
  const ProcessResult result = mpirun(2, "refused");
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.out.find("rank 0 of 2: refused ok"), std::string::npos)
      << result.out << result.err;
}

// MPI does not go on without a rank: all end soon, and the cause is told.
TEST(MpiTransport, AKilledRankEndsTheRun) {
  NEEDS_MPIRUN();
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = mpirun(3, "killed");
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(25));
  EXPECT_NE((result.out + result.err).find("signal 9"), std::string::npos)
      << result.out << result.err;
  EXPECT_NE((result.out + result.err).find("rank 2"), std::string::npos)
      << result.out << result.err;
}

}  // namespace
}  // namespace kinet
