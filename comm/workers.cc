#include "comm/workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>

#include "comm/child_process.h"
#include "comm/launch.h"
#include "comm/passed_signals.h"
#include "comm/patient_writer.h"
#include "comm/rendezvous_server.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kLongestSleep = 0.1;  // seconds, where the kernel does not tell of a child's end
constexpr int kSetUpError = 2;         // a successor would make the same mistake

constexpr size_t kMostUnread = size_t{1} << 20;  // bytes for a reader that does not read
constexpr double kSameSignal = 0.3;  // seconds: timeout(1) and batch systems signal us twice
constexpr double kAskedGrace = 30;   // seconds for the others when a rank has ended as it was asked

TextSink or_writer(const TextSink& sink, PatientWriter& writer) {
  if (sink) return sink;
  return [&writer](const std::string& text) { writer.add(text); };
}

class WorkerGroup {
 public:
  WorkerGroup(std::string program, std::vector<std::string> arguments, int count,
              const WorkerOptions& options);
  int run();

 private:
  enum class Phase { kRunning, kGrace, kTerminated, kKilled };
  struct Worker {
    std::unique_ptr<ChildProcess> process;
    bool ended = false;
  };

  RendezvousServerOptions server_options(int count, const WorkerOptions& options);
  void start(Rank rank);
  void wait_for_events();
  void pass_signals_on();
  void pass_on(int signal);
  void begin_grace(double seconds);
  void write_last_lines();
  void read_output(Rank rank);
  bool read_stream(Rank rank, LineMerger::Stream stream, const FileDescriptor& fd);
  void look_for_ends();
  void handle_end(Rank rank);
  bool handle_failure(Rank rank, const std::string& end);
  bool replace(Rank rank, const std::string& what);
  bool was_asked_to(const ChildProcess& process) const;
  bool vital(Rank rank) const;
  bool vital_ended() const;
  void escalate();
  void send_all(int signal);
  void say(const std::string& text);
  bool all_ended() const;
  bool unread() const;
  double until(double now) const;

  const std::string program_;
  const std::vector<std::string> arguments_;
  const WorkerOptions options_;
  const std::string token_ = random_token();
  PassedSignals signals_;
  PatientWriter out_{STDOUT_FILENO}, err_{STDERR_FILENO};
  LineMerger lines_;
  RendezvousServer server_;
  std::vector<Worker> workers_;  // by rank
  int restarts_left_;
  std::vector<int> passed_;  // signals, in order
  int last_signal_ = 0;
  double last_signal_time_ = 0;
  Phase phase_ = Phase::kRunning;
  double phase_ends_ = std::numeric_limits<double>::infinity();
  std::optional<int> first_failure_, first_kill_;  // exit statuses
};

WorkerGroup::WorkerGroup(std::string program, std::vector<std::string> arguments, int count,
                         const WorkerOptions& options)
    : program_(std::move(program)),
      arguments_(std::move(arguments)),
      options_(options),
      lines_(count, options.verbose, or_writer(options.out, out_), or_writer(options.err, err_)),
      server_(server_options(count, options)),
      workers_(count),
      restarts_left_(options.restarts) {}

RendezvousServerOptions WorkerGroup::server_options(int count, const WorkerOptions& options) {
  RendezvousServerOptions out;
  out.size = count;
  out.token = token_;
  out.replace = options.restarts > 0;
  out.log = [](const std::string& line) { std::fprintf(stderr, "kinet: %s\n", line.c_str()); };
  return out;
}

void WorkerGroup::start(Rank rank) {
  ChildProgram child{program_, arguments_, {}};
  child.variables =
      rank_variables(rank, static_cast<int>(workers_.size()), server_.address().text(), token_);
  workers_[rank].process = std::make_unique<ChildProcess>(child);
  workers_[rank].ended = false;
}

int WorkerGroup::run() {
  for (Rank rank = 0; rank < static_cast<Rank>(workers_.size()); ++rank) start(rank);
  while (!all_ended()) {
    wait_for_events();
    pass_signals_on();
    for (Rank rank = 0; rank < static_cast<Rank>(workers_.size()); ++rank) read_output(rank);
    look_for_ends();
    escalate();
    lines_.release(steady_seconds());
    out_.write_ready();
    err_.write_ready();
  }
  lines_.finish();
  write_last_lines();
  return first_kill_.value_or(first_failure_.value_or(0));
}

