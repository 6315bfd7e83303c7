#include "comm/patient_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace kinet {

void PatientWriter::add(const std::string& text) {
  if (failed_) return;
  text_ += text;
  write_ready();
}

// A descriptor that is ready takes PIPE_BUF bytes at once. It is not made non-blocking: others, the
// shell among them, may share it.
void PatientWriter::write_ready() {
  size_t done = 0;
  while (done < text_.size() && !failed_) {
    pollfd entry{fd_, POLLOUT, 0};
    if (::poll(&entry, 1, 0) <= 0) break;
    const size_t size = std::min<size_t>(text_.size() - done, PIPE_BUF);
    const ssize_t written = ::write(fd_, text_.data() + done, size);
    if (written > 0) {
      done += static_cast<size_t>(written);
    } else if (written < 0 && errno != EINTR) {
      if (errno == EAGAIN) break;
      failed_ = true;
    }
  }
  text_.erase(0, failed_ ? text_.size() : done);
}

}  // namespace kinet
