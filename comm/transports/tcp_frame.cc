#include "comm/transports/tcp_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/transport.h"
#include "comm/transports/tcp_bytes.h"

namespace kinet {
namespace {

constexpr size_t kMagicAt = 0, kKindAt = 2, kZeroAt = 3, kLengthAt = 4, kNotifyAt = 8,
                 kSequenceAt = 12, kKeyAt = 16, kOffsetAt = 24, kTotalAt = 32;
static_assert(kTotalAt + sizeof(uint64_t) == kFrameHeaderBytes);
static_assert(kFrameHeaderBytes + kMaxMessage <= FrameParser::kStageBytes,
              "a whole message fits into the stage");

std::string wrong_message(const FrameHeader& h) {
  if (h.length > kMaxMessage) return fmt::format("a message of {} bytes", h.length);
  if (h.total != h.length || h.key != 0 || h.offset != 0 || h.notify != 0) {
    return "a message with fields of a put";
  }
  return "";
}

std::string wrong_put(const FrameHeader& h) {
  if (h.length > h.total || (h.length == 0) != (h.total == 0)) {
    return fmt::format("a piece of {} bytes of a put of {}", h.length, h.total);
  }
  if (h.offset > ~uint64_t{0} - h.length) return fmt::format("a put to offset {}", h.offset);
  return "";
}

}  // namespace

FrameBytes encode_frame(const FrameHeader& h) {
  FrameBytes out{};
  store_number(&out[kMagicAt], kFrameMagic);
  out[kKindAt] = static_cast<std::byte>(h.kind);
  store_number(&out[kLengthAt], h.length);
  store_number(&out[kNotifyAt], h.notify);
  store_number(&out[kSequenceAt], h.sequence);
  store_number(&out[kKeyAt], h.key);
  store_number(&out[kOffsetAt], h.offset);
  store_number(&out[kTotalAt], h.total);
  return out;
}

std::string decode_frame(std::span<const std::byte, kFrameHeaderBytes> bytes, FrameHeader& h) {
  const std::byte* b = bytes.data();
  if (load_number<uint16_t>(b + kMagicAt) != kFrameMagic) return "not the start of a frame";
  const auto kind = std::to_integer<uint8_t>(b[kKindAt]);
  if (kind != static_cast<uint8_t>(FrameKind::kMessage) &&
      kind != static_cast<uint8_t>(FrameKind::kPut)) {
    return fmt::format("a frame of kind {}", kind);
  }
  if (b[kZeroAt] != std::byte{0}) return "a reserved byte that is not zero";
  h.kind = static_cast<FrameKind>(kind);
  h.length = load_number<uint32_t>(b + kLengthAt);
  h.notify = load_number<uint32_t>(b + kNotifyAt);
  h.sequence = load_number<uint32_t>(b + kSequenceAt);
  h.key = load_number<uint64_t>(b + kKeyAt);
  h.offset = load_number<uint64_t>(b + kOffsetAt);
  h.total = load_number<uint64_t>(b + kTotalAt);
  return h.kind == FrameKind::kMessage ? wrong_message(h) : wrong_put(h);
}

bool FrameParser::broken(std::string why) {
  error_ = std::move(why);
  return false;
}

// While a large payload is due, only the header of the next frame is read ahead: then its payload
// goes straight to its place as well. Small frames are read many at a time.
FrameParser::Space FrameParser::space(FrameSink& sink) {
  Space out;
  if (begin_ > 0) {
    std::memmove(stage_.data(), stage_.data() + begin_, staged());
    end_ = staged();
    begin_ = 0;
  }
  size_t ahead = stage_.size() - end_;
  direct_ = 0;
  if (filling_) {
    std::byte* place = sink.place(put_, done_);
    if (place == nullptr) {
      broken("a put into memory that is not there");
      return {};
    }
    direct_ = put_.length - done_;
    out.direct = {place, direct_};
    if (direct_ >= kStageBytes) ahead = kFrameHeaderBytes;
  }
  out.stage = {stage_.data() + end_, ahead};
  return out;
}

bool FrameParser::take(size_t bytes, FrameSink& sink) {
  const size_t direct = std::min(bytes, direct_);
  done_ += direct;
  end_ += bytes - direct;
  direct_ = 0;
  if (filling_ && done_ == put_.length && !finish_put(sink)) return false;
  bool complete = true;
  while (complete && !filling_) {
    if (!next_frame(sink, complete)) return false;
  }
  return true;
}

// Takes one frame out of the stage; complete = false when not all that is needed is there.
bool FrameParser::next_frame(FrameSink& sink, bool& complete) {
  complete = staged() >= kFrameHeaderBytes;
  if (!complete) return true;
  FrameHeader header;
  const auto bytes = std::span<const std::byte>(stage_).subspan(begin_);
  std::string wrong = decode_frame(bytes.first<kFrameHeaderBytes>(), header);
  if (!wrong.empty()) return broken(std::move(wrong));
  if (header.kind == FrameKind::kMessage) {
    complete = staged() >= kFrameHeaderBytes + header.length;
    if (!complete) return true;
    begin_ += kFrameHeaderBytes + header.length;
    return sink.on_message_frame(header, bytes.subspan(kFrameHeaderBytes, header.length));
  }
  begin_ += kFrameHeaderBytes;
  put_ = header;
  filling_ = true;
  done_ = 0;
  return fill_put(sink);
}

// Copies what the stage already has of the payload.
bool FrameParser::fill_put(FrameSink& sink) {
  const size_t bytes = std::min<uint64_t>(staged(), put_.length);
  std::byte* place = nullptr;
  if (put_.length > 0) {
    place = sink.place(put_, 0);
    if (place == nullptr) {
      return broken(fmt::format("a put of {} bytes to offset {} of region {}, which is not there",
                                put_.length, put_.offset, put_.key));
    }
  }
  if (bytes > 0) {
    std::memcpy(place, stage_.data() + begin_, bytes);
    begin_ += bytes;
    done_ += bytes;
    copied_ += bytes;
  }
  return done_ < put_.length || finish_put(sink);
}

bool FrameParser::finish_put(FrameSink& sink) {
  filling_ = false;
  return sink.on_put_frame(put_);
}

}  // namespace kinet