bool WorkerGroup::vital(Rank rank) const { return options_.vital <= 0 || rank < options_.vital; }

bool WorkerGroup::vital_ended() const {
  for (Rank rank = 0; rank < static_cast<Rank>(workers_.size()); ++rank) {
    if (vital(rank) && !workers_[rank].ended) return false;
  }
  return true;
}

bool WorkerGroup::all_ended() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.ended; });
}

double WorkerGroup::until(double now) const {
  const bool told = std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) {
    return w.ended || w.process->end_fd() >= 0;
  });
  const double longest = told ? 60 : kLongestSleep;
  return std::clamp(std::min(phase_ends_, lines_.next_release()) - now, 0.0, longest);
}

void WorkerGroup::wait_for_events() {
  // poll passes over -1
  std::vector<pollfd> entries{
      {signals_.fd(), POLLIN, 0}, {out_.fd(), POLLOUT, 0}, {err_.fd(), POLLOUT, 0}};
  for (const Worker& w : workers_) {
    if (w.ended) continue;
    entries.push_back({w.process->end_fd(), POLLIN, 0});
    if (unread()) continue;
    entries.push_back({w.process->out().get(), POLLIN, 0});
    entries.push_back({w.process->err().get(), POLLIN, 0});
  }
  ::poll(entries.data(), entries.size(),
         static_cast<int>(std::ceil(until(steady_seconds()) * 1e3)));
}

void WorkerGroup::pass_signals_on() {
  while (const int signal = signals_.take()) {
    const double now = steady_seconds();
    const bool same = signal == last_signal_ && now - last_signal_time_ < kSameSignal;
    last_signal_ = signal;
    last_signal_time_ = now;
    if (!same) pass_on(signal);
  }
}

// One rank is enough for a snapshot: they agree on it. Of a user who asks twice to stop, the ranks
// have some seconds to obey; who asks three times waits for nobody.
void WorkerGroup::pass_on(int signal) {
  if (signal == SIGHUP) {
    const auto first =
        std::find_if(workers_.begin(), workers_.end(), [](const Worker& w) { return !w.ended; });
    if (first != workers_.end()) first->process->send(SIGHUP);
    return;
  }
  passed_.push_back(signal);
  if (passed_.size() == 2) begin_grace(options_.grace);
  if (passed_.size() < 3) return send_all(signal);
  phase_ = Phase::kKilled;
  phase_ends_ = steady_seconds() + 1;
  send_all(SIGKILL);
}

void WorkerGroup::begin_grace(double seconds) {
  const double ends = steady_seconds() + seconds;
  if (phase_ == Phase::kGrace) phase_ends_ = std::min(phase_ends_, ends);
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kGrace;
  phase_ends_ = ends;
  lines_.set_hold(options_.grace + options_.terminate);
}

// A reader that does not read holds up nobody: the user's signal ends the wait for it.
void WorkerGroup::write_last_lines() {
  while (out_.pending() + err_.pending() > 0 && passed_.size() < 2 && signals_.take() == 0) {
    pollfd entries[]{{signals_.fd(), POLLIN, 0}, {out_.fd(), POLLOUT, 0}, {err_.fd(), POLLOUT, 0}};
    ::poll(entries, std::size(entries), 100);
    out_.write_ready();
    err_.write_ready();
  }
}

// Then the ranks are not read either, and wait, as a single process would.
bool WorkerGroup::unread() const { return out_.pending() + err_.pending() > kMostUnread; }

void WorkerGroup::send_all(int signal) {
  for (const Worker& w : workers_) {
    if (!w.ended) w.process->send(signal);
  }
}

// ---- output -------------------------------------------------------------------------------------

void WorkerGroup::read_output(Rank rank) {
  Worker& w = workers_[rank];
  if (w.ended || unread()) return;
  const bool out = read_stream(rank, LineMerger::Stream::kOut, w.process->out());
  const bool err = read_stream(rank, LineMerger::Stream::kErr, w.process->err());
  if (!out) w.process->close_out();
  if (!err) w.process->close_err();
}

// false: nothing can come any more. Takes turns: a rank that prints without end is not all we do.
bool WorkerGroup::read_stream(Rank rank, LineMerger::Stream stream, const FileDescriptor& fd) {
  constexpr int kReads = 16;
  std::array<char, 16384> bytes;
  for (int i = 0; fd && i < kReads; ++i) {
    const ssize_t n = ::read(fd.get(), bytes.data(), bytes.size());
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    lines_.add(rank, stream, {bytes.data(), static_cast<size_t>(n)}, steady_seconds());
  }
  return static_cast<bool>(fd);
}

