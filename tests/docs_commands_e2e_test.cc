// The commands shown in docs/commands.md and README.md run as they stand: the lines of ```sh blocks
// that begin with "kinet ", in order, in one scratch folder that sees models/. ctest:
// labels=integration timeout=600
#include <sstream>

#include "tests/cli_fixture.h"

namespace kinet {
namespace {

constexpr double kSeconds = 120;  // for one command

std::vector<std::string> shown_commands(const std::string& page) {
  std::vector<std::string> commands;
  std::istringstream in(read_file(std::string(KINET_SOURCE_DIR) + "/" + page));
  bool in_block = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("```", 0) == 0) in_block = line == "```sh";
    if (in_block && line.rfind("kinet ", 0) == 0) commands.push_back(line);
  }
  return commands;
}

class DocsCommands : public testing::TestWithParam<const char*> {};

TEST_P(DocsCommands, Run) {
  const std::vector<std::string> commands = shown_commands(GetParam());
  TemporaryFolder folder;
  std::filesystem::create_directory_symlink(std::string(KINET_SOURCE_DIR) + "/models",
                                            folder / "models");
  const std::string path = "PATH='" KINET_BINARY_DIR "':\"$PATH\"; export PATH; ";
  for (const std::string& command : commands) {
    const ProcessResult r = Process({"/bin/sh", "-c", path + command}, folder.str()).wait(kSeconds);
    EXPECT_FALSE(r.timed_out) << command;
    EXPECT_EQ(r.status, 0) << command << "\n" << r.out << r.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, DocsCommands, testing::Values("docs/commands.md", "README.md"));

TEST(DocsCommandsPage, ShowsEveryCommand) {
  const std::vector<std::string> shown = shown_commands("docs/commands.md");
  for (const char* name : {"train", "simulate", "compare", "test", "check", "time", "classify",
                           "convert deploy", "convert images", "convert mean", "fields", "devices",
                           "doctor", "bench comm", "bench allreduce", "bench layers"}) {
    const std::string begin = std::string("kinet ") + name + " ";
    const bool found = std::any_of(shown.begin(), shown.end(), [&](const std::string& command) {
      return (command + " ").rfind(begin, 0) == 0;
    });
    EXPECT_TRUE(found) << name;
  }
}

}  // namespace
}  // namespace kinet
