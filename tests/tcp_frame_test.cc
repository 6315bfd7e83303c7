// ctest: labels=unit,core,smoke timeout=120
//
// The frames of tcp byte by byte, and what the parser does with streams cut anywhere, damaged
// anywhere, or made of noise: it never writes outside of what the sink gave it.
#include "comm/transports/tcp_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/base/rng.h"

namespace kinet {
namespace {

using Bytes = std::vector<std::byte>;

// A region with guards around it, and a record of the frames.
class Recorder : public FrameSink {
 public:
  static constexpr size_t kGuard = 256, kRegion = 100'000;
  static constexpr uint64_t kKey = 5;

  std::byte* place(const FrameHeader& put, uint64_t done) override {
    ++places;
    if (put.key != kKey || gone) return nullptr;
    if (put.offset > kRegion || put.length > kRegion - put.offset) return nullptr;
    return memory.data() + kGuard + put.offset + done;
  }
  bool on_message_frame(const FrameHeader& message, std::span<const std::byte> payload) override {
    EXPECT_EQ(message.length, payload.size());
    messages.emplace_back(payload.begin(), payload.end());
    return !stop;
  }
  bool on_put_frame(const FrameHeader& put) override {
    puts.push_back(put);
    return !stop;
  }
  bool guards_untouched() const {
    const auto is_guard = [](std::byte b) { return b == std::byte{0x5A}; };
    return std::all_of(memory.begin(), memory.begin() + kGuard, is_guard) &&
           std::all_of(memory.end() - kGuard, memory.end(), is_guard);
  }

  Bytes memory = Bytes(kRegion + 2 * kGuard, std::byte{0x5A});
  std::vector<Bytes> messages;
  std::vector<FrameHeader> puts;
  int places = 0;
  bool stop = false, gone = false;
};

FrameHeader message_header(size_t bytes, uint32_t sequence = 0) {
  FrameHeader h;
  h.kind = FrameKind::kMessage;
  h.length = static_cast<uint32_t>(bytes);
  h.total = bytes;
  h.sequence = sequence;
  return h;
}

FrameHeader put_header(uint64_t offset, size_t bytes, uint32_t notify = 0) {
  FrameHeader h;
  h.kind = FrameKind::kPut;
  h.length = static_cast<uint32_t>(bytes);
  h.total = bytes;
  h.notify = notify;
  h.key = Recorder::kKey;
  h.offset = offset;
  return h;
}

void append(Bytes& stream, const FrameHeader& header, uint64_t seed) {
  const FrameBytes head = encode_frame(header);
  stream.insert(stream.end(), head.begin(), head.end());
  Rng rng(seed);
  for (uint32_t i = 0; i < header.length; ++i) {
    stream.push_back(static_cast<std::byte>(rng.next_u32()));
  }
}

// Hands the stream to the parser as a socket would: at most `chunk(i)` bytes a time, and never more
// than the parser has room for. Returns what it did with it: all, or where it stopped.
template <class Chunk>
bool feed(FrameParser& parser, FrameSink& sink, const Bytes& stream, const Chunk& chunk) {
  size_t at = 0;
  for (uint64_t i = 0; at < stream.size(); ++i) {
    const FrameParser::Space space = parser.space(sink);
    const size_t room = space.direct.size() + space.stage.size();
    if (room == 0) return false;
    const size_t bytes = std::min({room, stream.size() - at, std::max<size_t>(1, chunk(i))});
    const size_t direct = std::min(bytes, space.direct.size());
    if (direct > 0) std::memcpy(space.direct.data(), &stream[at], direct);
    if (bytes > direct) std::memcpy(space.stage.data(), &stream[at + direct], bytes - direct);
    at += bytes;
    if (!parser.take(bytes, sink)) return false;
  }
  return true;
}

TEST(TcpFrame, IsLaidOutAsDocumented) {
  FrameHeader h;
  h.kind = FrameKind::kPut;
  h.length = 0x04030201;
  h.notify = 0x14131211;
  h.sequence = 0x24232221;
  h.key = 0x3837363534333231;
  h.offset = 0x4847464544434241;
  h.total = 0x5857565554535251;
  const FrameBytes bytes = encode_frame(h);
  const std::string expected(
      "KT\x02\x00\x01\x02\x03\x04\x11\x12\x13\x14\x21\x22\x23\x24"
      "\x31\x32\x33\x34\x35\x36\x37\x38\x41\x42\x43\x44\x45\x46\x47\x48"
      "\x51\x52\x53\x54\x55\x56\x57\x58",
      40);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), expected);
  FrameHeader again;
  EXPECT_EQ(decode_frame(bytes, again), "");
  EXPECT_EQ(encode_frame(again), bytes);
}

