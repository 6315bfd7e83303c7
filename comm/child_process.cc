#include "comm/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "src/base/check.h"

namespace kinet {
namespace {

struct Pipe {
  FileDescriptor read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_runtime("pipe: {}", system_error(errno));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> out = variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string name = name_of(*entry);
    const bool replaced = std::any_of(variables.begin(), variables.end(),
                                      [&](const std::string& v) { return name_of(v) == name; });
    if (!replaced) out.emplace_back(*entry);
  }
  return out;
}

struct ChildStart {
  const char* file;
  char* const* arguments;
  char* const* environment;
  int out, err, error;  // descriptors; `error` takes the number of what failed
  pid_t parent;
};

// In the child, between fork and exec: only calls that a signal handler may make, since other
// threads of the parent may have held any lock.
[[noreturn]] void start(const ChildStart& s) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == s.parent) {  // else the parent is gone already, and nobody tells us
    const int in = ::open("/dev/null", O_RDONLY);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);  // ignored signals stay so over exec; a launcher ignores this one
    if (in >= 0 && ::dup2(in, STDIN_FILENO) >= 0 && ::dup2(s.out, STDOUT_FILENO) >= 0 &&
        ::dup2(s.err, STDERR_FILENO) >= 0) {
      ::execve(s.file, s.arguments, s.environment);
    }
  }
  const int number = errno;
  [[maybe_unused]] const ssize_t written = ::write(s.error, &number, sizeof number);
  ::_exit(127);
}

void set_nonblocking(const FileDescriptor& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

}  // namespace

ChildProcess::ChildProcess(const ChildProgram& program) {
  const std::vector<std::string> variables = environment_with(program.variables);
  const std::vector<char*> environment = pointers(variables);
  const std::vector<char*> arguments = pointers(program.arguments);
  Pipe out = make_pipe(), err = make_pipe(), error = make_pipe();
  const ChildStart values{
      program.file.c_str(), arguments.data(),  environment.data(), out.write.get(),
      err.write.get(),      error.write.get(), ::getpid()};
  id_ = ::fork();
  if (id_ < 0) fail_runtime("no process can be started: {}", system_error(errno));
  if (id_ == 0) start(values);
  error.write.reset();
  int number = 0;  // nothing comes when the program has started: its end of the pipe closed
  if (::read(error.read.get(), &number, sizeof number) > 0) {
    ::waitpid(id_, nullptr, 0);
    fail_runtime("{} cannot be started: {}", program.file, system_error(number));
  }
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  set_nonblocking(out_);
  set_nonblocking(err_);
  end_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, id_, 0)));
}

ChildProcess::~ChildProcess() {
  if (poll_end()) return;
  send(SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

void ChildProcess::send(int signal) const {
  if (!ended_) ::kill(-id_, signal);
}

bool ChildProcess::poll_end() {
  if (!ended_) ended_ = ::waitpid(id_, &status_, WNOHANG) == id_;
  return ended_;
}

int ChildProcess::exit_status() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : 0; }

int ChildProcess::end_signal() const { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }

std::string end_text(const ChildProcess& child) {
  const int signal = child.end_signal();
  if (signal == 0) return fmt::format("ended with status {}", child.exit_status());
  const char* name = sigdescr_np(signal);
  return fmt::format("was killed by signal {} ({})", signal, name == nullptr ? "unknown" : name);
}

}  // namespace kinet
