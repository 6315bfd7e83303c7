// The program: hands the arguments to the command line, and is the only place that catches and the
// only one that sets an exit status.
//
// Exit status: 0 done; 1 failed while running; 2 wrong input, found at set-up; 130 and 143 stopped
// by SIGINT and SIGTERM.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/cli/command.h"

namespace {

int report(const char* message, int status) {
  std::fflush(stdout);
  std::fprintf(stderr, "kinet: %s\n", message);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  // A file past the limit of `ulimit -f` is a write error, reported as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return kinet::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const kinet::Error& error) {
    return report(error.what(), error.exit_status());
  } catch (const std::bad_alloc&) {
    return report("out of memory\nhint: 'kinet check' tells how much a net needs", 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}
