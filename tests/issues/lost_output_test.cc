// A full or closed standard output: what was printed is lost, and the exit status says so.
// ctest: labels=integration
#include <cstdlib>

#include "tests/cli_fixture.h"

namespace kinet {
namespace {

class LostOutput : public CliTest {
 protected:
  // Runs kinet through the shell as `before kinet arguments after`; its stderr, then "status=N".
  std::string run(const std::string& before, const std::string& arguments,
                  const std::string& after) const {
    const std::string command = "cd '" + folder_.str() + "' && { (" + before + "'" +
                                kinet_program() + "' " + arguments + " " + after +
                                ") 2>&1; echo status=$?; } | cat > messages.txt";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return read_file(folder_ / "messages.txt");
  }
};

// Full: the shell allows no byte in any file, which is what a full disk does.
TEST_F(LostOutput, IsReportedOnce) {
  for (const std::string command : {"check net.prototxt", "fields Pooling", "--help"}) {
    ASSERT_EQ(run("", command, "> out.txt"), "status=0\n") << command;
    const std::string full = run("trap '' XFSZ; ulimit -f 0; ", command, "> full.txt");
    const std::string closed = run("", command, ">&-");
    for (const std::string& error : {full, closed}) {
      EXPECT_EQ(error.find("kinet: standard output cannot be written, lines are lost"), 0u)
          << error;
      EXPECT_EQ(error.find("kinet: ", 1), std::string::npos) << error;
      EXPECT_CONTAINS(error, "\nstatus=1\n");
    }
  }
}

// Without a standard output the first file opened would get its number, and the log with it.
TEST_F(LostOutput, NeverGoesIntoAnotherFile) {
  const std::string error = run("", "train solver.prototxt --out run", ">&-");
  EXPECT_CONTAINS(error, "\nstatus=1\n");
  ASSERT_TRUE(exists("run/solver_iter_3.caffemodel")) << error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "run")) {
    if (!entry.is_regular_file() || entry.path().filename().string().ends_with(".txt")) continue;
    const std::string bytes = read_file(entry.path());
    EXPECT_EQ(bytes.find("Iteration"), std::string::npos) << entry.path();
  }
  EXPECT_EQ(kinet({"test", "net.prototxt", "--weights", "run/solver_iter_3.caffemodel"}).status, 0);
}

}  // namespace
}  // namespace kinet
