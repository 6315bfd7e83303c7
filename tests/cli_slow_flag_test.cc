// ctest: labels=unit,core timeout=60
//
// --slow: what it accepts, what it says to the rest, and that a run with it gives the same bits.
#include "src/base/check.h"
#include "src/cli/slow_flag.h"
#include "tests/cli_fixture.h"

namespace kinet {
namespace {

std::string error_of(const std::string& text, int workers) {
  SlowFlag flag{text, {}};
  try {
    flag.check(workers);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(SlowFlag, NamesWorkersAndTheirFactors) {
  SlowFlag flag{"1:5,2:1.5", {}};
  flag.check(3);
  EXPECT_EQ(flag.factor(0), 1);
  EXPECT_EQ(flag.factor(1), 5);
  EXPECT_EQ(flag.factor(2), 1.5);
  EXPECT_EQ(error_of("", 1), "no error");
}

TEST(SlowFlag, SaysWhatIsWrong) {
  const auto expect = [](const std::string& text, int workers, const std::string& part) {
    EXPECT_NE(error_of(text, workers).find(part), std::string::npos) << error_of(text, workers);
  };
  expect("5", 2, "'5' is not WORKER:FACTOR");
  expect("1:x", 2, "'1:x' is not WORKER:FACTOR");
  expect("1:5x", 2, "is not WORKER:FACTOR");
  expect("1:5,,", 2, "'' is not WORKER:FACTOR");
  expect("2:5", 2, "there is no worker 2 of 2");
  expect("-1:5", 2, "there is no worker -1 of 2");
  expect("0:5", 0, "there is no worker 0");
  expect("1:5", 1, "--workers 2 starts two");
  expect("1:0.5", 2, "between 1 and 1000, not 0.5");
  expect("1:nan", 2, "between 1 and 1000");
  expect("1:1e9", 2, "between 1 and 1000");
  expect("1:5,1:6", 2, "worker 1 is named twice");
}

class SlowRun : public CliTest {};

TEST_F(SlowRun, ASlowWorkerChangesNoBit) {
  ASSERT_EQ(kinet({"train", "solver.prototxt", "--workers", "2", "--out", "a"}).status, 0);
  const ProcessResult r =
      kinet({"train", "solver.prototxt", "--workers", "2", "--slow", "1:3", "--out", "b"});
  ASSERT_EQ(r.status, 0) << r.out << r.err;
  const std::string model = "/solver_iter_3.caffemodel";
  EXPECT_EQ(read_file(folder_ / ("a" + model)), read_file(folder_ / ("b" + model)));
  EXPECT_EQ(kinet({"train", "solver.prototxt", "--slow", "0:3", "--out", "c"}).status, 0);
  EXPECT_EQ(kinet({"train", "solver.prototxt", "--slow", "1:3", "--out", "d"}).status, 2);
}

}  // namespace
}  // namespace kinet
