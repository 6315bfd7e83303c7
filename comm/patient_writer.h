// Writes text to a descriptor without ever waiting for its reader: what does not fit now is kept.
// A terminal that is held (Ctrl-S) or a pipe that nobody reads then stops no one who has more to do
// than to print. Thread safety: none.
#pragma once

#include <string>

namespace kinet {

class PatientWriter {
 public:
  explicit PatientWriter(int fd) : fd_(fd) {}

  void add(const std::string& text);
  void write_ready();                                  // as much as goes without waiting
  int fd() const { return pending() > 0 ? fd_ : -1; }  // to poll for POLLOUT
  size_t pending() const { return text_.size(); }      // bytes
  bool failed() const { return failed_; }              // the reader is gone, or the disk is full

 private:
  const int fd_;
  std::string text_;
  bool failed_ = false;
};

}  // namespace kinet