// Before what is held: how a rank ended is why the others say what they say.
void WorkerGroup::say(const std::string& text) {
  or_writer(options_.err, err_)("kinet: " + text + "\n");
}

// ---- ends ---------------------------------------------------------------------------------------

void WorkerGroup::look_for_ends() {
  for (Rank rank = 0; rank < static_cast<Rank>(workers_.size()); ++rank) {
    if (!workers_[rank].ended && workers_[rank].process->poll_end()) handle_end(rank);
  }
}

// A user's signal asked for it, and this rank did as it was told.
bool WorkerGroup::was_asked_to(const ChildProcess& process) const {
  const int status = process.exit_status(), signal = process.end_signal();
  return std::any_of(passed_.begin(), passed_.end(),
                     [&](int s) { return status == 128 + s || signal == s; });
}

void WorkerGroup::handle_end(Rank rank) {
  Worker& w = workers_[rank];
  const ChildProcess& process = *w.process;
  read_output(rank);
  lines_.end(rank, steady_seconds());
  w.process->close_out();
  w.process->close_err();
  w.ended = true;
  const int status = process.exit_status(), signal = process.end_signal();
  const std::string end = end_text(process);
  server_.process_ended(rank, process.id(), end,
                        status == kSetUpError ? Error::Kind::kUser : Error::Kind::kRuntime);
  const bool failed = status != 0 || signal != 0;
  if (failed && handle_failure(rank, end)) return;
  // Who is left then has been lost to the others: it is stopped, or hangs.
  if (vital_ended()) begin_grace(options_.grace);
}

// Returns whether another process has taken its place.
bool WorkerGroup::handle_failure(Rank rank, const std::string& end) {
  const ChildProcess& process = *workers_[rank].process;
  const int status = process.exit_status(), signal = process.end_signal();
  const std::string what = fmt::format("rank {} (process {}) {}", rank, process.id(), end);
  const bool ours = phase_ == Phase::kTerminated || phase_ == Phase::kKilled;
  if (!ours && !was_asked_to(process) && replace(rank, what)) return true;
  if (signal != 0 && !was_asked_to(process)) say(what + (ours ? ": it did not end by itself" : ""));
  if (!vital(rank) && !was_asked_to(process)) return false;
  auto& first = signal != 0 && !ours ? first_kill_ : first_failure_;
  if (!first) first = signal != 0 ? 128 + signal : status;
  begin_grace(was_asked_to(process) ? kAskedGrace : options_.grace);
  return false;
}

bool WorkerGroup::replace(Rank rank, const std::string& what) {
  const bool all_vital = options_.vital <= 0 || options_.vital >= static_cast<int>(workers_.size());
  const bool useless =
      workers_[rank].process->exit_status() == kSetUpError || (vital(rank) && !all_vital);
  if (restarts_left_ == 0 || useless || phase_ != Phase::kRunning || !passed_.empty()) return false;
  --restarts_left_;
  start(rank);
  say(fmt::format("{}; process {} takes its place ({} more can be replaced)", what,
                  workers_[rank].process->id(), restarts_left_));
  return true;
}

void WorkerGroup::escalate() {
  const double now = steady_seconds();
  if (phase_ends_ > now) return;
  if (phase_ == Phase::kGrace) {
    phase_ = Phase::kTerminated;
    phase_ends_ = now + options_.terminate;
    send_all(SIGTERM);
  } else {
    phase_ = Phase::kKilled;
    phase_ends_ = now + 1;  // nothing outlives it, but a process in the kernel's hands may be late
    send_all(SIGKILL);
  }
}

}  // namespace

int run_workers(const std::string& program, const std::vector<std::string>& arguments, int count,
                const WorkerOptions& options) {
  return WorkerGroup(program, arguments, count, options).run();
}

int run_workers_of_this_program(int count, const WorkerOptions& options) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string word; std::getline(file, word, '\0');) arguments.push_back(word);
  if (arguments.empty()) fail_runtime("/proc/self/cmdline cannot be read");
  return run_workers("/proc/self/exe", arguments, count, options);
}

}  // namespace kinet
