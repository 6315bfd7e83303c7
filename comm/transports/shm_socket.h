// The unix sockets of transport shm: set-up data and open files travel over them, and the kernel
// tells by them at once that a process is gone. Nothing here waits.
//
// Names are abstract (no file is left behind) and end in 128 random bits: nobody who was not given
// the name by the rendezvous can take it or dial it. Every packet carries the token of the run, and
// both ends must belong to the same user.
// All descriptors close on exec. Thread safety: none needed, no state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "comm/transport.h"

namespace kinet {

class ShmFd {  // an owned descriptor
 public:
  ShmFd() = default;
  explicit ShmFd(int fd) : fd_(fd) {}
  ~ShmFd();
  ShmFd(ShmFd&& other) noexcept : fd_(other.take()) {}
  ShmFd& operator=(ShmFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int take() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct ShmPacket {
  enum class Kind : uint32_t {
    kHello = 0x316D6873,  // value: bytes of the sender's ring; files: that ring, the bell
    kRegion,              // value: its bytes; file: its memory
    kWithdraw,            // the region `key` goes away
  };
  Kind kind = Kind::kHello;
  Rank from = 0, to = 0;
  uint32_t from_incarnation = 0, to_incarnation = 0;
  uint32_t reserved = 0;
  uint64_t key = 0;
  uint64_t value = 0;
};
static_assert(sizeof(ShmPacket) == 40);

struct ShmReceived {
  ShmPacket packet;
  std::array<ShmFd, 2> files;
};

enum class ShmSend { kSent, kFull, kGone };
enum class ShmReceive { kPacket, kNothing, kGone, kBad };

std::string shm_socket_name(Rank rank, uint32_t incarnation);  // a new one at each call
ShmFd shm_listen(const std::string& name);                     // throws Error
ShmFd shm_accept(int listener);  // of the same user; an empty one when there is none now
bool shm_same_user(int socket);
// The process at the other end as a file that becomes readable when it ends; empty where the system
// has no such thing.
ShmFd shm_process_of(int socket);

// kSent: connected. kFull: try again later. kGone: nobody listens there.
ShmSend shm_dial(const std::string& name, ShmFd& socket);
ShmSend shm_send(int socket, const ShmPacket& packet, const std::string& token,
                 std::span<const int> files);
// `why` is set when the answer is kGone or kBad (wrong token, cut off, out of descriptors).
ShmReceive shm_receive(int socket, const std::string& token, ShmReceived& out, std::string& why);

}  // namespace kinet
