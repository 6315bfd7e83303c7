// Small pieces for TCP set-up: an owned descriptor, host:port, listening and connecting with a
// deadline. Nothing here knows what is said over the sockets.
#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace kinet {

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// A point in time that waits end at.
class Deadline {
 public:
  explicit Deadline(double seconds);
  double left() const;  // seconds, 0 when it has passed
  bool passed() const { return left() <= 0; }
  // For poll(): rounded up, at most `limit`.
  int milliseconds(int limit = 1000000) const;

 private:
  std::chrono::steady_clock::time_point end_;
};

double steady_seconds();  // a clock that only goes forward

struct HostPort {
  std::string host;
  int port = 0;
  std::string text() const;  // "10.0.0.5:7000", "[::1]:7000"
};

// "host:port", "[::1]:7000". Throws Error that names `what` ("--rendezvous").
HostPort parse_host_port(const std::string& text, const std::string& what);

// Listens; port 0: any that is free. Non-blocking. Throws Error with the remedy.
FileDescriptor listen_on(const HostPort& where);
HostPort local_address(int fd);
std::string peer_text(int fd);  // "127.0.0.1:41234", for log lines

// Tries all addresses of the host once. An empty descriptor and `why` when none answers in time.
// The socket is non-blocking.
FileDescriptor connect_to(const HostPort& where, const Deadline& deadline, std::string& why);

// Small frames at once, and word of a machine that is gone within about 15 s.
void set_rendezvous_options(int fd);

// Waits until `fd` is ready for `events` (POLLIN, POLLOUT); false: the deadline passed.
bool wait_ready(int fd, short events, const Deadline& deadline);

std::string system_error(int number);  // strerror, safe to call anywhere

}  // namespace kinet
