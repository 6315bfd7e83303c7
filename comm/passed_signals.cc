#include "comm/passed_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "src/base/check.h"

namespace kinet {
namespace {

// A signal handler has no argument to carry state in. (A signalfd would need the signals blocked in
// every thread, also in those of libraries.)
std::atomic<int> g_pipe{-1};

void handle(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = ::write(g_pipe.load(), &byte, 1);
  errno = saved;
}

}  // namespace

PassedSignals::PassedSignals() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    fail_runtime("pipe: {}", system_error(errno));
  }
  read_ = FileDescriptor(ends[0]);
  write_ = FileDescriptor(ends[1]);
  g_pipe = write_.get();
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &former_[i]);
    action.sa_handler = former_[i].sa_handler == SIG_IGN ? SIG_IGN : handle;
    sigaction(kSignals[i], &action, nullptr);
  }
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &former_pipe_);
}

PassedSignals::~PassedSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_[i], nullptr);
  sigaction(SIGPIPE, &former_pipe_, nullptr);
  g_pipe = -1;
}

int PassedSignals::take() {
  unsigned char byte = 0;
  return ::read(read_.get(), &byte, 1) == 1 ? byte : 0;
}

}  // namespace kinet
