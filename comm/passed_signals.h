// SIGINT, SIGTERM and SIGHUP, taken in by a launcher in order to be passed on to its ranks. A
// signal that was ignored (nohup) stays ignored; SIGPIPE is ignored meanwhile: whoever reads the
// lines may go away. REQUIRES: one object at a time; the process has one set of handlers.
#pragma once

#include <array>
#include <csignal>

#include "comm/sockets.h"

namespace kinet {

class PassedSignals {
 public:
  PassedSignals();   // throws Error
  ~PassedSignals();  // puts the former handlers back
  PassedSignals(const PassedSignals&) = delete;
  PassedSignals& operator=(const PassedSignals&) = delete;

  int fd() const { return read_.get(); }  // readable when take() has something
  int take();                             // the next signal, in order; 0: none

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  FileDescriptor read_, write_;
  std::array<struct sigaction, kSignals.size()> former_;
  struct sigaction former_pipe_;
};

}  // namespace kinet
