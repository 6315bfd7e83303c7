#include "tests/subprocess.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "src/base/files.h"

namespace kinet {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{5};

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void redirect(const std::string& path, int descriptor) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ::dup2(fd, descriptor) < 0) ::_exit(126);
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const std::string& folder) {
  files_ = (std::filesystem::temp_directory_path() / "kinet-process-XXXXXX").string();
  if (!mkdtemp(files_.data())) throw std::runtime_error("mkdtemp failed");
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::string out_path = files_ + "/out", err_path = files_ + "/err";
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ > 0) return;
  if (::chdir(folder.c_str()) != 0) ::_exit(126);
  redirect("/dev/null", STDIN_FILENO);
  redirect(out_path, STDOUT_FILENO);
  redirect(err_path, STDERR_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

Process::~Process() {
  if (!poll_end()) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(files_, ignored);
}

void Process::send(int signal) const { ::kill(pid_, signal); }

std::string Process::out() const { return read_file(files_ + "/out"); }
std::string Process::err() const { return read_file(files_ + "/err"); }

bool Process::poll_end() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

bool Process::wait_for(const std::string& text, double seconds) const {
  const Clock::time_point limit = after(seconds);
  const auto has = [&](const char* name) {
    const std::string path = files_ + name;
    return std::filesystem::exists(path) && read_file(path).find(text) != std::string::npos;
  };
  while (!has("/out") && !has("/err")) {
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

ProcessResult Process::wait(double seconds) {
  ProcessResult result;
  const Clock::time_point limit = after(seconds);
  while (!poll_end()) {
    if (Clock::now() > limit) {
      result.timed_out = true;
      ::kill(pid_, SIGKILL);
      ended_ = ::waitpid(pid_, &status_, 0) == pid_;
      break;
    }
    std::this_thread::sleep_for(kPoll);
  }
  result.status = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  result.out = out();
  result.err = err();
  return result;
}

std::string kinet_program() { return KINET_BINARY_DIR "/kinet"; }

ProcessResult run_kinet(const std::vector<std::string>& arguments, const std::string& folder,
                        double seconds) {
  std::vector<std::string> all{kinet_program()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return Process(all, folder).wait(seconds);
}

}  // namespace kinet
