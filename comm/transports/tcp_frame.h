// The frames of tcp streams: a header of fixed size, then `length` bytes of payload. Byte by byte:
// docs/wire_format.md.
//
// FrameParser turns the bytes of one stream into frames. It touches no socket: it says where the
// next bytes are to be written, large payloads straight into the region, and is told how many came.
// Whatever the bytes are, it writes only where the sink placed them and into its own stage.
// Thread safety: none; a parser belongs to its stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kinet {

enum class FrameKind : uint8_t { kMessage = 1, kPut = 2 };

inline constexpr size_t kFrameHeaderBytes = 40;
inline constexpr uint16_t kFrameMagic = 0x544B;  // "KT"

struct FrameHeader {
  FrameKind kind = FrameKind::kMessage;
  uint32_t length = 0;    // bytes of payload that follow
  uint32_t notify = 0;    // of a put
  uint32_t sequence = 0;  // counts the messages, and apart from them the puts, of a link
  uint64_t key = 0;       // of the region
  uint64_t offset = 0;    // of this piece in the region
  uint64_t total = 0;     // bytes of the whole message or put
};

using FrameBytes = std::array<std::byte, kFrameHeaderBytes>;

FrameBytes encode_frame(const FrameHeader& header);
// "" when `bytes` are a header that can be, else what is wrong with it.
std::string decode_frame(std::span<const std::byte, kFrameHeaderBytes> bytes, FrameHeader& header);

// Who owns the memory and takes the frames.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Where byte `done` of the put's payload belongs, with room for all that is left of it. Asked for
  // anew whenever bytes are due, so that a region that is gone is never written. null: no such
  // memory.
  virtual std::byte* place(const FrameHeader& put, uint64_t done) = 0;
  // false: the stream is closed, parse no further.
  virtual bool on_message_frame(const FrameHeader& message, std::span<const std::byte> payload) = 0;
  virtual bool on_put_frame(const FrameHeader& put) = 0;  // its bytes are in place
};

class FrameParser {
 public:
  // Bytes that are read ahead; puts that fit are copied out of it, larger ones go to their place.
  static constexpr size_t kStageBytes = 16384;

  struct Space {
    std::span<std::byte> direct, stage;  // to be filled in this order
  };

  FrameParser() : stage_(kStageBytes) {}

  // Both empty: the stream is broken, see error().
  Space space(FrameSink& sink);
  // `bytes` of the space have been filled. false: close the stream; error() is empty when the sink
  // asked for it.
  bool take(size_t bytes, FrameSink& sink);

  const std::string& error() const { return error_; }
  uint64_t copied_bytes() const { return copied_; }  // of puts, out of the stage

 private:
  bool next_frame(FrameSink& sink, bool& complete);
  bool fill_put(FrameSink& sink);
  bool finish_put(FrameSink& sink);
  bool broken(std::string why);
  size_t staged() const { return end_ - begin_; }

  FrameHeader put_;  // being filled
  bool filling_ = false;
  uint64_t done_ = 0;  // bytes of its payload that are in place
  size_t direct_ = 0;  // bytes of the last space
  std::vector<std::byte> stage_;
  size_t begin_ = 0, end_ = 0;  // what is unread in the stage
  uint64_t copied_ = 0;
  std::string error_;
};

}  // namespace kinet