TEST(TcpFrame, HeadersThatCannotBeAreNamed) {
  const auto wrong = [](const FrameHeader& h, size_t at = 0, int value = -1) {
    FrameBytes bytes = encode_frame(h);
    if (value >= 0) bytes[at] = static_cast<std::byte>(value);
    FrameHeader out;
    return decode_frame(bytes, out);
  };
  EXPECT_EQ(wrong(put_header(0, 8)), "");
  EXPECT_EQ(wrong(put_header(0, 0)), "");
  EXPECT_EQ(wrong(message_header(kMaxMessage)), "");
  EXPECT_EQ(wrong(put_header(0, 8), 0, 'X'), "not the start of a frame");
  EXPECT_EQ(wrong(put_header(0, 8), 2, 0), "a frame of kind 0");
  EXPECT_EQ(wrong(put_header(0, 8), 2, 3), "a frame of kind 3");
  EXPECT_EQ(wrong(put_header(0, 8), 3, 1), "a reserved byte that is not zero");
  EXPECT_EQ(wrong(message_header(kMaxMessage + 1)), "a message of 1025 bytes");
  EXPECT_EQ(wrong(put_header(~uint64_t{0} - 6, 8)), "a put to offset 18446744073709551609");
  FrameHeader h = put_header(0, 8);
  h.total = 7;
  EXPECT_EQ(wrong(h), "a piece of 8 bytes of a put of 7");
  h.length = 0;
  EXPECT_EQ(wrong(h), "a piece of 0 bytes of a put of 7");
  h = message_header(8);
  h.key = 1;
  EXPECT_EQ(wrong(h), "a message with fields of a put");
}

// Small and large frames in turn, whole streams of them, cut at every kind of place.
TEST(TcpFrame, StreamsCutAnywhereGiveTheSameFrames) {
  const std::vector<size_t> sizes{0, 1, 39, 40, 41, 1000, 16343, 16344, 16345, 16384, 30000, 2};
  Bytes stream;
  uint64_t offset = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    append(stream, put_header(offset, sizes[i], static_cast<uint32_t>(i)), 2 * i);
    offset += sizes[i];
    append(stream, message_header(i * 90, static_cast<uint32_t>(i)), 2 * i + 1);
  }
  ASSERT_LE(offset, Recorder::kRegion);
  const auto check = [&](const std::string& what, const auto& chunk) {
    SCOPED_TRACE(what);
    FrameParser parser;
    Recorder sink;
    ASSERT_TRUE(feed(parser, sink, stream, chunk)) << parser.error();
    ASSERT_EQ(sink.puts.size(), sizes.size());
    ASSERT_EQ(sink.messages.size(), sizes.size());
    Bytes again;
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(sink.puts[i].notify, i);
      const FrameBytes head = encode_frame(sink.puts[i]);
      again.insert(again.end(), head.begin(), head.end());
      const std::byte* data = sink.memory.data() + Recorder::kGuard + sink.puts[i].offset;
      again.insert(again.end(), data, data + sizes[i]);
      append(again, message_header(i * 90, static_cast<uint32_t>(i)), 2 * i + 1);
      EXPECT_EQ(sink.messages[i].size(), i * 90);
    }
    EXPECT_TRUE(again == stream);
    EXPECT_TRUE(sink.guards_untouched());
  };
  for (const size_t bytes : {1, 2, 7, 39, 40, 41, 1024, 16384, 1000000}) {
    check("chunks of " + std::to_string(bytes), [bytes](uint64_t) { return bytes; });
  }
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Rng rng(seed);
    check("random chunks " + std::to_string(seed),
          [&](uint64_t i) { return size_t{rng.at(i)} % (i % 3 == 0 ? 50 : 20000); });
  }
}

