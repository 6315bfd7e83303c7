#include "comm/transports/tcp_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr int kTurns = 4;  // of filling and writing in one call: a put must not block its caller

}  // namespace

void TcpLink::add_stream(int number, int streams, FileDescriptor fd) {
  if (streams_.empty()) {
    streams_.resize(streams);
    missing_ = streams;
  }
  if (streams != this->streams() || number >= streams || streams_[number]) {
    break_off("its streams do not fit together");
    return;
  }
  streams_[number] = std::make_unique<TcpStream>(std::move(fd), options_.queue_frames);
  --missing_;
}

Post TcpLink::busy() {
  ++counters_.busy;
  return Post::kBusy;
}

// The read side says when the link has ended: what the peer sent before it died may still be there.
void TcpLink::break_off(const std::string& why) {
  if (!broken_) why_ = why;
  broken_ = true;
}

void TcpLink::close() {
  closed_ = true;
  for (auto& stream : streams_) {
    if (stream) stream->close();
  }
}

// ---- out ----------------------------------------------------------------------------------------

Post TcpLink::send(std::span<const std::byte> message) {
  if (broken_) return Post::kPeerLost;
  TcpStream& stream = *streams_[0];
  if (stream.full()) return busy();
  FrameHeader header;
  header.kind = FrameKind::kMessage;
  header.length = static_cast<uint32_t>(message.size());
  header.total = message.size();
  header.sequence = next_message_out_++;
  stream.push_message(header, message);
  ++counters_.messages_sent;
  if (!stream.wants_write) flush(0);
  return Post::kAccepted;
}

Post TcpLink::put(const Put& put) {
  if (broken_) return Post::kPeerLost;
  const bool small = put.bytes <= kSmallPut;
  if (next_put_ - first_put_ == kOutstandingPuts) return busy();
  if (small && streams_[0]->full()) return busy();
  const uint64_t ticket = next_put_++;
  put_of(ticket) = PutOut{put, 0, 0, false};
  ++counters_.puts;
  counters_.put_bytes += put.bytes;
  if (small) {
    give_piece(*streams_[0], ticket, put.bytes);
    if (!streams_[0]->wants_write) flush(0);
    return Post::kAccepted;
  }
  bulk_.push_back(ticket);
  for (int i = 0; i < streams() && !bulk_.empty(); ++i) {
    if (carries_bulk(i) && !streams_[i]->wants_write) flush(i);
  }
  return Post::kAccepted;
}

FrameHeader TcpLink::piece_header(uint64_t ticket, uint64_t bytes) {
  const PutOut& out = put_of(ticket);
  FrameHeader header;
  header.kind = FrameKind::kPut;
  header.length = static_cast<uint32_t>(bytes);
  header.notify = out.put.notify;
  header.sequence = static_cast<uint32_t>(ticket);
  header.key = out.put.to.key;
  header.offset = out.put.to_offset + out.assigned;
  header.total = out.put.bytes;
  return header;
}

void TcpLink::give_piece(TcpStream& stream, uint64_t ticket, uint64_t bytes) {
  PutOut& out = put_of(ticket);
  const std::byte* from =
      bytes == 0 ? nullptr : out.put.from->data() + out.put.from_offset + out.assigned;
  stream.push_put(piece_header(ticket, bytes), from, ticket);
  out.assigned += bytes;
}

// Gives the stream pieces of large puts until it has enough for a while. false: nothing given.
bool TcpLink::feed(int number) {
  TcpStream& stream = *streams_[number];
  if (!carries_bulk(number)) return false;
  bool given = false;
  while (!bulk_.empty() && !stream.full() && stream.queued_bytes() < options_.piece_bytes) {
    const uint64_t ticket = bulk_.front();
    const uint64_t left = put_of(ticket).put.bytes - put_of(ticket).assigned;
    const uint64_t bytes = std::min(left, options_.piece_bytes);
    give_piece(stream, ticket, bytes);
    if (bytes == left) bulk_.pop_front();
    given = true;
  }
  return given;
}

void TcpLink::flush(int number) {
  TcpStream& stream = *streams_[number];
  auto flow = TcpStream::Flow::kDone;
  bool more = feed(number);
  for (int turn = 0; turn == 0 || (more && turn < kTurns); ++turn) {
    flow = stream.flush(sent_, counters_);
    account_sent();
    more = flow == TcpStream::Flow::kDone && feed(number);
  }
  stream.wants_write = more || flow == TcpStream::Flow::kMore;
  if (flow == TcpStream::Flow::kBroken) break_off(stream.why());
}

// Completions are told in the order of the puts, whatever order their pieces left in.
void TcpLink::account_sent() {
  for (const TcpStream::Sent& piece : sent_) {
    PutOut& out = put_of(piece.ticket);
    out.sent += piece.bytes;
    out.gone = out.sent == out.put.bytes;
  }
  sent_.clear();
  for (; first_put_ != next_put_ && put_of(first_put_).gone; ++first_put_) ++completed_;
}

uint64_t TcpLink::take_completed() { return std::exchange(completed_, 0); }

// ---- in -----------------------------------------------------------------------------------------

bool TcpLink::receive(int number, EventSink& sink) {
  sink_ = &sink;
  TcpStream& stream = *streams_[number];
  const TcpStream::Flow flow = stream.receive(*this, counters_);
  sink_ = nullptr;
  if (flow != TcpStream::Flow::kBroken || closed_) return true;
  break_off(stream.why());
  return false;
}

void TcpLink::drain(EventSink& sink) {
  for (int i = 0; i < streams() && !closed_; ++i) {
    if (streams_[i] && announced) receive(i, sink);
  }
}

std::byte* TcpLink::place(const FrameHeader& put, uint64_t done) {
  return regions_.place(put.key, put.offset + done, put.length - done);
}

bool TcpLink::wrong(const std::string& why) {
  break_off("it sent " + why);
  return false;
}

bool TcpLink::on_message_frame(const FrameHeader& message, std::span<const std::byte> payload) {
  if (message.sequence != next_message_in_) {
    return wrong(fmt::format("message {} where {} was due", message.sequence, next_message_in_));
  }
  ++next_message_in_;
  ++counters_.messages_received;
  ++events_;
  sink_->on_message(peer, payload);
  return !closed_;
}

bool TcpLink::on_put_frame(const FrameHeader& put) {
  if (put.length == put.total) return announce(put, put.total);
  if (incomplete_.size() >= kOutstandingPuts && !incomplete_.contains(put.sequence)) {
    return wrong("pieces of more puts than may be outstanding");
  }
  PutIn& in = incomplete_[put.sequence];
  if (in.total == 0) {
    in.total = put.total;
    in.notify = put.notify;
  }
  if (in.total != put.total || in.notify != put.notify || put.length > in.total - in.arrived) {
    return wrong(fmt::format("pieces of put {} that do not fit together", put.sequence));
  }
  in.arrived += put.length;
  if (in.arrived < in.total) return true;
  incomplete_.erase(put.sequence);
  return announce(put, put.total);
}

bool TcpLink::announce(const FrameHeader& put, uint64_t total) {
  ++counters_.puts_arrived;
  ++events_;
  sink_->on_put_arrived(peer, put.notify, total);
  return !closed_;
}

}  // namespace kinet
