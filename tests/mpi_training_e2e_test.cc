// ctest: labels=integration timeout=300
//
// Workers that mpirun started, over transport mpi: the weights are, bit for bit, those of workers
// over shm.
#include <gtest/gtest.h>

#include <string>

#include "comm/mpi_library.h"
#include "tests/cli_fixture.h"

namespace kinet {
namespace {

constexpr double kLimit = 120;  // seconds

class MpiTraining : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    std::string why;
    if (find_mpi_library(&why) == nullptr) GTEST_SKIP() << "this build has no MPI: " << why;
    if (Process({"/bin/sh", "-c", "mpirun --version"}, ".").wait(kLimit).status != 0) {
      GTEST_SKIP() << "mpirun is not installed";
    }
  }

  std::string mpirun(const std::string& arguments) const {
    return "exec mpirun --allow-run-as-root --oversubscribe --mca btl self,vader,tcp --mca "
           "btl_tcp_if_include lo -n 2 " +
           kinet_program() + " train solver.prototxt --threads 1 --transport mpi " + arguments;
  }
};

TEST_F(MpiTraining, GivesTheBitsOfShm) {
  const ProcessResult mpi =
      Process({"/bin/sh", "-c", mpirun("--out mpi")}, folder_.str()).wait(kLimit);
  EXPECT_FALSE(mpi.timed_out);
  ASSERT_EQ(mpi.status, 0) << mpi.out << mpi.err;
  EXPECT_NE(mpi.out.find("over mpi"), std::string::npos) << mpi.out;
  const ProcessResult shm = kinet({"train", "solver.prototxt", "--threads", "1", "--transport",
                                   "shm", "--workers", "2", "--out", "shm"});
  ASSERT_EQ(shm.status, 0) << shm.out << shm.err;
  EXPECT_EQ(read_file((folder_ / "mpi/solver_iter_3.caffemodel")),
            read_file((folder_ / "shm/solver_iter_3.caffemodel")));
}

}  // namespace
}  // namespace kinet
