// One established TCP connection of a link: a bounded queue of frames on the way out, a parser on
// the way in. Payloads of puts are sent from where they lie and received to where they belong.
// Thread safety: none; belongs to its link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/sockets.h"
#include "comm/transport.h"
#include "comm/transports/tcp_frame.h"

namespace kinet {

class TcpStream {
 public:
  enum class Flow {
    kDone,    // nothing more to do now
    kMore,    // the socket or the budget of one call is used up: go on when it is ready again
    kBroken,  // the connection has ended, see why(); or the sink has asked to stop, why() is empty
  };
  // A piece of a put that has left: its source bytes are no longer needed.
  struct Sent {
    uint64_t ticket = 0, bytes = 0;
  };

  TcpStream(FileDescriptor fd, size_t queue_frames) : fd_(std::move(fd)), queue_(queue_frames) {}

  int fd() const { return fd_.get(); }
  bool full() const { return queued_ == queue_.size(); }
  size_t queued() const { return queued_; }  // frames
  uint64_t queued_bytes() const { return queued_bytes_; }

  // REQUIRES: !full(). A message is copied; a put's payload has to stay until it was sent.
  void push_message(const FrameHeader& header, std::span<const std::byte> message);
  void push_put(const FrameHeader& header, const std::byte* payload, uint64_t ticket);

  // Writes what the kernel takes; what of puts has left is added to `sent`.
  Flow flush(std::vector<Sent>& sent, TransportCounters& counters);
  // Reads what is there.
  Flow receive(FrameSink& sink, TransportCounters& counters);

  const std::string& why() const { return why_; }
  // Unread bytes are thrown away first: otherwise the kernel cuts off what is still to be sent.
  void close();

  bool wants_write = false;     // there is more than the kernel took
  bool asked_to_write = false;  // epoll was told so

 private:
  struct Frame {
    std::vector<std::byte> head;         // the header, and all of a message; keeps its capacity
    const std::byte* payload = nullptr;  // of a put
    uint64_t payload_bytes = 0;
    uint64_t ticket = 0;
    bool is_put = false;
    uint64_t bytes() const { return head.size() + payload_bytes; }
  };
  Frame& push(const FrameHeader& header);
  void advance(uint64_t bytes, std::vector<Sent>& sent);
  ssize_t write_some(uint64_t& asked);
  Flow ended(int error);

  FileDescriptor fd_;
  std::vector<Frame> queue_;  // a ring
  size_t first_ = 0, queued_ = 0;
  uint64_t first_sent_ = 0;    // bytes of the first frame that have left
  uint64_t queued_bytes_ = 0;  // with headers, not yet sent
  FrameParser parser_;
  std::string why_;
};

}  // namespace kinet
