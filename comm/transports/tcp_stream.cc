#include "comm/transports/tcp_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr size_t kGather = 16;  // frames in one system call
// Of one call: after so many bytes others have their turn. A fast peer could keep it busy for ever.
constexpr uint64_t kBudget = 4U << 20;

}  // namespace

TcpStream::Frame& TcpStream::push(const FrameHeader& header) {
  KINET_DCHECK(!full());
  Frame& frame = queue_[(first_ + queued_) % queue_.size()];
  ++queued_;
  const FrameBytes bytes = encode_frame(header);
  frame.head.assign(bytes.begin(), bytes.end());
  return frame;
}

void TcpStream::push_message(const FrameHeader& header, std::span<const std::byte> message) {
  Frame& frame = push(header);
  frame.head.insert(frame.head.end(), message.begin(), message.end());
  frame.payload_bytes = 0;
  frame.is_put = false;
  queued_bytes_ += frame.bytes();
}

void TcpStream::push_put(const FrameHeader& header, const std::byte* payload, uint64_t ticket) {
  Frame& frame = push(header);
  frame.payload = payload;
  frame.payload_bytes = header.length;
  frame.ticket = ticket;
  frame.is_put = true;
  queued_bytes_ += frame.bytes();
}

// One system call over the first frames; `asked` becomes the number of bytes it was given.
ssize_t TcpStream::write_some(uint64_t& asked) {
  std::array<iovec, 2 * kGather> parts{};
  size_t count = 0;
  asked = 0;
  uint64_t skip = first_sent_;  // of the first frame
  const auto add = [&](const std::byte* data, uint64_t bytes) {
    const uint64_t gone = std::min(skip, bytes);
    skip -= gone;
    if (bytes == gone) return;
    parts[count++] = {const_cast<std::byte*>(data + gone), bytes - gone};
    asked += bytes - gone;
  };
  for (size_t i = 0; i < std::min(queued_, kGather); ++i) {
    const Frame& frame = queue_[(first_ + i) % queue_.size()];
    add(frame.head.data(), frame.head.size());
    if (frame.payload_bytes > 0) add(frame.payload, frame.payload_bytes);
  }
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (count == 1) return send(fd_.get(), parts[0].iov_base, parts[0].iov_len, kFlags);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  return sendmsg(fd_.get(), &message, kFlags);
}

// Takes what has left out of the queue.
void TcpStream::advance(uint64_t bytes, std::vector<Sent>& sent) {
  queued_bytes_ -= bytes;
  first_sent_ += bytes;
  while (queued_ > 0) {
    const Frame& frame = queue_[first_];
    if (first_sent_ < frame.bytes()) return;
    if (frame.is_put) sent.push_back({frame.ticket, frame.payload_bytes});
    first_sent_ -= frame.bytes();
    first_ = (first_ + 1) % queue_.size();
    --queued_;
  }
}

TcpStream::Flow TcpStream::flush(std::vector<Sent>& sent, TransportCounters& counters) {
  uint64_t left = kBudget;
  while (queued_ > 0) {
    uint64_t asked = 0;
    const ssize_t n = write_some(asked);
    ++counters.system_calls;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Flow::kMore : ended(errno);
    const auto written = static_cast<uint64_t>(n);
    advance(written, sent);
    if (written < asked || written >= left) return queued_ > 0 ? Flow::kMore : Flow::kDone;
    left -= written;
  }
  return Flow::kDone;
}

TcpStream::Flow TcpStream::receive(FrameSink& sink, TransportCounters& counters) {
  uint64_t left = kBudget;
  while (true) {
    const FrameParser::Space space = parser_.space(sink);
    std::array<iovec, 2> parts{iovec{space.direct.data(), space.direct.size()},
                               iovec{space.stage.data(), space.stage.size()}};
    const size_t asked = space.direct.size() + space.stage.size();
    if (asked == 0) {
      why_ = parser_.error();
      return Flow::kBroken;
    }
    const ssize_t n = space.direct.empty()
                          ? recv(fd_.get(), space.stage.data(), space.stage.size(), MSG_DONTWAIT)
                          : readv(fd_.get(), parts.data(), 2);
    ++counters.system_calls;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Flow::kDone;
    if (n <= 0) return ended(n == 0 ? 0 : errno);
    const uint64_t copied = parser_.copied_bytes();
    const bool good = parser_.take(static_cast<size_t>(n), sink);
    counters.copied_bytes += parser_.copied_bytes() - copied;
    if (!good) {
      if (!parser_.error().empty()) why_ = "it sent " + parser_.error();
      return Flow::kBroken;
    }
    const auto got = static_cast<uint64_t>(n);
    if (got < asked) return Flow::kDone;  // all that was there
    if (got >= left) return Flow::kMore;
    left -= got;
  }
}

void TcpStream::close() {
  constexpr int kReads = 64;  // a peer that goes on sending is cut off after so many
  std::array<char, 16384> nobody;
  for (int i = 0; fd_ && i < kReads; ++i) {
    if (recv(fd_.get(), nobody.data(), nobody.size(), MSG_DONTWAIT) <= 0) break;
  }
  fd_.reset();
}

TcpStream::Flow TcpStream::ended(int error) {
  why_ = error == 0 ? "its socket was closed" : "its socket: " + system_error(error);
  return Flow::kBroken;
}

}  // namespace kinet
