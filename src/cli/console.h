// Where the lines of a long command go: a terminal, which has a live line at its foot, or a pipe or
// file, where every line carries the prefix that readers of Caffe's logs look for.
//
// A line that cannot be written (closed pipe, full disk) is lost; the run goes on.
// Thread safety: none; one thread writes.
#pragma once

#include <chrono>
#include <string>

namespace kinet {

// "I1129 14:26:49.123456 12345 solver.cc:218] ", as glog writes it; level I, W or E; local time.
std::string log_prefix(char level, std::chrono::system_clock::time_point when, int process);

class Console {
 public:
  enum class Mode { kTerminal, kLog };

  Console();  // of standard output
  explicit Console(Mode mode) : mode_(mode) {}
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  Mode mode() const { return mode_; }
  void line(const std::string& text);       // a line that stays; may contain line breaks
  void paragraph(const std::string& text);  // the same; on a terminal broken between words
  void warning(const std::string& text);    // the same, marked
  // Replaces the live line; nothing in a log. Cut to the width of the terminal.
  void live(const std::string& text);
  void clear_live();
  // Columns of the terminal now; 80 when it does not tell.
  int width() const;

 private:
  void write(const std::string& text);

  Mode mode_;
  bool live_shown_ = false;
};

}  // namespace kinet
