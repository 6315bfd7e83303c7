// Runs a program and looks at what it prints and how it ends; nothing waits without a limit.
#pragma once

#include <string>
#include <vector>

namespace kinet {

struct ProcessResult {
  int status = -1;         // exit status; -1: ended by a signal
  bool timed_out = false;  // it was killed
  std::string out, err;
};

// A running program. Its output goes to files in a folder of its own, so it never blocks on a pipe.
// Thread safety: none.
class Process {
 public:
  // arguments[0] is the program. Runs in `folder`.
  Process(const std::vector<std::string>& arguments, const std::string& folder);
  ~Process();  // kills it when it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const;
  std::string out() const;
  std::string err() const;
  // Whether `text` came to stdout or stderr within `seconds`.
  bool wait_for(const std::string& text, double seconds) const;
  ProcessResult wait(double seconds);

 private:
  bool poll_end();

  int pid_ = -1, status_ = -1;
  bool ended_ = false;
  std::string files_;
};

// Runs the built kinet program to its end.
ProcessResult run_kinet(const std::vector<std::string>& arguments, const std::string& folder,
                        double seconds = 60);
std::string kinet_program();

}  // namespace kinet
