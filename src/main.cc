// The program: hands the arguments to the command line, and is the only place that catches and the
// only one that sets an exit status.
//
// Exit status: 0 done; 1 failed while running, or nobody took what was printed; 2 wrong input,
// found at set-up; 130 and 143 stopped by SIGINT and SIGTERM.
#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
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

// A closed standard output would give its number to the first file that is opened, and the log
// would be written into that file. A folder takes the place: every write to it fails.
void hold_standard_files() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/", O_RDONLY | O_DIRECTORY) < 0) return;
  }
}

// What was printed is still on its way here; a full disk or a closed stdout shows only now.
int finish(int status) {
  const bool lost_before = std::ferror(stdout) != 0;  // a line of the log, its reason forgotten
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !lost_before) return status;
  const std::string reason = flushed || errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  return report(("standard output cannot be written, lines are lost" + reason).c_str(),
                status == 0 ? 1 : status);
}

}  // namespace

int main(int argc, char** argv) {
  // A file past the limit of `ulimit -f` is a write error, reported as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  hold_standard_files();
  try {
    return finish(kinet::run_command_line(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const kinet::Error& error) {
    return report(error.what(), error.exit_status());
  } catch (const std::bad_alloc&) {
    return report("out of memory\nhint: 'kinet check' tells how much a net needs", 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}
