// Escape codes and prefixes; nothing here knows what the lines say.
#include "src/cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <sstream>

#include "src/base/text.h"

namespace kinet {
namespace {

constexpr const char* kClear = "\r\033[K";  // to the line's begin, and erase it
// A fixed place: scrapers look for "solver.cc:<number>]" and nothing more.
constexpr const char* kSource = "solver.cc:218";

}  // namespace

std::string log_prefix(char level, std::chrono::system_clock::time_point when, int process) {
  using std::chrono::system_clock;
  const std::time_t seconds = system_clock::to_time_t(when);
  const auto rest = when - system_clock::from_time_t(seconds);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(rest).count();
  std::tm parts{};
  localtime_r(&seconds, &parts);
  return fmt::format("{}{:02d}{:02d} {:02d}:{:02d}:{:02d}.{:06d} {:5d} {}] ", level,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     micros, process, kSource);
}

Console::Console() : mode_(isatty(STDOUT_FILENO) == 1 ? Mode::kTerminal : Mode::kLog) {}

Console::~Console() { clear_live(); }

void Console::write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Console::line(const std::string& text) {
  clear_live();
  if (mode_ == Mode::kTerminal) return write(text + "\n");
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) {
    write(log_prefix('I', std::chrono::system_clock::now(), getpid()) + one + "\n");
  }
}

void Console::paragraph(const std::string& text) {
  line(mode_ == Mode::kTerminal ? wrap_words(text, width()) : text);
}

void Console::warning(const std::string& text) {
  clear_live();
  if (mode_ == Mode::kTerminal) return write("warning: " + text + "\n");
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) {
    write(log_prefix('W', std::chrono::system_clock::now(), getpid()) + one + "\n");
  }
}

void Console::live(const std::string& text) {
  if (mode_ != Mode::kTerminal) return;
  write(kClear + text);
  live_shown_ = true;
}

void Console::clear_live() {
  if (live_shown_) write(kClear);
  live_shown_ = false;
}

int Console::width() const {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace kinet
