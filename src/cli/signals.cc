// The handlers: flags for the solver, a sentence for the user, nothing else.
#include "src/cli/signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace kinet {
namespace {

// A signal handler has no argument to carry state in, so these are the program's only mutable
// globals.
std::atomic<SolverControl*> g_control{nullptr};
std::atomic<int> g_stopped_by{0};
SignalWords g_words;  // written while no handler is set

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kSignals.size()> g_former;
struct sigaction g_former_pipe;

// write() is allowed in a handler, stdio is not.
void say(const char* text) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  errno = saved;
}

void handle(int signal) {
  SolverControl* control = g_control.load();
  if (control == nullptr) return;
  if (signal == SIGHUP) {
    control->snapshot = true;
    return say(g_words.snapshot);
  }
  if (!control->stop.exchange(true)) {
    g_stopped_by = signal;
    return say(g_words.stop);
  }
  control->stop_now = true;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  say(g_words.stop_now);
}

}  // namespace

TrainingSignals::TrainingSignals(SolverControl& control, const SignalWords& words) {
  g_stopped_by = 0;
  g_words = words;
  g_control = &control;
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &g_former[i]);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &g_former_pipe);
}

TrainingSignals::~TrainingSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &g_former[i], nullptr);
  sigaction(SIGPIPE, &g_former_pipe, nullptr);
  g_control = nullptr;
}

int TrainingSignals::stopped_by() const { return g_stopped_by; }

}  // namespace kinet