TEST(TcpFrame, LargePayloadsAreNotCopied) {
  Bytes stream;
  append(stream, put_header(0, 90'000), 1);
  FrameParser parser;
  Recorder sink;
  ASSERT_TRUE(feed(parser, sink, stream, [](uint64_t) { return size_t{1} << 20; }));
  EXPECT_LE(parser.copied_bytes(), FrameParser::kStageBytes);
}

TEST(TcpFrame, ARegionThatGoesAwayIsNotWrittenAnyMore) {
  Bytes stream;
  append(stream, put_header(0, 50'000), 1);
  FrameParser parser;
  Recorder sink;
  const Bytes half(stream.begin(), stream.begin() + 25'000);
  ASSERT_TRUE(feed(parser, sink, half, [](uint64_t) { return size_t{1} << 20; }));
  sink.gone = true;
  const FrameParser::Space space = parser.space(sink);
  EXPECT_TRUE(space.direct.empty());
  EXPECT_TRUE(space.stage.empty());
  EXPECT_EQ(parser.error(), "a put into memory that is not there");
}

TEST(TcpFrame, NothingIsParsedAfterTheSinkHasStopped) {
  Bytes stream;
  for (int i = 0; i < 3; ++i) append(stream, message_header(5), 1);
  FrameParser parser;
  Recorder sink;
  sink.stop = true;
  EXPECT_FALSE(feed(parser, sink, stream, [](uint64_t) { return size_t{1000}; }));
  EXPECT_EQ(sink.messages.size(), 1U);
  EXPECT_EQ(parser.error(), "");
}

// ---- noise --------------------------------------------------------------------------------------

// A valid stream with a few bits changed, bytes cut out, doubled or made of noise.
Bytes damaged_stream(Rng& rng) {
  Bytes stream;
  const uint64_t frames = 1 + rng.below(8);
  for (uint64_t i = 0; i < frames; ++i) {
    const bool large = rng.below(4) == 0;
    const size_t bytes = rng.below(large ? 40'000 : 1025);
    if (rng.below(2) == 0) {
      append(stream, message_header(bytes % 1025), i);
    } else {
      append(stream, put_header(rng.below(Recorder::kRegion), bytes), i);
    }
  }
  const uint64_t wounds = rng.below(5);
  for (uint64_t i = 0; i < wounds && !stream.empty(); ++i) {
    const size_t at = rng.below(stream.size());
    const size_t length = std::min<size_t>(stream.size() - at, 1 + rng.below(60));
    const auto begin = stream.begin() + static_cast<ptrdiff_t>(at);
    const auto end = begin + static_cast<ptrdiff_t>(length);
    switch (rng.below(4)) {
      case 0:
        *begin ^= static_cast<std::byte>(1U << rng.below(8));
        break;
      case 1:
        stream.erase(begin, end);
        break;
      case 2: {
        const Bytes copy(begin, end);
        stream.insert(begin, copy.begin(), copy.end());
        break;
      }
      default:
        for (auto it = begin; it != end; ++it) *it = static_cast<std::byte>(rng.next_u32());
    }
  }
  return stream;
}

TEST(TcpFrame, DamagedStreamsNeverReachOutsideOfTheRegion) {
  constexpr uint64_t kStreams = 20'000;  // a second or two; under sanitizers ten
  uint64_t refused = 0, taken = 0;
  Recorder sink;
  for (uint64_t seed = 0; seed < kStreams; ++seed) {
    Rng rng(7, RngPurpose::kTest, seed);
    const Bytes stream = damaged_stream(rng);
    FrameParser parser;
    sink.messages.clear();
    sink.puts.clear();
    const Rng chunks(8, RngPurpose::kTest, seed);
    const size_t most = 1 + rng.below(30'000);
    const bool good =
        feed(parser, sink, stream, [&](uint64_t i) { return chunks.at(i) % most + 1; });
    ++(good ? taken : refused);
    ASSERT_TRUE(good || !parser.error().empty()) << "seed " << seed;
    ASSERT_TRUE(sink.guards_untouched()) << "seed " << seed;
    for (const FrameHeader& put : sink.puts) {
      if (put.length == 0) continue;  // writes nothing, wherever it points
      ASSERT_LE(put.offset + put.length, Recorder::kRegion);
    }
  }
  EXPECT_GT(refused, kStreams / 10);  // the damage was found
  EXPECT_GT(taken, kStreams / 10);    // and what was whole was taken
}

}  // namespace
}  // namespace kinet
