// A program started as a child: its output comes through pipes, it has a process group of its own
// (what a terminal sends to ours does not reach it), and it does not outlive this process.
// Thread safety: none. REQUIRES: the thread that starts a child lives as long as the child; the
//   kernel ends the child with that thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "comm/sockets.h"

namespace kinet {

struct ChildProgram {
  std::string file;                    // path
  std::vector<std::string> arguments;  // the first is the program's name
  std::vector<std::string> variables;  // "NAME=value", added to the environment of this process
};

class ChildProcess {
 public:
  explicit ChildProcess(const ChildProgram& program);  // throws Error when it cannot start
  ~ChildProcess();                                     // kills it if it still runs
  ChildProcess(ChildProcess&&) = delete;

  pid_t id() const { return id_; }
  const FileDescriptor& out() const { return out_; }  // non-blocking
  const FileDescriptor& err() const { return err_; }
  int end_fd() const { return end_.get(); }  // readable when it has ended; -1: the kernel has none
  void close_out() { out_.reset(); }
  void close_err() { err_.reset(); }

  void send(int signal) const;  // to its whole group; nothing when it has ended
  bool poll_end();              // has it ended?
  // REQUIRES: it has ended. 0: by signal, see end_signal().
  int exit_status() const;
  int end_signal() const;  // 0: it ended by itself

 private:
  pid_t id_ = -1;
  FileDescriptor out_, err_, end_;
  bool ended_ = false;
  int status_ = 0;  // of waitpid
};

// "killed by signal 9 (Killed)", "ended with status 1".
std::string end_text(const ChildProcess& child);

}  // namespace kinet
