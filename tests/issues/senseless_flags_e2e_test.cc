// Flags whose values were once taken for something else.
#include <gtest/gtest.h>

#include "tests/cli_fixture.h"

namespace kinet {
namespace {

class SenselessFlags : public CliTest {};

TEST_F(SenselessFlags, SeedsThatWouldWrap) {
  for (const char* seed : {"-1", "9223372036854775808", "99999999999999999999", "1.5"}) {
    const ProcessResult r = kinet({"train", "solver.prototxt", "--out", "run", "--seed", seed});
    EXPECT_EQ(r.status, 2) << r.out;
    EXPECT_CONTAINS(r.err, "--seed");
  }
  EXPECT_FALSE(exists("run"));
  EXPECT_EQ(
      kinet({"train", "solver.prototxt", "--out", "run", "--seed", "9223372036854775807"}).status,
      0);
}

TEST_F(SenselessFlags, WeightsWithoutAName) {
  for (const char* names : {",,,", "", "a,,b"}) {
    const ProcessResult r = kinet({"train", "solver.prototxt", "--weights", names, "--out", "run"});
    EXPECT_EQ(r.status, 2) << r.out;
    EXPECT_CONTAINS(r.err, "empty file name");
  }
  EXPECT_FALSE(exists("run"));
  const std::string weights = trained_weights();
  const ProcessResult both =
      kinet({"train", "solver.prototxt", "--weights", weights + ", " + weights, "--out", "two"});
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_CONTAINS(both.out, "loaded 1 of 1 layers");
}

}  // namespace
}  // namespace kinet
