// `ulimit -f`: a file that may not grow costs its snapshot, as a full disk does, not the run.
#include <gtest/gtest.h>

#include "tests/cli_fixture.h"

namespace kinet {
namespace {

class FileSizeLimit : public CliTest {};

// One block of 512 or 1024 bytes is less than the weights need.
TEST_F(FileSizeLimit, CostsSnapshotsAndNotTheRun) {
  Process p({"/bin/sh", "-c",
             "ulimit -f 1; exec \"$0\" train solver.prototxt --quiet --out run --set snapshot=1",
             kinet_program()},
            folder_.str());
  const ProcessResult r = p.wait(60);
  EXPECT_EQ(r.status, 1) << r.out << r.err;  // -1: ended by the signal
  EXPECT_CONTAINS(r.out + r.err, "solver_iter_1.caffemodel: cannot be written: File too large");
  EXPECT_EQ(count_files("run", ".caffemodel"), 0);
  EXPECT_EQ(count_files("run", ".solverstate"), 0);
}

}  // namespace
}  // namespace kinet
